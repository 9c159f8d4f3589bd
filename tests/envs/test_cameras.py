"""Pictures in the observation: their pixels, geometry and keys, and what they may not cost."""

import pickle
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from envs import scene
from envs.cameras import CameraObserver, camera_pose, find_cameras, intrinsics
from envs.errors import OptionError
from envs.panda_env import PicoPandaEnv
from envs.rendering import OffscreenRenderer, far_plane
from kinematics import Side
from kinematics.frames import R_CAMERA_OPENCV, T_CAMERA_OPENCV

Make = Callable[..., PicoPandaEnv]
ALL = ("rgb", "depth", "segmentation")
SIZE = {"camera_width": 48, "camera_height": 32}
HOLD = np.zeros(7, np.float32)

# Markers of three colours at unlike places, so that a flip, a mirror or BGR shows.
MARKERS = {"red": (0.6, 0.7, 0.4), "green": (0.3, -0.6, 0.2), "blue": (0.1, 0.2, -0.7)}
COLOURS = {"red": 0, "green": 1, "blue": 2}
MARKED = """
<mujoco>
  <visual><headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/></visual>
  <statistic extent="2"/>
  <worldbody>
    <camera name="skew" pos="-2.1 0.3 1.2" fovy="50"/>
    {markers}
  </worldbody>
</mujoco>
"""


@pytest.fixture(scope="module")
def marked() -> tuple[mujoco.MjModel, mujoco.MjData]:
    """Three small balls before a camera that looks at the origin askew."""
    text = "".join(
        f'<geom name="{name}" size="0.08" pos="{p[0]} {p[1]} {p[2]}" '
        f'rgba="{" ".join(str(float(k == COLOURS[name])) for k in range(3))} 1"/>'
        for name, p in MARKERS.items()
    )
    spec = mujoco.MjSpec.from_string(MARKED.format(markers=text))
    back = np.array([-2.1, 0.3, 1.2]) / np.linalg.norm([-2.1, 0.3, 1.2])
    right = np.cross([0.2, 0.1, 1.0], back)
    right /= np.linalg.norm(right)
    turn = np.stack([right, np.cross(back, right), back], axis=1)
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, turn.ravel())
    spec.camera("skew").quat = quat
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


@pytest.mark.parametrize("size", [(160, 120), (163, 101)])
def test_a_point_is_where_the_matrices_say(
    marked: tuple[mujoco.MjModel, mujoco.MjData], size: tuple[int, int]
) -> None:
    model, data = marked
    with OffscreenRenderer(model, *size) as renderer:
        taken = renderer.capture(data, "skew", ALL)
    K = intrinsics(model, "skew", *size)
    T_opencv_world = (camera_pose(model, data, "skew") * T_CAMERA_OPENCV).inv()
    for name, point in MARKERS.items():
        seen = T_opencv_world.apply(np.array(point))
        u, v = (K @ seen)[:2] / seen[2]
        colours = taken["rgb"].astype(int)
        others = [k for k in range(3) if k != COLOURS[name]]
        mine = (colours[..., COLOURS[name]] > 128) & (colours[..., others].max(axis=-1) < 100)
        rows, columns = np.nonzero(mine)
        found = (columns.mean(), rows.mean())
        np.testing.assert_allclose(found, (u, v), atol=0.35)  # px; 0.5 is the other convention
        row, column = round(v), round(u)
        assert taken["segmentation"][row, column, 0] == model.geom(name).id
        # Along the pixel's own ray (z = 1 a unit of depth), to where it meets the ball.
        ray = np.linalg.solve(K, [column, row, 1.0])
        a, b, c = ray @ ray, ray @ seen, seen @ seen - 0.08**2
        near = (b - np.sqrt(b * b - a * c)) / a
        assert taken["depth"][row, column, 0] == pytest.approx(near, abs=4e-3)  # m; facets


def test_what_the_arrays_are(marked: tuple[mujoco.MjModel, mujoco.MjData]) -> None:
    model, data = marked
    with OffscreenRenderer(model, 64, 48) as renderer:
        taken = renderer.capture(data, "skew", ALL)
        for mode in ALL:
            alone = renderer.capture(data, "skew", (mode,))[mode]
            np.testing.assert_array_equal(alone, taken[mode], f"{mode} does not hang on others")
        np.testing.assert_array_equal(renderer.render(data, "skew"), taken["rgb"])
    assert [(a.shape, a.dtype.name) for a in taken.values()] == [
        ((48, 64, 3), "uint8"), ((48, 64, 1), "float32"), ((48, 64, 1), "int32"),
    ]  # fmt: skip
    assert taken["depth"][0, 0, 0] == np.float32(far_plane(model)), "nothing there"
    assert taken["segmentation"][0, 0, 0] == -1


