"""Frames, targets and the shared inverse kinematics; knows numpy, scipy and mujoco only."""

from .engine import REQUIREMENT  # first: it tells of a MuJoCo that will not do
from .errors import KinematicsError, UnknownNameError
from .side import Side
from .targets import EndEffectorTarget, SpeedLimits, Waypoint, Workspace

__all__ = [
    "REQUIREMENT",
    "EndEffectorTarget",
    "KinematicsError",
    "Side",
    "SpeedLimits",
    "UnknownNameError",
    "Waypoint",
    "Workspace",
]
