"""Cameras of a model: their names, where they stand, and their pictures as observations."""

from collections.abc import Iterable, Sequence
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from scipy.spatial.transform import RigidTransform, Rotation

from kinematics import Side
from kinematics.frames import Array
from kinematics.names import names_of

from .errors import OptionError
from .options import check_choice, check_pixels
from .rendering import OffscreenRenderer, far_plane
from .scene import HAND

CAMERA_MODES = {"rgb": "image", "depth": "depth", "segmentation": "segmentation"}
"""What a camera can show, and how the key of the observation ends, as in robomimic's files."""


def find_cameras(model: mujoco.MjModel, sides: Iterable[Side]) -> dict[str, str]:
    """Return the cameras' names in the model by the names they go by in options and observations.

    A camera of a tool or an arm is ``<side>_<name>``; ``wrist`` is the first arm's tool's, if that
    has one. A slash would make groups of an observation's key in HDF5.
    """
    names = names_of(model, mujoco.mjtObj.mjOBJ_CAMERA)
    found = {name.replace(f"/{HAND}", "_").replace("/", "_"): name for name in names if name}
    wrist = next(iter(sides)).prefix + HAND + "wrist"
    return {**found, "wrist": wrist} if wrist in names else found


def intrinsics(model: mujoco.MjModel, camera: str, width: int, height: int) -> Array:
    """Return K (3, 3) [px] of a camera by its name in the model, for pictures of this size.

    OpenCV's convention: (0, 0) is the centre of the top left pixel, u to the right, v down; hence
    the optical axis meets the picture at ((width - 1) / 2, (height - 1) / 2). Pixels are square
    and there is no distortion. Raises OptionError for a camera that is no plain pinhole.
    """
    index = model.camera(camera).id
    if model.cam_projection[index] != mujoco.mjtProjection.mjPROJ_PERSPECTIVE.value:
        raise OptionError(f"camera {camera!r} is not a perspective one: it has no intrinsics")
    if model.cam_sensorsize[index].any():
        raise OptionError(
            f"camera {camera!r} has a sensorsize: give it a fovy instead, whose K is known"
        )
    focal = 0.5 * height / np.tan(0.5 * np.deg2rad(model.cam_fovy[index]))
    middle = (0.5 * (width - 1), 0.5 * (height - 1))
    return np.array([[focal, 0.0, middle[0]], [0.0, focal, middle[1]], [0.0, 0.0, 1.0]])


def camera_pose(model: mujoco.MjModel, data: mujoco.MjData, camera: str) -> RigidTransform:
    """Return T_world_camera in MuJoCo's camera axes, for the bodies' present poses.

    For OpenCV's axes: ``T_world_camera * T_CAMERA_OPENCV``.
    """
    mujoco.mj_camlight(model, data)  # a step brings bodies up to date, but not cameras
    seen = data.camera(camera)
    turn = Rotation.from_matrix(seen.xmat.reshape(3, 3))
    return RigidTransform.from_components(seen.xpos.copy(), turn)


class CameraObserver:
    """Render what the chosen cameras see; nothing is built before the first picture.

    Without shadows and reflections, as all our pictures: on a CPU they cost 2.8 times the time.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        known: dict[str, str],
        cameras: Sequence[str],
        modes: Sequence[str],
        width: int,
        height: int,
    ) -> None:
        """Check the choice; ``known`` is of ``find_cameras``. Raises OptionError."""
        check_pixels("camera_width", width)
        check_pixels("camera_height", height)
        _check_several("cameras", cameras, known)
        _check_several("camera_modes", modes, CAMERA_MODES)
        if cameras and not modes:
            raise OptionError(f"camera_modes is empty; choose from {list(CAMERA_MODES)}")
        self._model, self._modes = model, tuple(modes)
        self.width, self.height = int(width), int(height)
        self._cameras = {name: known[name] for name in cameras}
        self._renderer: OffscreenRenderer | None = None
        self.boxes = {
            f"{name}_{CAMERA_MODES[mode]}": self._box(mode)
            for name in cameras
            for mode in self._modes
        }

    def _box(self, mode: str) -> spaces.Space[Any]:
        size, ngeom = (self.height, self.width), self._model.ngeom
        if mode == "rgb":
            return spaces.Box(0, 255, (*size, 3), np.uint8)
        if mode == "depth":
            return spaces.Box(0.0, far_plane(self._model), (*size, 1), np.float32)
        return spaces.Box(-1, ngeom - 1, (*size, 1), np.int32)

    def observe(self, data: mujoco.MjData) -> dict[str, npt.NDArray[Any]]:
        """Return the pictures by key, fresh arrays; ``data``'s cameras must be up to date."""
        if not self._cameras:
            return {}
        if self._renderer is None:
            self._renderer = OffscreenRenderer(self._model, self.width, self.height)
        pictures: dict[str, npt.NDArray[Any]] = {}
        for name, camera in self._cameras.items():
            taken = self._renderer.capture(data, camera, self._modes)
            pictures |= {f"{name}_{CAMERA_MODES[mode]}": taken[mode] for mode in self._modes}
        return pictures

    def close(self) -> None:
        """Free the context; calling it twice is fine, and so is observing again."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


def _check_several(option: str, values: Sequence[str], choices: Iterable[str]) -> None:
    """Raise OptionError unless ``values`` are different ones of the choices."""
    if isinstance(values, str):
        raise OptionError(f"{option} takes several names: ({values!r},) instead of {values!r}")
    for value in values:
        check_choice(option, value, choices)
    if len(set(values)) < len(values):
        raise OptionError(f"{option}={list(values)} names one twice")