def test_ids_are_never_blended() -> None:
    """An edge between geoms 299 and nothing must not show geom 150."""
    geoms = "".join(f'<geom size="0.01" pos="{50 + i} 0 0"/>' for i in range(299))
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><statistic extent="2"/><worldbody><camera name="c" pos="0 0 3"/>{geoms}'
        '<geom size="1"/></worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    with OffscreenRenderer(model, 64, 64) as renderer:
        ids = renderer.capture(data, "c", ("segmentation",))["segmentation"]
    assert np.unique(ids).tolist() == [-1, 299]


def test_opencv_axes_are_a_half_turn_about_x() -> None:
    np.testing.assert_array_equal(R_CAMERA_OPENCV, np.diag([1.0, -1.0, -1.0]))


# --- the environment ---


def test_a_red_cube_is_red_where_it_lies(make: Make) -> None:
    env = make(cameras=("front", "side"), camera_modes=ALL, camera_width=160, camera_height=120)
    observation, _ = env.reset(seed=3)
    cube = env.data.body("task/cube").xpos
    for camera in ("front", "side"):
        seen = (env.T_world_camera(camera) * T_CAMERA_OPENCV).inv().apply(cube)
        u, v = (env.intrinsics(camera) @ seen)[:2] / seen[2]
        row, column = round(v), round(u)
        red, green, blue = observation[f"{camera}_image"][row, column].astype(int)
        assert red > 2 * max(green, blue), "red, not blue"
        geom = observation[f"{camera}_segmentation"][row, column, 0]
        assert env.model.geom_bodyid[geom] == env.model.body("task/cube").id
        depth = observation[f"{camera}_depth"][row, column, 0]
        assert seen[2] - 0.04 < depth < seen[2], "half a cube's diagonal before its centre"


def test_the_stereo_pair_has_a_persons_eyes(make: Make) -> None:
    for task in ("pick", "lift_tray"):
        env = make(task=task)
        left, right = (env.T_world_camera(f"stereo_{side}") for side in ("left", "right"))
        np.testing.assert_allclose(
            (left.inv() * right).translation, [0.063, 0.0, 0.0], atol=1e-9
        )  # m along the camera's x: the left eye's right
        assert (left.inv() * right).rotation.magnitude() < 1e-9, "parallel"
        floor = env.model.geom("floor").pos[2]
        assert left.translation[2] - floor == pytest.approx(1.6, abs=1e-9)
        np.testing.assert_array_equal(env.intrinsics("stereo_left"), env.intrinsics("stereo_right"))
        forward = left.rotation.apply([0.0, 0.0, -1.0])
        assert forward[0] > 0.5, "the operator faces along world x"
        assert forward[1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("task", "cameras"),
    [("pick", ("front", "wrist")), ("lift_tray", ("right_wrist", "left_wrist"))],
)
def test_the_checker_takes_pictures(make: Make, task: str, cameras: tuple[str, ...]) -> None:
    env = make(task=task, cameras=cameras, camera_modes=ALL, **SIZE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env, skip_render_check=True)
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    kinds = ("image", "depth", "segmentation")
    keys = [f"{camera}_{kind}" for camera in cameras for kind in kinds]
    assert list(env.picture_keys) == keys
    assert set(keys) < set(observation)
    if task == "lift_tray":
        assert not np.array_equal(observation["left_wrist_image"], observation["right_wrist_image"])


def test_a_picture_is_of_the_state_it_stands_beside(make: Make) -> None:
    """The wrist's camera moves with the hand: also within the last physics step."""
    env = make(cameras=("wrist",), **SIZE)
    env.reset(seed=0)
    for _ in range(8):
        seen, *_ = env.step(np.array([1, 1, -1, 1, 0, 1, 0], np.float32))
    pose = env.T_world_camera("wrist")
    env.restore(env.integration_state(), env.controller_memory())
    again = env.observe()
    np.testing.assert_array_equal(seen["wrist_image"], again["wrist_image"])
    after = env.T_world_camera("wrist")
    np.testing.assert_array_equal(pose.translation, after.translation)


