"""Touch a marker in the air with the tool centre."""

from collections.abc import Mapping

import mujoco
import numpy as np

from kinematics import EndEffectorTarget, Side, Waypoint
from kinematics.frames import Array
from kinematics.names import named_id

from ..scene import OBJECT
from .base import TaskArm
from .goal import GoalTask


class Reach(GoalTask):
    """Bring the right tool centre within 20 mm of the green marker and stay there."""

    name = "reach"
    instruction = "Move the gripper to the green marker and hold it there."
    objects = ("target",)
    time_limit_s = 10.0
    hold_s = 0.2
    object_names = (
        "target_x", "target_y", "target_z",
        "tool_to_target_x", "tool_to_target_y", "tool_to_target_z",
    )  # fmt: skip
    goal_names = object_names
    subtask_names = ("at_target",)
    tolerance = 0.02
    """m; the marker's radius."""
    reach_m = 0.0
    lower = np.array([0.25, 0.25, 0.04 / 0.84])
    upper = np.array([0.75, 0.75, 0.44 / 0.84])
    """Where the marker may be, in shares of the arm's workspace: reachable with the tool pointing
    down. For the Panda x 0.35 .. 0.65, y -0.25 .. 0.25, z 0.05 .. 0.45 m."""

    def __init__(self, model: mujoco.MjModel, arms: Mapping[Side, TaskArm]) -> None:
        super().__init__(model, arms)
        body = named_id(model, mujoco.mjtObj.mjOBJ_BODY, OBJECT + "target")
        self._mocap = int(model.body_mocapid[body])
        self._site = arms[Side.RIGHT].site
        self._workspace = box = arms[Side.RIGHT].workspace
        # Rounded to a micrometre, so that the same numbers come out as if they were written here.
        size = box.upper - box.lower
        self._lower = np.round(box.lower + self.lower * size, 6)
        self._upper = np.round(box.lower + self.upper * size, 6)

    def reset(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Put the marker anywhere in the box."""
        p_base = rng.uniform(self._lower, self._upper)
        data.mocap_pos[self._mocap] = self._workspace.to_world(p_base)

    def _offset(self, data: mujoco.MjData) -> Array:
        return data.mocap_pos[self._mocap] - data.site_xpos[self._site]

    def observe(self, data: mujoco.MjData) -> Array:
        """Return the marker's position and its offset from the tool, (6,) [m], world."""
        return np.concatenate([data.mocap_pos[self._mocap], self._offset(data)])

    def goal(self, data: mujoco.MjData) -> tuple[Array, Array]:
        """Return the tool centre and the marker."""
        return data.site_xpos[self._site], data.mocap_pos[self._mocap]

    def condition(self, data: mujoco.MjData) -> bool:
        """Return whether the tool centre is at the marker."""
        return mujoco.mju_norm3(self._offset(data)) < self.tolerance

    def subtasks(self, data: mujoco.MjData) -> dict[str, bool]:
        """Return whether the tool centre is at the marker."""
        return {"at_target": self.condition(data)}

    def shaped_reward(self, data: mujoco.MjData) -> float:
        """Return 1 - tanh(5 d): half at 11 cm."""
        return float(1.0 - np.tanh(5.0 * mujoco.mju_norm3(self._offset(data))))

    def guide(self, data: mujoco.MjData, tools: Mapping[Side, EndEffectorTarget]) -> list[Waypoint]:
        """Go straight there, keeping the tool's orientation."""
        if self.success(data):
            return []
        tool = tools[Side.RIGHT]
        target = EndEffectorTarget(
            Side.RIGHT, data.mocap_pos[self._mocap], tool.quat_wxyz, tool.closure
        )
        return [Waypoint(target, tolerance_m=self.tolerance / 2, tolerance_rad=0.5)]
