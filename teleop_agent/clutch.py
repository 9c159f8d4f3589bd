"""The clutch: when the grip engages, and how hand motion becomes tool motion."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from kinematics.errors import KinematicsError
from kinematics.frames import Array, pose, rotation

from .errors import TeleopError
from .turns import turn_exp, turn_log


class Lock(StrEnum):
    """Say which part of the hand's motion moves the tool."""

    FREE = "free"
    MOVE = "move only"
    """The tool keeps its rotation."""
    TURN = "turn only"
    """The tool keeps its position."""
    TOOL_AXIS = "tool axis"
    """The tool moves along its own z and turns about it: knobs, screws, pegs."""


class Ratio(NamedTuple):
    """Say how hand motion becomes tool motion at an instant."""

    move: float
    """Tool metres for one of the hand's."""
    turn: float
    """Tool radians for one of the hand's."""
    lock: Lock


@dataclass(frozen=True, slots=True)
class ClutchConfig:
    """Tune the clutch."""

    squeeze: float = 0.6
    """Grip at which it engages. Runtimes set click bits at full pull only; this is halfway."""
    release: float = 0.4
    """Grip at which it lets go; the gap keeps a trembling finger from chattering."""
    scale: float = 0.6
    """Tool metres for one of the hand's: steadier than 1:1, and two 0.5 m strokes of the hand
    still cross the workspace's depth. Rotation is 1:1 unless the operator asks otherwise: scaled,
    the tool comes out of line with the hand."""
    fine: float = 0.2
    """Share of the scale while the stick is pressed; position only, for the same reason."""
    grip_position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """(3,) [m] of the grip in the device's frame. Runtimes place a controller's origin
    differently; motion is relative, so identity serves unless turning the hand moves the tool."""
    grip_quat_wxyz: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    """Rotation of the grip in the device's frame."""

    def __post_init__(self) -> None:
        if not 0.0 < self.release < self.squeeze < 1.0:
            raise TeleopError(
                "clutch thresholds must rise 0 < release < squeeze < 1, "
                f"got release {self.release}, squeeze {self.squeeze}"
            )
        if not (0.0 < self.scale <= 5.0 and 0.0 < self.fine <= 1.0):
            raise TeleopError(
                f"scale must be within (0, 5] and fine within (0, 1], "
                f"got {self.scale} and {self.fine}"
            )
        try:
            pose(self.grip_position, self.grip_quat_wxyz)
        except KinematicsError as e:
            raise TeleopError(f"grip offset is no pose: {e}") from e


class GripOffset:
    """Move a device's pose to its grip, ``T_tracking_grip = T_tracking_device T_device_grip``."""

    def __init__(self, config: ClutchConfig) -> None:
        self._position = np.array(config.grip_position)
        self._turn = rotation(config.grip_quat_wxyz).as_matrix()
        self._identity = not self._position.any() and np.array_equal(self._turn, np.eye(3))

    def apply(self, position: Array, turn: Array) -> tuple[Array, Array]:
        """Return position (3,) [m] and rotation (3, 3) of the grip in tracking."""
        if self._identity:
            return position, turn
        return position + turn @ self._position, turn @ self._turn


class Clutch:
    """Map the hand's motion since the anchor, scaled, onto the tool's pose at the anchor.

    All poses in world: positions (3,) [m], rotations (3, 3).
    ``p_ee = p_ee0 + scale (p_hand - p_hand0)`` and ``R_ee = (R_hand R_hand0^-1) R_ee0``: turning
    the hand about the vertical turns the tool about the vertical, whatever the tool's pose. A
    ratio other than 1:1 scales the rotation vector of ``R_hand R_hand0^-1``; a lock takes parts of
    the motion away.
    """

    def __init__(self) -> None:
        self.anchor(np.zeros(3), np.eye(3), np.zeros(3), np.eye(3), Ratio(1.0, 1.0, Lock.FREE))

    def anchor(
        self, hand_position: Array, hand_turn: Array, position: Array, turn: Array, ratio: Ratio
    ) -> None:
        """Let this hand pose mean this tool pose from now on.

        This engages; it also slides the anchor when a limit acted, and changes the ratio without
        moving the target.
        """
        self._hand_position, self._hand_turn_inv = hand_position, hand_turn.T
        self._position, self._turn = position, turn
        self.ratio = ratio

    def target(self, hand_position: Array, hand_turn: Array) -> tuple[Array, Array]:
        """Return the tool's position and rotation that the hand asks for."""
        ratio = self.ratio
        move = ratio.move * (hand_position - self._hand_position)
        turn = hand_turn @ self._hand_turn_inv
        if ratio.turn == 1.0 and ratio.lock is Lock.FREE:  # no logarithm: good for any turn
            return self._position + move, turn @ self._turn
        spin = ratio.turn * turn_log(turn)
        if ratio.lock is Lock.TOOL_AXIS:
            axis = self._turn[:, 2]
            move, spin = (axis @ move) * axis, (axis @ spin) * axis
        position = self._position if ratio.lock is Lock.TURN else self._position + move
        if ratio.lock is Lock.MOVE:
            return position, self._turn
        return position, turn_exp(spin) @ self._turn

    def turned(self, hand_turn: Array) -> bool:
        """Return whether the hand has turned so far that its logarithm may soon flip.

        The next anchor must be set before: beyond half a turn the shortest way is the other way.
        """
        if self.ratio.turn == 1.0 and self.ratio.lock in (Lock.FREE, Lock.MOVE):
            return False
        return float(np.vdot(hand_turn, self._hand_turn_inv.T)) < _THIRD_OF_A_TURN


_THIRD_OF_A_TURN = 1.0 + 2.0 * math.cos(2.0 * math.pi / 3.0)
"""Trace of such a rotation; a hand makes no 60 degrees between two control steps."""
