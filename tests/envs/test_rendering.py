"""Pictures without a display: the choice of a backend, and what the renderer draws."""

import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import mujoco
import numpy as np
import pytest

from envs import gl_context
from envs.errors import EnvError, RenderingError, RenderingUnavailableError
from envs.rendering import OffscreenRenderer

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a choice of backends")

SCENE = """
<mujoco model="scene">
  <visual><headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/></visual>
  <worldbody>
    <light pos="1 0 4" dir="-0.2 0 -1"/>
    <camera name="front" pos="0 -2 0" xyaxes="1 0 0 0 0 1"/>
    <camera name="back" pos="0 2 0" xyaxes="-1 0 0 0 0 1"/>
    <geom name="up" type="box" size="4 0.01 1" pos="0 0 1" rgba="1 0 0 1" group="0"/>
    <geom name="down" type="box" size="4 0.01 1" pos="0 0 -1" rgba="0 0 1 1" group="2"/>
    <geom name="hidden" type="sphere" size="0.3" pos="0 -0.5 0" rgba="0 1 0 1" group="3"/>
    <site name="mark" type="sphere" size="0.3" pos="0 -0.5 0" rgba="0 1 0 1" group="0"/>
    <body name="ball" pos="0 1 0.5"><freejoint/><geom size="0.2" rgba="1 1 1 1"/></body>
  </worldbody>
</mujoco>
"""


@pytest.fixture
def model() -> mujoco.MjModel:
    """Two coloured halves seen from both sides, a helper geom and a site."""
    return mujoco.MjModel.from_xml_string(SCENE)


@pytest.fixture
def data(model: mujoco.MjModel) -> mujoco.MjData:
    """The scene's first state with derived values."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return data


# --- the picture ---


def test_picture_is_rgb_with_its_top_row_first(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    with OffscreenRenderer(model, 64, 48) as renderer:
        picture = renderer.render(data, "front")
    assert picture.shape == (48, 64, 3)
    assert picture.dtype == np.uint8
    assert picture.flags.owndata
    assert picture.flags.c_contiguous
    top, bottom = picture[4, 32], picture[-4, 32]
    assert top[0] > 150 and top[2] < 50, "red is up"
    assert bottom[2] > 150 and bottom[0] < 50, "blue is down"


def test_helpers_are_not_drawn(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    with OffscreenRenderer(model, 64, 64) as renderer:
        picture = renderer.render(data, "front")
    assert picture[:, :, 1].max() < 50, "no green: neither the collision geom nor the site"


def test_pictures_are_copies_and_repeat(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    with OffscreenRenderer(model, 32, 32) as renderer:
        first = renderer.render(data, "front")
        kept = first.copy()
        other = renderer.render(data, "back")
        np.testing.assert_array_equal(first, kept)
        assert not np.array_equal(first, other), "the ball is on one side only"
        np.testing.assert_array_equal(renderer.render(data, "front"), kept)


def test_camera_is_a_name_or_an_id(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    with OffscreenRenderer(model, 32, 32) as renderer:
        by_name = renderer.render(data, "back")
        np.testing.assert_array_equal(renderer.render(data, 1), by_name)
        assert not np.array_equal(renderer.render(data), by_name), "the free camera is another"
        np.testing.assert_array_equal(renderer.render(data, "back"), by_name)


@pytest.mark.parametrize("camera", ["side", 2, -2])
def test_unknown_camera_is_refused_with_the_names(
    camera: str | int, model: mujoco.MjModel, data: mujoco.MjData
) -> None:
    with (
        OffscreenRenderer(model, 16, 16) as renderer,
        pytest.raises(RenderingError, match="'front', 1 'back'"),
    ):
        renderer.render(data, camera)


def test_picture_may_exceed_the_models_buffer(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """The model says 640 x 480 and stays as it is, since its hash names it."""
    before = _model_bytes(model)
    with OffscreenRenderer(model, 1280, 720) as renderer:
        picture = renderer.render(data, "front")
    assert picture.shape == (720, 1280, 3)
    assert picture[10, 10, 0] > 150
    assert picture[-10, -10, 2] > 150
    assert _model_bytes(model) == before


@pytest.mark.parametrize("size", [(0, 8), (8, -1), (8193, 8), (8, 40000), (8.5, 8), ("8", 8)])
def test_impossible_size_is_refused(size: tuple[int, int], model: mujoco.MjModel) -> None:
    with pytest.raises(RenderingError, match=r"(width|height) must be"):
        OffscreenRenderer(model, *size)


def test_rendering_leaves_the_state_alone(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    before = np.empty(mujoco.mj_stateSize(model, kind))
    after = np.empty_like(before)
    mujoco.mj_getState(model, data, before, kind)
    with OffscreenRenderer(model, 16, 16) as renderer:
        renderer.render(data, "front")
    mujoco.mj_getState(model, data, after, kind)
    np.testing.assert_array_equal(after, before)


def test_shadows_are_drawn_on_request() -> None:
    model = mujoco.MjModel.from_xml_string("""
      <mujoco><worldbody>
        <light pos="0 0 3" dir="0 0 -1" castshadow="true"/>
        <camera name="top" pos="0 -2 2" xyaxes="1 0 0 0 0.7 0.7"/>
        <geom type="plane" size="3 3 0.1"/><geom size="0.3" pos="0 0 1"/>
      </worldbody></mujoco>""")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    with OffscreenRenderer(model, 64, 64) as plain:
        without = plain.render(data, "top")
    with OffscreenRenderer(model, 64, 64, shadows=True) as shadowed:
        assert shadowed.render(data, "top").mean() < without.mean() - 0.5


def test_data_of_another_model_is_refused(model: mujoco.MjModel) -> None:
    other = mujoco.MjModel.from_xml_string("<mujoco/>")
    with (
        OffscreenRenderer(model, 16, 16) as renderer,
        pytest.raises(RenderingError, match="nq, ngeom, nsite"),
    ):
        renderer.render(mujoco.MjData(other), "front")


# --- its life ---


def test_close_twice_and_then_refuse(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    renderer = OffscreenRenderer(model, 16, 16)
    renderer.close()
    renderer.close()
    with pytest.raises(RenderingError, match="after close"):
        renderer.render(data)


def test_renderers_do_not_disturb_each_other(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Closed or forgotten, one renderer leaves the other's context as it was."""
    with OffscreenRenderer(model, 32, 32) as kept:
        before = kept.render(data, "front")
        with OffscreenRenderer(model, 64, 64) as closed:
            closed.render(data, "front")
            np.testing.assert_array_equal(kept.render(data, "front"), before)
        np.testing.assert_array_equal(kept.render(data, "front"), before)
        forgotten = OffscreenRenderer(model, 64, 64)
        forgotten.render(data, "front")
        kept.render(data, "front")  # its context is current when the other one goes
        del forgotten
        np.testing.assert_array_equal(kept.render(data, "front"), before)


