"""Open a box's stiff lid with one hand while the other holds the box."""

from collections.abc import Mapping

import mujoco
import numpy as np

from kinematics import EndEffectorTarget, Side, Waypoint
from kinematics.frames import Array

from ..scene import OBJECT
from .base import TaskArm
from .moves import go, grasp, rise
from .things import FreeObject
from .two_arm import Part, TwoArmTask, across, axis_of, both, point_of, stay

START = 1
"""First of three slots of ``MjData.userdata``: how the box stood at reset, x, y [m], yaw [rad]."""


class OpenLid(TwoArmTask):
    """Hold the box by its handle with the left hand, open its lid with the right, let go of it.

    Success: the lid is open by 95 degrees or more, the right hand is open and off it, the left
    still holds the box, which stands upright within 30 mm of where it stood.
    """

    name = "open_lid"
    instruction = "Hold the box by its handle with the left hand and open its lid with the right."
    objects = ("lidded_box",)
    time_limit_s = 40.0
    hold_s = 0.2
    object_names = (
        "box_x", "box_y", "box_z", "box_qw", "box_qx", "box_qy", "box_qz",
        "left_tool_to_handle_x", "left_tool_to_handle_y", "left_tool_to_handle_z",
        "right_tool_to_knob_x", "right_tool_to_knob_y", "right_tool_to_knob_z",
        "lid_angle", "box_shift_x", "box_shift_y",
    )  # fmt: skip
    subtask_names = ("left_holds", "right_holds_knob", "lid_open", "lid_released")
    open_angle = 1.66
    """rad, 95 degrees: past the vertical, of the 110 that the hinge has."""
    upright = float(np.cos(np.deg2rad(5.0)))
    """Least cosine between the box's axis and the vertical."""
    shift = 0.03
    """m that the box may have moved in the end."""
    lower = np.array([0.52, -0.05, -0.25])
    upper = np.array([0.58, 0.05, 0.25])
    """x, y [m] and yaw [rad] of the box: the right hand reaches the whole way of the knob."""
    handle = np.array([-0.19, 0.0, 0.05])
    """m in the box's frame; where the left hand grasps."""
    hinge = np.array([0.045, 0.07, 0.08])
    """m in the box's frame; the point of the hinge's axis beside the knob."""
    radius = 0.175
    """m from the hinge to where the right hand grasps."""

    def __init__(self, model: mujoco.MjModel, arms: Mapping[Side, TaskArm]) -> None:
        super().__init__(model, arms)
        self._box = FreeObject(model, OBJECT + "lidded_box")
        self._lid = Part(model, OBJECT + "lid")
        self._knob = Part(model, OBJECT + "knob")
        self._angle_adr = int(model.joint(OBJECT + "lid_hinge").qposadr[0])

    def reset(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Stand the box on the table, closed, its handle toward the arms."""
        x, y, yaw = rng.uniform(self.lower, self.upper)
        self._box.put(data, (x, y, 0.0), yaw)
        data.userdata[START : START + 3] = x, y, yaw

    def _angle(self, data: mujoco.MjData) -> float:
        """Return how far the lid is open [rad]."""
        return float(data.qpos[self._angle_adr])

    def _handle(self, data: mujoco.MjData) -> Array:
        return point_of(data, self._box, self.handle)

    def _knob_at(self, data: mujoco.MjData, angle: float) -> Array:
        """Return where the knob is grasped (3,) [m], world, with the lid open by ``angle``."""
        arm = np.array([0.0, -self.radius * np.cos(angle), self.radius * np.sin(angle)])
        return point_of(data, self._box, self.hinge + arm)

    def _shift(self, data: mujoco.MjData) -> Array:
        return self._box.position(data)[:2] - data.userdata[START : START + 2]

    def observe(self, data: mujoco.MjData) -> Array:
        """Return the box's pose (w >= 0), the grips from the tools, angle and shift, (16,)."""
        found = np.empty(16)
        self._box.observe(data, self.hands[Side.LEFT].site, found)
        found[7:10] = self._handle(data) - self.tool(data, Side.LEFT)
        found[10:13] = self._knob_at(data, self._angle(data)) - self.tool(data, Side.RIGHT)
        found[13] = self._angle(data)
        found[14:] = self._shift(data)
        return found

    def _off(self, data: mujoco.MjData) -> bool:
        """Return whether the right hand is open and touches neither lid nor box."""
        parts = (self._box, self._lid, self._knob)
        touched = set().union(*(part.touching(data) for part in parts))
        free = self.hands[Side.RIGHT].pads.isdisjoint(touched)
        return free and self.is_open(data, Side.RIGHT)

    def _undisturbed(self, data: mujoco.MjData) -> bool:
        upright = axis_of(data, self._box, 2)[2] >= self.upright
        return bool(upright and np.hypot(*self._shift(data)) <= self.shift)

    def condition(self, data: mujoco.MjData) -> bool:
        """Return whether the lid stays open by itself and the box is held where it was."""
        return (
            self._angle(data) >= self.open_angle
            and self._undisturbed(data)
            and self.holds(data, Side.LEFT, self._box)
            and self._off(data)
        )

    def subtasks(self, data: mujoco.MjData) -> dict[str, bool]:
        """Return which hands hold what and whether the lid is open and let go of."""
        is_open = self._angle(data) >= self.open_angle
        return {
            "left_holds": self.holds(data, Side.LEFT, self._box),
            "right_holds_knob": self.holds(data, Side.RIGHT, self._knob),
            "lid_open": is_open,
            "lid_released": is_open and self._off(data),
        }

    def shaped_reward(self, data: mujoco.MjData) -> float:
        """Return a quarter each for being at both grips, holding both, the angle, letting go."""
        done, angle = self.subtasks(data), self._angle(data)
        if done["lid_open"]:
            part = 3.0 * done["left_holds"] + done["lid_released"]
            return 0.24 * part * self._undisturbed(data)
        near = self.closeness(data, Side.LEFT, self._handle(data))
        near += self.closeness(data, Side.RIGHT, self._knob_at(data, angle))
        held = 0.5 * done["left_holds"] + 0.5 * done["right_holds_knob"]
        turned = done["left_holds"] * np.clip(angle / self.open_angle, 0.0, 1.0)
        return float(0.24 * (0.5 * near + held + turned))

    def guide(self, data: mujoco.MjData, tools: Mapping[Side, EndEffectorTarget]) -> list[Waypoint]:
        """Left: grasp the handle and hold. Right: grasp the knob, wait, follow its arc, leave."""
        if self.success(data):
            return []
        right, left = tools[Side.RIGHT], tools[Side.LEFT]
        return both([self._keep(data, left), self._open(data, right)], tools)

    def _keep(self, data: mujoco.MjData, tool: EndEffectorTarget) -> list[Waypoint]:
        """Grasp the handle and keep it where it stood at reset, whatever pulls at the box."""
        if not self.clasps(data, tool, self._box):
            return grasp(tool, self._handle(data), self._across(data))
        x, y, yaw = data.userdata[START : START + 3]
        ahead = np.array([np.cos(yaw), np.sin(yaw), 0.0])
        point = np.array([x, y, self.handle[2]]) + self.handle[0] * ahead
        return [go(tool, point, across(ahead, near=np.pi / 2), 1.0, 0.008)]

    def _across(self, data: mujoco.MjData) -> Array:
        # A quarter turn to the left: in the middle of the wrist's range on either side.
        return across(axis_of(data, self._box, 0), near=np.pi / 2)

    def _open(self, data: mujoco.MjData, tool: EndEffectorTarget) -> list[Waypoint]:
        angle, held = self._angle(data), self.clasps(data, tool, self._knob)
        if angle >= self.open_angle + (_SPARE if held else 0.0):
            return self._leave(data, tool)
        quat = self._across(data)
        if not held:
            return grasp(tool, self._knob_at(data, angle), quat)
        ready = self.firm(data, Side.LEFT, self._box) and self.firm(data, Side.RIGHT, self._knob)
        if not ready:
            return stay(tool, 1.0)
        ahead = min(angle + _STRIDE, self.open_angle + 1.5 * _SPARE)
        return [go(tool, self._knob_at(data, ahead), quat, 1.0, 0.008)]

    def _leave(self, data: mujoco.MjData, tool: EndEffectorTarget) -> list[Waypoint]:
        """Open, then straight up: the knob stands upright between the fingers."""
        if not self.is_open(data, Side.RIGHT):
            return stay(tool, 0.0)
        height = self._knob_at(data, self._angle(data))[2] + 0.10
        return [rise(tool, max(height, float(tool.position[2])), 0.0)]


_STRIDE = 0.35
"""rad that the hand goes ahead of the lid: the straight way is 3 mm off the arc."""
_SPARE = 0.10
"""rad past ``open_angle``, so that a lid that swings back a little is still open."""
