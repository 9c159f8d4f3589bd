"""How long a hand's motion takes through everything, in real time on this computer.

A loop as the one that records: a device with a thread of its own, the policy and an environment
reached by its id, at absolute deadlines. Its stages are timed, and if the device is a hand that
leaps at known times, so are the answers: of the first ctrl that knows of it, and of the tool.
"""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from kinematics import EndEffectorTarget, Side
from kinematics.frames import Array

from .clock import RealClock
from .clutch import ClutchConfig
from .config import TeleopConfig
from .devices import Device
from .devices.leaping_hand import LEAP_M
from .environment import TeleopEnv
from .errors import DeviceClosedError, TeleopError
from .frame import OperatorFrame
from .policy import PolicyStep, TeleopPolicy

ENV_ID = "envs:PicoPanda-v0"
RIGHT = Side.RIGHT


class TimedEnv(TeleopEnv, Protocol):
    """What is needed of the environment beside the agent's view."""

    ctrl: Array
    """(n_substeps, nu) of the last step."""
    t_physics_ns: int
    """When physics began in the last step: its ctrl was there."""

    def reset(self, *, seed: int | None = None) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """Begin an episode."""
        ...

    def step(
        self, action: npt.NDArray[np.float32]
    ) -> tuple[Mapping[str, Any], float, bool, bool, dict[str, Any]]:
        """Execute one control step."""
        ...

    def measured(self, side: Side) -> EndEffectorTarget:
        """Return where the side's tool is."""
        ...

    def close(self) -> None:
        """Release what the environment holds."""
        ...


# The loop.


@dataclass(frozen=True, slots=True, eq=False)
class Tick:
    """Hold the instants of one control step [ns, real clock]."""

    frames: Sequence[OperatorFrame]
    """Received since the last one."""
    policy: PolicyStep
    due_ns: int
    now_ns: int
    """The tick began; the filter is evaluated for this instant."""
    policy_ns: int
    """The action was there."""
    physics_ns: int
    """Its ctrl was there."""
    done_ns: int
    first_ctrl: Array
    """(nu,) of the step's first physics step."""
    last_ctrl: Array
    """(nu,) of its last."""
    tool: Array
    """(3,) [m] at the step's end, which is one period after its beginning."""


def make_env(control_hz: int, control: str) -> TimedEnv:
    """Return an environment that runs on; raises what ``gymnasium.make`` does."""
    made: Any = gym.make(
        ENV_ID,
        task="reach",
        control=control,
        control_hz=control_hz,
        terminate_on_success=False,
        time_limit_s=3600.0,
        disable_env_checker=True,
    )
    return made.unwrapped


def run_loop(
    env: TimedEnv, device: Device, seconds: float, stopped: Callable[[], bool] = lambda: False
) -> list[Tick]:
    """Run ticks in real time with the connected ``device``, at most to its end; return them."""
    clock, period_ns = RealClock(), round(1e9 / env.control_hz)
    policy = TeleopPolicy(env, TeleopConfig(facing_yaw=0.0, clutch=ClutchConfig(scale=1.0)))
    observation, _ = env.reset(seed=0)
    policy.reset()
    ticks: list[Tick] = []
    gc.collect()
    gc.freeze()
    try:
        due_ns = clock.now_ns()
        for _ in range(round(seconds * env.control_hz)):
            if stopped():
                break
            now_ns = clock.now_ns()
            try:
                frames = device.read(now_ns)
            except DeviceClosedError:
                break
            step = policy.act(observation, frames, now_ns)
            policy_ns = clock.now_ns()
            observation, *_ = env.step(step.action)
            done_ns = clock.now_ns()
            ticks.append(
                Tick(
                    frames=frames,
                    policy=step,
                    due_ns=due_ns,
                    now_ns=now_ns,
                    policy_ns=policy_ns,
                    physics_ns=env.t_physics_ns,
                    done_ns=done_ns,
                    first_ctrl=env.ctrl[0].copy(),
                    last_ctrl=env.ctrl[-1].copy(),
                    tool=env.measured(RIGHT).position,
                )
            )
            due_ns += period_ns
            if done_ns - due_ns > _STALL_PERIODS * period_ns:
                due_ns = done_ns
            clock.sleep_until(due_ns)
    finally:
        gc.unfreeze()
    return ticks


_STALL_PERIODS = 5
"""A longer delay is not made up for, as in a session."""


# The report.


class Spread(NamedTuple):
    """Hold the spread of a stage's times [ms]."""

    p50: float
    p95: float
    p99: float
    n: int


