"""Insert a peg, held in one hand, into a sleeve, held in the other."""

from collections.abc import Mapping
from itertools import product

import mujoco
import numpy as np

from kinematics import EndEffectorTarget, Side, Waypoint
from kinematics.frames import Array

from ..scene import OBJECT
from .base import TaskArm
from .moves import grasp, rise, turn_between
from .things import FreeObject
from .two_arm import TwoArmTask, across, axis_of, both, carry, point_of, pose_of, stay


class DualPeg(TwoArmTask):
    """Insert the peg in the right hand 20 mm into the sleeve in the left, both off the table.

    2 mm of clearance, chamfered. Peg and sleeve are alike from both ends and on all four sides.
    """

    name = "dual_peg"
    instruction = "Insert the peg in the right hand into the sleeve in the left hand."
    objects = ("long_peg", "sleeve")
    time_limit_s = 60.0
    hold_s = 0.2
    object_names = (
        "peg_x", "peg_y", "peg_z", "peg_qw", "peg_qx", "peg_qy", "peg_qz",
        "right_tool_to_peg_x", "right_tool_to_peg_y", "right_tool_to_peg_z",
        "sleeve_x", "sleeve_y", "sleeve_z", "sleeve_qw", "sleeve_qx", "sleeve_qy", "sleeve_qz",
        "left_tool_to_sleeve_x", "left_tool_to_sleeve_y", "left_tool_to_sleeve_z",
        "depth", "beside",
    )  # fmt: skip
    subtask_names = ("right_holds_peg", "left_holds_sleeve", "aligned", "inserted")
    insertion = 0.02
    """m of the peg that must be in the sleeve."""
    air = 0.02
    """m; the lowest points of both must be this high over the table."""
    peg_half = 0.10
    sleeve_half = 0.05
    """m; half the lengths."""
    peg_grip = np.array([0.0, 0.06, 0.0])
    sleeve_grip = np.array([0.0, 0.025, 0.0])
    """m from the middles to where the hands grasp, outwards: the wrists need 0.17 m between them
    when the peg is in."""
    peg_lower = np.array([0.42, -0.34, -0.4])
    peg_upper = np.array([0.56, -0.24, 0.4])
    sleeve_lower = np.array([0.42, 0.18, -0.4])
    sleeve_upper = np.array([0.56, 0.30, 0.4])
    """x, y [m] and yaw [rad]: each on its arm's side, its length across."""
    station = np.array([0.50, 0.10, 0.22, 1.0, 0.0, 0.0, 0.0])
    """Position [m] and wxyz of the sleeve for the insertion: both arms reach it, tool down."""

    def __init__(self, model: mujoco.MjModel, arms: Mapping[Side, TaskArm]) -> None:
        super().__init__(model, arms)
        self._peg = FreeObject(model, OBJECT + "long_peg")
        self._sleeve = FreeObject(model, OBJECT + "sleeve")
        self._held = {Side.RIGHT: self._peg, Side.LEFT: self._sleeve}

    def reset(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Lay the peg on the right side of the table and the sleeve on the left."""
        x, y, yaw = rng.uniform(self.peg_lower, self.peg_upper)
        self._peg.put(data, (x, y, 0.018), yaw)
        x, y, yaw = rng.uniform(self.sleeve_lower, self.sleeve_upper)
        self._sleeve.put(data, (x, y, 0.028), yaw)

    def _inward(self, data: mujoco.MjData) -> Array:
        """Return the sleeve's axis (3,), from its right mouth inwards, world."""
        axis = axis_of(data, self._sleeve, 1)
        return np.copysign(1.0, axis[1]) * axis

    def _tip(self, data: mujoco.MjData) -> Array:
        """Return the end of the peg that is nearer to the sleeve (3,) [m], world."""
        peg = self._peg.position(data)
        axis = axis_of(data, self._peg, 1)
        ahead = ((self._sleeve.position(data) - peg) * axis).sum()
        return peg + np.copysign(self.peg_half, ahead) * axis

    def _fit(self, data: mujoco.MjData) -> tuple[float, float]:
        """Return how deep the tip is in the sleeve, < 0 before it, and how far off its axis [m]."""
        offset = self._tip(data) - self._sleeve.position(data)
        axis = axis_of(data, self._sleeve, 1)
        along = float((offset * axis).sum())
        back = ((self._peg.position(data) - self._sleeve.position(data)) * axis).sum()
        return self.sleeve_half + float(np.copysign(1.0, -back)) * along, mujoco.mju_norm3(
            offset - along * axis
        )

    def observe(self, data: mujoco.MjData) -> Array:
        """Return both poses (w >= 0) and offsets from their tools, depth and beside, (22,)."""
        found = np.empty(22)
        self._peg.observe(data, self.hands[Side.RIGHT].site, found)
        self._sleeve.observe(data, self.hands[Side.LEFT].site, found[10:])
        found[20:] = self._fit(data)
        return found

    def _inserted(self, data: mujoco.MjData) -> bool:
        depth, beside = self._fit(data)
        return depth >= self.insertion and beside <= _PLAY

    def _both_held(self, data: mujoco.MjData) -> bool:
        return all(self.holds(data, side, item) for side, item in self._held.items())

    def condition(self, data: mujoco.MjData) -> bool:
        """Return whether the peg is in the sleeve, each in its hand and off the table."""
        return (
            self._inserted(data)
            and self._both_held(data)
            and all(item.lowest(data) >= self.air for item in self._held.values())
        )

    def subtasks(self, data: mujoco.MjData) -> dict[str, bool]:
        """Return which hands hold theirs, whether peg and sleeve are in line and one in the other.

        In line: the tip less than 40 mm before the mouth and 6 mm off the axis.
        """
        depth, beside = self._fit(data)
        return {
            "right_holds_peg": self.holds(data, Side.RIGHT, self._peg),
            "left_holds_sleeve": self.holds(data, Side.LEFT, self._sleeve),
            "aligned": depth > -0.04 and beside < 0.006 and self._both_held(data),
            "inserted": self._inserted(data),
        }

    def shaped_reward(self, data: mujoco.MjData) -> float:
        """Return a quarter each for being at both, holding both, being in line, and the depth."""
        near = [self.closeness(data, s, item.position(data)) for s, item in self._held.items()]
        held = [float(self.holds(data, side, item)) for side, item in self._held.items()]
        depth, beside = self._fit(data)
        line = min(held) * (1.0 - np.tanh(10.0 * (beside + max(0.0, -depth))))
        deep = line * np.clip(depth / self.insertion, 0.0, 1.0)
        return float(0.24 * (np.mean(near) + np.mean(held) + line + deep))

    def guide(self, data: mujoco.MjData, tools: Mapping[Side, EndEffectorTarget]) -> list[Waypoint]:
        """Grasp both, bring the sleeve to its station and the peg before it, insert."""
        if self.success(data):
            return []
        right, left = tools[Side.RIGHT], tools[Side.LEFT]
        firm = {side: self.firm(data, side, item) for side, item in self._held.items()}
        sleeve = self._show(data, left) if firm[Side.LEFT] else self._fetch(data, left)
        if not firm[Side.RIGHT]:
            return both([self._fetch(data, right), sleeve], tools)
        return both([self._insert(data, right, firm[Side.LEFT]), sleeve], tools)

    def _fetch(self, data: mujoco.MjData, tool: EndEffectorTarget) -> list[Waypoint]:
        item = self._held[tool.side]
        if self.holds(data, tool.side, item):  # the squeeze has only begun
            return stay(tool, 1.0)
        grip = self.peg_grip if item is self._peg else self.sleeve_grip
        outwards = 1.0 if tool.side is Side.LEFT else -1.0
        sign = outwards * np.copysign(1.0, axis_of(data, item, 1)[1])
        # A quarter turn to the left: in the middle of the wrist's range on either side.
        quat = across(np.cross(axis_of(data, item, 1), [0.0, 0.0, 1.0]), near=np.pi / 2)
        return grasp(tool, point_of(data, item, sign * grip), quat)

    def _at_station(self, data: mujoco.MjData) -> bool:
        pose = pose_of(data, self._sleeve)
        near = mujoco.mju_dist3(pose[:3], self.station[:3]) < 0.02
        return near and turn_between(pose[3:], _alike(self.station[3:], pose[3:])) < 0.12

    def _show(self, data: mujoco.MjData, tool: EndEffectorTarget) -> list[Waypoint]:
        """Bring the sleeve to its station and keep it there."""
        if self._at_station(data):
            return stay(tool, 1.0)
        pose = pose_of(data, self._sleeve)
        goal = np.concatenate([self.station[:3], _alike(self.station[3:], pose[3:])])
        return self._bring(data, tool, goal, 0.01, 0.06)

    def _insert(self, data: mujoco.MjData, tool: EndEffectorTarget, ready: bool) -> list[Waypoint]:
        """Hold the peg before the sleeve, wait for it, come into line, push."""
        if not (ready and self._at_station(data)):
            return self._bring(data, tool, self._goal(data, self.station, -0.08), 0.02, 0.1)
        sleeve = pose_of(data, self._sleeve)
        push = carry(tool, pose_of(data, self._peg), self._goal(data, sleeve, _DEEP), 0.004, 0.05)
        depth, beside = self._fit(data)
        line = self._goal(data, sleeve, -0.01)
        turned = turn_between(line[3:], pose_of(data, self._peg)[3:])
        if depth > -0.02 and beside < _IN_LINE and turned < 0.05:
            return [push]
        if depth > 0.0 and beside < _PLAY:
            return [push]
        return [carry(tool, pose_of(data, self._peg), line, _IN_LINE / 2, 0.03), push]

    def _bring(
        self,
        data: mujoco.MjData,
        tool: EndEffectorTarget,
        goal: Array,
        tolerance: float,
        turn: float,
    ) -> list[Waypoint]:
        item = self._held[tool.side]
        across_table = carry(tool, pose_of(data, item), goal, tolerance, turn)
        if item.lowest(data) < 2.0 * self.air:
            return [rise(tool, self.station[2], 1.0), across_table]
        return [across_table]

    def _goal(self, data: mujoco.MjData, sleeve: Array, depth: float) -> Array:
        """Return the peg's pose (7,) with its tip ``depth`` deep in a sleeve at a pose (7,)."""
        axis = np.zeros(3)
        mujoco.mju_rotVecQuat(axis, np.array([0.0, 1.0, 0.0]), sleeve[3:])
        inward = np.copysign(1.0, axis[1]) * axis
        middle = sleeve[:3] + (depth - self.sleeve_half - self.peg_half) * inward
        return np.concatenate([middle, _alike(sleeve[3:], self._peg.quat(data))])


def _alike(quat: Array, now: Array) -> Array:
    """Return which of the eight wxyz that look like ``quat`` is nearest to ``now``.

    Quarter turns about the long axis, and end for end.
    """
    found = np.zeros((len(_SAME), 4))
    for row, turn in zip(found, _SAME, strict=True):
        mujoco.mju_mulQuat(row, quat, turn)
    return min(found, key=lambda row: turn_between(row, now))


def _same() -> list[Array]:
    turns = []
    for quarter, end in product(range(4), range(2)):
        roll = quarter * np.pi / 4
        turn = np.zeros(4)
        flip = np.array([0.0, 0.0, 0.0, 1.0]) if end else np.array([1.0, 0.0, 0.0, 0.0])
        mujoco.mju_mulQuat(turn, np.array([np.cos(roll), 0.0, np.sin(roll), 0.0]), flip)
        turns.append(turn)
    return turns


_SAME = _same()
_PLAY = 0.004
"""m off the axis that a tip in the hole can be: the play along both sides, and soft contact."""
_IN_LINE = 0.003
"""m off the axis from which nose and chamfer lead the peg in without shifting it in the hand."""
_DEEP = 0.03
"""m that the guide inserts: more than asked for."""
