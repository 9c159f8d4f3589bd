"""What the two-arm tasks share: hands that hold, and hands that wait for each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import mujoco
import numpy as np
import numpy.typing as npt

from kinematics import EndEffectorTarget, Side, Waypoint
from kinematics.frames import Array
from kinematics.names import joint_addresses, named_id

from .base import Task, TaskArm
from .moves import go, turn_between
from .things import FreeObject, pad_geoms, touching

FIRM = 8.0
"""N a pad; with less the squeeze has only begun: these objects get 16 N or more."""

_CLASPED = 0.25
"""Closure; the widest of these objects, 56 mm, stops the fingers at 0.34."""


@dataclass(frozen=True, slots=True, eq=False)
class Hand:
    """Tell a task where one gripper is in the model."""

    site: int
    pads: frozenset[int]
    """Geom ids."""
    fingers: npt.NDArray[np.intp]
    """Addresses in qpos of the slides whose travels make the opening."""
    max_opening: float
    """m"""

    @classmethod
    def find(cls, model: mujoco.MjModel, arm: TaskArm) -> "Hand":
        """Look up an arm's gripper."""
        fingers, _ = joint_addresses(model, [arm.prefix + name for name in arm.gripper.joints])
        return cls(arm.site, pad_geoms(model, arm), fingers, arm.gripper.max_opening)


class Part:
    """Address a body that hangs on another one, such as a lid, as something to hold."""

    def __init__(self, model: mujoco.MjModel, body: str) -> None:
        self.body = named_id(model, mujoco.mjtObj.mjOBJ_BODY, body)
        self._mine = model.geom_bodyid == self.body
        self.geoms = np.flatnonzero(self._mine).tolist()

    def touching(self, data: mujoco.MjData) -> set[int]:
        """Return the other geoms that touch it."""
        return touching(data, self._mine)


class TwoArmTask(Task):
    """Judge what two hands do with free objects.

    ``guide`` of these tasks returns waypoints of both sides; each hand does the first of its own.
    A hand that must wait for the other is told to stay where it is.
    """

    n_arms: ClassVar[int] = 2

    def __init__(self, model: mujoco.MjModel, arms: Mapping[Side, TaskArm]) -> None:
        super().__init__(model, arms)
        self.hands = {side: Hand.find(model, arm) for side, arm in arms.items()}
        self._wrench = np.zeros(6)

    def holds(self, data: mujoco.MjData, side: Side, item: FreeObject | Part) -> bool:
        """Return whether all pads of a hand touch an object."""
        return self.hands[side].pads <= item.touching(data)

    def clasps(self, data: mujoco.MjData, tool: EndEffectorTarget, item: FreeObject | Part) -> bool:
        """Return whether a closing hand has an object between its pads.

        For guides: an object that turns between the pads leaves one or the other for an instant.
        """
        touched = not self.hands[tool.side].pads.isdisjoint(item.touching(data))
        return touched and tool.closure > _CLASPED

    def firm(self, data: mujoco.MjData, side: Side, item: FreeObject | Part) -> bool:
        """Return whether every pad of a hand presses on an object with ``FIRM`` or more."""
        force = dict.fromkeys(self.hands[side].pads, 0.0)
        for index, (one, two) in enumerate(data.contact.geom.tolist()):
            pad, other = (one, two) if one in force else (two, one)
            if pad in force and other in item.geoms:
                mujoco.mj_contactForce(self.model, data, index, self._wrench)
                force[pad] += float(self._wrench[0])
        return min(force.values()) >= FIRM

    def is_open(self, data: mujoco.MjData, side: Side) -> bool:
        """Return whether a hand is open by three quarters or more."""
        hand = self.hands[side]
        return bool(data.qpos[hand.fingers].sum() >= 0.75 * hand.max_opening)

    def tool(self, data: mujoco.MjData, side: Side) -> Array:
        """Return the position of a tool centre (3,) in world [m], a view."""
        return data.site_xpos[self.hands[side].site]

    def closeness(self, data: mujoco.MjData, side: Side, point: Array) -> float:
        """Return 1 with the tool at a point, half of it at 11 cm: for dense rewards."""
        return 1.0 - float(np.tanh(5.0 * mujoco.mju_dist3(self.tool(data, side), point)))


def both(ways: Sequence[list[Waypoint]], tools: Mapping[Side, EndEffectorTarget]) -> list[Waypoint]:
    """Join the sides' ways: the one that calls for motion before the one whose first is met.

    So whoever can only follow the first of the list is not held up by a hand that waits.
    """
    return [point for way in sorted(ways, key=lambda way: met(way[0], tools)) for point in way]


def met(waypoint: Waypoint, tools: Mapping[Side, EndEffectorTarget]) -> bool:
    """Return whether a tool is where a waypoint wants it and its gripper moves as it should."""
    target = waypoint.target
    tool = tools[target.side]
    near = mujoco.mju_dist3(tool.position, target.position) <= waypoint.tolerance_m
    return near and turn_between(tool.quat_wxyz, target.quat_wxyz) <= waypoint.tolerance_rad


def point_of(data: mujoco.MjData, item: FreeObject, local: Array) -> Array:
    """Return a point of an object (3,) in world [m]."""
    found = np.zeros(3)
    mujoco.mju_rotVecQuat(found, local, item.quat(data))
    return found + item.position(data)


def axis_of(data: mujoco.MjData, item: FreeObject, axis: int) -> Array:
    """Return an object's own axis (3,) in world."""
    return point_of(data, item, np.eye(3)[axis]) - item.position(data)


def pose_of(data: mujoco.MjData, item: FreeObject) -> Array:
    """Return an object's position [m] and wxyz (7,) in world, fresh."""
    return np.concatenate([item.position(data), item.quat(data)])


def across(axis: Array, near: float) -> Array:
    """Return the wxyz (4,) of a tool pointing down whose fingers close along ``axis`` of world.

    Of the two such yaws the one nearer to ``near`` [rad]; 0 is the tool's at home.
    """
    yaw = np.arctan2(axis[1], axis[0]) - np.pi / 2
    yaw = (yaw - near + np.pi / 2) % np.pi - np.pi / 2 + near
    return np.array([0.0, np.cos(yaw / 2), np.sin(yaw / 2), 0.0])


def stay(tool: EndEffectorTarget, closure: float) -> list[Waypoint]:
    """Return the wish that a hand stays where it is, with this closure."""
    return [go(tool, tool.position, closure=closure)]


def carry(
    tool: EndEffectorTarget, item: Array, goal: Array, tolerance: float, turn: float
) -> Waypoint:
    """Return where a tool takes what it holds from the pose ``item`` to ``goal``.

    Both are position [m] and wxyz (7,) in world.
    """
    back, by, quat, point = np.zeros(4), np.zeros(4), np.zeros(4), np.zeros(3)
    mujoco.mju_negQuat(back, item[3:])
    mujoco.mju_mulQuat(by, goal[3:], back)
    mujoco.mju_mulQuat(quat, by, tool.quat_wxyz)
    mujoco.mju_rotVecQuat(point, tool.position - item[:3], by)
    return go(tool, point + goal[:3], quat, 1.0, tolerance, turn)
