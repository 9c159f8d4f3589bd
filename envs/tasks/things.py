"""What tasks place, watch and judge: objects that move freely and fixtures that stay put."""

from collections.abc import Iterable, Mapping

import mujoco
import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import RigidTransform

from kinematics import Side
from kinematics.frames import Array, pose
from kinematics.names import named_id

from ..errors import EnvError
from .base import TaskArm

REST_SPEED = 0.02
"""m/s; slower counts as at rest. A settled object creeps at less than 0.1 mm/s."""
REST_TURN = 0.3
"""rad/s; the same speed at the edge of a 0.14 m wide object."""
MAX_TRIES = 1000
"""Draws before a reset gives up; four cubes need some ten."""


def touching(data: mujoco.MjData, mine: npt.NDArray[np.bool_]) -> set[int]:
    """Return the geoms that touch one of ``mine`` (ngeom,), those left out."""
    pairs = data.contact.geom
    own = mine[pairs]
    return set(pairs[own[:, ::-1] & ~own].tolist())


class FreeObject:
    """Address one free body, made of boxes, by its name in the model."""

    def __init__(self, model: mujoco.MjModel, body: str) -> None:
        self.model = model
        self.body = named_id(model, mujoco.mjtObj.mjOBJ_BODY, body)
        joint = model.body_jntadr[self.body]
        self._qpos, self._dof = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        geoms = np.flatnonzero(model.geom_bodyid == self.body)
        self.geoms = [int(geom) for geom in geoms if model.geom_contype[geom]]
        self._own = np.array(self.geoms)
        self._mine = model.geom_bodyid == self.body

    def position(self, data: mujoco.MjData) -> Array:
        """Return the body's position (3,) [m] in world, a view."""
        return data.qpos[self._qpos : self._qpos + 3]

    def quat(self, data: mujoco.MjData) -> Array:
        """Return its wxyz (4,), a view."""
        return data.qpos[self._qpos + 3 : self._qpos + 7]

    def pose(self, data: mujoco.MjData) -> RigidTransform:
        """Return ``T_world_object``."""
        return pose(self.position(data), self.quat(data))

    def put(self, data: mujoco.MjData, position: Iterable[float], yaw: float) -> None:
        """Place it upright, at rest."""
        data.qpos[self._qpos : self._qpos + 7] = [*position, *yaw_quat(yaw)]
        data.qvel[self._dof : self._dof + 6] = 0.0

    def at_rest(self, data: mujoco.MjData) -> bool:
        """Return whether it hardly moves."""
        velocity = data.qvel[self._dof : self._dof + 6]
        slow = mujoco.mju_norm3(velocity[:3]) < REST_SPEED
        return slow and mujoco.mju_norm3(velocity[3:]) < REST_TURN

    def lowest(self, data: mujoco.MjData) -> float:
        """Return the height of its lowest point over the table [m]."""
        down = np.abs(data.geom_xmat[self._own, 6:]) * self.model.geom_size[self._own]
        return float((data.geom_xpos[self._own, 2] - down.sum(axis=1)).min())

    def touching(self, data: mujoco.MjData) -> set[int]:
        """Return the other geoms that touch it."""
        return touching(data, self._mine)

    def observe(self, data: mujoco.MjData, site: int, out: Array) -> None:
        """Write its pose (w >= 0) and its offset from a site (10,) [m], world."""
        # Plain floats: ten of them cost less than the calls of NumPy after a pass of physics.
        x, y, z, w, i, j, k = data.qpos[self._qpos : self._qpos + 7].tolist()
        tool_x, tool_y, tool_z = data.site_xpos[site].tolist()
        if w < 0.0:
            w, i, j, k = -w, -i, -j, -k
        out[:10] = x, y, z, w, i, j, k, x - tool_x, y - tool_y, z - tool_z

    @staticmethod
    def observed_names(name: str) -> tuple[str, ...]:
        """Name the entries of ``observe``."""
        return (
            *(f"{name}_{entry}" for entry in ("x", "y", "z", "qw", "qx", "qy", "qz")),
            *(f"tool_to_{name}_{axis}" for axis in "xyz"),
        )


class Fixture:
    """Address one body that only reset moves (mocap), by its name in the model."""

    def __init__(self, model: mujoco.MjModel, body: str) -> None:
        self.model = model
        self.body = named_id(model, mujoco.mjtObj.mjOBJ_BODY, body)
        self._mocap = int(model.body_mocapid[self.body])

    def position(self, data: mujoco.MjData) -> Array:
        """Return its position (3,) [m] in world, a view."""
        return data.mocap_pos[self._mocap]

    def quat(self, data: mujoco.MjData) -> Array:
        """Return its wxyz (4,), a view."""
        return data.mocap_quat[self._mocap]

    def pose(self, data: mujoco.MjData) -> RigidTransform:
        """Return ``T_world_fixture``."""
        return pose(self.position(data), self.quat(data))

    def put(self, data: mujoco.MjData, position: Iterable[float], yaw: float) -> None:
        """Place it upright."""
        data.mocap_pos[self._mocap] = list(position)
        data.mocap_quat[self._mocap] = yaw_quat(yaw)

    def local(self, data: mujoco.MjData, point: Array) -> Array:
        """Return a point (3,) of world in the fixture's frame [m]."""
        found, inverse = np.zeros(3), np.zeros(4)
        mujoco.mju_negQuat(inverse, self.quat(data))
        mujoco.mju_rotVecQuat(found, point - self.position(data), inverse)
        return found

    def world(self, data: mujoco.MjData, point: Iterable[float]) -> Array:
        """Return a point (3,) of the fixture's frame in world [m]."""
        found = np.zeros(3)
        mujoco.mju_rotVecQuat(found, np.array(list(point), float), self.quat(data))
        return found + self.position(data)


def yaw_quat(yaw: float) -> tuple[float, float, float, float]:
    """Return the wxyz of a turn about the vertical [rad]."""
    return (float(np.cos(yaw / 2)), 0.0, 0.0, float(np.sin(yaw / 2)))


def robot_geoms(model: mujoco.MjModel, arms: Mapping[Side, TaskArm]) -> frozenset[int]:
    """Return the geoms of the arms and their tools."""
    roots = {int(model.body_rootid[model.site_bodyid[arm.site]]) for arm in arms.values()}
    of_root = model.body_rootid[model.geom_bodyid]
    return frozenset(np.flatnonzero(np.isin(of_root, list(roots))).tolist())


def pad_geoms(model: mujoco.MjModel, arm: TaskArm) -> frozenset[int]:
    """Return the geoms with which an arm's tool grasps."""
    names = [arm.prefix + name for name in arm.gripper.pads]
    return frozenset(named_id(model, mujoco.mjtObj.mjOBJ_GEOM, name) for name in names)


def scatter(
    rng: np.random.Generator, lower: Array, upper: Array, gap: float, count: int
) -> list[Array]:
    """Draw points (2,) [m] in a box, each at least ``gap`` from all others.

    All are drawn anew until they fit: none is squeezed into what the others leave. Raises EnvError
    when there is no room.
    """
    for _ in range(MAX_TRIES):
        points = rng.uniform(lower, upper, (count, 2))
        between = np.linalg.norm(points[:, None] - points[None], axis=2)
        if between[np.triu_indices(count, 1)].min() >= gap:
            return list(points)
    raise EnvError(f"found no room for {count} objects {gap} m apart in {MAX_TRIES} tries")
