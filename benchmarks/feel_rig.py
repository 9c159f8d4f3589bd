"""A hand on a known path, a tracker's faults, and a run of both through agent and environment.

The clock is simulated: tick k happens at k control periods, and computing takes no time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import gymnasium as gym
import mujoco
import numpy as np
import numpy.typing as npt

import envs  # noqa: F401  (registers PicoPanda-v0)
from envs.panda_env import PicoPandaEnv
from kinematics import EndEffectorTarget, Side
from kinematics.frames import R_WORLD_TRACKING, Array
from teleop_agent.clutch import Clutch, Lock, Ratio
from teleop_agent.config import TeleopConfig
from teleop_agent.devices.sim.noise import NoiseConfig, Tracker, Transport, Tremor
from teleop_agent.devices.sim.stroke import HandPose
from teleop_agent.filters import PoseFilter
from teleop_agent.frame import Controller, OperatorFrame, TrackedPose
from teleop_agent.policy import TeleopPolicy
from teleop_agent.turns import turn_exp, turn_log, turn_matrix, turn_quat

RIGHT = Side.RIGHT
SECOND = 1_000_000_000
SCALE = 1.0
"""Tool metres for one of the hand's: the most demanding that is usual; the default is 0.6."""
ENGAGED_S, START_S = 0.3, 1.0
"""The grip closes, and then the hand begins to move."""
LONGEST_S = 80.0
"""No run is longer."""
CLEAN = NoiseConfig((8.0, 12.0), (0.0, 0.0), 0.0, 0.0, 0.0)
"""No tremor, no tracker noise, the usual latency; the tracker's single precision remains."""


# The hand.

Times = float | npt.NDArray[np.floating]
"""One or many instants [s]."""


class Path:
    """Move to and fro along a line while turning about an axis; rest until ``START_S``.

    Speeds are steady but for smooth reversals: the hand's way is ``speed`` times a smoothed
    square wave of time.
    """

    way = np.array([0.48, 0.80, 0.36])
    """Direction in world, a unit vector: across, forward and up at once."""
    axis = np.array([0.36, 0.48, 0.80])
    """Of the turn, in world; a unit vector."""

    def __init__(self, speed: float = 0.2, turn_rate: float = 0.35, stroke_s: float = 2.0) -> None:
        """``speed`` [m/s], ``turn_rate`` [rad/s]; a stroke takes ``stroke_s``."""
        self.speed, self.turn_rate = speed, turn_rate
        self._t = np.arange(0.0, LONGEST_S, _GRID_S)
        since = self._t - START_S
        # Half a stroke out, whole strokes to and fro; the reversals take 0.3 s: 2 m/s2 of 13.
        phase = (since / stroke_s + 0.5) % 2.0
        to_turn = np.abs(phase - np.round(phase)) * stroke_s
        self._share = np.where(phase < 1.0, 1.0, -1.0) * _smooth(to_turn / _REVERSAL_S)
        self._share *= _smooth(since / _REVERSAL_S)
        self._way = np.cumsum(self._share) * _GRID_S

    def share(self, t: Times) -> Array:
        """Return the velocity's share of the full speed, -1 .. 1, at ``t`` [s]."""
        return np.asarray(np.interp(t, self._t, self._share))

    def travel(self, t: Times) -> Array:
        """Return how long the hand has been going forth, [s] at full speed."""
        return np.asarray(np.interp(t, self._t, self._way))

    def moves(self, t: Times) -> Array:
        """Return the hand's displacement since the start (n, 3) [m] in world."""
        return np.multiply.outer(self.speed * self.travel(t), self.way)

    def turns(self, t: Times) -> Array:
        """Return its rotation vectors since the start (n, 3) [rad] in world."""
        return np.multiply.outer(self.turn_rate * self.travel(t), self.axis)

    def steady(self, t: Times) -> npt.NDArray[np.bool_]:
        """Return whether the hand has gone at full speed for the last 0.2 s."""
        now, before = np.abs(self.share(t)), np.abs(self.share(np.subtract(t, 0.2)))
        same = self.share(t) * self.share(np.subtract(t, 0.2)) > 0.0
        return (now > 1.0 - 1e-9) & (before > 1.0 - 1e-9) & same


