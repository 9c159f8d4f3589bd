"""What a robot is made of: an arm and the gripper on its flange, each from a spec file.

A spec file is ``models/<name>/robot.toml`` beside the MJCF it describes, or any other path: one
file makes a user's own arm or gripper known.
"""

import dataclasses
import tomllib
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np

from kinematics import SpeedLimits
from kinematics.targets import frozen_array

from .errors import ModelError, OptionError

MODELS = Path(__file__).resolve().parent.parent / "models"
SPEC_FILE = "robot.toml"


@dataclass(frozen=True, slots=True, eq=False)
class GripperSpec:
    """Describe a parallel gripper; names as in its own file."""

    mjcf: Path
    root: str
    joints: tuple[str, ...]
    """Slides, 0 when closed; their travels add up to the opening."""
    actuator: str
    """The one position servo; its ctrl runs from ``ctrl_open`` to ``ctrl_closed``."""
    ctrl_open: float
    ctrl_closed: float
    home: tuple[float, ...]
    """Joint positions of the open gripper [m]."""
    ee_site: str
    pads: tuple[str, ...]
    """Geoms that grasp."""
    max_speed: float
    """Units of ctrl a second that its reference moves."""

    @property
    def max_opening(self) -> float:
        """Return the travel of all fingers together [m]."""
        return sum(self.home)


@dataclass(frozen=True, slots=True, eq=False)
class ArmSpec:
    """Describe an arm; names as in its own file."""

    mjcf: Path
    root: str
    joints: tuple[str, ...]
    """Hinges from base to flange, each with a position actuator."""
    flange: str
    """Site that carries the tool; see models/README.md for how its axes lie."""
    gripper: str
    """The tool that ``end_effector="gripper"`` means: a robot of ``models/``, or the path of a
    spec file, from this file's folder."""
    home: tuple[float, ...]
    """(n,) [rad]"""
    velocity_limits: tuple[float, ...]
    """(n,) [rad/s]"""
    servo_time: float
    """s; kv / kp of the position servos: how far they trail without feed-forward."""
    workspace_lower: tuple[float, ...]
    """(3,) of the tool centre in base [m]."""
    workspace_upper: tuple[float, ...]
    """(3,) of the tool centre in base [m]."""
    motion_scale: float
    """Metres of tool a metre of hand that suit the arm's size."""
    actuators: tuple[str, ...] = ()
    """The joints' position actuators, in the same order; empty: they are named as the joints."""
    speed: SpeedLimits = field(default_factory=SpeedLimits)
    """Of the commanded tool; the spec's table gives those that differ from the defaults."""

    @property
    def servos(self) -> tuple[str, ...]:
        """Return the names of the joints' position actuators."""
        return self.actuators or self.joints


Spec = TypeVar("Spec", ArmSpec, GripperSpec)
_KINDS: dict[type, str] = {ArmSpec: "arm", GripperSpec: "gripper"}


def load_spec(kind: type[Spec], name: str) -> Spec:
    """Read the spec of a robot of ``models/`` by its folder's name, or of any file by its path.

    Raises OptionError for an unknown name, ModelError for a file that does not fit.
    """
    is_path = isinstance(name, str) and name.endswith(".toml")
    named = (path for path in _spec_files() if path.parent.name == name)
    path = Path(name) if is_path else next(named, None)
    table = read_table(path) if path is not None and path.is_file() else None
    fits = table is not None and table.pop("kind", None) == _KINDS[kind]
    if path is None or table is None or not (fits or is_path):
        raise OptionError(
            f"{_KINDS[kind]} {name!r} is unknown; choose from {_known(kind)}, or give a path to a "
            ".toml"
        )
    if not fits:
        raise OptionError(
            f"{path} does not describe a robot's {_KINDS[kind]}: it needs the entry "
            f"kind = {_KINDS[kind]!r}; or choose from {_known(kind)}"
        )
    return _make(kind, table, path)


def robot_names() -> dict[str, str]:
    """Return the robots of ``models/`` and of which kind each is."""
    return {path.parent.name: str(read_table(path).get("kind")) for path in _spec_files()}


