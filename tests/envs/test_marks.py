"""Frames beside the model: where they are drawn, in pictures and in the window's scene."""

import mujoco
import numpy as np
import pytest
from virtual_screen import PATIENCE_S, Screen, screen

from envs.errors import OptionError
from envs.marks import COLUMNS, LOOKS, MOST, add_marks, pack
from envs.rendering import OffscreenRenderer
from envs.viewer import ViewerProcess

__all__ = ["screen"]

TURN = (0.5, 0.5, 0.5, 0.5)
"""wxyz of the rotation x -> y -> z -> x."""
SCENE = """
<mujoco>
  <visual><headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/></visual>
  <worldbody>
    <camera name="front" pos="0 0 1" xyaxes="1 0 0 0 1 0"/>
    <geom type="plane" size="9 9 1" pos="0 0 -1" rgba="1 1 1 1"/>
    <body><freejoint/><geom size="0.01" rgba="1 1 1 1"/></body>
  </worldbody>
</mujoco>
"""


@pytest.fixture
def model() -> mujoco.MjModel:
    """White everywhere."""
    return mujoco.MjModel.from_xml_string(SCENE)


def pose(x: float = 0.0, y: float = 0.0, quat: tuple[float, ...] = (1, 0, 0, 0)) -> np.ndarray:
    return np.array([x, y, 0.0, *quat])


def test_a_mark_is_a_ball_and_three_axes_where_its_pose_is(model: mujoco.MjModel) -> None:
    scene = mujoco.MjvScene(model, 100)
    add_marks(scene, pack({"right hand": pose(0.1), "left tool": pose(-0.2, 0.3, TURN)}))
    assert scene.ngeom == 8
    balls = [scene.geoms[n] for n in (0, 4)]
    np.testing.assert_allclose([ball.pos for ball in balls], [[0.1, 0, 0], [-0.2, 0.3, 0]])
    for ball, kind in zip(balls, ("hand", "tool"), strict=True):
        np.testing.assert_allclose(ball.rgba[:3], LOOKS[kind].rgb, atol=1e-6)
    length = LOOKS["tool"].length
    for n, way in enumerate(((0, 1, 0), (0, 0, 1), (1, 0, 0))):  # x, y, z of TURN in world
        axis = scene.geoms[5 + n]
        np.testing.assert_allclose(axis.rgba[:3], np.eye(3)[n], atol=1e-6)
        middle = np.array([-0.2, 0.3, 0.0]) + 0.5 * length * np.array(way)
        np.testing.assert_allclose(axis.pos, middle, atol=1e-6)
        np.testing.assert_allclose(axis.mat[:, 2], way, atol=1e-6)


def test_a_full_scene_takes_no_more(model: mujoco.MjModel) -> None:
    scene = mujoco.MjvScene(model, 3)
    add_marks(scene, pack({"tool": pose()}))
    assert scene.ngeom == 3


def test_what_cannot_be_drawn_is_said() -> None:
    assert pack({}).shape == (MOST, COLUMNS) and np.isnan(pack({})).all()
    assert np.isnan(pack({"hand": np.full(7, np.nan)})).all()
    for marks in (
        {"elbow": pose()},
        {"hand": np.zeros(3)},
        {f"{n} tool": pose() for n in range(9)},
    ):
        with pytest.raises(OptionError, match="mark"):
            pack(marks)


def test_pictures_show_them_and_forget_them(model: mujoco.MjModel) -> None:
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    with OffscreenRenderer(model, 64, 64) as renderer:
        before = renderer.render(data, "front")
        renderer.marks = pack({"target": pose(0.2)})
        marked = renderer.render(data, "front")
        renderer.marks = pack({})
        np.testing.assert_array_equal(renderer.render(data, "front"), before)
    changed = np.argwhere((marked != before).any(axis=2))
    assert len(changed) > 10
    assert changed[:, 1].min() > 32, "right of the middle"


def test_the_window_shows_them(screen: Screen, model: mujoco.MjModel) -> None:
    import time

    state = np.zeros(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(model, mujoco.MjData(model), state, mujoco.mjtState.mjSTATE_INTEGRATION)
    with ViewerProcess(model, camera="front") as viewer:
        viewer.update(state, marked={"target": pose()})
        end = time.monotonic() + PATIENCE_S
        while screen.red() < 20 and time.monotonic() < end:  # its x axis
            time.sleep(0.02)
        assert screen.red() >= 20
        viewer.update(state, marked={})
        while screen.red() > 0 and time.monotonic() < end:
            time.sleep(0.02)
        assert screen.red() == 0
