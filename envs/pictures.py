"""What is to be seen of an environment: pictures, a window, and cameras as observations."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import RigidTransform

from kinematics import Side
from kinematics.edits import ModelEditor, ModelEdits
from kinematics.frames import Array

from .cameras import CameraObserver, camera_pose, find_cameras, intrinsics
from .marks import pack
from .options import check_choice
from .rendering import OffscreenRenderer
from .scene import get_state
from .viewer import ViewerProcess
from .visuals import MeshPandas


class Pictures:
    """Show one environment's model and data, dressed in ``meshes`` or as they are.

    Nothing is opened before the first picture. ``cameras`` and the four after it are those of the
    observation, ``picture`` is camera, width and height of ``draw``.
    """

    def __init__(
        self,
        editor: ModelEditor,
        data: mujoco.MjData,
        meshes: MeshPandas | None,
        sides: Iterable[Side],
        picture: tuple[str, int, int],
        cameras: Sequence[str],
        camera_modes: Sequence[str],
        camera_width: int,
        camera_height: int,
    ) -> None:
        """Check the choice of cameras. Raises OptionError."""
        self._editor, self._model, self._data = editor, editor.model, data
        self._meshes = meshes
        self._shown = self._model if meshes is None else meshes.model
        self.names = find_cameras(self._model, sides)
        """Of all cameras in the model, by what they are called in options."""
        camera, width, height = picture
        check_choice("camera", camera, self.names)
        self._picture = (self.names[camera], width, height)
        self._eyes = CameraObserver(
            self._shown, self.names, cameras, camera_modes, camera_width, camera_height
        )
        self.boxes = self._eyes.boxes
        """Spaces of what ``observe`` returns."""
        self._renderer: OffscreenRenderer | None = None
        self._viewer: ViewerProcess | None = None
        self._marks: Mapping[str, Array] = {}
        self._message = ""

    def mark(self, marks: Mapping[str, Array], message: str) -> None:
        """Draw these frames, and in a window this text, from the next picture on."""
        pack(marks)  # what cannot be drawn is said here
        self._marks, self._message = dict(marks), message

    @property
    def window_open(self) -> bool:
        """Whether there is a window."""
        return self._viewer is not None and self._viewer.alive

    def draw(self) -> npt.NDArray[np.uint8]:
        """Return a picture (height, width, 3), row 0 at the top."""
        camera, width, height = self._picture
        if self._renderer is None:
            self._renderer = OffscreenRenderer(self._shown, width, height)
        self._renderer.marks = pack(self._marks)
        return self._renderer.render(self._followed(), camera)

    def show(self, edits: ModelEdits) -> None:
        """Show the present state in a window."""
        if self._viewer is None:
            with self._editor.base():
                self._viewer = ViewerProcess(self._shown)
        if self._meshes is None:  # else there is nothing to be seen of them
            self._viewer.edit(edits)
        self._viewer.update(get_state(self._model, self._data), self._message, self._marks)

    def observe(self) -> dict[str, npt.NDArray[Any]]:
        """Return what the cameras of the observation see, by key."""
        return self._eyes.observe(self._followed()) if self.boxes else {}

    def intrinsics(self, camera: str, width: int | None, height: int | None) -> Array:
        """Return K (3, 3) [px]; the size is that of the observations unless given."""
        check_choice("camera", camera, self.names)
        size = (width or self._eyes.width, height or self._eyes.height)
        return intrinsics(self._model, self.names[camera], *size)

    def T_world_camera(self, camera: str) -> RigidTransform:
        """Return a camera's pose in MuJoCo's camera axes."""
        check_choice("camera", camera, self.names)
        return camera_pose(self._model, self._data, self.names[camera])

    def close(self) -> None:
        """Release the window and the picture buffers; calling it twice is fine."""
        self._eyes.close()
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
        if self._viewer is not None:
            self._viewer.close()
            self._viewer = None

    def _followed(self) -> mujoco.MjData:
        """Return what pictures are taken of, cameras and lights up to date like the bodies."""
        if self._meshes is not None:
            return self._meshes.follow(self._data)
        mujoco.mj_camlight(self._model, self._data)
        return self._data