def _spec_files() -> list[Path]:
    return sorted(MODELS.glob(f"*/{SPEC_FILE}"))


def _known(kind: type) -> list[str]:
    return [name for name, known in robot_names().items() if known == _KINDS[kind]]


def read_table(path: Path) -> dict[str, Any]:
    """Read a TOML file; ModelError when it is none."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ModelError(f"cannot read {path}: {error}") from error


def _make(kind: type[Spec], table: dict[str, Any], path: Path) -> Spec:
    fields = {entry.name: entry for entry in dataclasses.fields(kind)}
    optional = {n for n, e in fields.items() if (e.default, e.default_factory) != (MISSING,) * 2}
    missing, odd = sorted({*fields} - {*table} - optional), sorted({*table} - {*fields})
    if missing or odd:
        raise ModelError(f"{path}: missing entries {missing}, unknown entries {odd}")
    try:
        spec = kind(**{name: _value(fields[name].type, value) for name, value in table.items()})
    except (TypeError, ValueError) as error:
        raise ModelError(f"{path}: {error}; the entries are {_wanted(fields)}") from error
    spec = dataclasses.replace(spec, mjcf=path.parent / spec.mjcf)
    if isinstance(spec, ArmSpec) and spec.gripper.endswith(".toml"):
        spec = dataclasses.replace(spec, gripper=str(path.parent / spec.gripper))
    _check(spec, path)
    return spec


def _value(type_: Any, value: Any) -> Any:
    """Return an entry as the field's type wants it; TypeError when it is something else."""
    if type_ is SpeedLimits and isinstance(value, dict):
        return SpeedLimits(**{name: _value(float, number) for name, number in value.items()})
    if get_args(type_) and isinstance(value, list):
        return tuple(_value(get_args(type_)[0], item) for item in value)
    if type_ is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if type_ in (str, Path) and isinstance(value, str):
        return type_(value)
    raise TypeError(f"{value!r} does not fit")


def _wanted(fields: dict[str, dataclasses.Field[Any]]) -> dict[str, str]:
    """Return what each entry holds, for a message."""
    words = {SpeedLimits: "table of numbers", float: "number", str: "text", Path: "text"}
    lists = {str: "list of texts", float: "list of numbers"}
    return {
        name: words.get(entry.type) or lists[get_args(entry.type)[0]]  # pyright: ignore
        for name, entry in fields.items()
    }


def _check(spec: ArmSpec | GripperSpec, path: Path) -> None:
    try:
        if isinstance(spec, ArmSpec):
            good = _check_arm(spec)
        else:
            frozen_array(spec.home, (len(spec.joints),), "home")
            frozen_array((spec.ctrl_open, spec.ctrl_closed), (2,), "ctrl_open, ctrl_closed")
            good = spec.max_opening > 0.0 and 0.0 < spec.max_speed < np.inf
            good = good and spec.ctrl_open != spec.ctrl_closed
    except ValueError as error:
        raise ModelError(f"{path}: {error}") from error
    if not good:
        raise ModelError(
            f"{path}: speeds, openings, scales, servo times and boxes must be positive and finite"
        )


def _check_arm(spec: ArmSpec) -> bool:
    """Return whether the numbers make sense; ValueError for a length that does not."""
    n = len(spec.joints)
    frozen_array(spec.home, (n,), "home")
    if len(spec.servos) != n:
        raise ValueError(f"actuators must name one for each of {n} joints, got {spec.actuators}")
    limits = frozen_array(spec.velocity_limits, (n,), "velocity_limits")
    lower = frozen_array(spec.workspace_lower, (3,), "workspace_lower")
    upper = frozen_array(spec.workspace_upper, (3,), "workspace_upper")
    scales = np.array([spec.motion_scale, spec.servo_time])
    return bool(
        np.all(limits > 0.0)
        and np.all(lower < upper)
        and np.all((scales > 0.0) & np.isfinite(scales))
    )