_GRID_S = 5e-4
"""Between two points of a path; straight lines between them are within 1e-4 mm."""
_REVERSAL_S = 0.15
"""From steady speed to rest, and as long again to steady speed."""


def _smooth(s: Array) -> Array:
    s = np.clip(s, 0.0, 1.0)
    return s * s * (3.0 - 2.0 * s)


ORIGIN = HandPose(np.array([0.2, 1.1, -0.3]), turn_exp(np.array([-0.5, 0.2, 0.1])))
"""``T_tracking_grip`` of the hand at first: before the body, the controller in a relaxed hand."""


# The stream.


class Spoil(Protocol):
    """Change what a tracker publishes: a function of a frame and its true time [s]."""

    def __call__(self, frame: OperatorFrame, t: float) -> list[OperatorFrame]:
        """Return the frames to publish instead of one, usually one or none."""
        ...


class Steps(Path):
    """Leap by ``STEP_M`` to and fro at the ``times`` [s]: a stimulus, not a hand."""

    def __init__(self, times: Array) -> None:
        self._times = times

    def travel(self, t: Times) -> Array:
        """Return 0 or 1, by turns."""
        return np.asarray(np.searchsorted(self._times, t, side="right") % 2, np.float64)

    def moves(self, t: Times) -> Array:
        """Return the hand's displacement (n, 3) [m] in world."""
        return np.multiply.outer(STEP_M * self.travel(t), self.way)

    def turns(self, t: Times) -> Array:
        """Return no rotation."""
        return 0.0 * self.moves(t)


STEP_M = 0.01
"""A fifth of what the guard calls a jump."""


@dataclass(frozen=True)
class Stream:
    """Describe what a tracker sees of the right hand; the left one lies on the table."""

    path: Path
    device_hz: int = 90
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    seed: int = 0
    lost: float = 0.0
    """Share of samples that never arrive."""
    spoil: Spoil | None = None
    phase_s: float = 0.003
    """Of the device's samples in the control's periods."""

    def frames(self) -> Iterator[OperatorFrame]:
        """Yield the frames in order of reception, for ever."""
        hand, tracker, transport, loss = np.random.SeedSequence(self.seed).spawn(4)
        tremor = Tremor(self.noise, np.random.default_rng(hand))
        measure = Tracker(self.noise, np.random.default_rng(tracker)).measure
        receive = Transport(self.noise, np.random.default_rng(transport)).receive
        lose = np.random.default_rng(loss)
        seq = 0
        while True:
            t_ns = round(self.phase_s * SECOND) + seq * SECOND // self.device_hz
            t = t_ns / SECOND
            matrix = measure(self.hand(t), tremor.offset(t_ns))
            matrix[0, 3] += 1e-9 * (seq % 2)  # no tracked hand is ever bit-still
            head = np.column_stack([np.eye(3), [0.0, 1.6, 1e-9 * (seq % 2)]])
            grip = float(t >= ENGAGED_S)
            frame = OperatorFrame(
                seq=seq,
                t_device_ns=t_ns,
                t_recv_ns=receive(t_ns),
                head=TrackedPose(True, True, True, head, "HEAD"),
                controllers={
                    RIGHT: Controller(
                        TrackedPose(True, True, True, matrix, "RIGHT"), True, grip=grip
                    ),
                    Side.LEFT: Controller(),
                },
            )
            seq += 1
            if lose.random() >= self.lost or t < START_S:
                yield from [frame] if self.spoil is None else self.spoil(frame, t)

    def hand(self, t: float) -> HandPose:
        """Return where the hand means to be, ``T_tracking_grip`` at ``t`` [s]."""
        move, turn = (
            R_WORLD_TRACKING.T @ self.path.moves(t),
            R_WORLD_TRACKING.T @ self.path.turns(t),
        )
        return HandPose(ORIGIN.position + move, turn_exp(turn) @ ORIGIN.turn)


# The rules: from frames to what the tool is asked for.


class Asked(NamedTuple):
    """Hold what a rule asks for in one control step."""

    action: npt.NDArray[np.float32]
    target: EndEffectorTarget
    engaged: bool


