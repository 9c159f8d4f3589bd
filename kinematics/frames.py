"""Frames, axes and the one boundary to scipy's rotations.

``T_a_b`` is the pose of frame b in frame a: ``p_a = T_a_b p_b``. Quaternions are wxyz, unit
length. *tracking* is the headset runtime's frame (right-handed, x right, y up, -z forward);
*world* is MuJoCo's (x forward, y left, z up). Distances in m, angles in rad.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import RigidTransform, Rotation

from .errors import KinematicsError

Array = npt.NDArray[np.float64]


def axes_table(x_row: Sequence[float], y_row: Sequence[float]) -> Array:
    """Build a rotation matrix (3, 3) from its first two rows; the third is their cross product.

    Writing only two rows by hand makes a mirrored table impossible: det is +1 by construction,
    and rows that are not orthonormal are refused.
    """
    x, y = np.asarray(x_row, float), np.asarray(y_row, float)
    table = np.stack([x, y, np.cross(x, y)])
    if not np.allclose(table @ table.T, np.eye(3), atol=1e-12):
        raise KinematicsError(f"axis rows {x.tolist()} and {y.tolist()} are not orthonormal")
    if not np.isclose(np.linalg.det(table), 1.0, atol=1e-12):
        raise KinematicsError(f"axis rows {x.tolist()} and {y.tolist()} give a mirrored table")
    table.flags.writeable = False
    return table


R_WORLD_TRACKING = axes_table((0.0, 0.0, -1.0), (-1.0, 0.0, 0.0))
"""Tracking axes to world axes for an operator facing -z: forward stays forward, up stays up."""


R_CAMERA_OPENCV = axes_table((1.0, 0.0, 0.0), (0.0, -1.0, 0.0))
"""OpenCV's camera axes (x right, y down, z along the view) to MuJoCo's (x right, y up, looks along
-z): diag(1, -1, -1)."""
T_CAMERA_OPENCV = RigidTransform.from_rotation(Rotation.from_matrix(R_CAMERA_OPENCV))
"""On the right of T_world_camera it gives the pose in OpenCV's camera axes."""


def rotation(quat_wxyz: npt.ArrayLike) -> Rotation:
    """Return scipy's Rotation of a wxyz quaternion (4,); refuse zero or non-finite ones."""
    quat = np.asarray(quat_wxyz, float)
    if quat.shape != (4,) or not np.all(np.isfinite(quat)) or np.linalg.norm(quat) < 1e-6:
        raise KinematicsError(f"quaternion {quat.tolist()} is not a finite, non-zero wxyz (4,)")
    return Rotation.from_quat(quat, scalar_first=True)


def quat_wxyz(turn: Rotation | RigidTransform) -> Array:
    """Return the wxyz quaternion (4,), w >= 0, of a rotation or of a pose's rotation."""
    turn = turn.rotation if isinstance(turn, RigidTransform) else turn
    return turn.as_quat(canonical=True, scalar_first=True)


def pose(position: npt.ArrayLike, quat: npt.ArrayLike = (1.0, 0.0, 0.0, 0.0)) -> RigidTransform:
    """Return ``T_a_b`` from the position (3,) [m] and wxyz quaternion (4,) of b in a."""
    point = np.asarray(position, float)
    if point.shape != (3,) or not np.all(np.isfinite(point)):
        raise KinematicsError(f"position {point.tolist()} is not a finite (3,)")
    return RigidTransform.from_components(point, rotation(quat))


def world_from_tracking(yaw: float = 0.0) -> Rotation:
    """Return ``R_world_tracking`` for an operator facing ``yaw`` [rad] left of tracking's -z.

    The operator's forward becomes world +x, up stays up. ``yaw`` is about tracking +y,
    counter-clockwise seen from above.
    """
    return Rotation.from_matrix(R_WORLD_TRACKING) * Rotation.from_rotvec([0.0, -yaw, 0.0])


def facing_yaw(R_tracking_head: Rotation) -> float:
    """Return the yaw [rad] about tracking +y of the head's gaze (its -z), ignoring pitch and roll.

    Raises KinematicsError for a gaze within 10 degrees of vertical, where yaw means nothing.
    """
    gaze = R_tracking_head.apply([0.0, 0.0, -1.0])
    if np.hypot(gaze[0], gaze[2]) < np.sin(np.deg2rad(10.0)):
        raise KinematicsError(f"gaze {gaze.tolist()} is vertical; look ahead and try again")
    return float(np.arctan2(-gaze[0], -gaze[2]))
