"""What a device publishes: raw, untouched, in the tracking frame."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntFlag

import numpy as np

from kinematics import Side
from kinematics.frames import Array


class Button(IntFlag):
    """Name the buttons by place, so that left and right read alike."""

    NONE = 0
    PRIMARY = 1
    """A on the right controller, X on the left."""
    SECONDARY = 2
    """B on the right controller, Y on the left."""
    STICK = 4
    """The thumb stick, pressed."""


def _untracked() -> Array:
    matrix = np.zeros((3, 4))
    matrix.flags.writeable = False
    return matrix


@dataclass(frozen=True, slots=True, eq=False)
class TrackedPose:
    """Hold one device's pose exactly as the runtime gave it, valid or not."""

    connected: bool = False
    valid: bool = False
    """The runtime's own flag."""
    tracked: bool = False
    """The runtime's tracking result was 'running, OK': position and rotation are measured."""
    matrix: Array = field(default_factory=_untracked)
    """(3, 4) ``T_tracking_device``, may be zero, improper or non-finite: the guard decides."""
    serial: str = ""
    """The device's serial number; empty when the source has none."""

    def __post_init__(self) -> None:
        matrix = np.array(self.matrix, dtype=np.float64)
        if matrix.shape != (3, 4):
            raise ValueError(f"pose matrix must have shape (3, 4), got {matrix.shape}")
        matrix.flags.writeable = False
        object.__setattr__(self, "matrix", matrix)


@dataclass(frozen=True, slots=True, eq=False)
class Controller:
    """Hold one controller's pose and inputs."""

    pose: TrackedPose = field(default_factory=TrackedPose)
    input_valid: bool = False
    """The inputs below were really read; when False they are zero and mean nothing."""
    trigger: float = 0.0
    """0 released .. 1 pulled."""
    grip: float = 0.0
    """0 released .. 1 squeezed."""
    stick: tuple[float, float] = (0.0, 0.0)
    """x right, y up, each -1 .. 1."""
    buttons: Button = Button.NONE


@dataclass(frozen=True, slots=True, eq=False)
class OperatorFrame:
    """Hold one sample of head and both controllers."""

    seq: int
    """Counts up by one with every sample of a device."""
    t_device_ns: int
    """When the poses were measured, on the session's clock [ns]."""
    t_recv_ns: int
    """When the sample reached this process, on the session's clock [ns]."""
    head: TrackedPose
    controllers: Mapping[Side, Controller]
    """Always both sides; a missing controller is ``Controller()``."""
    headset_worn: bool = True
    """False while the runtime says that the headset is off the head; True if it cannot tell."""
    space: int = 0
    """Counts how often the runtime said that the play space was moved: poses of two counts are not
    of one tracking frame."""
