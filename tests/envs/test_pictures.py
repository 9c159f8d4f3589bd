"""Pictures and windows of a whole environment; whatever needs none creates no context."""

import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from virtual_screen import PATIENCE_S, Screen

from envs import ENV_IDS
from envs.errors import ViewerError
from envs.panda_env import PicoPandaEnv
from envs.tasks import TASKS

Make = Callable[..., PicoPandaEnv]
HOLD = np.zeros(7, np.float32)


def _eventually(condition: Callable[[], bool]) -> bool:
    """Return whether ``condition`` comes true within the bound."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def _red(picture: np.ndarray) -> int:
    p = picture.astype(int)
    return int(np.sum((p[..., 0] > 100) & (p[..., 1] < 70) & (p[..., 2] < 70)))


# --- rgb_array ---


def test_a_picture_is_taken_of_now(make: Make) -> None:
    env = make(render_mode="rgb_array", camera="front")
    env.reset(seed=0)
    first = env.render()
    assert first is not None
    assert first.shape == (480, 640, 3)
    assert first.dtype == np.uint8
    assert first.std() > 20.0, "neither black nor of one colour"
    assert _red(first) > 50, "the cube is in sight"
    kept = first.copy()
    for _ in range(20):
        env.step(np.array([0.5, 0, -0.5, 0, 0, 0, 0], np.float32))
    second = env.render()
    np.testing.assert_array_equal(first, kept, "a copy")
    assert not np.array_equal(first, second), "the arm has moved"


@pytest.mark.parametrize("camera", ["front", "side", "wrist"])
def test_every_camera_sees_the_scene(make: Make, camera: str) -> None:
    env = make(render_mode="rgb_array", camera=camera, width=160, height=120)
    env.reset(seed=0)
    picture = env.render()
    assert picture is not None
    assert picture.shape == (120, 160, 3)
    assert picture.std() > 10.0


@pytest.mark.usefixtures("screen")
def test_the_checker_and_wrappers_take_pictures() -> None:
    """The checker makes an environment of every render mode."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = gym.make("PicoPanda-v0", render_mode="rgb_array", width=64, height=48)
        try:
            made.reset(seed=0)
            made.step(HOLD)
            picture = made.render()
            assert isinstance(picture, np.ndarray)
            assert picture.shape == (48, 64, 3)
            check_env(made.unwrapped, skip_render_check=False)
        finally:
            made.close()


def test_closing_twice_and_rendering_again(make: Make) -> None:
    env = make(render_mode="rgb_array", width=64, height=48)
    env.reset(seed=0)
    first = env.render()
    env.close()
    env.close()
    np.testing.assert_array_equal(env.render(), first)


def test_without_a_render_mode_nothing_is_drawn(make: Make) -> None:
    env = make()
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode='rgb_array' or 'human'"):
        assert env.render() is None
    assert env._pictures._renderer is None


def test_a_large_picture(make: Make) -> None:
    """Larger than MuJoCo's default buffer."""
    env = make(render_mode="rgb_array", width=1280, height=720)
    env.reset(seed=0)
    picture = env.render()
    assert picture is not None
    assert picture.shape == (720, 1280, 3)
    assert picture.std() > 20.0


# --- human ---


def test_a_window_follows_the_episode(make: Make, screen: Screen) -> None:
    env = make(task="pick", render_mode="human")
    env.reset(seed=0)
    assert env._pictures._viewer is not None
    assert _eventually(lambda: _red(screen.pixels()) > 20), "the cube is in sight"
    assert env.render() is None
    for _ in range(5):
        env.step(HOLD)
    env.data.joint("task/cube_joint").qpos[2] = -0.5  # under the table
    env.step(HOLD)
    assert _eventually(lambda: _red(screen.pixels()) == 0)
    env.close()
    assert env._pictures._viewer is None
    env.close()


