"""The clutch: when the grip engages, and how hand motion becomes tool motion."""

from dataclasses import dataclass

import numpy as np

from kinematics.errors import KinematicsError
from kinematics.frames import Array, pose, rotation

from .errors import TeleopError


@dataclass(frozen=True, slots=True)
class ClutchConfig:
    """Tune the clutch."""

    squeeze: float = 0.6
    """Grip at which it engages. Runtimes set click bits at full pull only; this is halfway."""
    release: float = 0.4
    """Grip at which it lets go; the gap keeps a trembling finger from chattering."""
    scale: float = 0.6
    """Tool metres for one of the hand's: steadier than 1:1, and two 0.5 m strokes of the hand
    still cross the workspace's depth. Rotation is always 1:1: scaled, the tool would come out of
    line with the hand."""
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
    the hand about the vertical turns the tool about the vertical, whatever the tool's pose.
    """

    def __init__(self) -> None:
        self.anchor(np.zeros(3), np.eye(3), np.zeros(3), np.eye(3), 1.0)

    def anchor(
        self, hand_position: Array, hand_turn: Array, position: Array, turn: Array, scale: float
    ) -> None:
        """Let this hand pose mean this tool pose from now on.

        This engages; it also slides the anchor when a limit acted, and changes the scale without
        moving the target.
        """
        self._hand_position, self._hand_turn_inv = hand_position, hand_turn.T
        self._position, self._turn = position, turn
        self.scale = scale

    def target(self, hand_position: Array, hand_turn: Array) -> tuple[Array, Array]:
        """Return the tool's position and rotation that the hand asks for."""
        position = self._position + self.scale * (hand_position - self._hand_position)
        return position, hand_turn @ self._hand_turn_inv @ self._turn