class Rule(Protocol):
    """Turn the frames of a control step into an action."""

    def act(self, frames: Sequence[OperatorFrame], now_ns: int) -> Asked:
        """Take the frames received since the last call."""
        ...


class OurRule:
    """The agent as it is, but for the scale and a facing that is known."""

    def __init__(self, env: PicoPandaEnv, config: TeleopConfig | None = None) -> None:
        config = config or TeleopConfig()
        clutch = replace(config.clutch, scale=SCALE)
        self.policy = TeleopPolicy(env, replace(config, facing_yaw=0.0, clutch=clutch))
        self.policy.reset()

    def act(self, frames: Sequence[OperatorFrame], now_ns: int) -> Asked:
        """Return the agent's action."""
        step = self.policy.act(None, frames, now_ns)
        hand = step.hands[RIGHT]
        return Asked(step.action, hand.target, hand.engaged)


class ShareFilter:
    """Move the estimate by a share of the way to every sample; a share of 1 is no filter."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._position, self._turn = np.zeros(3), np.eye(3)
        self.ready = False

    def update(self, t_ns: int, position: Array, turn: Array) -> None:
        """Take a sample."""
        if not self.ready:
            self._position, self._turn, self.ready = position, turn, True
            return
        self._position = self._position + self._share * (position - self._position)
        self._turn = turn_exp(self._share * turn_log(turn @ self._turn.T)) @ self._turn

    def evaluate(self, t_ns: int) -> tuple[Array, Array]:
        """Return the estimate, whatever the time."""
        return self._position, self._turn

    def reset(self) -> None:
        """Forget everything."""
        self.ready = False


class NewestRule:
    """A rule re-created from peers' descriptions: the newest sample, perhaps smoothed a step.

    Every control step moves the estimate by ``share`` of the way to the newest pose that the
    runtime calls valid; the target is the hand's motion since the grip closed. There is no guard,
    no limit of speed, no alignment in time, since none is described.
    """

    def __init__(self, env: PicoPandaEnv, share: float) -> None:
        self._env, self._filter, self._clutch = env, ShareFilter(share), Clutch()
        self._grip, self._engaged = 0.0, False
        self._newest: tuple[Array, Array] | None = None

    def act(self, frames: Sequence[OperatorFrame], now_ns: int) -> Asked:
        """Return the action that asks for the hand's motion."""
        for frame in frames:
            self._grip = frame.controllers[RIGHT].grip
            pose = frame.controllers[RIGHT].pose
            if pose.connected and pose.valid and np.isfinite(pose.matrix).all():
                self._newest = pose.matrix[:, 3], pose.matrix[:, :3]
        target = self._env.commanded(RIGHT)
        if self._newest is not None:
            self._filter.update(now_ns, *self._newest)
            target = self._follow(target)
        return Asked(self._env.encode({RIGHT: target}), target, self._engaged)

    def _follow(self, commanded: EndEffectorTarget) -> EndEffectorTarget:
        hand = tuple(R_WORLD_TRACKING @ part for part in self._filter.evaluate(0))
        if self._grip >= 0.5 and not self._engaged:
            ratio = Ratio(SCALE, 1.0, Lock.FREE)
            turn = turn_matrix(commanded.quat_wxyz)
            self._clutch.anchor(hand[0], hand[1], commanded.position, turn, ratio)
        self._engaged = self._grip >= 0.5
        if not self._engaged:
            return commanded
        position, turn = self._clutch.target(hand[0], hand[1])
        return EndEffectorTarget(RIGHT, position, turn_quat(turn), commanded.closure)


FILTERS: Mapping[str, Callable[[], PoseFilter]] = {
    "ours": TeleopConfig().make_filter,
    "exponential 0.3": lambda: ShareFilter(0.3),
    "newest sample": lambda: ShareFilter(1.0),
}
RULES: Mapping[str, Callable[[PicoPandaEnv], Rule]] = {
    "ours": OurRule,
    "exponential 0.3": lambda env: NewestRule(env, 0.3),
    "newest sample": lambda env: NewestRule(env, 1.0),
}


