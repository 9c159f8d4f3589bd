"""The viewer's process: newest state wins, nothing is left behind. Needs a virtual display."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt
import pytest
from virtual_screen import Screen

from envs.errors import EnvError, ViewerError
from envs.viewer import ViewerProcess, _NewestState
from kinematics.edits import ModelEdits

STATE = mujoco.mjtState.mjSTATE_INTEGRATION
PATIENCE_S = 60.0  # bound of every wait, not an expectation

SCENE = """
<mujoco model="scene">
  <visual><headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/></visual>
  <worldbody>
    <camera name="front" pos="0 -1 0" xyaxes="1 0 0 0 0 1"/>
    <geom type="box" size="2 0.01 2" pos="0 1 0" rgba="0 0 1 1"/>
    <body name="ball"><freejoint/><geom size="0.2" rgba="1 0 0 1"/></body>
  </worldbody>
</mujoco>
"""


@pytest.fixture
def model() -> mujoco.MjModel:
    """A red ball before a blue wall."""
    return mujoco.MjModel.from_xml_string(SCENE)


def _state(model: mujoco.MjModel, *position: float) -> npt.NDArray[np.float64]:
    """Return the state with the ball at ``position`` (3,) [m]."""
    data = mujoco.MjData(model)
    data.qpos[:3] = position
    state = np.empty(mujoco.mj_stateSize(model, STATE))
    mujoco.mj_getState(model, data, state, STATE)
    return state


def _eventually(condition: Callable[[], bool]) -> bool:
    """Return whether ``condition`` comes true within the bound."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


# --- the shared memory ---


def test_the_reader_gets_the_newest_once() -> None:
    newest = _NewestState(3)
    assert newest.read(0) is None, "nothing written yet"
    for i in range(1, 301):
        newest.write(np.full(3, float(i)), f"row {i}".encode())
    news = newest.read(0)
    assert news is not None
    last, state, message = news
    np.testing.assert_array_equal(state, [300.0, 300.0, 300.0])
    assert message == b"row 300"
    assert newest.read(last) is None, "not twice"
    newest.write(np.zeros(3), b"")
    np.testing.assert_array_equal(state, [300.0, 300.0, 300.0], "a copy")


def test_a_torn_state_is_not_read() -> None:
    newest = _NewestState(3)
    newest.write(np.ones(3), b"")
    newest._sequence.value += 1  # the writer is inside
    assert newest.read(0) is None
    newest._sequence.value += 1
    assert newest.read(0) is not None


# --- the window ---


def test_the_window_shows_the_newest_state(screen: Screen, model: mujoco.MjModel) -> None:
    with ViewerProcess(model, camera="front") as viewer:
        assert viewer.alive
        assert _eventually(lambda: screen.red() > 1000), "ball in the first state"
        assert screen.blue() > 10_000
        viewer.update(_state(model, 0.0, 5.0, 0.0))
        assert _eventually(lambda: screen.red() == 0), "ball behind the wall"
        for x in np.linspace(-3.0, 0.0, 1000):
            viewer.update(_state(model, x, 0.0, 0.0))
        assert _eventually(lambda: screen.red() > 1000), "ball back in the middle"
    assert not viewer.alive
    assert _eventually(lambda: screen.blue() == 0), "the window is gone"


def test_the_window_shows_an_episodes_edits(screen: Screen, model: mujoco.MjModel) -> None:
    """Also those that come before the window has taken the last ones."""
    red = ModelEdits(("geom_rgba",) * 2, np.array([0, 2]), np.array([1.0, 0.0]))
    with ViewerProcess(model) as viewer:
        assert _eventually(lambda: screen.blue() > 10_000)
        viewer.edit(red)
        assert _eventually(lambda: screen.blue() == 0), "the wall is red"
        for _ in range(1000):
            viewer.edit(ModelEdits())
            viewer.edit(red)
        last = ModelEdits()

        def shown() -> bool:
            viewer.edit(last)
            return screen.blue() > 10_000

        assert _eventually(shown), "the base again"
    viewer.edit(red)  # nobody looks, and nothing happens


def test_a_message_appears_and_goes(screen: Screen, model: mujoco.MjModel) -> None:
    state = _state(model, 0.0, 0.0, 0.0)
    with ViewerProcess(model) as viewer:
        assert _eventually(lambda: screen.blue() > 10_000)
        before = screen.white()
        viewer.update(state, "recording\nepisode 12 \N{SNOWMAN}" + " long" * 100)
        assert _eventually(lambda: screen.white() > before + 50)
        viewer.update(state)
        assert _eventually(lambda: screen.white() <= before)


def test_close_twice_ends_the_process(screen: Screen, model: mujoco.MjModel) -> None:
    viewer = ViewerProcess(model)
    process = viewer._process
    pid = process.pid
    assert pid is not None
    viewer.close()
    viewer.close()
    assert not viewer.alive
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    viewer.update(_state(model, 0.0, 0.0, 0.0))  # nobody looks, and nothing happens


def test_a_window_that_goes_away_is_noticed(screen: Screen, model: mujoco.MjModel) -> None:
    with ViewerProcess(model) as viewer:
        pid = viewer._process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert _eventually(lambda: not viewer.alive)
        viewer.update(_state(model, 0.0, 0.0, 0.0))


def test_a_stopped_window_does_not_hold_control_or_close(
    screen: Screen, model: mujoco.MjModel
) -> None:
    """A window that no longer runs, as on a display that hangs."""
    viewer = ViewerProcess(model)
    pid = viewer._process.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    state = _state(model, 0.0, 0.0, 0.0)
    for _ in range(1000):
        viewer.update(state)
    viewer.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


