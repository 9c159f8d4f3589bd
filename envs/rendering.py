"""Render pictures off screen, with or without a display.

The backend is MUJOCO_GL if that is set, else the first that works of the display (GLFW; CGL on
macOS), EGL and OSMesa. It is chosen when the first renderer is made, once a process: importing this
module creates no context and loads no OpenGL.
"""

import atexit
import functools
import operator
import os
import platform
import threading
import weakref
from collections.abc import Collection
from types import TracebackType
from typing import Any, Self

import mujoco
import numpy as np
import numpy.typing as npt

from . import gl_context
from .errors import RenderingError, RenderingUnavailableError
from .marks import add_marks

MAX_SIDE = 8192
"""pixels; with 4 samples a pixel 2 GB, and no more than any driver's largest buffer."""

_SEGMENT = int(mujoco.mjtRndFlag.mjRND_SEGMENT)
_IDCOLOR = int(mujoco.mjtRndFlag.mjRND_IDCOLOR)
_MAX_GEOMS = 10_000  # MuJoCo's own renderer takes this number too
_AUTOMATIC = ("", "enable", "enabled", "on", "true", "1")
_DISABLED = ("disable", "disabled", "off", "false", "0")
_SAME_BACKEND = {"glx": "glfw", "wgl": "glfw"}
_BACKENDS = {"Linux": ("glfw", "egl", "osmesa"), "Windows": ("glfw",), "Darwin": ("cgl", "glfw")}

_FIX = (
    "On a machine without a display install Mesa (Debian, Ubuntu: apt-get install libegl1 "
    "libgl1-mesa-dri, or libosmesa6) and leave MUJOCO_GL unset, or set it to egl or osmesa. "
    "Only pictures need OpenGL: environments without rendering work as they are."
)

_open: "weakref.WeakSet[OffscreenRenderer]" = weakref.WeakSet()
_unreachable: list[object] = []
"""Keeps what may not be freed any more: freed in another context, it would blank that one's."""


@functools.cache
def choose_backend() -> str:
    """Return the backend to use: glfw, egl, osmesa or cgl.

    Where there is a choice each is tried in a process of its own (0.6 s an attempt); the answer
    holds for the life of this process, since OpenGL's loaders cannot be exchanged.

    Raises RenderingUnavailableError, naming what was tried and why it failed.
    """
    backends = _BACKENDS.get(platform.system(), _BACKENDS["Linux"])
    wanted = os.environ.get("MUJOCO_GL", "").strip().lower()
    if wanted in _DISABLED:
        raise RenderingUnavailableError(f"MUJOCO_GL={wanted} switches rendering off. Unset it.")
    if wanted not in _AUTOMATIC:
        return _named_backend(wanted, backends)
    if len(backends) == 1:
        return backends[0]
    reasons = {}
    for backend in backends:
        reason = _missing_display(backend) or gl_context.probe(backend)
        if reason is None:
            return backend
        reasons[backend] = reason
    raise _unavailable(reasons)


def _named_backend(wanted: str, backends: tuple[str, ...]) -> str:
    """Return the backend that MUJOCO_GL names."""
    backend = _SAME_BACKEND.get(wanted, wanted)
    if backend not in backends:
        raise RenderingUnavailableError(
            f"MUJOCO_GL={wanted} is not one of {', '.join(backends)} (or disable)"
        )
    return backend


def _missing_display(backend: str) -> str | None:
    """Return why ``backend`` need not be tried, if it needs a display and none is announced."""
    if backend != "glfw" or platform.system() in ("Windows", "Darwin"):
        return None
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        return None
    return "neither DISPLAY nor WAYLAND_DISPLAY is set"


def _unavailable(reasons: dict[str, str]) -> RenderingUnavailableError:
    """Return the error that lists each backend tried with its reason, and the fix."""
    tried = "; ".join(f"{backend}: {reason}" for backend, reason in reasons.items())
    return RenderingUnavailableError(f"No OpenGL backend for rendering. Tried {tried}. {_FIX}")


