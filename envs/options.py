"""Check what an environment is made with, before anything is built."""

import math
import operator
from collections.abc import Iterable, Mapping

from .errors import OptionError
from .rendering import MAX_SIDE
from .robots import ArmSpec
from .tasks import Task


def check_choice(option: str, value: object, choices: Iterable[object]) -> None:
    """Raise OptionError, listing the choices, unless ``value`` is one of them."""
    known = list(choices)
    if value not in known:
        raise OptionError(f"{option}={value!r} is unknown; choose from {known}")


def check_names(unknown: Iterable[str], options: Iterable[str]) -> None:
    """Raise OptionError, listing the options, if any name is ``unknown``."""
    wrong = sorted(unknown)
    if wrong:
        raise OptionError(f"unknown options {wrong}; choose from {list(options)}")


def check_seconds(option: str, value: object) -> None:
    """Raise OptionError unless ``value`` is a finite, positive number."""
    try:
        good = 0.0 < float(value) < math.inf  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        good = False
    if not good or isinstance(value, str):
        raise OptionError(f"{option} must be a finite number of seconds > 0, got {value!r}")


def check_pixels(option: str, value: object) -> None:
    """Raise OptionError unless ``value`` is a whole number of pixels that a picture can have."""
    try:
        good = 1 <= operator.index(value) <= MAX_SIDE  # pyright: ignore[reportArgumentType]
    except TypeError:
        good = False
    if not good:
        raise OptionError(f"{option} must be 1 to {MAX_SIDE} pixels, got {value!r}")


def check_reach(tasks: Mapping[str, type[Task]], name: str, arm: ArmSpec) -> None:
    """Raise OptionError when a task's things may lie farther off than the arm reaches."""
    reach = arm.workspace_upper[0]
    if tasks[name].reach_m > reach:
        suited = [n for n, task in tasks.items() if task.reach_m <= reach]
        raise OptionError(
            f"task={name!r} needs an arm that reaches {tasks[name].reach_m} m; the workspace of "
            f"{arm.mjcf.stem} ends at {reach} m: choose from {suited}"
        )