def stages(ticks: Sequence[Tick]) -> dict[str, Spread]:
    """Return what every stage takes, in their order; without samples those of the samples lack."""
    newest = [(tick, tick.frames[-1]) for tick in ticks if tick.frames]
    times = {
        "sample to receive": [f.t_recv_ns - f.t_device_ns for t in ticks for f in t.frames],
        "receive to tick": [tick.now_ns - frame.t_recv_ns for tick, frame in newest],
        "tick behind its deadline": [tick.now_ns - tick.due_ns for tick in ticks],
        "filter and mapping": [tick.policy.t_target_ns - tick.now_ns for tick in ticks],
        "action": [tick.policy_ns - tick.policy.t_target_ns for tick in ticks],
        "IK and servo": [tick.physics_ns - tick.policy_ns for tick in ticks],
        "physics and observation": [tick.done_ns - tick.physics_ns for tick in ticks],
        "sample to ctrl": [tick.physics_ns - frame.t_device_ns for tick, frame in newest],
    }
    return {name: _spread(values) for name, values in times.items() if values}


def answers(ticks: Sequence[Tick], leaps_ns: Sequence[int], control_hz: int) -> dict[str, Spread]:
    """Return how long after a leap of the hand ctrl changes and the tool has gone half the way.

    The tool's time is the simulation's, which ends a step one period after its beginning: what a
    person sees is later by the display. Only leaps of an engaged hand that were followed count.
    """
    period_ns = 1e9 / control_hz
    begun = np.array([tick.now_ns for tick in ticks])
    ends = begun + period_ns
    tools = np.array([tick.tool for tick in ticks])
    to_ctrl: list[float] = []
    to_tool: list[float] = []
    for leap_ns, next_ns in pairwise(leaps_ns):
        before, after = np.searchsorted(begun, (leap_ns, next_ns)) - 1
        if before < 1 or next_ns > begun[-1] or not ticks[before].policy.engaged:
            continue
        at_rest = ticks[before].last_ctrl
        for tick in ticks[before + 1 : after]:
            if np.abs(tick.first_ctrl - at_rest).max() > _NOTICED_RAD:
                to_ctrl.append(tick.physics_ns - leap_ns)
                break
        way = tools[after] - tools[before]
        gone = (tools[before : after + 1] - tools[before]) @ way / max(float(way @ way), 1e-12)
        if abs(float(np.sqrt(way @ way)) - LEAP_M) > 0.2 * LEAP_M:
            continue
        k = int(np.argmax(gone >= 0.5))
        share = (0.5 - gone[k - 1]) / (gone[k] - gone[k - 1])
        at = ends[before + k - 1] + share * (ends[before + k] - ends[before + k - 1])
        to_tool.append(float(at) - leap_ns)
    found = {"hand to ctrl": to_ctrl, "hand to tool, half the way": to_tool}
    return {name: _spread(values) for name, values in found.items() if values}


_NOTICED_RAD = 1e-4
"""Of ctrl; a leap changes it by ten times as much at once."""


@dataclass(frozen=True, slots=True)
class Report:
    """Hold what was measured."""

    control_hz: int
    n_ticks: int
    late: float
    """Share of ticks that began more than half a period after their deadline."""
    stages: dict[str, Spread]
    answers: dict[str, Spread]
    """Empty without a stimulus."""

    def as_dict(self) -> dict[str, Any]:
        """Return JSON types; times in ms."""
        spreads = {"stages_ms": self.stages, "answers_ms": self.answers}
        return {
            "control_hz": self.control_hz,
            "ticks": self.n_ticks,
            "late": self.late,
            **{
                key: {name: spread._asdict() for name, spread in found.items()}
                for key, found in spreads.items()
            },
        }

    def __str__(self) -> str:
        """Return a table."""
        lines = [
            f"{self.n_ticks} ticks at {self.control_hz} Hz, {100.0 * self.late:.1f} % late",
            f"{'ms':<28}{'p50':>8}{'p95':>8}{'p99':>8}{'n':>8}",
        ]
        lines += [
            f"{name:<28}{s.p50:>8.2f}{s.p95:>8.2f}{s.p99:>8.2f}{s.n:>8}"
            for name, s in (self.stages | self.answers).items()
        ]
        if not self.answers:
            lines.append("no answers of ctrl and tool: no leap of the hand was followed")
        return "\n".join(lines)


def report(ticks: Sequence[Tick], leaps_ns: Sequence[int], control_hz: int) -> Report:
    """Sum up a run; ``leaps_ns`` are when the hand leapt [ns], empty if it is not known to.

    Raises TeleopError when there were no ticks.
    """
    if not ticks:
        raise TeleopError("the device ended before the first tick: nothing was measured")
    late = float(np.mean([2 * (t.now_ns - t.due_ns) * control_hz > 1e9 for t in ticks]))
    return Report(control_hz, len(ticks), late, stages(ticks), answers(ticks, leaps_ns, control_hz))


def _spread(times_ns: Sequence[float]) -> Spread:
    p50, p95, p99 = (float(p) for p in np.percentile(np.array(times_ns) / 1e6, (50, 95, 99)))
    return Spread(p50, p95, p99, len(times_ns))