class OffscreenRenderer:
    """Draw what a camera of the model sees, for one model and one picture size.

    Geoms of groups 0 to 2 are drawn; collision geoms (group 3) and sites are not, so that a policy
    sees no helpers. Belongs to the thread and process that made it. A context manager.
    """

    def __init__(
        self, model: mujoco.MjModel, width: int, height: int, *, shadows: bool = False
    ) -> None:
        """Build the context and upload the model, which is not changed.

        Args:
            model: what to draw; later changes to its meshes or textures are not seen.
            width: of the pictures [px], 1 to 8192, whatever the model's ``offwidth``.
            height: of the pictures [px], 1 to 8192, whatever the model's ``offheight``.
            shadows: draw shadows and reflections too: 2.8 times the time without a GPU. Off on
                every machine, so that a data set looks the same wherever it is rendered.

        Raises RenderingUnavailableError without a backend, RenderingError for a size out of range.
        """
        self.marks: npt.NDArray[np.float64] | None = None
        """Frames to draw too, as ``marks.pack`` gives them."""
        self._context: gl_context.GLContext | None = None
        self._resources: mujoco.MjrContext | None = None
        self._owner = (os.getpid(), threading.get_ident())
        self._model = model
        self._rect = mujoco.MjrRect(0, 0, _side(width, "width"), _side(height, "height"))
        self._pixels = np.empty((self._rect.height, self._rect.width, 3), np.uint8)
        self._depths = np.empty((self._rect.height, self._rect.width), np.float32)
        self._scene = mujoco.MjvScene(model, _MAX_GEOMS)
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            self._scene.flags[int(flag)] = shadows
        self._option = _visible_parts()
        self._camera = mujoco.MjvCamera()
        self._cameras = [model.camera(i).name for i in range(model.ncam)]
        _refuse_fork()
        self._context = _build_context(self._rect.width, self._rect.height)
        self._resources = self._upload()
        _open.add(self)

    def render(self, data: mujoco.MjData, camera: str | int = -1) -> npt.NDArray[np.uint8]:
        """Return the picture (height, width, 3) RGB of ``camera``, row 0 at the top, as a copy.

        Args:
            data: of this renderer's model, with derived values up to date (``mj_forward`` after
                ``mj_setState``).
            camera: name or id of a camera of the model; -1 is the free camera that sees it all.

        Raises RenderingError for an unknown camera, data of another model, another thread, and
        after ``close``.
        """
        return self.capture(data, camera, ("rgb",))["rgb"]

    def capture(
        self, data: mujoco.MjData, camera: str | int, modes: Collection[str]
    ) -> dict[str, npt.NDArray[Any]]:
        """Return pictures of one instant by mode, row 0 at the top, as copies.

        ``rgb`` (height, width, 3) uint8; ``depth`` (height, width, 1) float32, metres along the
        optical axis, the far plane's where there is nothing; ``segmentation`` (height, width, 1)
        int32, the id of the geom, -1 where there is none. Colour and depth come from one drawing.
        Arguments and errors as in ``render``.
        """
        self._check_owner("used")
        if self._context is None or self._resources is None:
            raise RenderingError("render() after close(): make a new OffscreenRenderer")
        self._check_data(data)
        self._aim(camera)
        self._context.make_current()
        every = int(mujoco.mjtCatBit.mjCAT_ALL)
        mujoco.mjv_updateScene(
            self._model, data, self._option, None, self._camera, every, self._scene
        )
        if self.marks is not None:
            add_marks(self._scene, self.marks)
        taken: dict[str, npt.NDArray[Any]] = {}
        if "rgb" in modes or "depth" in modes:
            depth = self._depths if "depth" in modes else None
            mujoco.mjr_render(self._rect, self._scene, self._resources)
            mujoco.mjr_readPixels(self._pixels, depth, self._rect, self._resources)
            taken["rgb"] = self._pixels[::-1].copy()  # OpenGL's row 0 is the bottom one
            if depth is not None:
                taken["depth"] = _metres(depth[::-1], self._model)
        if "segmentation" in modes:
            taken["segmentation"] = self._segment(self._resources)
        return taken

    def _segment(self, resources: mujoco.MjrContext) -> npt.NDArray[np.int32]:
        """Draw the scene again, each geom in the colour of its number; return the geoms' ids."""
        flags, marks = self._scene.flags, (_SEGMENT, _IDCOLOR)
        for mark in marks:
            flags[mark] = 1
        mujoco.mjr_render(self._rect, self._scene, resources)
        mujoco.mjr_readPixels(self._pixels, None, self._rect, resources)
        for mark in marks:
            flags[mark] = 0
        # A colour is the number in the scene plus one, in base 256; black is the background.
        ids = np.full(self._scene.ngeom + 1, -1, np.int32)
        for geom in self._scene.geoms[: self._scene.ngeom]:
            if geom.segid >= 0 and geom.objtype == mujoco.mjtObj.mjOBJ_GEOM.value:
                ids[geom.segid + 1] = geom.objid
        numbers = self._pixels[::-1].astype(np.int32) @ np.array([1, 256, 65536], np.int32)
        return ids[numbers][..., np.newaxis]

    def close(self) -> None:
        """Free the context; calling it twice is fine. Only for the thread that made it."""
        if self._context is None:
            return
        self._check_owner("closed")
        context, self._context = self._context, None
        resources, self._resources = self._resources, None
        context.make_current()  # else MuJoCo would free the objects of whichever context is
        if resources is not None:
            resources.free()
        context.free()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def __del__(self) -> None:
        """Free what was left open, or keep it for ever if this is another thread's to free."""
        if getattr(self, "_context", None) is None:
            return
        if self._owner == (os.getpid(), threading.get_ident()):
            self.close()
        else:
            _unreachable.append((self._context, self._resources))

    def _upload(self) -> mujoco.MjrContext:
        """Return the model's resources in the current context, with buffers of the right size."""
        rect = self._rect
        try:
            resources = mujoco.MjrContext(self._model, gl_context.FONT_SCALE)
        except mujoco.FatalError as e:
            self.close()
            raise _unavailable({choose_backend(): str(e)}) from e
        # Zero far away: float32 then resolves metres as finely as centimetres.
        resources.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR.value
        mujoco.mjr_setBuffer(int(mujoco.mjtFramebuffer.mjFB_OFFSCREEN), resources)
        mujoco.mjr_resizeOffscreen(rect.width, rect.height, resources)
        code = mujoco.mjr_getError()
        if code:
            self._resources = resources
            self.close()
            raise RenderingError(
                f"the driver gave no buffer of {rect.width} x {rect.height} px (OpenGL error "
                f"{code:#x}); take a smaller picture"
            )
        return resources

    def _aim(self, camera: str | int) -> None:
        """Select a camera of the model by name or id, or the free one by -1."""
        index = self._camera_id(camera)
        if index < 0:
            mujoco.mjv_defaultFreeCamera(self._model, self._camera)
        else:
            self._camera.type = int(mujoco.mjtCamera.mjCAMERA_FIXED)
            self._camera.fixedcamid = index

    def _camera_id(self, camera: str | int) -> int:
        """Return the id of ``camera``; raise RenderingError with the names there are."""
        names = self._cameras
        if isinstance(camera, str):
            if camera in names:
                return names.index(camera)
        elif -1 <= camera < len(names):
            return int(camera)
        choices = ", ".join(f"{i} {name!r}" for i, name in enumerate(names)) or "none in the model"
        raise RenderingError(f"no camera {camera!r}; cameras: {choices}; -1 is the free camera")

    def _check_data(self, data: mujoco.MjData) -> None:
        """Refuse data of a model of another size, which would end the process."""
        model = self._model
        have = (data.qpos.shape[0], data.geom_xpos.shape[0], data.site_xpos.shape[0])
        if have != (model.nq, model.ngeom, model.nsite):
            raise RenderingError(
                f"the data has (nq, ngeom, nsite) = {have}, this renderer's model "
                f"{(model.nq, model.ngeom, model.nsite)}: make a renderer for each model"
            )

    def _check_owner(self, deed: str) -> None:
        """Refuse another thread or process, to whom the context does not answer."""
        if self._owner != (os.getpid(), threading.get_ident()):
            raise RenderingError(
                f"a renderer made in thread {self._owner[1]} of process {self._owner[0]} is {deed} "
                f"in thread {threading.get_ident()} of process {os.getpid()}: make, use and close "
                "it in one thread"
            )


