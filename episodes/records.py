"""What the operator's program hands to the recorder, row by row and once an episode.

Arrays are copied in and read-only: a record never shares memory with the simulator. World is
MuJoCo's frame, tracking the headset runtime's; quaternions are wxyz; times are integer ns of one
monotonic clock; ``NO_TIME`` and NaN stand for "there was none" and for nothing else.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from kinematics import Side
from kinematics.edits import ModelEdits

from .arrays import Array, taken, taken_finite, taken_observation
from .errors import RecordError

NO_TIME = -1
"""A time stamp [ns] that does not exist, such as that of a sample that never came."""

AttrValue = str | bool | int | float | tuple[str, ...] | tuple[float, ...]
"""What an HDF5 attribute may hold."""


def _nan(*shape: int) -> Array:
    array = np.full(shape, np.nan)
    array.flags.writeable = False
    return array


@dataclass(frozen=True, slots=True, eq=False)
class HandRecord:
    """Hold one side's causal chain in one control step, from the controller to the joints."""

    target_position: Array
    """(3,) [m] of ee in world: the exact absolute command."""
    target_quat: Array
    """(4,) wxyz of ee in world: the exact absolute command."""
    closure: float
    """0 open .. 1 closed: the exact absolute command."""
    accepted_position: Array
    """(3,) [m] of ee in world: what the environment commanded, after its limits."""
    accepted_quat: Array
    """(4,) wxyz of ee in world: what the environment commanded, after its limits."""
    joint_target: Array
    """(nj,) [rad]: the servo's reference at the end of the step."""
    engaged: bool
    """The clutch was held and the hand moved the target."""
    fine: bool
    """Fine mode was on."""
    scale: float
    """Metres of tool motion a metre of hand motion."""
    turn_scale: float
    """Radians of tool rotation a radian of hand rotation."""
    lock: str
    """One of ``EpisodeInfo.locks``: which part of the hand's motion moved the tool."""
    guard_state: str
    """One of ``EpisodeInfo.guard_states``."""
    guard_reason: str
    """One of ``EpisodeInfo.guard_reasons``: why the guard is not passing samples on."""
    T_world_tracking: Array
    """(4, 4) the pose of tracking in world that mapped this row; recentring changes it."""
    clamps: int = 0
    """Bits of ``EpisodeInfo.clamp_flags``: the limits that acted in this step."""
    ik_position_error: float = math.nan
    """[m] left over by the IK; NaN where no IK ran."""
    ik_rotation_error: float = math.nan
    """[rad] left over by the IK; NaN where no IK ran."""
    clearance: float = math.nan
    """[m] from the arm's links to the nearest thing they keep a distance from; NaN if unknown."""
    filtered_position: Array = field(default_factory=lambda: _nan(3))
    """(3,) [m] of grip in tracking, after the filter; NaN when there is none."""
    filtered_quat: Array = field(default_factory=lambda: _nan(4))
    """(4,) wxyz of grip in tracking, after the filter; NaN when there is none."""
    controller_position: Array = field(default_factory=lambda: _nan(3))
    """(3,) [m] of grip in tracking: last accepted sample; NaN before the first."""
    controller_quat: Array = field(default_factory=lambda: _nan(4))
    """(4,) wxyz of grip in tracking: last accepted sample; NaN before the first."""
    trigger: float = 0.0
    """0 released .. 1 pulled."""
    grip: float = 0.0
    """0 released .. 1 squeezed."""
    stick: tuple[float, float] = (0.0, 0.0)
    """x right, y up, each -1 .. 1."""
    buttons: int = 0
    """Bits of ``EpisodeInfo.button_flags``."""
    tracking_valid: bool = False
    """The newest sample is sound, and one that was believed is at most 50 ms old."""
    t_device_ns: int = NO_TIME
    """When the last accepted sample was measured."""
    t_recv_ns: int = NO_TIME
    """When the last accepted sample reached the process."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name, shape in _FINITE_OF_HAND:
            put(self, name, taken_finite(getattr(self, name), shape, name))
        for name, shape in _MAYBE_NAN_OF_HAND:
            put(self, name, taken(getattr(self, name), shape, name))
        if not 0.0 <= self.closure <= 1.0:
            raise RecordError(f"closure must be in [0, 1], got {self.closure}")
        for name in ("clamps", "buttons"):
            if not 0 <= int(getattr(self, name)) < 2**32:
                raise RecordError(f"{name} must be 32 bit flags, got {getattr(self, name)}")


_FINITE_OF_HAND: tuple[tuple[str, tuple[int | None, ...]], ...] = (
    ("target_position", (3,)),
    ("target_quat", (4,)),
    ("accepted_position", (3,)),
    ("accepted_quat", (4,)),
    ("joint_target", (None,)),
    ("T_world_tracking", (4, 4)),
)
_MAYBE_NAN_OF_HAND: tuple[tuple[str, tuple[int | None, ...]], ...] = (
    ("filtered_position", (3,)),
    ("filtered_quat", (4,)),
    ("controller_position", (3,)),
    ("controller_quat", (4,)),
)


@dataclass(frozen=True, slots=True, eq=False)
class StepRecord:
    """Hold one row: what was seen, what was done about it, and when.

    Build it after ``env.step`` from what was read before it: ``observation`` and ``state`` are
    those the action was chosen from.
    """

    observation: Mapping[str, npt.NDArray]
    """Flat, before the action; every array is copied with its dtype."""
    action: Array
    """(A,) in [-1, 1]: the very value given to ``env.step``."""
    reward: float
    terminated: bool
    truncated: bool
    success: bool
    """The environment's ``info["success"]`` after the step."""
    state: Array
    """(D,) ``mjSTATE_INTEGRATION`` before the action."""
    ctrl: Array
    """(n_substeps, nu) what the actuators got at every physics step of this row."""
    hands: Mapping[Side, HandRecord]
    """One for each of ``EpisodeInfo.sides``."""
    t_due_ns: int
    """When the tick should have started."""
    t_obs_ns: int
    """Start of the tick, when the observation stood."""
    t_filter_ns: int
    """The instant at which the filter was evaluated."""
    t_target_ns: int
    """When guard, filter and limits were done: the targets stood."""
    t_policy_ns: int
    """When the action was ready."""
    t_step_start_ns: int
    """When the action was applied."""
    t_physics_ns: int
    """When the environment had turned the action into ctrl: physics began."""
    t_step_end_ns: int
    """When the step was over."""
    sim_time: float
    """[s] of the simulation before the action."""
    late: bool = False
    """This tick began more than half a period after it was due."""
    n_clipped: int = 0
    """Action components that were outside [-1, 1] and clipped."""
    controller_memory: Array = field(default_factory=lambda: np.zeros(0))
    """(C,) what the environment's controllers remember before the action; their own units."""
    head_position: Array = field(default_factory=lambda: _nan(3))
    """(3,) [m] of head in tracking, last valid sample; NaN before the first."""
    head_quat: Array = field(default_factory=lambda: _nan(4))
    """(4,) wxyz of head in tracking, last valid sample; NaN before the first."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "observation", taken_observation(self.observation, "observation"))
        put(self, "action", taken_finite(self.action, (None,), "action"))
        put(self, "state", taken_finite(self.state, (None,), "state"))
        put(self, "ctrl", taken_finite(self.ctrl, (None, None), "ctrl"))
        memory = taken_finite(self.controller_memory, (None,), "controller_memory")
        put(self, "controller_memory", memory)
        put(self, "head_position", taken(self.head_position, (3,), "head_position"))
        put(self, "head_quat", taken(self.head_quat, (4,), "head_quat"))
        put(self, "hands", dict(self.hands))
        if not (math.isfinite(self.reward) and math.isfinite(self.sim_time)):
            raise RecordError(f"reward {self.reward} and sim_time {self.sim_time} must be finite")
        if not all(-1.0 <= value <= 1.0 for value in self.action.tolist()):
            raise RecordError(
                f"action {self.action.tolist()} is beyond [-1, 1]; record what the environment "
                "executed, after clipping, and count it in n_clipped"
            )


@dataclass(frozen=True, slots=True, eq=False)
class RawDevice:
    """Hold one device of a raw frame exactly as the runtime gave it, valid or not."""

    connected: bool = False
    valid: bool = False
    tracked: bool = False
    matrix: Array = field(default_factory=lambda: np.zeros((3, 4)))
    """(3, 4) ``T_tracking_device``, untouched; may be zero, improper or not finite."""
    input_valid: bool = False
    """The inputs below were really read (always False for the head)."""
    trigger: float = 0.0
    grip: float = 0.0
    stick: tuple[float, float] = (0.0, 0.0)
    buttons: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", taken(self.matrix, (3, 4), "raw matrix"))


@dataclass(frozen=True, slots=True, eq=False)
class RawFrame:
    """Hold one device sample at the device's own rate."""

    seq: int
    t_device_ns: int
    t_recv_ns: int
    head: RawDevice
    controllers: Mapping[Side, RawDevice]
    """Always both sides."""
    headset_worn: bool = True
    space: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "controllers", dict(self.controllers))
        if set(self.controllers) != set(Side):
            raise RecordError(f"raw controllers must be {list(Side)}, got {list(self.controllers)}")


