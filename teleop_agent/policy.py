"""The operator as a policy: frames in, the environment's action out."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinematics import EndEffectorTarget, Side
from kinematics.frames import Array

from .arm import ArmMapper
from .buttons import ButtonPanel, EpisodeEvent
from .clutch import Ratio
from .config import TeleopConfig
from .environment import TeleopEnv
from .facing import Facing
from .frame import OperatorFrame
from .limits import Clamp
from .play_space import PlaySpace
from .reasons import HandState, Reason
from .stamps import StampGate
from .tracker import HandTracker
from .turns import turn_quat


@dataclass(frozen=True, slots=True, eq=False)
class HandStep:
    """Hold the causal chain of one hand in one control step."""

    side: Side
    """The arm's."""
    controller: Side
    """The hand's: the same unless swapped."""
    state: HandState
    reason: Reason | None
    """Why the hand is held; None in every other state."""
    engaged: bool
    fine: bool
    ratio: Ratio
    """How the hand's motion becomes the tool's, fine mode included."""
    filtered_position: Array | None
    """(3,) [m] of the grip in tracking, as the filter tells it for this instant; None if unknown.
    With the default filter it is where the grip was 25 ms ago."""
    filtered_quat_wxyz: Array | None
    """(4,) of the grip in tracking, w >= 0; None if unknown."""
    target: EndEffectorTarget
    """What the action asks for."""
    clamps: Clamp
    """What kept the target from where the hand asked for it."""
    age_ns: int | None
    """Age of the newest believed pose at this instant; None before the first."""
    t_device_ns: int | None
    """That pose's device stamp, untouched."""
    t_recv_ns: int | None
    """And when it was received."""
    T_world_tracking: Array
    """(4, 4), read-only; for yaw 0 until the facing is known."""
    trigger: float
    """0 released .. 1 pulled, as last read; 0 while unreadable."""
    grip: float
    """0 released .. 1 squeezed, as last read; 0 while unreadable."""


@dataclass(frozen=True, slots=True, eq=False)
class PolicyStep:
    """Hold the action of one control step and where it came from."""

    action: npt.NDArray[np.float32]
    engaged: bool
    """Whether any hand is engaged."""
    hands: Mapping[Side, HandStep]
    """One for each arm of the environment."""
    events: tuple[EpisodeEvent, ...]
    """What the operator asked for since the last step, in order."""
    notices: tuple[str, ...]
    """Words for the operator, such as why a re-reference was refused."""
    frame: OperatorFrame | None
    """The newest frame ever taken, good or bad."""
    t_target_ns: int
    """When the targets stood, before they became the action."""