def far_plane(model: mujoco.MjModel) -> float:
    """Return the distance [m] along the optical axis at which a camera's sight ends."""
    return float(np.float32(model.vis.map.zfar * model.stat.extent))


def _metres(depths: npt.NDArray[np.float32], model: mujoco.MjModel) -> npt.NDArray[np.float32]:
    """Convert a depth buffer (H, W), 1 at the near plane and 0 at the far one, to (H, W, 1) [m]."""
    near, far = model.vis.map.znear * model.stat.extent, far_plane(model)
    metres = near * far / (near + depths.astype(np.float64) * (far - near))
    return np.minimum(metres, far).astype(np.float32)[..., np.newaxis]


def _side(value: int, name: str) -> int:
    """Return ``value`` [px] if it is a whole number that a picture can have."""
    try:
        side = operator.index(value)
    except TypeError as e:
        raise RenderingError(f"{name} must be a whole number of pixels, got {value!r}") from e
    if not 1 <= side <= MAX_SIDE:
        raise RenderingError(f"{name} must be 1 to {MAX_SIDE} pixels, got {side}")
    return side


def _visible_parts() -> mujoco.MjvOption:
    """Return what is drawn: geoms of groups 0 to 2, no sites, no rays of range finders."""
    option = mujoco.MjvOption()
    option.geomgroup[:] = (1, 1, 1, 0, 0, 0)
    option.sitegroup[:] = 0
    option.flags[int(mujoco.mjtVisFlag.mjVIS_RANGEFINDER)] = 0
    return option


def _build_context(width: int, height: int) -> gl_context.GLContext:
    """Return a current context of the chosen backend."""
    backend = choose_backend()
    try:
        context = gl_context.build(backend, width, height)
    except gl_context.ContextError as e:
        raise _unavailable({backend: str(e)}) from e
    _first_process()
    return context


@functools.cache
def _first_process() -> int:
    """Return the process that made the first context, and tidy up when it ends.

    Called after that context was built, so that ``_close_all`` runs before EGL is terminated.
    """
    atexit.register(_close_all)
    return os.getpid()


def _close_all() -> None:
    """Close the renderers of this thread that were left open."""
    for renderer in list(_open):
        if renderer._owner == (os.getpid(), threading.get_ident()):
            renderer.close()


def _refuse_fork() -> None:
    """Refuse a forked child of a process that rendered: Mesa would wait for threads it lost."""
    if _first_process.cache_info().currsize and _first_process() != os.getpid():
        raise RenderingError(
            "this process was forked from one that has rendered, where OpenGL hangs: start it "
            "with multiprocessing's 'spawn' context"
        )
