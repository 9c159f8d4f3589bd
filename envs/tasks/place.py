"""Put a cube into a bin."""

from collections.abc import Mapping

import mujoco
import numpy as np

from kinematics import EndEffectorTarget, Side, Waypoint
from kinematics.frames import Array

from ..scene import OBJECT
from .base import TaskArm
from .bin import Bin
from .goal import GoalTask
from .moves import flat_axes, grasp, release, retreat, tool_down
from .things import FreeObject, pad_geoms, robot_geoms, scatter


class Place(GoalTask):
    """Lay the cube into the bin and let go of it."""

    name = "place"
    instruction = "Put the red cube into the blue bin and let go of it."
    objects = ("cube", "bin")
    time_limit_s = 30.0
    hold_s = 0.5
    object_names = (
        *FreeObject.observed_names("cube"),
        "bin_x", "bin_y", "bin_z", "bin_qw", "bin_qz",
    )  # fmt: skip
    goal_names = ()
    """None: the bin's walls are in the way wherever the goal is."""
    tolerance = 0.05
    """m; the cube's centre from where it is in mid bin: its face then touches a wall."""
    subtask_names = ("grasped", "in_bin", "released")
    resizable = (OBJECT + "cube",)
    lower = np.array([0.35, -0.25])
    upper = np.array([0.60, 0.25])
    """m; where cube and bin may stand."""
    gap = 0.20
    """m between their centres: half the bin's diagonal and an open finger beside the cube."""
    bin_yaw = np.pi / 6
    """rad; the most that the bin is turned."""

    def __init__(self, model: mujoco.MjModel, arms: Mapping[Side, TaskArm]) -> None:
        super().__init__(model, arms)
        self._cube = FreeObject(model, OBJECT + "cube")
        self._bin = Bin(model, OBJECT + "bin")
        self._site = arms[Side.RIGHT].site
        self._pads = pad_geoms(model, arms[Side.RIGHT])
        self._robot = robot_geoms(model, arms)

    def reset(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Set bin and cube down apart from each other; the cube at any yaw."""
        bin_xy, cube_xy = scatter(rng, self.lower, self.upper, self.gap, 2)
        self._bin.put(data, (*bin_xy, 0.0), rng.uniform(-self.bin_yaw, self.bin_yaw))
        half = self.model.geom_size[self._cube.geoms[0], 2]
        self._cube.put(data, (*cube_xy, half), rng.uniform(-np.pi, np.pi))

    def observe(self, data: mujoco.MjData) -> Array:
        """Return the cube's pose and offset from the tool, and the bin's pose, (15,) [m], world."""
        found = np.empty(15)
        self._cube.observe(data, self._site, found[:10])
        found[10:13] = self._bin.position(data)
        found[13:] = self._bin.quat(data)[[0, 3]]
        return found

    def goal(self, data: mujoco.MjData) -> tuple[Array, Array]:
        """Return the cube's centre and where that of a cube lying in mid bin is."""
        half = self.model.geom_size[self._cube.geoms[0], 2]
        return self._cube.position(data), self._bin.world(data, (0.0, 0.0, self._bin.floor + half))

    def condition(self, data: mujoco.MjData) -> bool:
        """Return whether the cube lies in the bin, still, and the robot does not touch it."""
        return (
            self._bin.holds(data, self._cube)
            and self._robot.isdisjoint(self._cube.touching(data))
            and self._cube.at_rest(data)
        )

    def subtasks(self, data: mujoco.MjData) -> dict[str, bool]:
        """Return whether the cube is held, is in the bin, and has been let go there."""
        touching, inside = self._cube.touching(data), self._bin.holds(data, self._cube)
        return {
            "grasped": self._pads <= touching,
            "in_bin": inside,
            "released": inside and self._robot.isdisjoint(touching),
        }

    def shaped_reward(self, data: mujoco.MjData) -> float:
        """Return a quarter each for being at the cube, holding it, its way, being in the bin."""
        cube = self._cube.position(data)
        inside = self._bin.holds(data, self._cube)
        held = inside or self._pads <= self._cube.touching(data)
        near = 1.0 - np.tanh(5.0 * mujoco.mju_norm3(cube - data.site_xpos[self._site]))
        goal = self._bin.drop_point(data)
        way = float(held) * (1.0 - np.tanh(5.0 * mujoco.mju_norm3(cube - goal)))
        return float(0.245 * (max(near, float(inside)) + held + max(way, float(inside)) + inside))

    def guide(self, data: mujoco.MjData, tools: Mapping[Side, EndEffectorTarget]) -> list[Waypoint]:
        """Grasp the cube, carry it over the bin, lower it, open, go up."""
        if self.success(data):
            return []
        tool, cube = tools[Side.RIGHT], self._cube
        goal = self._bin.drop_point(data)
        if self._pads <= cube.touching(data):
            held = tool.position - cube.position(data)
            return release(tool, goal + held, tool.quat_wxyz, 0.015)
        if self._bin.catches(data, cube):  # falling, too: not to be caught again
            return retreat(tool, goal[2] + 0.12)
        quat = tool_down(tool, flat_axes(cube.quat(data)))
        return [*grasp(tool, cube.position(data), quat), *release(tool, goal, quat, 0.015)]