def test_cameras_leave_the_physics_alone(make: Make) -> None:
    plain, seeing = make(), make(cameras=("wrist",), camera_modes=ALL, **SIZE)
    action = np.array([0.5, -0.5, -1, 0.3, 0, 0, 1], np.float32)
    for env in (plain, seeing):
        env.reset(seed=4)
        for _ in range(10):
            env.step(action)
    np.testing.assert_array_equal(plain.integration_state(), seeing.integration_state())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cameras": ("top",)}, r"cameras='top' is unknown; choose from \['front', 'side', 'ster"),
        ({"cameras": "front"}, r"\('front',\) instead of 'front'"),
        ({"cameras": ("front", "front")}, "twice"),
        ({"cameras": ("front",), "camera_modes": ("bgr",)}, r"choose from \['rgb', 'depth'"),
        ({"cameras": ("front",), "camera_modes": ()}, "camera_modes is empty"),
        ({"camera_width": 0}, "camera_width must be 1 to"),
        ({"camera_height": 1.5}, "camera_height must be 1 to"),
    ],
)
def test_wrong_options_are_refused_with_the_choices(
    make: Make, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        make(**options)


def test_geometry_of_unknown_or_odd_cameras_is_refused(make: Make) -> None:
    env = make()
    for ask in (env.intrinsics, env.T_world_camera):
        with pytest.raises(OptionError, match="choose from"):
            ask("top")
    odd = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><camera name="flat" projection="orthographic"/>'
        '<camera name="chip" sensorsize="0.01 0.01" focal="0.01 0.01" resolution="9 9"/>'
        "</worldbody></mujoco>"
    )
    for name in ("flat", "chip"):
        with pytest.raises(OptionError, match=name):
            intrinsics(odd, name, 8, 8)


def test_names_have_no_slash() -> None:
    for n_arms, sides in ((1, [Side.RIGHT]), (2, [Side.RIGHT, Side.LEFT])):
        model = scene.compose(scene.make_mounts(n_arms))
        found = find_cameras(model, sides)
        assert not any("/" in name for name in found)
        assert found["wrist"] == found["right_wrist"] == "right/hand/wrist"
        assert ("left_wrist" in found) == (n_arms == 2)
        assert set(found.values()) == {model.camera(i).name for i in range(model.ncam)}


# --- what is not asked for costs nothing ---


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note every context that is built and every scene update."""
    notes: list[str] = []
    build, update = OffscreenRenderer.__init__, mujoco.mjv_updateScene

    def noted_build(self: OffscreenRenderer, *args: Any, **options: Any) -> None:
        notes.append("context")
        build(self, *args, **options)

    def noted_update(*args: Any) -> None:
        notes.append("scene")
        update(*args)

    monkeypatch.setattr(OffscreenRenderer, "__init__", noted_build)
    monkeypatch.setattr(mujoco, "mjv_updateScene", noted_update)
    return notes


def test_only_what_is_asked_for_is_drawn(make: Make, drawn: list[str]) -> None:
    env = make(camera_modes=ALL)
    env.reset(seed=0)
    env.step(HOLD)
    env.close()
    assert drawn == [], "no camera: no context"
    env = make(cameras=("front", "wrist"), camera_modes=ALL, **SIZE)
    assert drawn == [], "none before the first picture: a vector's spaces need none"
    env.reset(seed=0)
    assert drawn == ["context", "scene", "scene"], "one update a camera, whatever the modes"


# --- copies, workers and ends ---


def test_copies_see_the_same_and_close_twice(make: Make) -> None:
    env = make(cameras=("front",), camera_modes=ALL, **SIZE)
    env.reset(seed=1)
    seen, *_ = env.step(HOLD)
    twin = pickle.loads(pickle.dumps(env))
    for key, value in twin.observe().items():
        np.testing.assert_array_equal(value, seen[key])
    twin.close()
    twin.close()
    env.close()
    np.testing.assert_array_equal(env.observe()["front_image"], seen["front_image"])


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_vectors_see_what_one_sees(make: Make, mode: str) -> None:
    options: dict[str, Any] = {"cameras": ("front",), "camera_modes": ("rgb", "depth"), **SIZE}
    env = make(**options)
    env.reset(seed=5)
    one, *_ = env.step(HOLD)
    vector = gym.make_vec(
        "envs:PicoPanda-v0",
        num_envs=2,
        vectorization_mode=mode,
        vector_kwargs={"context": "spawn"} if mode == "async" else None,
        **options,
    )
    try:
        vector.reset(seed=5)
        many, *_ = vector.step(np.stack([HOLD, HOLD]))
        assert many["front_image"].shape == (2, 32, 48, 3)
        for key in env.picture_keys:
            np.testing.assert_array_equal(many[key][0], one[key])
    finally:
        vector.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_opening_cameras_again_and_again_does_not_leak(
    marked: tuple[mujoco.MjModel, mujoco.MjData],
) -> None:
    model, data = marked

    def use(times: int) -> float:
        for _ in range(times):
            eyes = CameraObserver(model, {"eye": "skew"}, ("eye",), ("rgb", "depth"), 128, 128)
            eyes.observe(data)
            eyes.close()
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

    first = use(10)
    assert use(20) - first < 15.0, "MB; a kept context holds more than 1 MB each"
