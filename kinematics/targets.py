"""What moves between the rooms: end-effector targets, workspaces, speed limits, waypoints."""

from dataclasses import dataclass, field

import mujoco
import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import RigidTransform

from .errors import KinematicsError
from .frames import Array, pose, quat_wxyz
from .side import Side


def frozen_array(value: npt.ArrayLike, shape: tuple[int, ...], name: str) -> Array:
    """Copy ``value`` into a read-only float64 array; refuse another shape or non-finite entries."""
    array = np.array(value, dtype=np.float64)
    if array.shape != shape or not np.all(np.isfinite(array)):
        raise KinematicsError(f"{name} must be finite with shape {shape}, got {array.tolist()}")
    array.flags.writeable = False
    return array


@dataclass(frozen=True, slots=True, eq=False)
class EndEffectorTarget:
    """Say where one arm's tool centre should be and how far its gripper closes."""

    side: Side
    position: Array
    """(3,) of ee in world [m]."""
    quat_wxyz: Array
    """(4,) of ee in world, unit."""
    closure: float
    """0 open .. 1 closed."""

    def __post_init__(self) -> None:
        position = frozen_array(self.position, (3,), "target position")
        quat = frozen_array(self.quat_wxyz, (4,), "target quaternion (wxyz)")
        norm = np.sqrt(np.sum(quat * quat))
        if abs(norm - 1.0) > 1e-6:
            raise KinematicsError(f"target quaternion {quat.tolist()} has norm {norm}, not 1")
        if not 0.0 <= self.closure <= 1.0:
            raise KinematicsError(f"closure must be in [0, 1], got {self.closure}")
        object.__setattr__(self, "position", position)
        object.__setattr__(self, "quat_wxyz", quat)
        object.__setattr__(self, "closure", float(self.closure))

    @property
    def T_world_ee(self) -> RigidTransform:
        """Return the target as a transform."""
        return pose(self.position, self.quat_wxyz)

    @classmethod
    def from_transform(
        cls, side: Side, T_world_ee: RigidTransform, closure: float
    ) -> "EndEffectorTarget":
        """Build a target from ``T_world_ee``."""
        return cls(side, T_world_ee.translation, quat_wxyz(T_world_ee), closure)


@dataclass(frozen=True, slots=True, eq=False)
class Workspace:
    """Bound the tool centre by a box in the arm's base frame."""

    T_world_base: RigidTransform = field(default_factory=lambda: pose((0.0, 0.0, 0.0)))
    lower: Array = field(default_factory=lambda: np.array([0.20, -0.50, 0.01]))
    """(3,) [m] in base. z: fingertips end 8 mm below the tool centre, so 10 mm clears a table."""
    upper: Array = field(default_factory=lambda: np.array([0.80, 0.50, 0.85]))
    """(3,) [m] in base."""
    _rotation: Array = field(init=False, repr=False)
    _origin: Array = field(init=False, repr=False)
    """``T_world_base`` as arrays (3, 3) and (3,): applying scipy's takes twenty times longer."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", frozen_array(self.lower, (3,), "workspace lower"))
        object.__setattr__(self, "upper", frozen_array(self.upper, (3,), "workspace upper"))
        object.__setattr__(self, "_rotation", self.T_world_base.rotation.as_matrix())
        object.__setattr__(self, "_origin", self.T_world_base.translation)
        if not np.all(self.lower < self.upper):
            raise KinematicsError(f"workspace lower {self.lower} must be below upper {self.upper}")

    def clamp(self, position: Array) -> Array:
        """Return the point of the box nearest to ``position`` (3,), both in world [m]."""
        p_base = self.to_base(position)
        inside = np.minimum(np.maximum(p_base, self.lower), self.upper)
        if mujoco.mju_dist3(inside, p_base) < _ON_THE_FACE:
            return np.array(position, dtype=np.float64)
        return self.to_world(inside)

    def including(self, position: Array) -> "Workspace":
        """Return a box grown to hold ``position`` (3,) in world [m]; itself if it does already."""
        if self.clamp(position).tolist() == position.tolist():
            return self
        p_base = self.to_base(position)
        lower, upper = np.minimum(self.lower, p_base), np.maximum(self.upper, p_base)
        return Workspace(self.T_world_base, lower, upper)

    def to_base(self, position: Array) -> Array:
        """Return a point of world (3,) [m] in base."""
        point = np.empty(3)
        mujoco.mju_mulMatTVec(point, self._rotation, np.subtract(position, self._origin))
        return point

    def to_world(self, position: Array) -> Array:
        """Return a point of base (3,) [m] in world."""
        point = np.empty(3)
        mujoco.mju_mulMatVec(point, self._rotation, position)
        return np.add(point, self._origin, out=point)


_ON_THE_FACE = 1e-12
"""m; rounding in a turned base, which must not move a clamped point a second time."""


@dataclass(frozen=True, slots=True)
class SpeedLimits:
    """Bound how fast and how abruptly a commanded tool target may move."""

    linear: float = 1.0
    """m/s; above the fastest hand seen in teleoperation (0.7 m/s), below the arm's 1.7."""
    angular: float = 2.5
    """rad/s; the arm's own Cartesian limit."""
    linear_acceleration: float = 13.0
    """m/s2; the arm's own Cartesian limit."""
    angular_acceleration: float = 25.0
    """rad/s2; the arm's own Cartesian limit."""

    def __post_init__(self) -> None:
        for name in ("linear", "angular", "linear_acceleration", "angular_acceleration"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0.0):
                raise KinematicsError(f"speed limit {name} must be finite and > 0, got {value}")


@dataclass(frozen=True, slots=True)
class Waypoint:
    """Name the next pose that solves a task: a target and how closely to meet it.

    Waypoints say what to do, not how a hand moves; the simulated operator turns them into motion.
    The tool goes to the pose first, then the gripper moves: ask for another closure only there.
    """

    target: EndEffectorTarget
    tolerance_m: float = 0.01
    """The tool is there when it is within this distance."""
    tolerance_rad: float = 0.15
    """and within this angle of the target."""
