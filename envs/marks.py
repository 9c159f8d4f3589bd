"""Frames drawn into a scene that are not part of the model: where a hand, a target, a tool is."""

from collections.abc import Mapping
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from kinematics.frames import Array

from .errors import OptionError


class Look(NamedTuple):
    """Say how a frame is drawn: a ball in a colour of its own, and axes x red, y green, z blue."""

    rgb: tuple[float, float, float]
    length: float
    """m of an axis."""
    alpha: float
    """Of the ball."""


LOOKS = {
    "hand": Look((0.17, 0.63, 0.17), 0.10, 0.3),
    "target": Look((1.00, 0.50, 0.05), 0.08, 0.5),
    "tool": Look((0.12, 0.47, 0.71), 0.06, 0.9),
}
"""By the last word of a mark's name; the colours are those of a report. Where all three are in one
place, each shows through the one before."""
MOST = 8
"""Marks at once: three for each of two arms, and two to spare."""
COLUMNS = 8
"""Numbers that a mark is passed on as: its kind, position, wxyz quaternion."""
_KINDS = tuple(LOOKS)
_BALL, _AXIS = 0.25, 0.08
"""Radii, as shares of an axis's length."""


def pack(marks: Mapping[str, Array]) -> npt.NDArray[np.float64]:
    """Return marks as numbers (MOST, COLUMNS) for another process; NaN where there is none.

    A mark is a pose (7,) in world, position [m] and wxyz quaternion, under a name whose last word
    is one of LOOKS, such as ``right target``. Poses with NaN are left out. Raises OptionError.
    """
    packed = np.full((MOST, COLUMNS), np.nan)
    if len(marks) > MOST:
        raise OptionError(f"at most {MOST} marks, got {len(marks)}")
    for row, (name, pose) in zip(packed, marks.items(), strict=False):
        kind = name.rpartition(" ")[2]
        if kind not in LOOKS or np.shape(pose) != (7,):
            raise OptionError(
                f"mark {name!r} with shape {np.shape(pose)} must be a pose (7,) and its name end "
                f"in one of {', '.join(LOOKS)}"
            )
        if np.isfinite(pose).all():
            row[0], row[1:] = _KINDS.index(kind), pose
    return packed


def add_marks(scene: mujoco.MjvScene, packed: npt.NDArray[np.float64]) -> None:
    """Append packed marks to a scene's geoms; what no longer fits in is left out."""
    turn = np.empty(9)
    for row in packed[np.isfinite(packed[:, 0])]:
        look, position = LOOKS[_KINDS[int(row[0])]], row[1:4].copy()
        mujoco.mju_quat2Mat(turn, row[4:].copy())
        ball = (_BALL * look.length, 0.0, 0.0)
        _add(scene, mujoco.mjtGeom.mjGEOM_SPHERE, ball, position, (*look.rgb, look.alpha))
        for axis in range(3):
            end = position + look.length * turn.reshape(3, 3)[:, axis]
            colour = (*np.eye(3)[axis].tolist(), 1.0)
            geom = _add(scene, mujoco.mjtGeom.mjGEOM_CAPSULE, ball, position, colour)
            if geom is not None:
                kind, radius = int(mujoco.mjtGeom.mjGEOM_CAPSULE), _AXIS * look.length
                mujoco.mjv_connector(geom, kind, radius, position, end)


def _add(
    scene: mujoco.MjvScene,
    kind: mujoco.mjtGeom,
    size: tuple[float, float, float],
    position: Array,
    rgba: tuple[float, ...],
) -> mujoco.MjvGeom | None:
    if scene.ngeom >= scene.maxgeom:
        return None
    geom, colour = scene.geoms[scene.ngeom], np.array(rgba, dtype=np.float32)
    mujoco.mjv_initGeom(geom, int(kind), np.array(size), position, np.eye(3).ravel(), colour)
    geom.category = int(mujoco.mjtCatBit.mjCAT_DECOR)
    scene.ngeom += 1
    return geom
