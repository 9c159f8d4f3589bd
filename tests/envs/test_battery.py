"""The same battery for every task in every control mode: what any environment must keep to."""

import hashlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from envs import ENV_IDS
from envs.actions import CONTROL_MODES
from envs.panda_env import PicoPandaEnv
from envs.scene import STATE, model_sha256
from envs.tasks import TASKS

CASES = list(product(TASKS, CONTROL_MODES))
DRAWN = ("visual", "dynamics")
OPTIONS = [(task, control, ()) for task, control in CASES]
OPTIONS += [(task, "ee_delta", DRAWN) for task in TASKS]
Make = Callable[..., PicoPandaEnv]


def _actions(env: PicoPandaEnv, count: int, seed: int) -> Iterator[np.ndarray]:
    """Yield actions, some beyond the space, each for five steps, so that arms get somewhere."""
    rng = np.random.default_rng(seed)
    shape = env.action_space.shape
    for step in range(count):
        if step % 5 == 0:
            action = rng.uniform(-1.2, 1.2, shape).astype(np.float32)
        yield action


def _bits(env: PicoPandaEnv, obs: dict[str, np.ndarray]) -> bytes:
    parts = [*obs.values(), env.integration_state(), env.controller_memory(), env.ctrl]
    return b"".join(part.tobytes() for part in parts)


# --- Gymnasium's checker ---


