"""The life of episodes: wait for the operator, run, decide the end, begin anew.

One loop, a tick every control period at absolute deadlines. The environment is not stepped before
the first engagement, so that row 0 is the reset state and no idle time is recorded.
"""

import dataclasses
import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from envs.errors import EnvError
from kinematics import EndEffectorTarget, Side, Waypoint
from kinematics.frames import Array
from teleop_agent.buttons import EpisodeEvent
from teleop_agent.clock import Clock
from teleop_agent.devices import Device, SceneView
from teleop_agent.environment import TeleopEnv
from teleop_agent.errors import TeleopError
from teleop_agent.frame import OperatorFrame
from teleop_agent.policy import PolicyStep, TeleopPolicy

from .pace import Pace
from .rewind import Moment, Observation, Rejected, Restorable, Rewind
from .watchdog import Watchdog


class SessionEnv(TeleopEnv, Restorable, Protocol):
    """What a session needs of an environment beside the agent's view."""

    now_ns: Callable[[], int]
    """Clock [ns] for ``t_physics_ns``."""
    t_physics_ns: int
    """When physics began in the last step: its ctrl was there."""

    def reset(self, *, seed: int | None = None) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode."""
        ...

    def step(
        self, action: npt.NDArray[np.float32]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Execute one control step."""
        ...

    def measured(self, side: Side) -> EndEffectorTarget:
        """Return where the side's tool is."""
        ...

    def guide(self) -> list[Waypoint]:
        """Return what remains to be done."""
        ...


class Verdict(StrEnum):
    """Say what becomes of an episode."""

    SUCCESS = "success"
    """Kept as a success."""
    FAILURE = "failure"
    """Kept as a failure."""
    DISCARD = "discarded"
    """Not kept; the next one has a new seed."""
    RESET = "reset"
    """Not kept; the next one repeats the seed."""


class Phase(StrEnum):
    """Say what the session is doing."""

    WAITING = "waiting"
    """For the first engagement; nothing moves, nothing is recorded."""
    RUNNING = "running"
    PAUSED = "paused"
    REWINDING = "rewinding"
    """Back along the rows; the operator sees it and lets go where it is to go on."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """Hold one executed control step."""

    observation: Observation
    """Before the action."""
    state: Array
    """(D,) before the action."""
    memory: Array
    """(C,) before the action."""
    policy: PolicyStep
    frames: Sequence[OperatorFrame]
    """All that came since the last tick."""
    reward: float
    terminated: bool
    truncated: bool
    info: Mapping[str, Any]
    """The environment's, after the step."""
    t_due_ns: int
    """When the tick should have started."""
    t_tick_ns: int
    """Start of the tick; the filter is evaluated for this instant."""
    t_policy_ns: int
    """The action was ready."""
    t_apply_ns: int
    """The environment was about to execute it."""
    t_physics_ns: int
    """It had its ctrl, physics began."""
    t_done_ns: int
    """The step was over."""
    late: bool
    """The tick began more than half a period after its deadline."""


@dataclass(frozen=True, slots=True)
class EpisodeEnd:
    """Say how an episode ended."""

    verdict: Verdict
    reason: str
    success: bool
    """The task's own word at the end."""
    seed: int
    rows: int
    late: int
    """Late ticks."""
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """Configure when episodes end by themselves."""

    auto_success: bool = True
    """End once the task has reported success for ``success_hold_s``; else leave it to B."""
    success_hold_s: float = 0.5
    """Long enough to see that it holds, short enough not to record idling."""
    drop_failures: bool = False
    """Discard what runs into the time limit, instead of keeping it as a failure."""
    waiting_limit_s: float | None = None
    """Give up on an operator who rests this long in all; None waits for ever, as a person may."""
    rewind_speed: float = 2.0
    """Seconds of the episode a second: fast enough for a minute, slow enough to stop in time."""
    shortest_kept_s: float = 1.0
    """An interrupted episode shorter than this is not worth keeping."""
    tick_limit_s: float = 1.0
    """After so long the watchdog tells where a tick is stuck: fifty periods at 50 Hz, and an
    operator wonders by then."""


class Listener(Protocol):
    """Follow a session: record it, show it."""

    def started(self, seed: int) -> None:
        """Learn that the operator engaged: rows follow."""
        ...

    def frames(self, frames: Sequence[OperatorFrame], policy: PolicyStep) -> None:
        """Learn what the device published since the last tick and what became of it, every tick."""
        ...

    def row(self, row: Row) -> None:
        """Take one executed step."""
        ...

    def rewound(self, rejected: Rejected) -> None:
        """Learn that the episode goes on from an earlier row."""
        ...

    def asked_to_delete(self) -> None:
        """Learn that the operator wants the episode that was kept last taken back."""
        ...

    def ended(self, end: EpisodeEnd) -> None:
        """Learn that the episode is over; without ``started`` before it, nothing was done."""
        ...

    def tick(self, phase: Phase, policy: PolicyStep, late: int) -> None:
        """Look on, every tick; must return at once."""
        ...


