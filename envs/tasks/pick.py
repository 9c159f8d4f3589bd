"""Pick up a cube."""

from collections.abc import Mapping

import mujoco
import numpy as np

from kinematics import EndEffectorTarget, Side, Waypoint
from kinematics.frames import Array

from ..scene import OBJECT
from .base import Task, TaskArm
from .moves import flat_axes, go, grasp, rise, tool_down
from .things import FreeObject, pad_geoms


class Pick(Task):
    """Lift the cube 10 cm off the table between both pads, touching nothing else."""

    name = "pick"
    instruction = "Pick up the red cube and lift it off the table."
    objects = ("cube",)
    time_limit_s = 30.0
    hold_s = 0.2
    object_names = FreeObject.observed_names("cube")
    subtask_names = ("grasped", "lifted")
    resizable = (OBJECT + "cube",)
    lift = 0.10
    """m; the cube's lowest point must be this high."""
    closed_on_nothing = 0.6
    """Closure that a cube between the pads does not let them reach: it stops them at 0.5."""
    lower = np.array([0.35, -0.25])
    upper = np.array([0.65, 0.25])
    """m; where the cube may lie. Every yaw is graspable there with the tool pointing down."""

    def __init__(self, model: mujoco.MjModel, arms: Mapping[Side, TaskArm]) -> None:
        super().__init__(model, arms)
        self._cube = FreeObject(model, OBJECT + "cube")
        self._site = arms[Side.RIGHT].site
        self._pads = pad_geoms(model, arms[Side.RIGHT])

    def reset(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Lay the cube flat anywhere in its area, at any yaw."""
        x, y = rng.uniform(self.lower, self.upper)
        half = self.model.geom_size[self._cube.geoms[0], 2]
        self._cube.put(data, (x, y, half), rng.uniform(-np.pi, np.pi))

    def observe(self, data: mujoco.MjData) -> Array:
        """Return the cube's pose (w >= 0) and its offset from the tool, (10,) [m], world."""
        found = np.empty(10)
        self._cube.observe(data, self._site, found)
        return found

    def condition(self, data: mujoco.MjData) -> bool:
        """Return whether the cube is high enough, between both pads and touching nothing else."""
        if self._cube.position(data)[2] < self.lift:  # all the more the lowest point
            return False
        return self._cube.lowest(data) >= self.lift and self._cube.touching(data) == self._pads

    def subtasks(self, data: mujoco.MjData) -> dict[str, bool]:
        """Return whether both pads hold the cube, and whether it is up."""
        held = self._pads <= self._cube.touching(data)
        return {"grasped": held, "lifted": self.condition(data)}

    def shaped_reward(self, data: mujoco.MjData) -> float:
        """Return a third each for being at the cube, holding it, and its height."""
        distance = mujoco.mju_norm3(self._cube.position(data) - data.site_xpos[self._site])
        near = 1.0 - np.tanh(5.0 * distance)
        held = float(self._pads <= self._cube.touching(data))
        high = held * np.clip(self._cube.lowest(data) / self.lift, 0.0, 1.0)
        return float(0.33 * (near + held + high))

    def guide(self, data: mujoco.MjData, tools: Mapping[Side, EndEffectorTarget]) -> list[Waypoint]:
        """Open, hover over the cube, descend, close, lift; from whichever of these comes next."""
        if self.success(data):
            return []
        tool, cube = tools[Side.RIGHT], self._cube.position(data)
        lifted = rise(tool, 0.2, 1.0)
        if self._pads <= self._cube.touching(data):
            return [lifted]
        if tool.closure > self.closed_on_nothing:
            return [go(tool, tool.position, closure=0.0), lifted]
        quat = tool_down(tool, flat_axes(self._cube.quat(data)))
        return [*grasp(tool, cube, quat), lifted]
