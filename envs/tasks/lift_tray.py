"""Lift a tray with both hands, level."""

from collections.abc import Mapping
from typing import ClassVar

import mujoco
import numpy as np

from kinematics import EndEffectorTarget, Side, Waypoint
from kinematics.frames import Array

from ..scene import OBJECT
from .base import TaskArm
from .moves import grasp
from .things import FreeObject, yaw_quat
from .two_arm import TwoArmTask, across, axis_of, both, carry, point_of, pose_of, stay


class LiftTray(TwoArmTask):
    """Lift the tray 10 cm off the table by both handles, level within 10 degrees."""

    name = "lift_tray"
    instruction = "Grasp the tray by its two handles and lift it level off the table."
    objects = ("tray",)
    time_limit_s = 30.0
    hold_s = 0.5
    object_names = (
        "tray_x", "tray_y", "tray_z", "tray_qw", "tray_qx", "tray_qy", "tray_qz",
        "right_tool_to_handle_x", "right_tool_to_handle_y", "right_tool_to_handle_z",
        "left_tool_to_handle_x", "left_tool_to_handle_y", "left_tool_to_handle_z",
    )  # fmt: skip
    subtask_names = ("right_holds", "left_holds", "lifted")
    lift = 0.10
    """m; the tray's lowest point must be this high."""
    level = float(np.cos(np.deg2rad(10.0)))
    """Least cosine between the tray's normal and the vertical."""
    lower = np.array([0.42, -0.06, -0.35])
    upper = np.array([0.58, 0.06, 0.35])
    """x, y [m] and yaw [rad] of the tray: both hands reach both ends of the lift."""
    handles: ClassVar[dict[Side, Array]] = {
        Side.RIGHT: np.array([0.0, -0.21, 0.04]),
        Side.LEFT: np.array([0.0, 0.21, 0.04]),
    }
    """m; the handles' centres in the tray's frame."""

    def __init__(self, model: mujoco.MjModel, arms: Mapping[Side, TaskArm]) -> None:
        super().__init__(model, arms)
        self._tray = FreeObject(model, OBJECT + "tray")

    def reset(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Lay the tray on the table, its handles to the right and left."""
        x, y, yaw = rng.uniform(self.lower, self.upper)
        self._tray.put(data, (x, y, 0.0), yaw)

    def _handle(self, data: mujoco.MjData, side: Side) -> Array:
        return point_of(data, self._tray, self.handles[side])

    def observe(self, data: mujoco.MjData) -> Array:
        """Return the tray's pose (w >= 0) and its handles from the tools, (13,) [m], world."""
        found = np.empty(13)
        self._tray.observe(data, self.hands[Side.RIGHT].site, found)
        for index, side in enumerate(self.hands):
            start = 7 + 3 * index
            found[start : start + 3] = self._handle(data, side) - self.tool(data, side)
        return found

    def _lifted(self, data: mujoco.MjData) -> bool:
        level = axis_of(data, self._tray, 2)[2] >= self.level
        return bool(level and self._tray.lowest(data) >= self.lift)

    def condition(self, data: mujoco.MjData) -> bool:
        """Return whether the tray is high and level enough, and all four pads on it."""
        return self._lifted(data) and all(self.holds(data, side, self._tray) for side in self.hands)

    def subtasks(self, data: mujoco.MjData) -> dict[str, bool]:
        """Return which hands hold the tray and whether it is up and level."""
        held = {f"{side.value}_holds": self.holds(data, side, self._tray) for side in self.hands}
        return {**held, "lifted": self._lifted(data)}

    def shaped_reward(self, data: mujoco.MjData) -> float:
        """Return a third each for being at both handles, holding both, and the height."""
        near = [self.closeness(data, side, self._handle(data, side)) for side in self.hands]
        held = [float(self.holds(data, side, self._tray)) for side in self.hands]
        high = min(held) * np.clip(self._tray.lowest(data) / self.lift, 0.0, 1.0)
        return float(0.33 * (np.mean(near) + np.mean(held) + high))

    def guide(self, data: mujoco.MjData, tools: Mapping[Side, EndEffectorTarget]) -> list[Waypoint]:
        """Grasp both handles, wait for the other hand, lift together."""
        if self.success(data):
            return []
        if all(self.firm(data, side, self._tray) for side in tools):
            return both([[self._raise(data, tool)] for tool in tools.values()], tools)
        ways = []
        for side, tool in tools.items():
            if self.holds(data, side, self._tray):
                ways.append(stay(tool, 1.0))
            else:
                # A quarter turn to the left: in the middle of the wrist's range on either side.
                quat = across(axis_of(data, self._tray, 0), near=np.pi / 2)
                ways.append(grasp(tool, self._handle(data, side), quat))
        return both(ways, tools)

    def _raise(self, data: mujoco.MjData, tool: EndEffectorTarget) -> Waypoint:
        """Lift a handle, keeping the tray level, by no more than the hands can do in step."""
        lowest = min(float(self._handle(data, side)[2]) for side in self.hands)
        height = min(lowest - self.handles[tool.side][2] + _STRIDE, self.lift + _SPARE)
        x, y, _ = self._tray.position(data)
        aside = axis_of(data, self._tray, 1)
        goal = np.array([x, y, height, *yaw_quat(np.arctan2(-aside[0], aside[1]))])
        return carry(tool, pose_of(data, self._tray), goal, 0.015, 0.1)


_STRIDE = 0.04
"""m that a hand may rise above the lower handle: 0.42 m apart they tilt the tray by 6 degrees."""
_SPARE = 0.05
"""m above the height asked for, so that a hand that stops short has done enough."""
