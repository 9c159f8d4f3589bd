"""Show the simulation in a window that lives in its own process.

The control loop writes its newest state into shared memory and goes on; the window's process takes
what is there about 30 times a second. Importing this module loads no OpenGL.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import mujoco
import numpy as np
import numpy.typing as npt

from kinematics.edits import ModelEditor, ModelEdits

from . import gl_context, marks
from .errors import ViewerError

if TYPE_CHECKING:
    from mujoco.viewer import Handle

PERIOD_S = 1.0 / 30.0
"""Between two pictures [s]."""

_START_TIMEOUT_S = 60.0  # importing and opening takes 1 to 3 s; a loaded laptop may need ten times
_CLOSE_TIMEOUT_S = 3.0  # one picture and the window's end; then the process is terminated
_MESSAGE_BYTES = 256
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
_FIX = "Do without a window (collect.py --no-viewer), or " + (
    "run under mjpython." if sys.platform == "darwin" else "set DISPLAY to a screen you may use."
)
_GUARD = 'A script that opens a viewer needs `if __name__ == "__main__":`.'


class _NewestState:
    """Pass the newest state and message from one writer to one reader without a lock.

    A sequence number is odd while the writer is inside and counts its writes; the reader takes a
    copy only if the number was even and is unchanged afterwards (a seqlock). Memory is anonymous or
    inherited by handle: there is no name to clean up.
    """

    def __init__(self, size: int) -> None:
        """Make room for a state (size,) float64."""
        context = multiprocessing.get_context("spawn")
        self._sequence = context.RawValue(ctypes.c_uint64, 0)
        self._state = context.RawArray(ctypes.c_double, size)
        self._message = context.RawArray(ctypes.c_char, _MESSAGE_BYTES)
        self._map()

    def _map(self) -> None:
        """Lay an array over the shared memory, so that writing is one copy."""
        self._view = np.frombuffer(memoryview(self._state), np.float64)

    def __getstate__(self) -> tuple[Any, Any, Any]:
        """Return the shared parts, which only a process being spawned can receive."""
        return self._sequence, self._state, self._message

    def __setstate__(self, state: tuple[Any, Any, Any]) -> None:
        """Take the shared parts in the other process."""
        self._sequence, self._state, self._message = state
        self._map()

    def write(self, state: npt.NDArray[np.float64], message: bytes) -> None:
        """Replace the newest state (size,) and message."""
        self._sequence.value += 1
        self._view[:] = state
        self._message.value = message
        self._sequence.value += 1

    def read(self, last: int) -> tuple[int, npt.NDArray[np.float64], bytes] | None:
        """Return (sequence, state, message), or None if torn or not newer than ``last``."""
        before = self._sequence.value
        if before == last or before % 2:
            return None
        state, message = self._view.copy(), self._message.value
        return (before, state, message) if self._sequence.value == before else None


class ViewerProcess:
    """Open MuJoCo's interactive viewer in its own process. A context manager.

    The process ends with its window, with ``close`` and with this process, however that ends. A
    script that opens a viewer needs ``if __name__ == "__main__":``.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        *,
        camera: str | None = None,
        panels: bool = False,
        start_timeout_s: float = _START_TIMEOUT_S,
    ) -> None:
        """Open the window and wait until it stands. Its title is the model's name.

        Args:
            model: what to show; the window has its own copy.
            camera: name of the model's camera to look through first, or None for the free camera.
            panels: show MuJoCo's panels left and right (Tab and Shift-Tab switch them later).
            start_timeout_s: longest wait for the window [s].

        Raises ViewerError if the window does not open, saying why and what to do.
        """
        camera_id = _camera_id(model, camera)
        self._size = mujoco.mj_stateSize(model, int(_STATE))
        self._sent = np.full(self._size + marks.MOST * marks.COLUMNS, np.nan)
        """State and marks, as they are passed on together."""
        self._newest = _NewestState(len(self._sent))
        context = multiprocessing.get_context("spawn")
        self._link, remote = context.Pipe()
        self._process = context.Process(
            target=_run,
            args=(remote, model, self._newest, camera_id, panels),
            name="viewer",
            daemon=True,  # a forgotten close() must not keep this process from ending
        )
        self._closed, self._edits, self._unread = False, ModelEdits(), False
        try:
            with remote:  # this process's copy; the window's process keeps its own
                self._start()
            self._await_window(start_timeout_s)
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """Return whether the window is open."""
        return not self._closed and self._process.is_alive()

    def update(
        self,
        state: npt.NDArray[np.float64],
        message: str = "",
        marked: Mapping[str, npt.NDArray[np.float64]] | None = None,
    ) -> None:
        """Show ``state`` next, unless a newer one comes first. Never waits; 2 us.

        Args:
            state: (D,) of ``mj_getState`` with mjSTATE_INTEGRATION.
            message: lines of ASCII text for the top left corner, up to 255 characters.
            marked: frames to draw, see ``marks.pack``; without them, those of the last time stay.

        After the window has closed this does nothing: see ``alive``. Raises ViewerError for a state
        of another size.
        """
        if state.shape != (self._size,):
            raise ViewerError(
                f"state has shape {state.shape}, the model's integration state ({self._size},)"
            )
        self._sent[: self._size] = state
        if marked is not None:
            self._sent[self._size :] = marks.pack(marked).ravel()
        self._newest.write(self._sent, message.encode("ascii", "replace")[: _MESSAGE_BYTES - 1])

    def edit(self, edits: ModelEdits) -> None:
        """Show the model with an episode's ``edits`` from now on. Never waits.

        To be called before every ``update``: the same again cost nothing, and those for which the
        window is not ready yet are passed on by a later call. The model given at first must have
        been the base. After the window has closed this does nothing.
        """
        if edits is self._edits or not self.alive:
            return
        with contextlib.suppress(EOFError, OSError):  # it closes just now
            if self._unread:
                if not self._link.poll():
                    return  # a second one might not fit into the pipe
                self._link.recv()
            self._link.send(edits)
            self._edits, self._unread = edits, True

    def close(self) -> None:
        """Close the window and end its process; calling it twice is fine. Takes up to 4 s."""
        if self._closed:
            return
        self._closed = True
        self._link.close()  # the sign to end
        if self._process.pid is None:
            return
        self._process.join(_CLOSE_TIMEOUT_S)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(1.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()

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

    def _start(self) -> None:
        """Start the process and send it the model."""
        try:
            self._process.start()
        except OSError as e:  # also a broken pipe: it ended before it had read the model
            raise ViewerError(f"cannot start the viewer's process: {e}. {_GUARD} {_FIX}") from e

    def _await_window(self, timeout_s: float) -> None:
        """Wait for the process's report; raise ViewerError unless it says that all is well."""
        try:
            if not self._link.poll(timeout_s):
                raise ViewerError(f"the viewer did not open within {timeout_s:g} s. {_FIX}")
            failure = self._link.recv()
        except (EOFError, OSError) as e:
            self._process.join(1.0)
            raise ViewerError(
                f"the viewer's process ended with code {self._process.exitcode} before its window "
                f"opened. {_GUARD} {_FIX}"
            ) from e
        if failure:
            raise ViewerError(f"the viewer's window did not open: {failure}. {_FIX}")


def _camera_id(model: mujoco.MjModel, camera: str | None) -> int:
    """Return the id of the named camera, or -1 for the free one."""
    names = [model.camera(i).name for i in range(model.ncam)]
    if camera is None:
        return -1
    if camera not in names:
        raise ViewerError(f"no camera {camera!r}; cameras: {', '.join(names) or 'none'}")
    return names.index(camera)


def _run(
    link: Connection, model: mujoco.MjModel, newest: _NewestState, camera: int, panels: bool
) -> None:
    """Be the viewer's process: open the window, report, and show states until the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which closes us
    os.environ.pop("MUJOCO_GL", None)  # it is about pictures; a window always takes GLFW
    _step_back()
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    try:
        window = _open_window(model, data, panels)
    except (gl_context.ContextError, RuntimeError, mujoco.FatalError) as e:
        _report(link, str(e))
        return
    if camera >= 0:
        with window.lock():
            window.cam.type = int(mujoco.mjtCamera.mjCAMERA_FIXED)
            window.cam.fixedcamid = camera
    window.sync()
    _report(link, "")
    _show_until_the_end(link, window, model, data, newest)
    window.close()
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(1.0)  # the drawing thread; ending the process under it would crash


def _report(link: Connection, failure: str) -> None:
    """Tell the parent that the window stands (empty) or why not, if it still listens."""
    with contextlib.suppress(OSError):
        link.send(failure)


def _show_until_the_end(
    link: Connection,
    window: "Handle",
    model: mujoco.MjModel,
    data: mujoco.MjData,
    newest: _NewestState,
) -> None:
    """Show the newest state every ``PERIOD_S`` until the window or the parent's end is closed."""
    last, shown, editor = 0, b"", ModelEditor(model)
    size = mujoco.mj_stateSize(model, int(_STATE))
    while window.is_running():
        try:
            if link.poll(PERIOD_S):
                edits = link.recv()
                with window.lock():
                    editor.apply(edits)
                link.send(None)  # taken
        except (EOFError, OSError):  # the parent has closed its end, or is dead
            break
        news = newest.read(last)
        if news is not None:
            last, state, message = news
            packed = state[size:].reshape(marks.MOST, marks.COLUMNS)
            with window.lock():
                mujoco.mj_setState(model, data, state[:size], int(_STATE))
                mujoco.mj_forward(model, data)
                if window.user_scn is not None:
                    window.user_scn.ngeom = 0
                    marks.add_marks(window.user_scn, packed)
            if message != shown:
                shown = message
                _show_message(window, message.decode("ascii"))
        window.sync()


def _show_message(window: "Handle", message: str) -> None:
    """Lay ``message`` over the top left corner, or clear it."""
    if message:
        font = int(mujoco.mjtFontScale.mjFONTSCALE_150)
        window.set_texts((font, int(mujoco.mjtGridPos.mjGRID_TOPLEFT), message, ""))
    else:
        window.clear_texts()


def _step_back() -> None:
    """Give way to the control loop: drawing without a GPU would take its processor."""
    with contextlib.suppress(OSError, AttributeError):  # refused, or Windows
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # not the parent's real time
    with contextlib.suppress(OSError, AttributeError):
        os.nice(5)


def _open_window(model: mujoco.MjModel, data: mujoco.MjData, panels: bool) -> "Handle":
    """Return MuJoCo's passive viewer, having tried the display first.

    Without a display ``launch_passive`` loses the error in its own thread and waits for ever.
    """
    import glfw
    import mujoco.viewer

    if sys.platform != "darwin":  # there GLFW belongs to mjpython's main thread
        gl_context.build("glfw", 16, 16).free()
        glfw.terminate()  # the viewer's thread starts it anew, as it is bound to one thread
    return mujoco.viewer.launch_passive(model, data, show_left_ui=panels, show_right_ui=panels)
