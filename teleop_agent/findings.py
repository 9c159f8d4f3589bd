"""What a check of the computer or the headset found, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Say how bad it is."""

    OK = "ok"
    WARNING = "warning"
    """Teleoperation works, but not at its best."""
    FAULT = "fault"
    """Teleoperation does not work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Hold one line of a doctor's report."""

    level: Level
    what: str
    """The thing that was looked at, such as ``SteamVR``."""
    found: str
    fix: str = ""
    """What to do; empty when all is well."""


def ok(what: str, found: str) -> Finding:
    """Report that all is well."""
    return Finding(Level.OK, what, found)


def warning(what: str, found: str, fix: str) -> Finding:
    """Report what makes teleoperation worse."""
    return Finding(Level.WARNING, what, found, fix)


def fault(what: str, found: str, fix: str) -> Finding:
    """Report what keeps teleoperation from working."""
    return Finding(Level.FAULT, what, found, fix)
