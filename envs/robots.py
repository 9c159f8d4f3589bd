"""What a robot is made of: an arm and the gripper on its flange, each from a spec file.

A spec file is ``models/<name>/robot.toml`` beside the MJCF it describes, or any other path: one
file makes a user's own arm or gripper known.
"""

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

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
    """Hinges from base to flange; each has a position actuator of the same name."""
    flange: str
    """Site that carries the tool."""
    gripper: str
    """The tool that ``end_effector="gripper"`` means: a robot of ``models/``."""
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


Spec = TypeVar("Spec", ArmSpec, GripperSpec)
_KINDS: dict[type, str] = {ArmSpec: "arm", GripperSpec: "gripper"}


def load_spec(kind: type[Spec], name: str) -> Spec:
    """Read the spec of a robot of ``models/`` by its folder's name, or of any file by its path.

    Raises OptionError for an unknown name, ModelError for a file that does not fit.
    """
    path = MODELS / name / SPEC_FILE if not name.endswith(".toml") else Path(name)
    known = [n for n, k in robot_names().items() if k == _KINDS[kind]]
    if not path.is_file():
        raise OptionError(
            f"{_KINDS[kind]} {name!r} is unknown; choose from {known}, or give a path to a .toml"
        )
    table = read_table(path)
    if table.pop("kind", None) != _KINDS[kind]:
        raise OptionError(f"{path} does not describe a robot's {_KINDS[kind]}; choose from {known}")
    return _make(kind, table, path)


def robot_names() -> dict[str, str]:
    """Return the robots of ``models/`` and of which kind each is."""
    files = sorted(MODELS.glob(f"*/{SPEC_FILE}"))
    return {path.parent.name: str(read_table(path).get("kind")) for path in files}


def read_table(path: Path) -> dict[str, Any]:
    """Read a TOML file; ModelError when it is none."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ModelError(f"cannot read {path}: {error}") from error


def _make(kind: type[Spec], table: dict[str, Any], path: Path) -> Spec:
    fields = {field.name for field in dataclasses.fields(kind)}
    if fields != set(table):
        missing, odd = sorted(fields - set(table)), sorted(set(table) - fields)
        raise ModelError(f"{path}: missing entries {missing}, unknown entries {odd}")
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}
    spec = kind(**{**values, "mjcf": path.parent / values["mjcf"]})
    _check(spec, path)
    return spec


def _check(spec: ArmSpec | GripperSpec, path: Path) -> None:
    try:
        frozen_array(spec.home, (len(spec.joints),), "home")
        if isinstance(spec, ArmSpec):
            limits = frozen_array(spec.velocity_limits, (len(spec.joints),), "velocity_limits")
            lower = frozen_array(spec.workspace_lower, (3,), "workspace_lower")
            upper = frozen_array(spec.workspace_upper, (3,), "workspace_upper")
            good = np.all(limits > 0.0) and np.all(lower < upper) and spec.motion_scale > 0.0
        else:
            good = spec.max_opening > 0.0 < spec.max_speed and spec.ctrl_open != spec.ctrl_closed
    except (TypeError, ValueError) as error:
        raise ModelError(f"{path}: {error}") from error
    if not good:
        raise ModelError(f"{path}: speeds, openings, scales and boxes must be positive")
