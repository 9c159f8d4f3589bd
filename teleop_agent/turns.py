"""Rotations as matrices (3, 3), which is how the agent computes with them between its borders.

MuJoCo's own functions do what is easy to get wrong (exponential, logarithm, quaternion); they take
a twentieth of scipy's time, which counts at several a sample.
"""

import mujoco
import numpy as np

from kinematics.frames import Array

_NO_TURN = (1.0, 0.0, 0.0, 0.0)


def turn_exp(rotvec: Array) -> Array:
    """Return the rotation matrix (3, 3) of a rotation vector (3,) [rad]."""
    quat = np.array(_NO_TURN)
    mujoco.mju_quatIntegrate(quat, rotvec, 1.0)
    return turn_matrix(quat)


def turn_log(turn: Array) -> Array:
    """Return the shortest rotation vector (3,) [rad] of a rotation matrix (3, 3)."""
    rotvec = np.empty(3)
    mujoco.mju_quat2Vel(rotvec, turn_quat(turn), 1.0)
    return rotvec


def turn_quat(turn: Array) -> Array:
    """Return the wxyz quaternion (4,), w >= 0, of a rotation matrix (3, 3)."""
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, turn.ravel())
    return -quat if quat[0] < 0.0 else quat


def turn_matrix(quat: Array) -> Array:
    """Return the rotation matrix (3, 3) of a unit wxyz quaternion (4,)."""
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, quat)
    return matrix.reshape(3, 3)


def renormalised(turn: Array) -> Array:
    """Return a rotation matrix (3, 3) without the rounding that products have left in it."""
    return turn_matrix(turn_quat(turn))


def nearest_rotation(matrix: Array) -> Array:
    """Return the rotation nearest to a measured matrix (3, 3) of positive determinant."""
    u, _, vt = np.linalg.svd(matrix)
    return u @ vt


def norm(vector: Array) -> float:
    """Return the Euclidean length of a vector (3,)."""
    return float(np.sqrt(vector @ vector))


def shortened(vector: Array, limit: float) -> Array:
    """Return ``vector`` (3,), scaled down to length ``limit`` if it is longer."""
    length = norm(vector)
    return vector if length <= limit else vector * (limit / length)
