"""Frames, targets and the shared inverse kinematics; knows numpy, scipy and mujoco only."""

from .errors import KinematicsError, UnknownNameError
from .side import Side
from .targets import EndEffectorTarget, SpeedLimits, Waypoint, Workspace

__all__ = [
    "EndEffectorTarget",
    "KinematicsError",
    "Side",
    "SpeedLimits",
    "UnknownNameError",
    "Waypoint",
    "Workspace",
]