class Session:
    """Run episodes of one environment with one device.

    ``device`` is connected and closed by the caller; ``env`` too. ``stop`` may be called from a
    signal handler.
    """

    def __init__(
        self,
        env: SessionEnv,
        device: Device,
        policy: TeleopPolicy,
        clock: Clock,
        listener: Listener,
        config: SessionConfig | None = None,
    ) -> None:
        self._env, self._device, self._policy = env, device, policy
        self._clock, self._listener = clock, listener
        env.now_ns = policy.now_ns = clock.now_ns
        self._config = config or SessionConfig()
        self._pace = Pace(clock, round(1e9 / env.control_hz))
        self._hold_ticks = max(1, round(self._config.success_hold_s * env.control_hz))
        self._shortest = round(self._config.shortest_kept_s * env.control_hz)
        self._watchdog = Watchdog(self._config.tick_limit_s)
        self._stopped: str | None = None

    def stop(self, reason: str) -> None:
        """End the running episode at the next tick and run no further one."""
        self._stopped = reason

    @property
    def stopped(self) -> str | None:
        """Return why the session was stopped, if it was."""
        return self._stopped

    def run_episode(self, seed: int) -> EpisodeEnd:
        """Run one episode from ``reset(seed)`` to its end and tell the listener.

        Raises DeviceClosedError when the device has ended, EnvError when the simulation broke down;
        a running episode is kept as an interrupted failure first.
        """
        rewind = Rewind(self._env, self._config.rewind_speed)
        episode = _Episode(self._env.reset(seed=seed)[0], seed, rewind)
        self._policy.reset()
        # What exists by now stays: the collector need not look at it again inside the loop. What
        # stayed for the last episode may be garbage by now.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._pace.start()
        try:
            with self._watchdog:
                while episode.end is None:
                    self._tick(episode)
        except (TeleopError, EnvError) as error:
            self._interrupt(episode, str(error))
            raise
        return episode.end

    # One tick.

    def _tick(self, episode: "_Episode") -> None:
        now = self._pace.begin()
        self._watchdog.begin()
        if self._stopped is not None:
            self._interrupt(episode, self._stopped)
            return
        frames = self._device.read(now)
        policy = self._policy.act(episode.observation, frames, now)
        self._listener.frames(frames, policy)
        if episode.phase is Phase.WAITING and policy.engaged:
            episode.phase = Phase.RUNNING
            if not episode.started:
                episode.started = True
                self._listener.started(episode.seed)
        if episode.phase is Phase.RUNNING:
            self._step(episode, policy, frames, now)
        elif episode.phase is Phase.REWINDING:
            episode.rewind.scrub(policy.frame, now)
        self._judge(episode, policy)
        self._look(episode, policy)
        self._listener.tick(episode.phase, policy, episode.late)
        self._watchdog.end()
        self._pace.wait()

    def _step(
        self, episode: "_Episode", policy: PolicyStep, frames: list[OperatorFrame], now: int
    ) -> None:
        t_policy = self._clock.now_ns()
        state, memory = self._env.integration_state(), self._env.controller_memory()
        t_apply = self._clock.now_ns()
        try:
            after, reward, terminated, truncated, info = self._env.step(policy.action)
        except EnvError:
            self._env.restore(state, memory)  # where the last row ended: the episode's end
            raise
        row = Row(
            observation=episode.observation,
            state=state,
            memory=memory,
            policy=policy,
            frames=frames,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            info=info,
            t_due_ns=self._pace.due_ns,
            t_tick_ns=now,
            t_policy_ns=t_policy,
            t_apply_ns=t_apply,
            t_physics_ns=self._env.t_physics_ns,
            t_done_ns=self._clock.now_ns(),
            late=self._pace.late,
        )
        self._listener.row(row)
        episode.take(row, after)

    def _judge(self, episode: "_Episode", policy: PolicyStep) -> None:
        """End or pause the episode, by the operator's word first."""
        for event in policy.events:
            if episode.end is None:
                self._obey(episode, event)
        if episode.end is not None:
            return
        if episode.phase is not Phase.RUNNING:
            limit = self._config.waiting_limit_s
            if episode.phase in (Phase.WAITING, Phase.PAUSED) and limit is not None:
                episode.idle += 1
                if episode.idle > limit * self._env.control_hz:
                    self._finish(episode, Verdict.DISCARD, "nobody engaged")
            return
        if self._config.auto_success and episode.held >= self._hold_ticks:
            self._finish(episode, Verdict.SUCCESS, "task")
        elif episode.truncated:
            keep = not self._config.drop_failures or episode.success
            verdict = Verdict.SUCCESS if episode.success else Verdict.FAILURE
            self._finish(episode, verdict if keep else Verdict.DISCARD, "time limit")

    def _obey(self, episode: "_Episode", event: EpisodeEvent) -> None:
        if event is EpisodeEvent.REWIND and episode.rows and episode.phase is not Phase.REWINDING:
            self._policy.let_go()
            episode.phase = Phase.REWINDING
            episode.rewind.begin(episode.observation, episode.success)
        elif event is EpisodeEvent.REWIND_END and episode.phase is Phase.REWINDING:
            self._go_on(episode)
        elif event is EpisodeEvent.DELETE_LAST and episode.phase is not Phase.REWINDING:
            self._listener.asked_to_delete()
        elif event is EpisodeEvent.PAUSE and episode.phase in (Phase.RUNNING, Phase.PAUSED):
            running = episode.phase is Phase.RUNNING
            episode.phase = Phase.PAUSED if running else Phase.RUNNING
            self._policy.reset()
        elif event in _VERDICTS:
            verdict = _VERDICTS[event]
            # Nothing was done yet: there is nothing to keep, whatever the button says.
            if episode.rows or verdict in (Verdict.DISCARD, Verdict.RESET):
                self._finish(episode, verdict, "button")

    def _go_on(self, episode: "_Episode") -> None:
        """End a rewind; the next engagement goes on from there."""
        cut = episode.rewind.end()
        if cut is not None:
            moment, rejected = cut
            episode.back_to(moment, rejected)
            self._listener.rewound(rejected)
        self._policy.reset()
        episode.phase = Phase.WAITING

    def _finish(
        self, episode: "_Episode", verdict: Verdict, reason: str, interrupted: bool = False
    ) -> None:
        episode.rewind.call_off()
        episode.end = EpisodeEnd(
            verdict,
            reason,
            episode.success,
            episode.seed,
            episode.rows,
            episode.late,
            interrupted,
        )
        self._watchdog.end()  # saving may take its time: nothing moves any more
        self._listener.ended(episode.end)

    def _interrupt(self, episode: "_Episode", reason: str) -> None:
        if episode.end is None:
            kept = episode.rows >= max(self._shortest, 1)
            verdict = Verdict.FAILURE if kept else Verdict.DISCARD
            self._finish(episode, verdict, reason, interrupted=True)

    def _look(self, episode: "_Episode", policy: PolicyStep) -> None:
        """Let the device see the scene, if it has eyes."""
        if not self._device.has_eyes:
            return
        hands, env = policy.hands, self._env

        def seen(target: EndEffectorTarget) -> EndEffectorTarget:  # to a person, a tool is a hand's
            hand = hands[target.side].controller
            return target if hand is target.side else dataclasses.replace(target, side=hand)

        self._device.watch(
            SceneView(
                t_ns=self._clock.now_ns(),
                tools={hands[side].controller: seen(env.measured(side)) for side in env.sides},
                engaged={hand.controller: hand.engaged for hand in hands.values()},
                waypoints=[
                    dataclasses.replace(waypoint, target=seen(waypoint.target))
                    for waypoint in env.guide()
                ],
                running=episode.end is None,
            )
        )


