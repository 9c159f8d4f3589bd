"""One file a task, one line each in the table."""

from .base import Task, TaskArm
from .drawer import Drawer
from .dual_peg import DualPeg
from .handover import Handover
from .lift_tray import LiftTray
from .open_lid import OpenLid
from .peg import Peg
from .pick import Pick
from .place import Place
from .push import Push
from .reach import Reach
from .sort import Sort
from .stack import Stack

TASKS: dict[str, type[Task]] = {
    "reach": Reach,
    "pick": Pick,
    "place": Place,
    "stack": Stack,
    "push": Push,
    "sort": Sort,
    "drawer": Drawer,
    "peg": Peg,
    "lift_tray": LiftTray,
    "handover": Handover,
    "dual_peg": DualPeg,
    "open_lid": OpenLid,
}

__all__ = ["TASKS", "Task", "TaskArm"]
