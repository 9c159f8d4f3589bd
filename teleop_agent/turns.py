"""Rotations as matrices (3, 3), which is how the agent computes with them between its borders.

A product of two such matrices costs a tenth of a product of two scipy Rotations; scipy still does
what is easy to get wrong, the exponential, the logarithm and the quaternion.
"""

import numpy as np
from scipy.spatial.transform import Rotation

from kinematics.frames import Array, quat_wxyz, rotation


def turn_exp(rotvec: Array) -> Array:
    """Return the rotation matrix (3, 3) of a rotation vector (3,) [rad]."""
    return Rotation.from_rotvec(rotvec).as_matrix()


def turn_log(turn: Array) -> Array:
    """Return the shortest rotation vector (3,) [rad] of a rotation matrix (3, 3)."""
    return Rotation.from_matrix(turn, assume_valid=True).as_rotvec()


def turn_quat(turn: Array) -> Array:
    """Return the wxyz quaternion (4,), w >= 0, of a rotation matrix (3, 3)."""
    return quat_wxyz(Rotation.from_matrix(turn, assume_valid=True))


def turn_matrix(quat: Array) -> Array:
    """Return the rotation matrix (3, 3) of a wxyz quaternion (4,)."""
    return rotation(quat).as_matrix()


def orthonormalise(turn: Array) -> Array:
    """Return the rotation nearest to a matrix (3, 3) that is one but for rounding; det > 0."""
    u, _, vt = np.linalg.svd(turn)
    return u @ vt


def norm(vector: Array) -> float:
    """Return the Euclidean length of a vector (3,)."""
    return float(np.sqrt(vector @ vector))


def shortened(vector: Array, limit: float) -> Array:
    """Return ``vector`` (3,), scaled down to length ``limit`` if it is longer."""
    length = norm(vector)
    return vector if length <= limit else vector * (limit / length)