class _Episode:
    """What one episode has come to."""

    def __init__(self, observation: Observation, seed: int, rewind: Rewind) -> None:
        self.observation, self.seed, self.rewind = observation, seed, rewind
        self.phase = Phase.WAITING
        self.started = False
        self.late = self.held = self.idle = 0
        self.success = self.truncated = False
        self.end: EpisodeEnd | None = None

    @property
    def rows(self) -> int:
        return len(self.rewind)

    def take(self, row: Row, after: Observation) -> None:
        self.rewind.take(
            Moment(row.state, row.memory, self.observation, self.held, self.success, row.late)
        )
        self.observation = after
        self.late += row.late
        self.success = bool(row.info["success"])
        self.held = self.held + 1 if self.success else 0
        self.truncated = row.truncated

    def back_to(self, moment: Moment, rejected: Rejected) -> None:
        self.observation = moment.observation
        self.held, self.success, self.truncated = moment.held, moment.success, False
        self.late -= rejected.late


_VERDICTS = {
    EpisodeEvent.GOOD: Verdict.SUCCESS,
    EpisodeEvent.KEEP_FAILURE: Verdict.FAILURE,
    EpisodeEvent.DISCARD: Verdict.DISCARD,
    EpisodeEvent.RESET: Verdict.RESET,
}
