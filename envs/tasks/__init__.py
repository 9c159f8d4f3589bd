"""One file a task, one line each in the table."""

from .base import Task, TaskArm
from .pick import Pick
from .reach import Reach

TASKS: dict[str, type[Task]] = {
    "reach": Reach,
    "pick": Pick,
}

__all__ = ["TASKS", "Task", "TaskArm"]