class XClientMessage(ctypes.Structure):
    """Xlib's XClientMessageEvent, padded to the size of XEvent."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("serial", ctypes.c_ulong),
        ("send_event", ctypes.c_int),
        ("display", ctypes.c_void_p),
        ("window", ctypes.c_ulong),
        ("message_type", ctypes.c_ulong),
        ("format", ctypes.c_int),
        ("data", ctypes.c_long * 5),
        ("pad", ctypes.c_long * 24),
    )


def _press_the_close_buttons(display: str) -> None:
    """Send every top window of ``display`` what a window manager sends for its close button."""
    x11 = ctypes.CDLL("libX11.so.6")
    x11.XOpenDisplay.restype = ctypes.c_void_p
    x11.XDefaultRootWindow.restype = x11.XInternAtom.restype = ctypes.c_ulong
    connection = ctypes.c_void_p(x11.XOpenDisplay(display.encode()))
    root = ctypes.c_ulong(x11.XDefaultRootWindow(connection))
    ignored, count = ctypes.c_ulong(), ctypes.c_uint()
    windows = ctypes.POINTER(ctypes.c_ulong)()
    refs = [ctypes.byref(x) for x in (ignored, ignored, windows, count)]
    x11.XQueryTree(connection, root, *refs)
    protocols = x11.XInternAtom(connection, b"WM_PROTOCOLS", 0)
    for window in windows[: count.value]:
        client_message = 33
        event = XClientMessage(
            type=client_message, window=window, message_type=protocols, format=32
        )
        event.data[0] = x11.XInternAtom(connection, b"WM_DELETE_WINDOW", 0)
        x11.XSendEvent(connection, ctypes.c_ulong(window), 0, ctypes.c_long(0), ctypes.byref(event))
    x11.XCloseDisplay(connection)


def test_closing_the_window_ends_its_process(screen: Screen, model: mujoco.MjModel) -> None:
    with ViewerProcess(model) as viewer:
        assert _eventually(lambda: screen.blue() > 10_000)
        _press_the_close_buttons(screen.name)
        assert _eventually(lambda: not viewer.alive)
        assert viewer._process.exitcode == 0
        viewer.update(_state(model, 0.0, 0.0, 0.0))  # nobody looks, and nothing happens


ORPHAN = """
import os, signal
import mujoco
from envs.viewer import ViewerProcess
if __name__ == "__main__":
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    viewer = ViewerProcess(model)
    print("open", flush=True)
    {end}
"""


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "pass"])
def test_the_window_ends_with_the_parent(screen: Screen, tmp_path: Path, end: str) -> None:
    """The viewer holds the parent's standard output: it ends when the last process has."""
    script = tmp_path / "orphan.py"
    script.write_text(ORPHAN.format(end=end))
    done = subprocess.run(
        [sys.executable, str(script)], stdout=subprocess.PIPE, timeout=PATIENCE_S, check=False
    )
    assert done.stdout.split() == [b"open"]


def test_the_interrupt_is_the_parents(screen: Screen, model: mujoco.MjModel) -> None:
    """Ctrl-C goes to every process of the terminal; the parent decides what it means."""
    with ViewerProcess(model, camera="front") as viewer:
        pid = viewer._process.pid
        assert pid is not None
        os.kill(pid, signal.SIGINT)
        viewer.update(_state(model, 0.0, 5.0, 0.0))
        assert _eventually(lambda: screen.blue() > 10_000 and screen.red() == 0)
        assert viewer.alive


def test_the_backend_for_pictures_does_not_matter(
    screen: Screen, model: mujoco.MjModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    with ViewerProcess(model, camera="front"):
        assert _eventually(lambda: screen.red() > 1000)


# --- what does not work ---


def test_no_display_is_an_error_with_its_fix(no_screen: None, model: mujoco.MjModel) -> None:
    with pytest.raises(ViewerError, match=r"DISPLAY.*collect.py --no-viewer\), or set DISPLAY"):
        ViewerProcess(model)


def test_a_display_that_does_not_answer_is_an_error(
    no_screen: None, model: mujoco.MjModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":9876")
    with pytest.raises(ViewerError, match=r":9876.*--no-viewer"):
        ViewerProcess(model)


def test_the_wait_for_the_window_is_bounded(no_screen: None, model: mujoco.MjModel) -> None:
    with pytest.raises(ViewerError, match="within 0 s"):
        ViewerProcess(model, start_timeout_s=0.0)


def test_a_script_without_guard_is_told(no_screen: None, tmp_path: Path) -> None:
    script = tmp_path / "no_guard.py"
    script.write_text(ORPHAN.replace('if __name__ == "__main__":', "if True:").format(end="pass"))
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode != 0
    assert "ViewerError" in done.stderr.splitlines()[-1]
    assert '__name__ == "__main__"' in done.stderr.splitlines()[-1]


def test_unknown_camera_is_refused_with_the_names(model: mujoco.MjModel) -> None:
    with pytest.raises(ViewerError, match="no camera 'side'; cameras: front"):
        ViewerProcess(model, camera="side")


def test_state_of_another_size_is_refused(screen: Screen, model: mujoco.MjModel) -> None:
    with ViewerProcess(model) as viewer, pytest.raises(ViewerError, match="shape"):
        viewer.update(np.zeros(3))


def test_the_error_belongs_to_the_package() -> None:
    assert issubclass(ViewerError, EnvError)