def test_a_window_and_two_cameras_at_once(
    make: Make, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a context of its own: neither disturbs the other, and both show every step."""
    monkeypatch.setenv("MUJOCO_GL", "egl")  # not the virtual screen, which goes with this test
    cameras = ("front", "wrist")
    env = make(task="pick", render_mode="human", cameras=cameras, camera_width=64, camera_height=48)
    bare = make(task="pick", cameras=cameras, camera_width=64, camera_height=48)
    seen, want = env.reset(seed=0)[0], bare.reset(seed=0)[0]
    for step in range(20):
        for name in cameras:
            picture = seen[f"{name}_image"]
            assert picture.std() > 5.0, (step, name)
            np.testing.assert_array_equal(picture, want[f"{name}_image"])
        action = np.array([0.0, 0.0, -0.5, 0.0, 0.0, 0.0, -1.0], np.float32)
        seen, want = env.step(action)[0], bare.step(action)[0]
    assert _eventually(lambda: _red(screen.pixels()) > 20), "the cube is in sight"


@pytest.mark.usefixtures("no_screen")
def test_a_window_needs_a_display(make: Make) -> None:
    env = make(render_mode="human")
    with pytest.raises(ViewerError, match="DISPLAY"):
        env.reset(seed=0)


# --- the commands ---


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "envs", *arguments],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


def test_list_names_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    from envs.commands import main

    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    for word in ("PicoPanda-v0", "reach", "pick", "ee_delta", "ee_pose", "joint", "200", "dense"):
        assert word in printed
    assert "robot0_target_quat" in printed


def test_list_has_every_id_task_and_space(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one arm and of two, as the environments themselves have them."""
    from envs.commands import main

    monkeypatch.setenv("COLUMNS", "400")  # no cell is folded
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed.splitlines()]
    table = {row[0]: row[1:] for row in rows if row}
    registered = [f"envs:{name}" for name in gym.registry if name.startswith("Pico")]
    assert len(registered) > 2
    assert all(f'"{name}"' in printed for name in registered)
    for n_arms in ENV_IDS:
        for task in (task for task in TASKS.values() if task.n_arms == n_arms):
            assert table[task.name][:2] == [str(n_arms), task.instruction]
            assert table[task.name][-1].startswith(f"({len(task.object_names)},)")
    for control in ("ee_delta", "ee_pose", "joint"):
        for n_arms, task in ((1, "pick"), (2, "lift_tray")):
            env = PicoPandaEnv(task, n_arms, control=control)
            assert table[control][n_arms - 1] == str(env.action_space.shape)
            for key, box in env.observation_space.items():
                arms, shape, dtype = table[key]
                assert str(n_arms) in arms
                assert key == "object" or (shape, dtype) == (str(box.shape), "float32")


@pytest.mark.usefixtures("no_screen")
def test_view_without_a_display_is_an_error_in_words() -> None:
    done = _run("view", "--guide")
    assert done.returncode == 1
    assert "error: the viewer's window did not open" in done.stderr
    assert "DISPLAY" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("view", "--task", "juggle"), 1, "choose from ['reach', 'pick', 'place'"),
        (("view", "PicoPandas-v0"), 1, "choose from ['PicoPanda-v0', 'PicoDualPanda-v0']"),
        (("view", "PicoDualPanda-v0", "--task", "pick"), 1, "choose from ['lift_tray'"),
        (("view", "--camera", "top"), 1, "no camera 'top'; cameras: front, side"),
        (("view", "--speed", "3"), 2, "--speed"),
        (("view", "--randomize", "looks"), 1, "looks"),
        ((), 2, "list"),
    ],
)
def test_wrong_usage_is_told(
    arguments: tuple[str, ...], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from envs.commands import main

    try:
        found = main(list(arguments))
    except SystemExit as e:
        found = e.code
    assert found == code
    assert words in capsys.readouterr().err


def test_view_plays_the_guide(screen: Screen) -> None:
    """For a moment, in a process of its own: a window needs a main module."""
    done = _run("view", "--task", "pick", "--guide", "--camera", "front", "--seconds", "0.5")
    assert done.returncode == 0, done.stderr
    assert "Pick up the red cube" in done.stdout
    assert screen.name


def test_view_takes_an_id_and_stands_idle(screen: Screen) -> None:
    done = _run(
        "view", "envs:PicoDualPanda-v0", "--randomize", "visual", "sizes", "--seconds", "0.2"
    )
    assert done.returncode == 0, done.stderr
    assert TASKS["lift_tray"].instruction.split()[0] in done.stdout
    assert screen.name