class Outcome(StrEnum):
    """Say how a kept episode ended."""

    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EpisodeInfo:
    """Hold what is known when an episode starts."""

    task: str
    seed: int
    """The seed given to ``env.reset``; also when it was drawn."""
    operator: str
    """A pseudonym."""
    session_id: str
    attempt_id: str
    """One try at the task: the episode and the branches that rewinding cut off share it."""
    language_instruction: str
    device: str
    """The operator's device, such as ``openvr`` or ``sim``."""
    start_time_utc: str
    """ISO 8601."""
    t_start_ns: int
    """The session's clock at ``start_time_utc``: turns the monotonic times into dates."""
    control_hz: int
    n_substeps: int
    physics_timestep: float
    """[s]"""
    control_mode: str
    env_spec_json: str
    """``gymnasium.envs.registration.EnvSpec.to_json()``; rebuilds the environment."""
    env_args: Mapping[str, object]
    """robomimic's: ``env_name``, ``type`` (2) and ``env_kwargs``; JSON types."""
    sides: tuple[Side, ...]
    """The arms in the order of the action: robot0, robot1."""
    action_names: tuple[str, ...]
    """(A,) names of the action's components."""
    action_attrs: Mapping[str, AttrValue]
    """More about the action, such as its scale, frame and units; attributes of ``actions``."""
    observation_attrs: Mapping[str, Mapping[str, AttrValue]]
    """By observation key: ``names`` of ``object``; ``unit``, ``description`` of unknown keys."""
    clamp_flags: Mapping[str, int]
    """Name to bit of ``HandRecord.clamps``."""
    button_flags: Mapping[str, int]
    """Name to bit of every ``buttons``."""
    locks: tuple[str, ...]
    guard_states: tuple[str, ...]
    guard_reasons: tuple[str, ...]
    state_components: Mapping[str, int]
    """Name to size of the parts of ``state`` in their order; see ``state_components(model)``."""
    ctrl_names: tuple[str, ...]
    """(nu,) actuator names."""
    model_sha256: str
    """SHA-256 of the compiled model's ``mj_saveModel`` bytes, without edits."""
    mujoco_version: str
    edits: ModelEdits = field(default_factory=ModelEdits)
    """What the environment changed in the model for this episode."""
    branch_row: int = -1
    """Row of the attempt's episode where this branch left it; -1 for the episode itself."""
    teleop_config_json: str = "{}"
    packages: Mapping[str, str] = field(default_factory=dict)
    """Package name to version."""
    realtime_priority: bool = False
    """The control loop ran before every ordinary thread."""

    def __post_init__(self) -> None:
        if not self.sides or len(set(self.sides)) != len(self.sides):
            raise RecordError(f"sides must be one or more different ones, got {self.sides}")
        for name in ("control_hz", "n_substeps"):
            if not (isinstance(getattr(self, name), int) and getattr(self, name) > 0):
                raise RecordError(f"{name} must be a whole number > 0, got {getattr(self, name)}")
        if not (isinstance(self.seed, int) and self.seed >= 0):
            raise RecordError(f"seed must be a whole number >= 0, got {self.seed!r}")
        if self.branch_row < -1:
            raise RecordError(f"branch_row must be a row or -1, got {self.branch_row}")
        if not self.task or "/" in self.task:
            raise RecordError(f"task must be a plain name, got {self.task!r}")
        for name in ("env_spec_json", "teleop_config_json"):
            _require_json(getattr(self, name), name)
        _require_json(_dumps(self.env_args), "env_args")


