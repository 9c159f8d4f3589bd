"""Record a session's episodes and show the operator where things stand."""

import contextlib
import dataclasses
import math
import secrets
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import episodes
from envs.panda_env import PicoPandaEnv
from envs.viewer import ViewerProcess
from episodes.quality import MOST_LATE
from kinematics import Side
from teleop_agent.clock import Clock
from teleop_agent.devices import Device
from teleop_agent.frame import OperatorFrame
from teleop_agent.haptics import Cue, Haptics
from teleop_agent.policy import PolicyStep

from .loop import EpisodeEnd, Phase, Rejected, Row, Session, Verdict
from .records import CLAMP_FLAGS, LastPoses, raw_frame, recorded, step_record


class StatusLine:
    """Keep one line of a terminal up to date; quiet where there is no terminal."""

    PERIOD_S = 0.2
    """Five times a second: readable, and cheap beside 20 ms of control."""

    def __init__(self) -> None:
        self._live, self._width, self._next = sys.stdout.isatty(), 0, 0.0

    def due(self) -> bool:
        """Return whether it is time for a new line."""
        if not self._live or time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + self.PERIOD_S
        return True

    def show(self, text: str) -> None:
        """Replace the line."""
        print("\r" + text.ljust(self._width), end="", flush=True)
        self._width = len(text)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        if self._width:
            print("\r" + " " * self._width + "\r", end="")
            self._width = 0
        print(text, flush=True)


def _judged(quality: episodes.Quality) -> str:
    """Say in a few words how well an episode was done, and whether to do it again."""
    doubts = quality.doubts()
    good = f"way {quality.path_m:.1f} m, {100 * quality.efficiency:.0f} % straight"
    if math.isfinite(quality.clearance_m):
        good += f", links {1000 * quality.clearance_m:.0f} mm apart at the nearest"
    return f"{good}: {'good' if not doubts else 'redo? ' + ', '.join(doubts)}"


def slower_than_real_time(late: int, rows: int) -> bool:
    """Return whether more than one tick in a hundred was late, so far; one alone is no sign."""
    return late > MOST_LATE * max(rows, 100)


NEAR_M = 0.04
"""Links so near are worth a word; a hand that grasps from the table stays 50 mm above it."""
CONFIRM_NS = 5_000_000_000
"""Between asking to delete an episode and asking again; pressing takes 0.8 s."""


