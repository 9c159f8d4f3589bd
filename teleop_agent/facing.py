"""Know which way the operator faces: the turn between tracking and world."""

import numpy as np
from scipy.spatial.transform import Rotation

from kinematics.errors import KinematicsError
from kinematics.frames import Array, facing_yaw, world_from_tracking

from .frame import TrackedPose
from .guard import GuardConfig, pose_fault
from .reasons import Reason
from .turns import nearest_rotation


class Facing:
    """Hold the yaw that the operator's forward has in tracking; only `take` and `forget` change it.

    The head is looked at when asked and never in between, so turning it moves nothing.
    """

    def __init__(self, yaw: float | None = None, guard: GuardConfig | None = None) -> None:
        self._tolerance = (guard or GuardConfig()).rigid_tolerance
        self._configured = yaw
        self.forget()

    @property
    def yaw(self) -> float | None:
        """Return the yaw about tracking +y, left of -z [rad]; None while unknown."""
        return self._yaw

    @property
    def R_world_tracking(self) -> Array:
        """Return the rotation (3, 3) from tracking to world; for yaw 0 while that is unknown."""
        return self._matrix

    @property
    def T_world_tracking(self) -> Array:
        """Return ``R_world_tracking`` as (4, 4), read-only. The origins coincide: only the hand's
        motion since engagement counts, so that nothing depends on where tracking has its origin."""
        return self._transform

    def forget(self) -> None:
        """Go back to how it began: what was taken was of a tracking frame that is no more."""
        self._yaw = self._configured
        self._set_matrix(self._configured or 0.0)

    def take(self, head: TrackedPose) -> Reason | None:
        """Take the head's yaw as the facing; return why not if its pose cannot tell it."""
        fault = pose_fault(head, self._tolerance)
        if fault is not None:
            return fault
        turn = Rotation.from_matrix(nearest_rotation(head.matrix[:, :3]), assume_valid=True)
        try:
            self._yaw = facing_yaw(turn)
        except KinematicsError:
            return Reason.GAZE_VERTICAL
        self._set_matrix(self._yaw)
        return None

    def _set_matrix(self, yaw: float) -> None:
        self._transform = np.eye(4)
        self._transform[:3, :3] = world_from_tracking(yaw).as_matrix()
        self._transform.flags.writeable = False
        self._matrix = self._transform[:3, :3]
