"""Hand a bar over from the right hand to the left."""

from collections.abc import Mapping

import mujoco
import numpy as np

from kinematics import EndEffectorTarget, Side, Waypoint
from kinematics.frames import Array

from ..scene import OBJECT
from .base import TaskArm
from .moves import go, grasp, rise, turn_between
from .things import FreeObject
from .two_arm import TwoArmTask, across, axis_of, both, carry, point_of, pose_of, stay

PASSED = 1
"""Slot of ``MjData.userdata``: 1 once both hands have held the bar in the air together."""


class Handover(TwoArmTask):
    """Pick the bar up with the right hand and pass it in the air to the left, which keeps it.

    Success: both left pads and nothing else touch the bar, it is 10 cm high, the right hand is
    open and 10 cm away, and both have held it together since it left the table.
    """

    name = "handover"
    instruction = "Pick up the bar with the right hand and hand it over to the left."
    objects = ("bar",)
    time_limit_s = 40.0
    hold_s = 0.2
    object_names = (
        "bar_x", "bar_y", "bar_z", "bar_qw", "bar_qx", "bar_qy", "bar_qz",
        "right_tool_to_end_x", "right_tool_to_end_y", "right_tool_to_end_z",
        "left_tool_to_end_x", "left_tool_to_end_y", "left_tool_to_end_z",
        "passed",
    )  # fmt: skip
    subtask_names = ("right_holds", "right_lifted", "both_hold", "passed", "left_holds_alone")
    lift = 0.10
    """m; the bar's lowest point must be this high in the end."""
    away = 0.10
    """m between the right tool centre and the bar's middle line in the end."""
    reach = 0.15
    """m; half the bar's length."""
    ends = np.array([0.0, 0.115, 0.0])
    """m; where a hand grasps, from the bar's middle along its own y."""
    lower = np.array([0.40, -0.32, -0.5])
    upper = np.array([0.55, -0.18, 0.5])
    """x, y [m] and yaw [rad] of the bar: on the right arm's side, its length across."""
    meeting = np.array([0.50, 0.0, 0.25, 1.0, 0.0, 0.0, 0.0])
    """Position [m] and wxyz of the bar when it changes hands: both arms reach it, tool down."""

    def __init__(self, model: mujoco.MjModel, arms: Mapping[Side, TaskArm]) -> None:
        super().__init__(model, arms)
        self._bar = FreeObject(model, OBJECT + "bar")

    def reset(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Lay the bar on the right side of the table."""
        x, y, yaw = rng.uniform(self.lower, self.upper)
        self._bar.put(data, (x, y, 0.02), yaw)

    def _end(self, data: mujoco.MjData, side: Side) -> Array:
        """Return where a side's hand grasps (3,) [m], world: the ends keep to their sides."""
        ahead = np.copysign(1.0, axis_of(data, self._bar, 1)[1])
        sign = ahead if side is Side.LEFT else -ahead
        return point_of(data, self._bar, sign * self.ends)

    def observe(self, data: mujoco.MjData) -> Array:
        """Return the bar's pose (w >= 0), its ends from the tools [m], world, and passed, (14,)."""
        found = np.empty(14)
        self._bar.observe(data, self.hands[Side.RIGHT].site, found)
        for index, side in enumerate(self.hands):
            start = 7 + 3 * index
            found[start : start + 3] = self._end(data, side) - self.tool(data, side)
        found[13] = data.userdata[PASSED]
        return found

    def update(self, data: mujoco.MjData, n_substeps: int) -> None:
        """Note when the bar changes hands; it has not when it falls back onto the table."""
        lowest = self._bar.lowest(data)
        if lowest < _ON_TABLE:
            data.userdata[PASSED] = 0.0
        elif all(self.holds(data, side, self._bar) for side in self.hands):
            data.userdata[PASSED] = 1.0
        super().update(data, n_substeps)

    def _gap(self, data: mujoco.MjData, side: Side) -> float:
        """Return the distance between a tool centre and the bar's middle line [m]."""
        offset = self.tool(data, side) - self._bar.position(data)
        axis = axis_of(data, self._bar, 1)
        along = np.clip((offset * axis).sum(), -self.reach, self.reach)
        return mujoco.mju_norm3(offset - along * axis)

    def condition(self, data: mujoco.MjData) -> bool:
        """Return whether the left hand alone has the bar up, and the right let go and left."""
        return (
            data.userdata[PASSED] > 0.0
            and self._bar.touching(data) == self.hands[Side.LEFT].pads
            and self._bar.lowest(data) >= self.lift
            and self.is_open(data, Side.RIGHT)
            and self._gap(data, Side.RIGHT) >= self.away
        )

    def subtasks(self, data: mujoco.MjData) -> dict[str, bool]:
        """Return who holds the bar, whether it is in the air and whether it has changed hands."""
        right, left = (self.holds(data, side, self._bar) for side in (Side.RIGHT, Side.LEFT))
        passed = bool(data.userdata[PASSED] > 0.0)
        return {
            "right_holds": right,
            "right_lifted": right and self._bar.lowest(data) >= self.lift,
            "both_hold": right and left,
            "passed": passed,
            "left_holds_alone": passed and left and not right,
        }

    def shaped_reward(self, data: mujoco.MjData) -> float:
        """Return a quarter each: right at the bar, right holding it up, left at it, left alone."""
        done = self.subtasks(data)
        near = {side: self.closeness(data, side, self._end(data, side)) for side in self.hands}
        high = np.clip(self._bar.lowest(data) / self.lift, 0.0, 1.0)
        if done["passed"]:
            clear = np.clip(self._gap(data, Side.RIGHT) / self.away, 0.0, 1.0)
            return float(0.24 * (2.0 + near[Side.LEFT] + done["left_holds_alone"] * clear))
        held = done["right_holds"] * (0.5 + 0.5 * high)
        return float(0.24 * (near[Side.RIGHT] + held + held * near[Side.LEFT]))

    def guide(self, data: mujoco.MjData, tools: Mapping[Side, EndEffectorTarget]) -> list[Waypoint]:
        """Right: grasp, lift, bring to the meeting. Left: come, grasp. Right: let go, leave."""
        if self.success(data):
            return []
        right, left = tools[Side.RIGHT], tools[Side.LEFT]
        in_left = self.holds(data, Side.LEFT, self._bar)
        if data.userdata[PASSED] > 0.0 and self.firm(data, Side.LEFT, self._bar):
            return both([stay(left, 1.0), self._leave(data, right)], tools)
        if not self.firm(data, Side.RIGHT, self._bar):
            wait = stay(left, 1.0 if in_left and data.userdata[PASSED] > 0.0 else 0.0)
            return both([self._fetch(data, right), wait], tools)
        if in_left:
            return both([stay(left, 1.0), stay(right, 1.0)], tools)
        bring = self._bring(data, right)
        there = len(bring) == 1 and self._at_meeting(data)
        take = grasp(left, self._end(data, Side.LEFT), self._across(data))
        return both([bring, take if there else stay(left, 0.0)], tools)

    def _across(self, data: mujoco.MjData) -> Array:
        # A quarter turn to the left: in the middle of the wrist's range on either side.
        return across(axis_of(data, self._bar, 0), near=np.pi / 2)

    def _fetch(self, data: mujoco.MjData, tool: EndEffectorTarget) -> list[Waypoint]:
        if self.holds(data, Side.RIGHT, self._bar):  # the squeeze has only begun
            return stay(tool, 1.0)
        return grasp(tool, self._end(data, Side.RIGHT), self._across(data))

    def _at_meeting(self, data: mujoco.MjData) -> bool:
        pose = pose_of(data, self._bar)
        near = mujoco.mju_dist3(pose[:3], self.meeting[:3]) < 0.02
        return near and turn_between(pose[3:], self.meeting[3:]) < 0.15

    def _bring(self, data: mujoco.MjData, tool: EndEffectorTarget) -> list[Waypoint]:
        meet = carry(tool, pose_of(data, self._bar), self.meeting, 0.01, 0.1)
        if self._bar.lowest(data) < 0.5 * self.lift:
            return [rise(tool, self.meeting[2], 1.0), meet]
        return [meet]

    def _leave(self, data: mujoco.MjData, tool: EndEffectorTarget) -> list[Waypoint]:
        """Open, then straight up and back to the right."""
        if not self.is_open(data, Side.RIGHT):
            return stay(tool, 0.0)
        up = tool.position + np.array([0.0, 0.0, self.away + 0.05])
        if self._gap(data, Side.RIGHT) >= 1.2 * self.away:
            return stay(tool, 0.0)
        return [go(tool, up, closure=0.0)]


_ON_TABLE = 0.01
"""m; a bar lower than this has been put down or dropped."""
