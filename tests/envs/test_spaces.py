"""Spaces, tables and observations. What holds for every task in every mode: test_battery."""

from collections.abc import Callable
from inspect import cleandoc
from itertools import product
from typing import Any

import mujoco
import numpy as np
import pytest
from gymnasium import spaces

from envs.panda_env import CONTROL_HZ, PicoPandaEnv
from envs.tasks import TASKS
from kinematics import Side

MODES = ("ee_delta", "ee_pose", "joint")
Make = Callable[..., PicoPandaEnv]


# --- the tables ---


def _table(header: str) -> dict[str, list[str]]:
    """Return the rows of the class's markdown table that begins with ``header``, by first cell."""
    lines = cleandoc(PicoPandaEnv.__doc__ or "").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {header} |"))
    rows = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        first, *rest = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        rows[first] = rest
    return rows


@pytest.mark.parametrize("task", ["pick", "lift_tray"])
def test_the_table_of_actions(make: Make, task: str) -> None:
    table = _table("control")
    assert set(table) == set(MODES)
    for control, (width, _) in table.items():
        env, each = make(task=task, control=control), int(width)
        n = TASKS[task].n_arms
        assert env.action_space == spaces.Box(-1.0, 1.0, (n * each,), np.float32)
        assert len(env.action_names) == n * each
        for i in range(n):
            own = env.action_names[i * each : (i + 1) * each]
            assert all(name.startswith(f"robot{i}_") for name in own)
            assert own[-1] == f"robot{i}_gripper"
        assert len(set(env.action_names)) == n * each


@pytest.mark.parametrize("control", MODES)
def test_an_arms_part_of_the_action_moves_that_arm(make: Make, control: str) -> None:
    """The right arm's comes first, in actions as in observations."""
    for index, side in enumerate((Side.RIGHT, Side.LEFT)):
        env = make(task="lift_tray", control=control)
        before, _ = env.reset(seed=0)
        action = env.encode({s: env.commanded(s) for s in env.sides})
        part = np.split(action, 2)[index]
        part[2] += 0.3
        part[-1] = 0.0
        for _ in range(10):
            after, *_ = env.step(action)
        other = 1 - index
        moved, still = (
            np.abs(after[f"robot{i}_joint_pos"] - before[f"robot{i}_joint_pos"]).max()
            for i in (index, other)
        )
        assert moved > 0.01
        assert still < 1e-4
        assert after[f"robot{index}_gripper_qpos"] < 0.07
        assert after[f"robot{other}_gripper_qpos"] > 0.0799
        own, _ = env.arms[side].measure(env.data)
        np.testing.assert_allclose(after[f"robot{index}_eef_pos"], own, atol=1e-7)


@pytest.mark.parametrize("task", TASKS)
def test_the_table_of_observations(make: Make, task: str) -> None:
    table, env = _table("key"), make(task=task)
    space = env.observation_space
    assert isinstance(space, spaces.Dict)
    arms = range(TASKS[task].n_arms)
    rows = {key.format(i=i): row for key, row in table.items() for i in arms}
    assert set(rows) == set(space)
    for key, (shape, unit, _) in rows.items():
        box = space[key]
        assert isinstance(box, spaces.Box)
        assert box.dtype == np.float32
        assert np.all(np.isfinite(box.low)) and np.all(np.isfinite(box.high))
        expected = f"({len(env.task.object_names)},)" if key == "object" else shape
        assert str(box.shape) == expected
        assert unit in ("m", "-", "rad", "rad/s", "m, -")


@pytest.mark.parametrize("task", TASKS)
def test_every_task_says_what_it_is(make: Make, task: str) -> None:
    env = make(task=task)
    assert env.task.name == task
    assert env.task.instruction.endswith(".")
    assert env.task.hold_steps == round(env.task.hold_s * 600)


# --- what is observed ---


def _flat(obs: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([obs[key] for key in sorted(obs)])


@pytest.mark.parametrize("control_hz", CONTROL_HZ)
@pytest.mark.parametrize("control", MODES)
def test_random_actions_stay_in_the_space(make: Make, control: str, control_hz: int) -> None:
    env = make(control=control, control_hz=control_hz)
    rng = np.random.default_rng(control_hz)
    obs, _ = env.reset(seed=control_hz)
    assert env.observation_space.contains(obs)
    for k in range(50):
        if k % 10 == 0:  # held for a while, so that the arm gets somewhere
            action = rng.uniform(-1.0, 1.0, env.action_space.shape).astype(np.float32)
        obs, *_ = env.step(action)
        assert env.observation_space.contains(obs), obs
        assert all(value.dtype == np.float32 for value in obs.values())


@pytest.mark.parametrize("end", [-1.0, 1.0])
@pytest.mark.parametrize("joint", range(7))
def test_a_joint_driven_into_its_limit_stays_in_the_space(
    make: Make, joint: int, end: float
) -> None:
    """Joint limits are soft: the measured joint passes them, and its sensor errs."""
    env = make(control="joint", randomize=("dynamics",))
    env.reset(seed=0)
    action = env.encode({Side.RIGHT: env.commanded(Side.RIGHT)})
    action[joint] = end
    for _ in range(200):
        obs, *_ = env.step(action)
        assert env.observation_space.contains(obs), obs


def test_observations_are_no_views(make: Make) -> None:
    env = make()
    rng = np.random.default_rng(0)
    kept, copies = [], []
    obs, _ = env.reset(seed=0)
    for _ in range(10):
        kept.append(obs)
        copies.append(_flat(obs).copy())
        obs, *_ = env.step(rng.uniform(-1, 1, 7).astype(np.float32))
    for obs, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(_flat(obs), copy)
    assert len({copy.tobytes() for copy in copies}) == 10
    twin = make()
    twin.restore(env.integration_state(), env.controller_memory())
    for value in kept[-1].values():
        value[:] = 99.0
    action = np.zeros(7, np.float32)
    obs, _, _, _, info = env.step(action)
    np.testing.assert_array_equal(_flat(obs), _flat(twin.step(action)[0]))
    assert not any(isinstance(value, np.ndarray) for value in info.values())


def test_entries_mean_what_they_say(make: Make) -> None:
    env = make()
    obs, _ = env.reset(seed=3)
    np.testing.assert_allclose(obs["robot0_eef_quat"], [0, 1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(obs["robot0_eef_pos"], [0.30689, 0.0, 0.48688], atol=1e-5)
    np.testing.assert_array_equal(obs["robot0_eef_pos"], obs["robot0_target_pos"])
    np.testing.assert_allclose(obs["robot0_gripper_qpos"], [0.08], atol=1e-7)
    cube = env.data.body("task/cube")
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, obs["object"][3:7].astype(float))
    np.testing.assert_allclose(matrix, cube.xmat, atol=1e-6)
    assert obs["object"][3] >= 0.0


def test_a_quaternion_never_jumps_around_home(make: Make) -> None:
    """Turned to and fro about every axis, it stays on one half of its sphere."""
    env = make()
    obs, _ = env.reset(seed=0)
    last = obs["robot0_eef_quat"]
    for axis, sign in product((3, 4, 5), (1, -1, -1, 1)):
        action: Any = np.zeros(7, np.float32)
        action[axis] = 0.5 * sign
        for _ in range(10):
            obs, *_ = env.step(action)
            for key in ("robot0_eef_quat", "robot0_target_quat"):
                assert obs[key][1] > 0.5
            assert np.abs(obs["robot0_eef_quat"] - last).max() < 0.1
            last = obs["robot0_eef_quat"]
