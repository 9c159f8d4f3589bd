"""Push a puck to a marked zone."""

from collections.abc import Mapping

import mujoco
import numpy as np

from kinematics import EndEffectorTarget, Side, Waypoint
from kinematics.frames import Array

from ..scene import OBJECT
from .base import TaskArm
from .goal import GoalTask
from .moves import CLOSED, SLACK, TURN, approach, at_height, go, rise, tool_down, turn_between
from .things import Fixture, FreeObject, robot_geoms, scatter

CARRIED = 1
"""Slot of ``MjData.userdata``: 1 from when the puck leaves the table until it rests outside."""


class Push(GoalTask):
    """Slide the puck into the zone; what was carried there does not count."""

    name = "push"
    instruction = "Push the orange puck onto the green zone with the closed gripper."
    objects = ("puck", "zone")
    time_limit_s = 40.0
    hold_s = 0.5
    goal_names = ("zone_x", "zone_y", "zone_z")
    object_names = (*FreeObject.observed_names("puck"), *goal_names)
    subtask_names = ("touched", "in_zone")
    resizable = (OBJECT + "puck",)
    tolerance = 0.03
    """m; the puck's centre from the zone's: its nearest corners are then on the zone."""
    lower = np.array([0.40, -0.20])
    upper = np.array([0.58, 0.20])
    """m; where puck and zone may be. The tool reaches all round them."""
    gap = 0.16
    """m between them: the puck does not begin on the zone."""
    lift = 0.005
    """m; with its lowest point higher the puck is carried."""
    height = 0.012
    """m; the tool's while it pushes: the finger tips are 4 mm over the table."""
    rim = 0.003
    """m that the tool may be higher: 4 mm, and the fingers' thick part slides onto the puck."""
    thickness = 0.0105
    """m; half of the closed fingers, in the direction of the push."""
    setback = 0.03
    """m between finger and puck where the tool comes down."""

    def __init__(self, model: mujoco.MjModel, arms: Mapping[Side, TaskArm]) -> None:
        super().__init__(model, arms)
        self._puck = FreeObject(model, OBJECT + "puck")
        self._zone = Fixture(model, OBJECT + "zone")
        self._site = arms[Side.RIGHT].site
        self._robot = robot_geoms(model, arms)

    def reset(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Lay puck and zone apart from each other, the puck at any yaw."""
        zone, puck = scatter(rng, self.lower, self.upper, self.gap, 2)
        self._zone.put(data, (*zone, 0.0), 0.0)
        half = self.model.geom_size[self._puck.geoms[0], 2]
        self._puck.put(data, (*puck, half), rng.uniform(-np.pi, np.pi))

    def observe(self, data: mujoco.MjData) -> Array:
        """Return the puck's pose and offset from the tool and the zone's place, (13,) [m]."""
        found = np.empty(13)
        self._puck.observe(data, self._site, found[:10])
        found[10:] = self._zone.position(data)
        return found

    def _offset(self, data: mujoco.MjData) -> Array:
        """Return from the puck's centre to the zone's, (2,) [m]."""
        return (self._zone.position(data) - self._puck.position(data))[:2]

    def _inside(self, data: mujoco.MjData) -> bool:
        return float(np.hypot(*self._offset(data))) <= self.tolerance

    def _flat(self, data: mujoco.MjData) -> bool:
        """Return whether the puck lies on the table: it is no higher than it is thick."""
        half = self.model.geom_size[self._puck.geoms[0], 2]
        return bool(self._puck.position(data)[2] < half + 0.002)

    def goal(self, data: mujoco.MjData) -> tuple[Array, Array]:
        """Return the puck's centre and where that of a puck lying in mid zone is."""
        half = self.model.geom_size[self._puck.geoms[0], 2]
        return self._puck.position(data), self._zone.world(data, (0.0, 0.0, half))

    def update(self, data: mujoco.MjData, n_substeps: int) -> None:
        """Notice when the puck is carried, too."""
        if self._puck.lowest(data) > self.lift:
            data.userdata[CARRIED] = 1.0
        elif data.userdata[CARRIED] and self._flat(data) and self._puck.at_rest(data):
            data.userdata[CARRIED] = float(self._inside(data))
        super().update(data, n_substeps)

    def condition(self, data: mujoco.MjData) -> bool:
        """Return whether the puck lies still in the zone, where it was not carried."""
        return (
            self._inside(data)
            and not data.userdata[CARRIED]
            and self._flat(data)
            and self._puck.at_rest(data)
        )

    def subtasks(self, data: mujoco.MjData) -> dict[str, bool]:
        """Return whether the robot touches the puck, and whether that lies in the zone."""
        return {
            "touched": not self._robot.isdisjoint(self._puck.touching(data)),
            "in_zone": self._inside(data) and self._flat(data),
        }

    def shaped_reward(self, data: mujoco.MjData) -> float:
        """Return 0.2 for being at the puck and up to 0.8 for its distance from the zone."""
        distance = mujoco.mju_norm3(self._puck.position(data) - data.site_xpos[self._site])
        near = 1.0 - np.tanh(5.0 * distance)
        way = 1.0 - np.tanh(5.0 * float(np.hypot(*self._offset(data))))
        return float(0.19 * near + 0.8 * way)

    def guide(self, data: mujoco.MjData, tools: Mapping[Side, EndEffectorTarget]) -> list[Waypoint]:
        """Push square on a side, first along one of the puck's axes, then along the other.

        A push on a side is stable where one on a corner is not. The first is the one that ends
        nearer to the middle of the table: the tool has room there to go round the puck.
        """
        if self.success(data):
            return []
        tool = tools[Side.RIGHT]
        if tool.closure < CLOSED:
            return [go(tool, tool.position, closure=1.0)]
        offset = self._offset(data)
        if data.userdata[CARRIED]:  # out of the zone first, toward the middle of the table
            middle = 0.5 * (self.lower + self.upper) - self._puck.position(data)[:2]
            offset = (self.gap - np.hypot(*offset)) * middle / max(np.hypot(*middle), 1e-6)
        pushes = [self._push(data, tool, offset, axis) for axis in (0, 1)]
        engaged = [push for push in pushes if len(push[1]) == 1 and push[0] > 0.004]
        if engaged:
            return engaged[0][1]
        open_pushes = [push for push in pushes if push[0] > 0.012]
        if not open_pushes or (self._inside(data) and not data.userdata[CARRIED]):
            return [rise(tool, 0.12, 1.0)]
        return min(open_pushes, key=lambda push: self._from_middle(push[1][-1].target.position))[1]

    def _from_middle(self, point: Array) -> float:
        return float(np.hypot(*(point[:2] - 0.5 * (self.lower + self.upper))))

    def _push(
        self, data: mujoco.MjData, tool: EndEffectorTarget, offset: Array, axis: int
    ) -> tuple[float, list[Waypoint]]:
        """Return how far to push along one of the puck's axes [m], and the way to do it."""
        puck = self._puck
        along = np.zeros(3)
        mujoco.mju_rotVecQuat(along, np.eye(3)[axis], puck.quat(data))
        ahead = along * (1.0, 1.0, 0.0) / max(float(np.hypot(*along[:2])), 1e-6)
        left = float(ahead[:2] @ offset)
        if left < 0.0:
            left, ahead = -left, -ahead
        yaw = float(np.arctan2(ahead[1], ahead[0]))
        # A half turn apart it is the same push; a quarter turn of yaw is within the wrist's range.
        quat = tool_down(tool, [yaw, yaw + np.pi], 0.55 * np.pi)
        centre = puck.position(data).copy()
        centre[2] = self.height
        reach = float(self.model.geom_size[puck.geoms[0], axis]) + self.thickness
        push = go(tool, centre + (left - reach) * ahead, quat, 1.0, 0.004)
        side = np.array([-ahead[1], ahead[0], 0.0])
        behind = float((centre - tool.position) @ ahead)
        aside = abs(float((centre - tool.position) @ side))
        low = tool.position[2] - self.height < self.rim
        square = turn_between(quat, tool.quat_wxyz) < TURN * SLACK
        if low and square and aside < 0.02 and reach - 0.005 < behind < reach + 2 * self.setback:
            return left, [push]
        start = centre - (reach + self.setback) * ahead
        way = approach(tool, start, quat, 1.0, 0.008, clearance=0.07)
        if not (way or low):  # all but there: the last few millimetres, straight down
            way = [go(tool, at_height(tool.position, self.height), quat, 1.0, 0.002)]
        return left, [*way, push]
