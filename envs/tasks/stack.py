"""Put one cube on another."""

from collections.abc import Mapping

import mujoco
import numpy as np

from kinematics import EndEffectorTarget, Side, Waypoint
from kinematics.frames import Array

from ..scene import Prop
from .base import Task, TaskArm
from .moves import flat_axes, grasp, release, retreat, tool_down
from .things import FreeObject, pad_geoms, robot_geoms, scatter

RED = Prop("red", "cube")
GREEN = Prop("green", "cube", (0.10, 0.55, 0.20, 1.0))


class Stack(Task):
    """Lay the red cube on the green one, let go of it, and both stay still."""

    name = "stack"
    instruction = "Stack the red cube on the green cube and let go of it."
    objects = (RED, GREEN)
    time_limit_s = 30.0
    hold_s = 0.5
    object_names = (*FreeObject.observed_names("red"), *FreeObject.observed_names("green"))
    subtask_names = ("grasped", "stacked", "released")
    resizable = (RED.prefix + "cube", GREEN.prefix + "cube")
    lower = np.array([0.35, -0.25])
    upper = np.array([0.60, 0.25])
    """m; where the cubes may lie."""
    gap = 0.12
    """m between their centres: an open finger fits beside one without touching the other."""

    def __init__(self, model: mujoco.MjModel, arms: Mapping[Side, TaskArm]) -> None:
        super().__init__(model, arms)
        self._red = FreeObject(model, RED.prefix + "cube")
        self._green = FreeObject(model, GREEN.prefix + "cube")
        self._site = arms[Side.RIGHT].site
        self._pads = pad_geoms(model, arms[Side.RIGHT])
        self._robot = robot_geoms(model, arms)

    def reset(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Lay both cubes on the table, apart from each other, at any yaw."""
        cubes = (self._red, self._green)
        places = scatter(rng, self.lower, self.upper, self.gap, len(cubes))
        for cube, xy in zip(cubes, places, strict=True):
            cube.put(data, (*xy, self._half(cube)), rng.uniform(-np.pi, np.pi))

    def _half(self, cube: FreeObject) -> float:
        return float(self.model.geom_size[cube.geoms[0], 2])

    def observe(self, data: mujoco.MjData) -> Array:
        """Return both cubes' poses (w >= 0) and offsets from the tool, (20,) [m], world."""
        found = np.empty(20)
        self._red.observe(data, self._site, found[:10])
        self._green.observe(data, self._site, found[10:])
        return found

    def _goal(self, data: mujoco.MjData) -> Array:
        """Return where the red cube's centre comes to lie, (3,) [m]."""
        height = self._half(self._red) + self._half(self._green)
        return self._green.position(data) + np.array([0.0, 0.0, height])

    def _stacked(self, data: mujoco.MjData) -> bool:
        """Return whether the red cube lies flat on the green one and on nothing else.

        Only the robot may touch it besides. 5 mm: on an edge it is at least 8 mm higher.
        """
        others = self._red.touching(data) - self._robot
        offset = self._red.position(data) - self._goal(data)
        return others == set(self._green.geoms) and bool(abs(offset[2]) < 0.005)

    def condition(self, data: mujoco.MjData) -> bool:
        """Return whether the cubes stand stacked and still, and the robot touches neither."""
        return (
            self._stacked(data)
            and self._robot.isdisjoint(self._red.touching(data) | self._green.touching(data))
            and self._red.at_rest(data)
            and self._green.at_rest(data)
        )

    def subtasks(self, data: mujoco.MjData) -> dict[str, bool]:
        """Return whether the red cube is held, is on the green one, and has been let go there."""
        stacked, touching = self._stacked(data), self._red.touching(data)
        return {
            "grasped": self._pads <= touching,
            "stacked": stacked,
            "released": stacked and self._robot.isdisjoint(touching),
        }

    def shaped_reward(self, data: mujoco.MjData) -> float:
        """Return a quarter each for being at the red cube, holding it, its way, lying on top."""
        red = self._red.position(data)
        stacked = self._stacked(data)
        held = stacked or self._pads <= self._red.touching(data)
        near = 1.0 - np.tanh(5.0 * mujoco.mju_norm3(red - data.site_xpos[self._site]))
        way = float(held) * (1.0 - np.tanh(5.0 * mujoco.mju_norm3(red - self._goal(data))))
        return float(0.245 * (max(near, float(stacked)) + held + way + stacked))

    def guide(self, data: mujoco.MjData, tools: Mapping[Side, EndEffectorTarget]) -> list[Waypoint]:
        """Grasp the red cube, carry it over the green one, lower it, open, go up."""
        if self.success(data):
            return []
        tool, red, goal = tools[Side.RIGHT], self._red, self._goal(data)
        quat = tool_down(tool, flat_axes(red.quat(data)))
        if self._pads <= red.touching(data):
            held = tool.position - red.position(data)
            # 3 mm over it: pressed down, the cube below would be pushed aside.
            return release(tool, goal + held + (0.0, 0.0, 0.003), quat, 0.004)
        if mujoco.mju_dist3(red.position(data), goal) < 0.012:  # settling, too
            return retreat(tool, goal[2] + 0.10)
        return [*grasp(tool, red.position(data), quat), *release(tool, goal, quat, 0.004)]