def _dumps(value: Mapping[str, object]) -> str:
    try:
        return json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RecordError(f"env_args must hold JSON types only: {error}") from error


def _require_json(text: str, name: str) -> None:
    try:
        loaded = json.loads(text)
    except ValueError as error:
        raise RecordError(f"{name} is not JSON: {error}") from error
    if not isinstance(loaded, dict):
        raise RecordError(f"{name} must be a JSON object, got {text[:80]!r}")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EpisodeResult:
    """Hold what is known when a kept episode ends."""

    success: bool
    """The task's own word at the end."""
    outcome: Outcome
    """What the episode is kept as."""
    state_final: Array
    """(D,) ``mjSTATE_INTEGRATION`` after the last step."""
    interrupted: bool = False
    reason: str = ""
    """What ended it, such as ``task``, ``button``, ``time_limit``, ``rewound`` or ``signal``."""
    late_ticks: int = 0
    device_overflow: int = 0
    """Raw frames lost because the recorder drained them too slowly."""
    observation_final: Mapping[str, npt.NDArray] | None = None
    """What was seen after the last step."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "state_final", taken_finite(self.state_final, (None,), "state_final"))
        put(self, "outcome", Outcome(self.outcome))
        if self.observation_final is not None:
            final = taken_observation(self.observation_final, "observation_final")
            put(self, "observation_final", final)