class TeleopPolicy:
    """Turn operator frames into actions of one environment.

    ``reset`` at every reset of the environment, then ``act`` once a control step, with all frames
    received since the last one. The facing outlives resets.
    """

    def __init__(self, env: TeleopEnv, config: TeleopConfig | None = None) -> None:
        self._env = env
        self.config = config or TeleopConfig()
        self.facing = Facing(self.config.facing_yaw, self.config.guard)
        self._stamps = StampGate(self.config.stamps)
        self._space = PlaySpace(self.config.space, self.config.guard.rigid_tolerance)
        self._panel = ButtonPanel(self.config.buttons)
        self._trackers = {s: HandTracker(s, self.config, self.facing) for s in env.sides}
        self._arms: dict[Side, ArmMapper] = {}
        self._frame: OperatorFrame | None = None
        self._acted_ns: int | None = None
        """Instant of the last step of this episode."""
        self.now_ns: Callable[[], int] = time.perf_counter_ns
        """Clock [ns] for ``PolicyStep.t_target_ns`` and nothing else."""

    @property
    def counts(self) -> dict[Side, dict[Reason, int]]:
        """Return how often each reason refused a sample or held an arm, since the start."""
        return {side: dict(tracker.counts) for side, tracker in self._trackers.items()}

    def reset(self) -> None:
        """Begin an episode: arms let go, filters and presses forgotten, facing kept."""
        period_s = 1.0 / self._env.control_hz
        limits = self._env.speed_limits
        for side, tracker in self._trackers.items():
            workspace = self._env.workspace(side)
            self._arms[side] = ArmMapper(self.config, limits, workspace, period_s)
            tracker.reset()
            tracker.gripper.reset(self._env.commanded(side).closure)
        self._panel.reset()
        self._acted_ns = None

    def let_go(self) -> None:
        """Disengage all arms; each hand must open its grip before it can engage again."""
        for tracker in self._trackers.values():
            tracker.let_go()

    def act(self, observation: object, frames: Sequence[OperatorFrame], now_ns: int) -> PolicyStep:
        """Return the action for the control step that begins at ``now_ns`` (session clock).

        ``frames`` are all that came since the last call, oldest first; guard and filter see every
        one. If that call is longer ago than ``GuardConfig.max_age_ns``, the operator saw a picture
        that stood still: the arms are held, and of ``frames`` only the buttons count.
        ``observation`` is there for the shape of a policy: the operator has eyes.
        """
        if not self._arms:
            self.reset()
        events: list[EpisodeEvent] = []
        notices: list[str] = []
        stalled = self._stalled(now_ns, notices)
        for frame in frames:
            self._take(frame, events, notices, not stalled)
        hands = {side: self._step(side, now_ns) for side in self._trackers}
        t_target_ns = self.now_ns()
        action = self._env.encode({side: hand.target for side, hand in hands.items()})
        return PolicyStep(
            action=action,
            engaged=any(hand.engaged for hand in hands.values()),
            hands=hands,
            events=tuple(events),
            notices=tuple(notices),
            frame=self._frame,
            t_target_ns=t_target_ns,
        )

    def _stalled(self, now_ns: int, notices: list[str]) -> bool:
        """Hold all arms if nobody has acted for too long; say so."""
        since_ns, self._acted_ns = self._acted_ns, now_ns
        if since_ns is None or now_ns - since_ns <= self.config.guard.max_age_ns:
            return False
        for tracker in self._trackers.values():
            tracker.restart(Reason.STALLED)
        seconds = (now_ns - since_ns) * 1e-9
        notices.append(f"the program stood still for {seconds:.1f} s: open the grip, then squeeze")
        return True

    def _take(
        self, frame: OperatorFrame, events: list[EpisodeEvent], notices: list[str], moves: bool
    ) -> None:
        """Take the next frame; unless it ``moves``, no arm is moved by it."""
        self._frame = frame
        t_ns, odd = self._stamps.take(frame)
        if odd is Reason.CLOCK_RESTART:
            for tracker in self._trackers.values():
                tracker.restart(odd)
            events += self._panel.reset()
        elif odd is not None:
            for tracker in self._trackers.values():
                tracker.counts[odd] += 1
            return
        if self._space.moved(frame, t_ns):
            self.facing.forget()
            for tracker in self._trackers.values():
                tracker.restart(Reason.RECENTRED)
            notices.append("play space recentred: look ahead, open the grip, then squeeze")
        for event in self._panel.take(t_ns, frame):
            if event is EpisodeEvent.REREFERENCE:
                event = self._rereference(frame, notices)
            elif event is EpisodeEvent.PAUSE:
                for tracker in self._trackers.values():
                    tracker.gripper.hold(release_first=True)
            events.append(event)
        if not moves:
            return
        triggers_grip = not self._panel.may_pause(frame.controllers)
        for side, tracker in self._trackers.items():
            changed = tracker.take(frame, t_ns, triggers_grip)
            if changed is not None:
                notices.append(f"{side} arm: {changed}")

    def _rereference(self, frame: OperatorFrame, notices: list[str]) -> EpisodeEvent:
        self.let_go()
        off = self.config.require_headset and not frame.headset_worn
        fault = Reason.HEADSET_OFF if off else self.facing.take(frame.head)
        if fault is None:
            return EpisodeEvent.REREFERENCE
        notices.append(f"re-reference refused: {fault}; look ahead with the headset on, press A")
        return EpisodeEvent.REREFERENCE_REFUSED

    def _step(self, side: Side, now_ns: int) -> HandStep:
        tracker, arm = self._trackers[side], self._arms[side]
        tracker.expire(now_ns)
        commanded, ratio = self._env.commanded(side), tracker.dials.ratio(tracker.fine)
        grip = tracker.estimate(now_ns)
        position, quat = commanded.position, commanded.quat_wxyz
        if tracker.engaged and grip is not None:
            R_world_tracking = self.facing.R_world_tracking
            hand = R_world_tracking @ grip[0], R_world_tracking @ grip[1]
            position, quat = arm.step(hand, commanded, tracker.engagement, ratio)
        else:
            arm.release()
        return HandStep(
            side=side,
            controller=tracker.controller,
            state=tracker.state,
            reason=tracker.reason,
            engaged=tracker.engaged,
            fine=tracker.fine,
            ratio=ratio,
            filtered_position=None if grip is None else grip[0],
            filtered_quat_wxyz=None if grip is None else turn_quat(grip[1]),
            target=EndEffectorTarget(side, position, quat, tracker.gripper.closure),
            clamps=arm.clamps,
            age_ns=None if tracker.sample_ns is None else now_ns - tracker.sample_ns,
            t_device_ns=tracker.t_device_ns,
            t_recv_ns=tracker.t_recv_ns,
            T_world_tracking=self.facing.T_world_tracking,
            trigger=tracker.trigger,
            grip=tracker.grip,
        )
