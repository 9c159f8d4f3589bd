"""What an environment shows of its state."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from kinematics import Side

from .arm import ArmController
from .randomize import SensorNoise
from .tasks import Task

Observation = dict[str, npt.NDArray[Any]]
"""By key; float32 but for pictures."""


class Observer:
    """Read the observation of arms and task: fresh arrays, never views of the simulation."""

    def __init__(self, arms: Mapping[Side, ArmController], task: Task) -> None:
        self._arms, self._task = tuple(arms.values()), task
        self.boxes = boxes = self._boxes()
        """By key, in the order of the entries."""
        every: dict[str, spaces.Space[Any]] = {**boxes}
        self.space = spaces.Dict(every)
        self.noise: SensorNoise | None = None
        """What the sensors err, where an episode's dynamics are drawn."""
        ends = np.cumsum([spaces.flatdim(box) for box in boxes.values()]).tolist()
        spans = [slice(*span) for span in pairwise([0, *ends])]
        self._parts = tuple(zip(boxes, spans, strict=True))

    def _boxes(self) -> dict[str, spaces.Box]:
        """Bound the observations: generously, since MuJoCo's joint limits are soft.

        The arms' entries robot by robot, then ``object``.
        """
        boxes: dict[str, spaces.Box] = {}

        def box(key: str, lower: npt.ArrayLike, upper: npt.ArrayLike) -> None:
            low, high = np.asarray(lower, np.float32), np.asarray(upper, np.float32)
            boxes[key] = spaces.Box(low, high, dtype=np.float32)

        for index, arm in enumerate(self._arms):
            robot = f"robot{index}_"
            for key in ("eef", "target"):
                box(robot + key + "_pos", np.full(3, -_FAR), np.full(3, _FAR))
                box(robot + key + "_quat", np.full(4, -1.01), np.full(4, 1.01))
            margin = 0.5  # rad; the arm's whole force moves a joint 0.1 rad past its range
            box(robot + "joint_pos", arm.ik.lower - margin, arm.ik.upper + margin)
            # rad/s; ten times the joints' speed limits, and not less than ten times the Panda's
            fast = np.maximum(10.0 * arm.ik.velocity_limits, 30.0)
            box(robot + "joint_vel", -fast, fast)
            opening = arm.gripper.max_opening
            box(robot + "gripper_qpos", [-0.25 * opening], [1.25 * opening])
        wide = np.full(len(self._task.object_names), self._task.object_bound)
        box("object", -wide, wide)
        return boxes

    def observe(self, data: mujoco.MjData) -> Observation:
        """Return the observation as of the last kinematics pass."""
        entries: list[float] = []
        for arm in self._arms:  # in the order of the boxes
            entries += arm.observe(data)
        objects, bound = self._task.observe(data).tolist(), self._task.object_bound
        if max(objects) > bound or min(objects) < -bound:
            objects = [min(max(entry, -bound), bound) for entry in objects]
        entries += objects
        if self.noise is not None:
            entries = self.noise.added(entries, data.time)
        # Converted at once and cut up afterwards: what counts is the number of calls.
        flat = np.array(entries, dtype=np.float32)
        return {key: flat[part] for key, part in self._parts}


_FAR = 5.0
"""m; the tool never leaves this cube, wherever the base stands."""