@pytest.mark.parametrize(("task", "control", "randomize"), OPTIONS)
def test_the_checker_has_nothing_to_say(
    make: Make, task: str, control: str, randomize: tuple[str, ...]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = make(task=task, control=control, randomize=randomize)
        check_env(env, skip_render_check=True)


@pytest.mark.parametrize("task", TASKS)
def test_the_wrappers_have_nothing_to_say(task: str) -> None:
    """``gym.make`` checks each of the first calls."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with gym.make(ENV_IDS[TASKS[task].n_arms], task=task, reward="dense") as env:
            env.reset(seed=1)
            for _ in range(3):
                obs, reward, *_ = env.step(env.action_space.sample())
                assert obs in env.observation_space
                assert 0.0 <= reward < 1.0


# --- the space ---


@pytest.mark.parametrize(("task", "control"), CASES)
def test_joints_driven_into_their_limits_stay_in_the_space(
    make: Make, task: str, control: str
) -> None:
    """One way for 100 steps and back for 100, each joint pressed on by its servo's whole force.

    Limits are soft; drawn sensor noise is left out, since a sensor ends where its range does.
    """
    env = make(task=task, control=control, terminate_on_success=False)
    obs, _ = env.reset(seed=6)
    rng = np.random.default_rng(6)
    action = rng.choice([-1.0, 1.0], env.action_space.shape)
    dofs = np.concatenate([np.arange(env.model.nv)[arm.dof_adr] for arm in env.arms.values()])
    press = env.model.jnt_actfrcrange[env.model.dof_jntid[dofs], 1] * rng.choice([-1, 1], len(dofs))
    nearest = np.inf
    for step in range(200):
        way = 1.0 if step < 100 else -1.0
        env.data.qfrc_applied[dofs] = way * press
        obs, *_ = env.step((way * action).astype(np.float32))
        assert env.observation_space.contains(obs), obs
        assert all(value.dtype == np.float32 for value in obs.values())
        for arm in env.arms.values():
            q = env.data.qpos[arm.qpos_adr]
            nearest = min(nearest, (q - arm.ik.lower).min(), (arm.ik.upper - q).min())
    assert nearest < -0.01, "rad; else no joint was driven past the end of its range"


# --- what is observed is of now ---


@pytest.mark.parametrize(("task", "control"), CASES)
def test_poses_are_those_of_the_joints(make: Make, task: str, control: str) -> None:
    """After reset and every step, against a forward pass of its own; none is a step behind."""
    env = make(task=task, control=control, terminate_on_success=False)
    own = mujoco.MjData(env.model)
    obs, _ = env.reset(seed=5)
    for action in [*_actions(env, 15, 5), None]:
        state = env.integration_state()
        mujoco.mj_setState(env.model, own, state, int(STATE))
        mujoco.mj_kinematics(env.model, own)
        for index, side in enumerate(env.sides):
            site, robot = own.site(f"{side.prefix}hand/ee"), f"robot{index}_"
            position, quat = env.arms[side].measure(env.data)
            np.testing.assert_allclose(position, site.xpos, atol=1e-9)
            matrix = np.zeros(9)
            mujoco.mju_quat2Mat(matrix, quat)
            np.testing.assert_allclose(matrix, site.xmat, atol=1e-9)
            # Cast: 2^-24 of 1 m.
            np.testing.assert_allclose(obs[robot + "eef_pos"], site.xpos, atol=1e-7)
            joints = [own.joint(f"{side.prefix}joint{k}").qpos[0] for k in range(1, 8)]
            np.testing.assert_allclose(obs[robot + "joint_pos"], joints, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(env.task.observe(env.data), env.task.observe(own), atol=1e-9)
        np.testing.assert_allclose(obs["object"], env.task.observe(own), atol=1e-6)
        if action is not None:
            obs, *_ = env.step(action)


# --- the same bits ---


def _digest(task: str, control: str, randomize: tuple[str, ...]) -> str:
    """Return the SHA-256 of an episode of 15 steps and of the start of the next."""
    n_arms = TASKS[task].n_arms
    env = PicoPandaEnv(task, n_arms, control=control, control_hz=50, randomize=randomize)
    seen = hashlib.sha256(env.model_sha256.encode())
    seen.update(_bits(env, env.reset(seed=11)[0]))
    for action in _actions(env, 15, 1):
        obs, *results = env.step(action)
        seen.update(_bits(env, obs) + repr(results).encode())
    seen.update(_bits(env, env.reset()[0]) + env.edits.sha256.encode())
    return seen.hexdigest()


def test_another_process_gives_the_same_bits() -> None:
    """Where texts hash otherwise; and environments without pictures load no OpenGL."""
    done = subprocess.run(
        [sys.executable, __file__],
        env=os.environ | {"PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    other = json.loads(done.stdout)
    assert other["libraries"] == []
    assert other["digests"] == [_digest(*options) for options in OPTIONS]
    assert len(set(other["digests"])) == len(OPTIONS)


@pytest.mark.parametrize(("task", "control"), CASES)
def test_environments_stepped_in_turns_share_nothing(make: Make, task: str, control: str) -> None:
    """Nor does looking change anything: the same bits alone and beside another."""
    options: dict[str, Any] = {"task": task, "reward": "dense", "terminate_on_success": False}
    alone, beside = make(**options, control=control), make(**options, control=control)
    another = next(mode for mode in CONTROL_MODES if mode != control)
    other = make(**options, control=another)
    expected = [_bits(alone, alone.reset(seed=1)[0])]
    results = []
    for action in _actions(alone, 25, 2):
        obs, *result = alone.step(action)
        expected.append(_bits(alone, obs))
        results.append(result)
    obs, _ = beside.reset(seed=1)
    other.reset(seed=2)
    for k, (action, foreign) in enumerate(
        zip(_actions(beside, 25, 2), _actions(other, 25, 3), strict=True)
    ):
        assert _bits(beside, obs) == expected[k]
        beside.guide()
        beside.observe()
        beside.encode({side: beside.measured(side) for side in beside.sides})
        beside.task.subtasks(beside.data)
        obs, *result = beside.step(action)
        assert result == results[k]
        other.step(foreign)
        other.guide()
        if k == 12:
            other.reset()
    assert _bits(beside, obs) == expected[-1]


# --- reset ---


def _everything(env: PicoPandaEnv) -> dict[str, bytes]:
    """Return all arrays of the simulation and what the environment remembers beside it."""
    data = env.data
    # MuJoCo leaves a sparse Jacobian's indices unset where it takes a dense one.
    names = [name for name in dir(data) if not name.startswith(("_", "efc_J_"))]
    arrays = ((name, getattr(data, name)) for name in names)
    found = {name: value.tobytes() for name, value in arrays if isinstance(value, np.ndarray)}
    assert {"qpos", "qvel", "act", "ctrl", "mocap_pos", "mocap_quat", "userdata"} <= set(found)
    assert {"eq_active", "qacc_warmstart", "qfrc_applied", "xfrc_applied"} <= set(found)
    found["time"] = np.float64(data.time).tobytes()
    found["controller memory"] = env.controller_memory().tobytes()
    found["model"] = model_sha256(env.model).encode()
    found["edits"] = env.edits.sha256.encode()
    found["random"] = repr(env.np_random.bit_generator.state).encode()
    return found


def _run_wild(env: PicoPandaEnv) -> None:
    """Run an episode in which everything that can be written is written."""
    for action in _actions(env, 20, 9):
        env.step(action)
    data = env.data
    for name in ("mocap_pos", "userdata", "qfrc_applied", "xfrc_applied", "qacc_warmstart", "act"):
        getattr(data, name)[:] += 0.5
    data.mocap_quat[:] = (0.6, 0.0, 0.8, 0.0)
    data.eq_active[:] = 1 - data.eq_active
    data.qpos[:] += 0.01
    mujoco.mj_step(env.model, data, 3)


@pytest.mark.parametrize(("task", "control", "randomize"), OPTIONS)
def test_reset_restores_everything(
    make: Make, task: str, control: str, randomize: tuple[str, ...]
) -> None:
    """After a wild episode reset gives a fresh environment's bits, and so do the steps after."""
    options: dict[str, Any] = {"task": task, "control": control, "randomize": randomize}
    used, fresh = (make(**options, time_limit_s=0.5) for _ in range(2))
    used.reset(seed=3)
    _run_wild(used)
    (seen, info), (expected, same) = used.reset(seed=4), fresh.reset(seed=4)
    assert info == same
    one, two = _everything(used), _everything(fresh)
    assert [name for name in two if one[name] != two[name]] == []
    assert all(seen[key].tobytes() == expected[key].tobytes() for key in expected)
    ends = []
    for action in _actions(fresh, 25, 5):
        (seen, *result), (expected, *same) = used.step(action), fresh.step(action)
        assert _bits(used, seen) == _bits(fresh, expected)
        assert result == same
        ends.append(result[2])
    assert ends == [False] * 24 + [True], "the steps are counted anew"


@pytest.mark.parametrize("task", TASKS)
def test_after_reset_the_arms_rest_at_home(make: Make, task: str) -> None:
    """ctrl is home's, nobody else's: 400 steps without a command move no joint."""
    env = make(task=task)
    home = env.model.key("home")
    env.reset(seed=0)
    for action in _actions(env, 20, 1):
        env.step(action)
    _, info = env.reset(seed=1)
    assert info == {"success": False, "n_clipped": 0}
    assert env.data.time == 0.0
    np.testing.assert_array_equal(env.data.ctrl, home.ctrl)
    start = env.data.qpos.copy()
    for side, arm in env.arms.items():
        np.testing.assert_array_equal(start[arm.qpos_adr], arm.arm.home)
        servos = [env.model.actuator(side.prefix + name).id for name in arm.arm.servos]
        np.testing.assert_array_equal(env.data.ctrl[servos], arm.arm.home)
    mujoco.mj_step(env.model, env.data, 400)
    for arm in env.arms.values():
        drift = np.abs(env.data.qpos[arm.qpos_adr] - start[arm.qpos_adr]).max()
        assert drift < 1e-4, "rad; 0.02 would be far too much already"


if __name__ == "__main__":  # the other process
    maps = Path("/proc/self/maps")
    loaded = maps.read_text(encoding="utf-8") if maps.exists() else ""
    digests = [_digest(*options) for options in OPTIONS]
    libraries = [name for name in ("libGL", "libEGL", "libOSMesa", "libgallium") if name in loaded]
    print(json.dumps({"digests": digests, "libraries": libraries}))