# A run.


def make_env(control_hz: int, control: str = "ee_delta") -> PicoPandaEnv:
    """Return an environment with nothing in the arm's way."""
    env = gym.make(
        "PicoPanda-v0",
        task="reach",
        control=control,
        control_hz=control_hz,
        terminate_on_success=False,
        time_limit_s=3600.0,
        disable_env_checker=True,
    ).unwrapped
    assert isinstance(env, PicoPandaEnv)
    return env


@dataclass(frozen=True)
class Run:
    """Hold what happened, a row for every control step of a run."""

    t: Array
    """(n,) [s]: the end of each step."""
    asked: Array
    """(n, 3) [m]: what the rule asked for."""
    turn_asked: Array
    """(n, 4) wxyz."""
    commanded: Array
    """(n, 3) [m]: the environment's target before the step."""
    turn_commanded: Array
    """(n, 4) wxyz."""
    tool: Array
    """(n, 3) [m] at the step's end."""
    turn: Array
    """(n, 4) wxyz at the step's end."""
    engaged: npt.NDArray[np.bool_]
    ctrl: Array
    """(n, n_substeps, 7) [rad]."""
    fine_tool: Array
    """(n * n_substeps, 3) [m]: at the beginning of each physics step."""
    force: Array
    """(n * n_substeps, 7) [Nm] of the actuators on the joints, then."""
    transport_s: float
    """Mean of the samples' way to reception."""


MIDDLE = (0.50, 0.0, 0.35)
"""m, of the tool at first: in the middle of its workspace."""


def run(
    env: PicoPandaEnv, make_rule: Callable[[PicoPandaEnv], Rule], stream: Stream, seconds: float
) -> Run:
    """Run a rule on a stream in a fresh episode, with the tool in the middle at first."""
    env.reset(seed=0)
    _go(env, MIDDLE)
    rule = make_rule(env)
    arm, data = env.arms[RIGHT], env.data
    fine: list[Array] = []
    force: list[Array] = []

    def watch(_model: mujoco.MjModel, data: mujoco.MjData) -> None:
        fine.append(data.site_xpos[arm.site].copy())
        force.append(data.qfrc_actuator[arm.dof_adr].copy())

    source, rows, taken = stream.frames(), [], []
    ahead = next(source)
    period = SECOND // env.control_hz
    mujoco.set_mjcb_control(watch)
    try:
        for k in range(round(seconds * env.control_hz)):
            due = []
            while ahead.t_recv_ns <= k * period:
                due.append(ahead)
                ahead = next(source)
            before = env.commanded(RIGHT)
            asked = rule.act(due, k * period)
            env.step(asked.action)
            taken += due
            position, quat = arm.measure(data)
            target = asked.target
            rows.append(
                (
                    target.position,
                    target.quat_wxyz,
                    before.position,
                    before.quat_wxyz,
                    position.copy(),
                    quat.copy(),
                    asked.engaged,
                    env.ctrl[:, arm.actuators].copy(),
                )
            )
    finally:
        mujoco.set_mjcb_control(None)
    asked, turns, before, turns_before, tool, turn, engaged, ctrl = (
        np.array(column) for column in zip(*rows, strict=True)
    )
    latency = [frame.t_recv_ns - frame.t_device_ns for frame in taken]
    return Run(
        t=np.arange(1, len(rows) + 1) / env.control_hz,
        asked=asked,
        turn_asked=turns,
        commanded=before,
        turn_commanded=turns_before,
        tool=tool,
        turn=turn,
        engaged=engaged,
        ctrl=ctrl,
        fine_tool=np.array(fine),
        force=np.array(force),
        transport_s=float(np.mean(latency)) / SECOND,
    )


def _go(env: PicoPandaEnv, position: Sequence[float]) -> None:
    """Move the tool to a place, smoothly, and let it rest there."""
    start = env.commanded(RIGHT)
    steps = 2 * env.control_hz
    for k in range(1, steps + env.control_hz):
        share = float(_smooth(np.array(k / steps)))
        way = start.position + share * (np.array(position) - start.position)
        env.step(env.encode({RIGHT: replace(start, position=way)}))
