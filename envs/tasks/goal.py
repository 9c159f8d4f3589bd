"""Tasks that are about bringing a point to a point."""

from abc import abstractmethod
from typing import ClassVar

import mujoco

from kinematics.frames import Array

from .base import Task


class GoalTask(Task):
    """A task whose aim, or most of it, is that one point comes close to another."""

    tolerance: ClassVar[float]
    """m; closer than that the goal is achieved."""
    goal_names: ClassVar[tuple[str, ...]]
    """Entries of the ``object`` observation that say nothing but where the goal is."""

    @abstractmethod
    def goal(self, data: mujoco.MjData) -> tuple[Array, Array]:
        """Return the achieved and the desired point, (3,) each [m], world."""
