"""Put a cube into a drawer."""

from collections.abc import Mapping

import mujoco
import numpy as np

from kinematics import EndEffectorTarget, Side, Waypoint
from kinematics.frames import Array
from kinematics.names import named_id

from ..scene import OBJECT
from .base import Task, TaskArm
from .moves import (
    CLOSED,
    SLACK,
    TURN,
    approach,
    flat_axes,
    go,
    grasp,
    release,
    retreat,
    rise,
    tool_down,
    turn_between,
)
from .things import REST_SPEED, Fixture, FreeObject, pad_geoms, robot_geoms


class Drawer(Task):
    """Open the drawer by its handle, lay the cube in, and close it."""

    name = "drawer"
    instruction = "Open the drawer, put the red cube into it and close the drawer."
    objects = ("cube", "drawer")
    time_limit_s = 90.0
    hold_s = 0.5
    object_names = (
        *FreeObject.observed_names("cube"),
        "drawer_x", "drawer_y", "drawer_z", "drawer_qw", "drawer_qz", "drawer_opening",
        "handle_x", "handle_y", "handle_z",
    )  # fmt: skip
    subtask_names = ("opened", "grasped", "in_drawer", "closed")
    resizable = (OBJECT + "cube",)
    cabinet_lower = np.array([0.56, -0.02, -0.10])
    cabinet_upper = np.array([0.60, 0.02, 0.10])
    """x, y [m] and yaw [rad] of the cabinet's front: the open drawer is within reach."""
    cube_lower = np.array([0.36, 0.215])
    cube_upper = np.array([0.48, 0.28])
    """m; x and |y| of the cube: an open finger fits between it and the open drawer."""
    opened = 0.11
    """m; the drawer is open: the cube goes in with the fingers around it."""
    pull = 0.13
    """m; how far the guide opens it."""
    closed = 0.010
    """m; less is closed."""
    height = 0.058
    """m; of the tool at the handle's post: finger tips 16 mm beside it."""
    thickness = 0.0090
    """m; half of the closed fingers, in the direction of the push."""
    setback = 0.03
    """m between finger and post where the tool comes down to close."""
    drop = (0.055, 0.0, 0.070)
    """m; where the cube is let go, in the drawer's frame: over its open part and its walls."""
    aside = (0.42, 0.25)
    """m; x and |y| where the guide lays a cube that is in the way."""

    def __init__(self, model: mujoco.MjModel, arms: Mapping[Side, TaskArm]) -> None:
        super().__init__(model, arms)
        self._cube = FreeObject(model, OBJECT + "cube")
        self._cabinet = Fixture(model, OBJECT + "drawer")
        joint = model.joint(OBJECT + "tray_joint")
        self._qpos, self._dof = int(joint.qposadr[0]), int(joint.dofadr[0])
        geom = mujoco.mjtObj.mjOBJ_GEOM
        self._floor, self._left, self._back, self._post = (
            named_id(model, geom, f"{OBJECT}tray_{part}")
            for part in ("floor", "left", "back", "post")
        )
        self._site = arms[Side.RIGHT].site
        self._pads = pad_geoms(model, arms[Side.RIGHT])
        self._robot = robot_geoms(model, arms)

    def reset(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Put the closed cabinet in front of the arm and the cube to its left or right."""
        x, y, yaw = rng.uniform(self.cabinet_lower, self.cabinet_upper)
        self._cabinet.put(data, (x, y, 0.0), yaw)
        data.qpos[self._qpos] = 0.0
        x, y = rng.uniform(self.cube_lower, self.cube_upper)
        half = self.model.geom_size[self._cube.geoms[0], 2]
        side = rng.choice([-1.0, 1.0])
        self._cube.put(data, (x, side * y, half), rng.uniform(-np.pi, np.pi))

    def observe(self, data: mujoco.MjData) -> Array:
        """Return the cube, the cabinet's pose, the drawer's opening and handle, (19,) [m]."""
        found = np.empty(19)
        self._cube.observe(data, self._site, found[:10])
        found[10:13] = self._cabinet.position(data)
        found[13:15] = self._cabinet.quat(data)[[0, 3]]
        found[15] = self.opening(data)
        found[16:] = data.geom_xpos[self._post]
        return found

    def opening(self, data: mujoco.MjData) -> float:
        """Return how far the drawer is pulled out [m]."""
        return float(data.qpos[self._qpos])

    def _local(self, data: mujoco.MjData, point: Array) -> Array:
        """Return a point (3,) of world in the drawer's frame, which moves with it [m]."""
        return self._cabinet.local(data, point) + np.array([self.opening(data), 0.0, 0.0])

    def _world(self, data: mujoco.MjData, x: float, y: float, z: float) -> Array:
        """Return a point of the drawer's frame in world, (3,) [m]."""
        return self._cabinet.world(data, (x - self.opening(data), y, z))

    def _inside(self, data: mujoco.MjData, above: float = 0.0) -> bool:
        """Return whether the cube's centre is between the drawer's walls and under their rim.

        ``above`` [m]: at most so far above the rim.
        """
        model = self.model
        x, y, z = self._local(data, self._cube.position(data)).tolist()
        left, back = model.geom_pos[self._left], model.geom_pos[self._back]
        rim = left[2] + model.geom_size[self._left, 2]
        return bool(0.0 < x < back[0] and abs(y) < left[1] and 0.0 < z < rim + above)

    def condition(self, data: mujoco.MjData) -> bool:
        """Return whether the cube lies still in the closed drawer, and the robot lets it be."""
        return (
            self.opening(data) < self.closed
            and abs(data.qvel[self._dof]) < REST_SPEED
            and self._inside(data)
            and self._robot.isdisjoint(self._cube.touching(data))
            and self._cube.at_rest(data)
        )

    def subtasks(self, data: mujoco.MjData) -> dict[str, bool]:
        """Return whether the drawer is open, the cube held or in it, and all is closed."""
        inside, touching = self._inside(data), self._cube.touching(data)
        inside_alone = inside and self._robot.isdisjoint(touching)
        return {
            "opened": self.opening(data) >= self.opened,
            "grasped": self._pads <= touching,
            "in_drawer": inside_alone,
            "closed": inside_alone and self.opening(data) < self.closed,
        }

    def shaped_reward(self, data: mujoco.MjData) -> float:
        """Return 0.3 for opening, 0.3 for the cube's way, then 0.3 more for closing."""
        wide = float(np.clip(self.opening(data) / self.opened, 0.0, 1.0))
        if self._inside(data):
            return 0.69 + 0.3 * (1.0 - wide)
        cube, tool = self._cube.position(data), data.site_xpos[self._site]
        goal = tool if wide < 1.0 else cube
        at_handle = 1.0 - np.tanh(5.0 * mujoco.mju_norm3(data.geom_xpos[self._post] - goal))
        reward = 0.1 * (at_handle if wide < 1.0 else 1.0) + 0.2 * wide
        if wide < 1.0:
            return float(reward)
        near = 1.0 - np.tanh(5.0 * mujoco.mju_norm3(cube - tool))
        held = float(self._pads <= self._cube.touching(data))
        way = held * (1.0 - np.tanh(5.0 * mujoco.mju_norm3(cube - self._world(data, *self.drop))))
        return float(reward + 0.1 * (near + held + way))

    # The guide.

    def guide(self, data: mujoco.MjData, tools: Mapping[Side, EndEffectorTarget]) -> list[Waypoint]:
        """Pull the handle, let it go, bring the cube, push the drawer shut."""
        if self.success(data):
            return []
        tool = tools[Side.RIGHT]
        wide = self.opening(data) >= self.opened
        if self._pads <= self._cube.touching(data):
            return self._bring(data, tool) if wide else self._lay_aside(data, tool)
        if self._inside(data, 0.03):  # falling into it, too: not to be caught again
            return self._close(data, tool)
        if not wide and not self._in_the_way(data):
            return self._open(data, tool)
        if self._post in self._touched(data):
            return retreat(tool, 0.16)
        quat = tool_down(tool, flat_axes(self._cube.quat(data)))
        return [*grasp(tool, self._cube.position(data), quat), rise(tool, 0.16, 1.0)]

    def _touched(self, data: mujoco.MjData) -> set[int]:
        """Return the geoms that both pads touch."""
        pairs = data.contact.geom
        found = [
            set(pairs[(pairs == pad).any(axis=1)].ravel().tolist()) - self._robot
            for pad in self._pads
        ]
        return set.intersection(*found)

    def _in_the_way(self, data: mujoco.MjData) -> bool:
        """Return whether the cube lies where the drawer will come."""
        x, y, _ = self._cabinet.local(data, self._cube.position(data)).tolist()
        return -0.25 < x < 0.0 and abs(y) < 0.13

    def _square(self, data: mujoco.MjData, tool: EndEffectorTarget) -> Array:
        """Return the tool's wxyz with the fingers left and right of the handle."""
        w, _, _, z = self._cabinet.quat(data).tolist()
        yaw = 2.0 * float(np.arctan2(z, w))
        return tool_down(tool, [yaw, yaw + np.pi])

    def _handle(self, data: mujoco.MjData, setback: float = 0.0) -> Array:
        """Return where the tool holds the post, or ``setback`` before it, (3,) [m]."""
        x, y, _ = self._local(data, data.geom_xpos[self._post]).tolist()
        return self._world(data, x - setback, y, self.height)

    def _open(self, data: mujoco.MjData, tool: EndEffectorTarget) -> list[Waypoint]:
        quat = self._square(data, tool)
        left = self.pull - self.opening(data)
        pulled = go(tool, self._handle(data, left), quat, 1.0, 0.006)
        if self._post in self._touched(data):
            return [pulled]
        return [*grasp(tool, self._handle(data), quat), pulled]

    def _bring(self, data: mujoco.MjData, tool: EndEffectorTarget) -> list[Waypoint]:
        held = tool.position - self._cube.position(data)
        return release(tool, self._world(data, *self.drop) + held, tool.quat_wxyz, 0.012)

    def _lay_aside(self, data: mujoco.MjData, tool: EndEffectorTarget) -> list[Waypoint]:
        half = float(self.model.geom_size[self._cube.geoms[0], 2])
        x, y = self.aside
        place = np.array([x, np.copysign(y, tool.position[1]), half + 0.003])
        held = tool.position - self._cube.position(data)
        return release(tool, place + held, tool.quat_wxyz, 0.008)

    def _close(self, data: mujoco.MjData, tool: EndEffectorTarget) -> list[Waypoint]:
        if self.opening(data) < 0.5 * self.closed:
            return retreat(tool, 0.18)
        if tool.closure < CLOSED:  # away from the cube before the fingers close
            up = tool.position[2] > self.drop[2] + 0.05
            return [go(tool, tool.position, closure=1.0) if up else rise(tool, 0.16, 0.0)]
        quat = self._square(data, tool)
        reach = float(self.model.geom_size[self._post, 0]) + self.thickness
        shut = self._handle(data, reach - self.opening(data))
        push = go(tool, shut, quat, 1.0, 0.003)
        offset = self._local(data, tool.position) - self._local(data, self._handle(data))
        beside = abs(offset[1]) < 0.012 and abs(offset[2]) < 0.012
        before = -reach - 2 * self.setback < offset[0] < -reach + 0.004
        if beside and before and turn_between(quat, tool.quat_wxyz) < TURN * SLACK:
            return [push]
        start = self._handle(data, reach + self.setback)
        return [*approach(tool, start, quat, 1.0, 0.008), push]
