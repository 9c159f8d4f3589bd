"""Put a peg into a hole."""

from collections.abc import Mapping

import mujoco
import numpy as np
from scipy.spatial.transform import RigidTransform

from kinematics import EndEffectorTarget, Side, Waypoint
from kinematics.frames import Array, pose, quat_wxyz
from kinematics.names import named_id

from ..scene import OBJECT
from .base import Task, TaskArm
from .moves import best_yaw, flat_axes, go, grasp, release, retreat, rise, tool_down
from .things import Fixture, FreeObject, pad_geoms, robot_geoms, scatter, yaw_quat


class Peg(Task):
    """Put the square peg at least 20 mm into the hole and let go of it.

    The hole leaves 1 mm on every side of the peg and is chamfered by 5 mm.
    """

    name = "peg"
    instruction = "Take the peg out of its stand, put it into the blue socket and let go of it."
    objects = ("peg", "stand", "socket")
    time_limit_s = 60.0
    hold_s = 0.5
    object_names = (
        *FreeObject.observed_names("peg"),
        "socket_x", "socket_y", "socket_z", "socket_qw", "socket_qz",
    )  # fmt: skip
    subtask_names = ("grasped", "inserted", "released")
    lower = np.array([0.38, -0.22])
    upper = np.array([0.58, 0.22])
    """m; where stand and socket may be."""
    gap = 0.14
    """m between them: an open finger fits between."""
    socket_yaw = np.pi / 6
    """rad; the most that the socket is turned."""
    stand_yaw = np.pi / 4
    """rad; a square looks like itself after twice that."""
    depth = 0.020
    """m; how deep the peg must be, from the socket's top face. The chamfer ends at 0.005."""
    aside = 0.003
    """m; farther from the hole's axis the end of the peg is in no hole."""
    upright = np.cos(np.deg2rad(10.0))
    """Cosine of the most that the peg may lean."""
    goal_depth = 0.030
    """m; where the guide lets go. 5 mm on, the head rests on the socket."""

    def __init__(self, model: mujoco.MjModel, arms: Mapping[Side, TaskArm]) -> None:
        super().__init__(model, arms)
        self._peg = FreeObject(model, OBJECT + "peg")
        self._stand = Fixture(model, OBJECT + "stand")
        self._socket = Fixture(model, OBJECT + "socket")
        geom = mujoco.mjtObj.mjOBJ_GEOM
        self._head = named_id(model, geom, OBJECT + "peg_head")
        self._rim = named_id(model, geom, OBJECT + "socket_rim_front")
        self._site = arms[Side.RIGHT].site
        self._pads = pad_geoms(model, arms[Side.RIGHT])
        self._robot = robot_geoms(model, arms)

    @property
    def _top(self) -> float:
        """Return the height of the socket's top face [m]."""
        return float(self.model.geom_pos[self._rim, 2] + self.model.geom_size[self._rim, 2])

    def reset(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Put stand and socket apart from each other, turned, and the peg into the stand."""
        socket, stand = scatter(rng, self.lower, self.upper, self.gap, 2)
        self._socket.put(data, (*socket, 0.0), rng.uniform(-self.socket_yaw, self.socket_yaw))
        yaw = rng.uniform(-self.stand_yaw, self.stand_yaw)
        self._stand.put(data, (*stand, 0.0), yaw)
        self._peg.put(data, (*stand, 0.0), yaw)

    def observe(self, data: mujoco.MjData) -> Array:
        """Return the peg's pose and offset from the tool and the socket's pose, (15,) [m]."""
        found = np.empty(15)
        self._peg.observe(data, self._site, found[:10])
        found[10:13] = self._socket.position(data)
        found[13:] = self._socket.quat(data)[[0, 3]]
        return found

    def inserted(self, data: mujoco.MjData) -> float:
        """Return how deep the peg is in the hole, from the socket's top face [m]; 0 outside."""
        end = self._socket.local(data, self._peg.position(data))
        along = data.geom_xmat[self._head, 8]
        if max(abs(end[0]), abs(end[1])) > self.aside or along < self.upright:
            return 0.0
        return max(0.0, self._top - float(end[2]))

    def condition(self, data: mujoco.MjData) -> bool:
        """Return whether the peg is deep in the hole, still, and the robot does not touch it."""
        return (
            self.inserted(data) >= self.depth
            and self._robot.isdisjoint(self._peg.touching(data))
            and self._peg.at_rest(data)
        )

    def subtasks(self, data: mujoco.MjData) -> dict[str, bool]:
        """Return whether the peg is held, is in the hole, and has been let go there."""
        touching, inserted = self._peg.touching(data), self.inserted(data) >= self.depth
        return {
            "grasped": self._pads <= touching,
            "inserted": inserted,
            "released": inserted and self._robot.isdisjoint(touching),
        }

    def shaped_reward(self, data: mujoco.MjData) -> float:
        """Return a quarter each for being at the peg, holding it, its way, and its depth."""
        deep = float(np.clip(self.inserted(data) / self.depth, 0.0, 1.0))
        head = data.geom_xpos[self._head]
        near = 1.0 - np.tanh(5.0 * mujoco.mju_norm3(head - data.site_xpos[self._site]))
        held = float(deep == 1.0 or self._pads <= self._peg.touching(data))
        over = self._peg.position(data) - self._socket.world(data, (0.0, 0.0, self._top))
        way = held * (1.0 - np.tanh(5.0 * mujoco.mju_norm3(over)))
        return float(0.245 * (max(near, deep) + held + max(way, deep) + deep))

    def guide(self, data: mujoco.MjData, tools: Mapping[Side, EndEffectorTarget]) -> list[Waypoint]:
        """Grasp the head, lift, turn the peg over the hole, lower it, open, go up.

        A peg that has fallen over is fetched too; whether the wrist can set it upright depends on
        how it lies.
        """
        if self.success(data):
            return []
        tool, head = tools[Side.RIGHT], data.geom_xpos[self._head]
        deep = self.inserted(data) > self.depth + 0.004
        if self._pads <= self._peg.touching(data):
            if deep:
                return [go(tool, tool.position, closure=0.0), rise(tool, 0.16, 0.0)]
            T_world_tool = self._goal(data, tool)
            return release(tool, T_world_tool.translation, quat_wxyz(T_world_tool), 0.0025, 0.06)
        if deep:
            return retreat(tool, 0.16)
        quat = tool_down(tool, flat_axes(self._peg.quat(data)))
        over = self._socket.world(data, (0.0, 0.0, self._top + 0.15))
        return [*grasp(tool, head, quat), go(tool, over, quat, 1.0)]

    def _goal(self, data: mujoco.MjData, tool: EndEffectorTarget) -> RigidTransform:
        """Return the tool's pose that puts the held peg into the hole, at the best quarter turn."""
        T_peg_tool = self._peg.pose(data).inv() * tool.T_world_ee
        heading = T_peg_tool.rotation.apply([1.0, 0.0, 0.0])
        of_tool = float(np.arctan2(heading[1], heading[0]))
        yaws = flat_axes(self._socket.quat(data))
        yaw = yaws[best_yaw(tool, [yaw + of_tool for yaw in yaws])]
        end = self._socket.world(data, (0.0, 0.0, self._top - self.goal_depth))
        return pose(end, yaw_quat(yaw)) * T_peg_tool
