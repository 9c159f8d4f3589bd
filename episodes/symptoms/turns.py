"""Rotations of many rows at once, as wxyz quaternions (T, 4); NaN passes through."""

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from kinematics.frames import quat_wxyz

Floats = npt.NDArray[np.float64]


def conjugated(quats: Floats) -> Floats:
    """Return the inverse rotations."""
    return quats * np.array([1.0, -1.0, -1.0, -1.0])


def product(a: Floats, b: Floats) -> Floats:
    """Return the quaternions of the rotations b, then a."""
    w, v = a[..., :1], a[..., 1:]
    u, r = b[..., :1], b[..., 1:]
    real = w * u - np.sum(v * r, axis=-1, keepdims=True)
    return np.concatenate([real, w * r + u * v + np.cross(v, r)], axis=-1)


def rotvecs(quats: Floats) -> Floats:
    """Return the shortest rotation vectors (T, 3) [rad]."""
    signed = np.where(quats[..., :1] < 0.0, -quats, quats)
    sine = np.linalg.norm(signed[..., 1:], axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, signed[..., :1])
    return signed[..., 1:] * np.where(sine > 1e-12, angle / np.maximum(sine, 1e-12), 2.0)


def matrices(quats: Floats) -> Floats:
    """Return rotation matrices (T, 3, 3)."""
    w, x, y, z = np.moveaxis(quats, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)


def quats_of(turns: Floats) -> Floats:
    """Return the quaternions of measured matrices (T, 3, 3); NaN for what is no rotation."""
    out = np.full((len(turns), 4), np.nan)
    sound = np.flatnonzero(np.isfinite(turns).all(axis=(1, 2)))
    sound = sound[np.linalg.det(turns[sound]) > 0.5]
    if len(sound):
        out[sound] = quat_wxyz(Rotation.from_matrix(turns[sound]))
    return out
