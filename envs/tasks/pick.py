"""Pick up a cube."""

from collections.abc import Mapping

import mujoco
import numpy as np

from kinematics import EndEffectorTarget, Side, Waypoint
from kinematics.frames import Array
from kinematics.names import named_id

from ..scene import OBJECT
from .base import Task, TaskArm


class Pick(Task):
    """Lift the cube 10 cm off the table between both pads, touching nothing else."""

    name = "pick"
    instruction = "Pick up the red cube and lift it off the table."
    objects = ("cube",)
    time_limit_s = 30.0
    hold_s = 0.2
    object_names = (
        "cube_x", "cube_y", "cube_z", "cube_qw", "cube_qx", "cube_qy", "cube_qz",
        "tool_to_cube_x", "tool_to_cube_y", "tool_to_cube_z",
    )  # fmt: skip
    half_size = 0.02
    """m; the cube's half edge."""
    lift = 0.10
    """m; the cube's lowest point must be this high."""
    closed_on_nothing = 0.6
    """Closure that a cube between the pads does not let them reach: it stops them at 0.5."""
    lower = np.array([0.35, -0.25])
    upper = np.array([0.65, 0.25])
    """m; where the cube may lie. Every yaw is graspable there with the tool pointing down."""

    def __init__(self, model: mujoco.MjModel, arms: Mapping[Side, TaskArm]) -> None:
        super().__init__(model, arms)
        joint = model.joint(OBJECT + "cube_joint")
        self._qpos = int(joint.qposadr[0])
        arm = arms[Side.RIGHT]
        self._site = arm.site
        geom = mujoco.mjtObj.mjOBJ_GEOM
        self._cube = named_id(model, geom, OBJECT + "cube_geom")
        self._pads = {named_id(model, geom, arm.prefix + name) for name in arm.gripper.pads}
        self._matrix = np.zeros(9)

    def reset(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Lay the cube flat anywhere in its area, at any yaw."""
        x, y = rng.uniform(self.lower, self.upper)
        half_yaw = rng.uniform(-np.pi, np.pi) / 2
        pose = (x, y, self.half_size, np.cos(half_yaw), 0.0, 0.0, np.sin(half_yaw))
        data.qpos[self._qpos : self._qpos + 7] = pose

    def _position(self, data: mujoco.MjData) -> Array:
        return data.qpos[self._qpos : self._qpos + 3]

    def _quat(self, data: mujoco.MjData) -> Array:
        return data.qpos[self._qpos + 3 : self._qpos + 7]

    def observe(self, data: mujoco.MjData) -> Array:
        """Return the cube's pose (w >= 0) and its offset from the tool, (10,) [m], world."""
        found = np.empty(10)
        found[:7] = data.qpos[self._qpos : self._qpos + 7]
        if found[3] < 0.0:
            np.negative(found[3:7], out=found[3:7])
        np.subtract(found[:3], data.site_xpos[self._site], out=found[7:])
        return found

    def _touching(self, data: mujoco.MjData) -> set[int]:
        """Return the geoms that touch the cube."""
        pairs = data.contact.geom
        touched = pairs[(pairs == self._cube).any(axis=1)]
        return set(touched[touched != self._cube].tolist())

    def _height(self, data: mujoco.MjData) -> float:
        """Return the height of the cube's centre over the table [m]."""
        return float(data.qpos[self._qpos + 2])

    def _clearance(self, data: mujoco.MjData) -> float:
        """Return the height of the cube's lowest point over the table [m]."""
        mujoco.mju_quat2Mat(self._matrix, self._quat(data))
        return self._height(data) - self.half_size * sum(map(abs, self._matrix[6:].tolist()))

    def condition(self, data: mujoco.MjData) -> bool:
        """Return whether the cube is high enough, between both pads and touching nothing else."""
        if self._height(data) < self.lift:  # the centre is too low: all the more the lowest point
            return False
        return self._clearance(data) >= self.lift and self._touching(data) == self._pads

    def shaped_reward(self, data: mujoco.MjData) -> float:
        """Return a third each for being at the cube, holding it, and its height."""
        distance = mujoco.mju_norm3(self._position(data) - data.site_xpos[self._site])
        near = 1.0 - np.tanh(5.0 * distance)
        held = float(self._pads <= self._touching(data))
        high = held * np.clip(self._clearance(data) / self.lift, 0.0, 1.0)
        return float(0.33 * (near + held + high))

    def guide(self, data: mujoco.MjData, tools: Mapping[Side, EndEffectorTarget]) -> list[Waypoint]:
        """Open, hover over the cube, descend, close, lift; from whichever of these comes next."""
        if self.success(data):
            return []
        tool, cube = tools[Side.RIGHT], self._position(data).copy()
        grasp = self._grasp_quat(data, tool)
        lifted = self._waypoint(_at_height(tool.position, 0.2), tool.quat_wxyz, 1)
        if self._pads <= self._touching(data):
            return [lifted]
        close = self._waypoint(cube, grasp, 1, 0.006)
        if tool.closure > self.closed_on_nothing:
            return [self._waypoint(tool.position, tool.quat_wxyz, 0), close, lifted]
        over = np.hypot(*(tool.position - cube)[:2])
        turn = _angle(grasp, tool.quat_wxyz)
        if over < 0.008 and abs(tool.position[2] - cube[2]) < 0.008 and turn < 0.15:
            return [close, lifted]
        descend = self._waypoint(cube, grasp, 0, 0.006)
        if over < 0.012 and turn < 0.15:
            return [descend, close, lifted]
        hover = self._waypoint(_at_height(cube, cube[2] + 0.1), grasp, 0, 0.008)
        if tool.position[2] < cube[2] + 0.06:  # fingers are beside the cube: go up first
            above = _at_height(tool.position, cube[2] + 0.1)
            return [self._waypoint(above, tool.quat_wxyz, 0), hover, descend, close, lifted]
        return [hover, descend, close, lifted]

    def _waypoint(
        self, position: Array, quat: Array, closure: float, tolerance: float = 0.02
    ) -> Waypoint:
        target = EndEffectorTarget(Side.RIGHT, position, quat, closure)
        return Waypoint(target, tolerance_m=tolerance, tolerance_rad=0.12)

    def _grasp_quat(self, data: mujoco.MjData, tool: EndEffectorTarget) -> Array:
        """Return the tool-down rotation, pads flush with the cube, nearest to the tool's."""
        mujoco.mju_quat2Mat(self._matrix, self._quat(data))
        axes = self._matrix.reshape(3, 3)[:2]
        flat = axes[:, int(np.argmax(np.abs(axes).sum(axis=0)))]
        heading = np.zeros(3)
        mujoco.mju_rotVecQuat(heading, np.array([1.0, 0.0, 0.0]), tool.quat_wxyz)
        now = np.arctan2(heading[1], heading[0])
        quarter = np.pi / 2
        turn = np.arctan2(flat[1], flat[0]) - now
        half_yaw = (now + (turn + quarter / 2) % quarter - quarter / 2) / 2
        # Half a turn about x, tool down, then the yaw about z.
        return np.array([0.0, np.cos(half_yaw), np.sin(half_yaw), 0.0])


def _at_height(position: Array, z: float) -> Array:
    return np.array([position[0], position[1], z])


def _angle(quat: Array, other: Array) -> float:
    """Return the angle between two rotations, both wxyz (4,) [rad]."""
    turn = np.zeros(3)
    mujoco.mju_subQuat(turn, quat, other)
    return mujoco.mju_norm3(turn)