class Collector:
    """Record a session's episodes and tell the operator about them."""

    def __init__(
        self,
        env: PicoPandaEnv,
        recorder: episodes.Recorder,
        info: episodes.EpisodeInfo,
        model: episodes.CompiledModel,
        device: Device,
        clock: Clock,
        viewer: ViewerProcess | None,
        wanted: int,
        haptics: Haptics,
    ) -> None:
        self._env, self._recorder, self._info, self._model = env, recorder, info, model
        self._device, self._clock, self._viewer, self._wanted = device, clock, viewer, wanted
        self._haptics = haptics
        self._line, self._last, self._overflow = StatusLine(), LastPoses(), 0
        self._notice, self._slow = "", False
        self._hands: Mapping[Side, episodes.HandRecord] = {}
        """Of the last row."""
        self.error: episodes.EpisodesError | None = None
        self.session: Session | None = None
        self.kept: list[Verdict] = []
        self._saves: list[episodes.Save] = []
        """Of the kept episodes."""
        env.clearances()  # builds what it measures with now: that takes longer than a step
        self._asked_ns: int | None = None
        """When the operator asked for the first time to take the last one back."""

    def started(self, seed: int) -> None:
        """Begin a recording."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        info = dataclasses.replace(
            self._info,
            seed=seed,
            start_time_utc=now,
            t_start_ns=self._clock.now_ns(),
            attempt_id=secrets.token_hex(8),
            edits=self._env.edits,
        )
        self._overflow, self._hands, self._slow = self._device.overflow, {}, False
        with self._noted():
            self._recorder.start(info, self._model)
        self._haptics.play(Cue.RECORDING)

    def frames(self, frames: Sequence[OperatorFrame], policy: PolicyStep) -> None:
        """Keep an eye on where head and hands are, also between episodes."""
        self._last.take(frames, policy)

    def row(self, row: Row) -> None:
        """Record one row and the frames behind it."""
        if self._recorder.recording:
            with self._noted():
                self._recorder.raw(raw_frame(frame) for frame in row.frames)
            with self._noted():
                record = step_record(row, self._env, self._last)
                self._hands = record.hands
                self._recorder.append(record)

    def rewound(self, rejected: Rejected) -> None:
        """Cut the rejected rows off; they become a failure of their own."""
        result = episodes.EpisodeResult(
            success=rejected.success,
            outcome=episodes.Outcome.FAILURE,
            state_final=rejected.state,
            reason="rewound",
            late_ticks=rejected.late,
            observation_final=recorded(rejected.observation, self._env),
        )
        seconds = rejected.first / self._env.control_hz
        with self._noted():
            if self._recorder.recording:
                self._recorder.rewind(rejected.first, result)
        self.say(f"rewound to {seconds:.1f} s; squeeze the grip to go on from there")

    def asked_to_delete(self) -> None:
        """Take the last kept episode back, once it has been asked for twice."""
        if not self._saves:
            self.say("no episode of this session is left to delete")
            return
        now, asked = self._clock.now_ns(), self._asked_ns
        name = self._saves[-1].path
        if asked is None or now - asked > CONFIRM_NS:
            self._asked_ns = now
            self.say(f"hold X again within {CONFIRM_NS / 1e9:.0f} s to delete {name}")
            return
        self._asked_ns = None
        with self._noted():
            path = self._recorder.take_back(self._saves[-1]).wait()
            self._saves.pop()
            self.kept.pop()
            self.say(f"deleted {name}: it is {path} now")

    def ended(self, end: EpisodeEnd) -> None:
        """Save or forget the episode and say so."""
        if end.verdict in (Verdict.DISCARD, Verdict.RESET):
            self._recorder.discard()
            if end.rows:
                self._haptics.play(Cue.DISCARDED)
                self.say(f"episode {end.verdict}: {self._length(end)}, {end.reason}")
            return
        result = episodes.EpisodeResult(
            success=end.success,
            outcome=episodes.Outcome(end.verdict.value),
            state_final=self._env.integration_state(),
            interrupted=end.interrupted,
            reason=end.reason,
            late_ticks=end.late,
            device_overflow=self._device.overflow - self._overflow,
            observation_final=recorded(self._env.observe(), self._env),
        )
        save: episodes.Save | None = None
        with self._noted():
            save = self._recorder.finish(result)
        if save is not None:
            self._tell(end, save)

    def _tell(self, end: EpisodeEnd, save: episodes.Save) -> None:
        try:
            path = save.wait()
        except episodes.EpisodesError as error:
            self._fail(error)
            return
        self.kept.append(end.verdict)
        self._saves.append(save)
        self._haptics.play(Cue.SAVED if end.verdict is Verdict.SUCCESS else Cue.FAILED)
        what = f"{end.verdict} ({end.reason}), {self._length(end)}"
        if save.quality is not None:
            what += f", {_judged(save.quality)}"
        self.say(f"episode {len(self.kept)}: {what}, {path}")

    def tick(self, phase: Phase, policy: PolicyStep, late: int) -> None:
        """Show where things stand, and let the hands feel it."""
        self._device.vibrate(self._haptics.tick(policy.hands.values()))
        if policy.notices:
            self._notice = policy.notices[-1]
            self.say(self._notice)
        self._warn(late)
        if self._viewer is not None:
            self._viewer.edit(self._env.edits)
            self._viewer.update(self._env.integration_state(), self._text(phase, policy, late))
        if self._line.due():
            self._line.show(self._text(phase, policy, late).replace("\n", " | "))

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._line.say(text)

    def _warn(self, late: int) -> None:
        """Tell once an episode that it runs slower than real time."""
        rows = self._recorder.n_rows
        if self._slow or not rows or not slower_than_real_time(late, rows):
            return
        self._slow = True
        advice = "close other programs or take a lower --control-hz"
        if not self._info.realtime_priority:
            advice += "; real-time priority would help, see above"
        self.say(f"slower than real time: {late} of {rows} ticks late; {advice}")

    def _text(self, phase: Phase, policy: PolicyStep, late: int) -> str:
        hands = ", ".join(
            f"{side} {hand.state}" + (f": {hand.reason}" if hand.reason else "") + self._near(side)
            for side, hand in policy.hands.items()
        )
        good = self.kept.count(Verdict.SUCCESS)
        count = f"episode {len(self.kept) + 1} of {self._wanted} ({good} good)"
        rows, hz = self._recorder.n_rows, self._env.control_hz
        slow = " (SLOW)" if self._slow else ""
        return f"{count}\n{phase} {rows / hz:5.1f} s at {hz} Hz, {late} late{slow}\n{hands}"

    def _near(self, side: Side) -> str:
        """Return how near the side's links are to something, once that is worth a word."""
        hand = self._hands.get(side)
        if hand is None or not hand.clearance < NEAR_M:
            return ""
        held = " held off" if hand.clamps & CLAMP_FLAGS["env_clearance"] else ""
        return f"{held} {1000 * hand.clearance:.0f} mm from touching"

    def _length(self, end: EpisodeEnd) -> str:
        return f"{end.rows / self._env.control_hz:.1f} s"

    @contextlib.contextmanager
    def _noted(self) -> Iterator[None]:
        """Let a failed save stop the session, not lose the running episode."""
        try:
            yield
        except episodes.EpisodesError as error:
            self._fail(error)

    def _fail(self, error: episodes.EpisodesError) -> None:
        self.error = self.error or error
        if self.session is not None:
            self.session.stop(f"cannot save: {error}")