@linux
def test_opening_and_closing_does_not_leak(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    def open_and_close(times: int) -> float:
        for _ in range(times):
            with OffscreenRenderer(model, 320, 240) as renderer:
                renderer.render(data, "front")
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / 1e6

    first = open_and_close(10)
    assert open_and_close(20) - first < 15.0, "MB; a kept context holds more than 1 MB each"


def test_another_thread_is_refused(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    errors: list[str] = []

    def use(renderer: OffscreenRenderer) -> None:
        for deed in (lambda: renderer.render(data), renderer.close):
            try:
                deed()
            except RenderingError as e:
                errors.append(str(e))

    with OffscreenRenderer(model, 16, 16) as renderer:
        renderer.render(data)
        thread = threading.Thread(target=use, args=(renderer,))
        thread.start()
        thread.join()
        renderer.render(data)
    assert len(errors) == 2
    assert all("one thread" in error for error in errors)


def test_each_thread_may_have_its_own(model: mujoco.MjModel) -> None:
    pictures: list[np.ndarray] = []

    def draw() -> None:
        own = mujoco.MjData(model)
        mujoco.mj_forward(model, own)
        with OffscreenRenderer(model, 32, 32) as renderer:
            pictures.append(renderer.render(own, "front"))

    for _ in range(2):
        thread = threading.Thread(target=draw)
        thread.start()
        thread.join()
    assert len(pictures) == 2
    np.testing.assert_array_equal(pictures[0], pictures[1])


@linux
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_is_refused_instead_of_hanging(model: mujoco.MjModel) -> None:
    OffscreenRenderer(model, 16, 16).close()
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def child() -> None:
        try:
            OffscreenRenderer(model, 16, 16)
        except RenderingError as e:
            sender.send(str(e))

    process = context.Process(target=child)
    process.start()
    try:
        assert receiver.poll(30.0), "the forked process hangs"
        assert "spawn" in receiver.recv()
    finally:
        process.kill()
        process.join()
        receiver.close()
        sender.close()


# --- the backend ---

DRAW = """
import mujoco
from envs.errors import EnvError
from envs.rendering import OffscreenRenderer, choose_backend
model = mujoco.MjModel.from_xml_string(
    '<mujoco><worldbody><light pos="0 0 2"/><geom size="1"/></worldbody></mujoco>'
)
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
try:
    renderer = OffscreenRenderer(model, 32, 32)
    print(choose_backend(), renderer.render(data).max() > 20)
except EnvError as e:
    print(type(e).__name__, e)
"""


def _run(code: str, **changes: str | None) -> str:
    """Run ``code`` in a new process with a changed environment; return what it printed."""
    drop = {"MUJOCO_GL", "PYOPENGL_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY", "LD_LIBRARY_PATH"}
    env = {k: v for k, v in os.environ.items() if k not in drop}
    env.update({k: v for k, v in changes.items() if v is not None})
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


def _hide(folder: Path, *names: str) -> str:
    """Return a library folder whose empty files stand before the real ``names``."""
    for name in names:
        (folder / name).touch()
    return str(folder)


OSMESA = ("libOSMesa.so", "libOSMesa.so.6", "libOSMesa.so.8")
EGL = ("libEGL.so", "libEGL.so.1")


@linux
def test_without_a_display_egl_is_taken() -> None:
    """The renderer is left open: the process must end quietly all the same."""
    assert _run(DRAW) == "egl True"


@linux
def test_a_display_that_does_not_answer_is_passed_over() -> None:
    assert _run(DRAW, DISPLAY=":9876") == "egl True"


@linux
def test_osmesa_is_taken_where_egl_is_missing(tmp_path: Path) -> None:
    """A failed EGL attempt in this process would keep OSMesa from loading."""
    assert _run(DRAW, LD_LIBRARY_PATH=_hide(tmp_path, *EGL)) == "osmesa True"


@linux
def test_no_backend_names_each_reason_and_the_packages(tmp_path: Path) -> None:
    text = _run(DRAW, LD_LIBRARY_PATH=_hide(tmp_path, *EGL, *OSMESA))
    assert text.startswith("RenderingUnavailableError")
    for part in ("glfw: neither DISPLAY", "egl: its library is missing", "osmesa: its library"):
        assert part in text
    for package in ("libegl1", "libgl1-mesa-dri", "libosmesa6"):
        assert package in text


@linux
@pytest.mark.parametrize("name", ["egl", "osmesa"])
def test_mujoco_gl_is_obeyed(name: str) -> None:
    assert _run(DRAW, MUJOCO_GL=name) == f"{name} True"


@linux
def test_mujoco_gl_is_obeyed_even_if_it_cannot_work() -> None:
    text = _run(DRAW, MUJOCO_GL="glfw")
    assert text.startswith("RenderingUnavailableError")
    assert "DISPLAY" in text
    assert "egl:" not in text


def test_mujoco_gl_switches_rendering_off() -> None:
    text = _run(DRAW, MUJOCO_GL="disable")
    assert text.startswith("RenderingUnavailableError")
    assert "MUJOCO_GL=disable" in text


def test_unknown_backend_is_refused_with_the_names() -> None:
    """MuJoCo refuses it at import; a value set later meets our own check."""
    code = DRAW.replace("try:", "import os; os.environ['MUJOCO_GL'] = 'vulkan'\ntry:", 1)
    text = _run(code)
    assert text.startswith("RenderingUnavailableError")
    assert "MUJOCO_GL=vulkan" in text


@linux
def test_opengl_loaded_for_another_platform_is_reported() -> None:
    pytest.importorskip("OpenGL")
    text = _run("import OpenGL.GL\n" + DRAW)
    assert text.startswith("RenderingUnavailableError")
    assert "OpenGL was loaded" in text


def test_importing_loads_no_opengl() -> None:
    """Nothing beyond what MuJoCo itself loads, until a picture is asked for."""
    code = """
import sys, mujoco
before = set(sys.modules)
import envs, envs.cameras, envs.panda_env, envs.rendering, envs.viewer, envs.gl_context
new = {name.split('.')[0] for name in set(sys.modules) - before}
print(sorted(new & {'OpenGL', 'glfw'}), 'mujoco.viewer' in sys.modules)
"""
    assert _run(code) == "[] False"
    assert _run(code, MUJOCO_GL="disable") == "[] False"


@pytest.mark.parametrize("backend", ["no_such_backend", "cgl"])
def test_a_backend_that_fails_gives_one_reason(backend: str) -> None:
    if backend == "cgl" and sys.platform == "darwin":
        pytest.skip("it works there")
    with pytest.raises(gl_context.ContextError):
        gl_context.build(backend, 8, 8)
    reason = gl_context.probe(backend)
    assert reason
    assert "\n" not in reason


def test_a_process_that_does_not_start_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gl_context.sys, "executable", "/no/such/python")
    assert "cannot start" in (gl_context.probe("egl") or "")


def test_a_process_that_does_not_answer_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gl_context, "PROBE_TIMEOUT_S", 0.001)
    assert "no answer" in (gl_context.probe("egl") or "")


def test_errors_belong_to_the_package() -> None:
    assert issubclass(RenderingUnavailableError, RenderingError)
    assert issubclass(RenderingError, EnvError)


def _model_bytes(model: mujoco.MjModel) -> bytes:
    """Return the compiled model as it is written to files."""
    buffer = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return buffer.tobytes()
