"""One file a task, one line each in the table."""

from .base import Task, TaskArm
from .lift_tray import LiftTray
from .pick import Pick
from .place import Place
from .reach import Reach
from .stack import Stack

TASKS: dict[str, type[Task]] = {
    "reach": Reach,
    "pick": Pick,
    "place": Place,
    "stack": Stack,
    "lift_tray": LiftTray,
}

__all__ = ["TASKS", "Task", "TaskArm"]
