"""Same seed, same bits: in vectors, in workers, pickled, from a stored spec."""

import copy
import json
import multiprocessing
import pickle
from collections.abc import Callable

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from envs.panda_env import PicoPandaEnv

Make = Callable[..., PicoPandaEnv]
MODES = ("ee_delta", "ee_pose", "joint")


def _actions(env: gym.Env, n: int, seed: int = 7) -> np.ndarray:
    shape = (n, *(env.action_space.shape or ()))
    return np.random.default_rng(seed).uniform(-1.0, 1.0, shape).astype(np.float32)


def _bits(env: PicoPandaEnv, obs: dict[str, np.ndarray]) -> bytes:
    parts = [env.integration_state(), env.controller_memory(), *obs.values()]
    return b"".join(part.tobytes() for part in parts)


CASES = [(mode, ()) for mode in MODES] + [("ee_delta", ("visual", "dynamics"))]


@pytest.mark.parametrize("task", ["reach", "pick"])
def test_seeds_differ_and_unseeded_resets_go_on(make: Make, task: str) -> None:
    env = make(task=task)
    starts = [env.reset(seed=seed)[0]["object"].tobytes() for seed in range(20)]
    starts += [env.reset()[0]["object"].tobytes() for _ in range(20)]
    assert len(set(starts)) == 40
    env.reset(seed=0)
    again = [env.reset()[0]["object"].tobytes() for _ in range(2)]
    env.reset(seed=0)
    assert [env.reset()[0]["object"].tobytes() for _ in range(2)] == again


def test_the_global_generator_is_left_alone(make: Make) -> None:
    before = np.random.get_state()  # noqa: NPY002  (this is about the legacy one)
    env = make()
    env.reset(seed=1)
    env.step(np.zeros(7, np.float32))
    after = np.random.get_state()  # noqa: NPY002
    assert pickle.dumps(before) == pickle.dumps(after)


# --- pickled ---


@pytest.mark.parametrize(("control", "randomize"), CASES)
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_in_the_middle_goes_on_alike(
    make: Make, control: str, randomize: tuple[str, ...], duplicate: Callable
) -> None:
    """Arm at limits or not, the copy has the same bits, and the same random numbers to come."""
    env = make(control=control, control_hz=25, time_limit_s=2.0, randomize=randomize)
    env.reset(seed=2)
    for action in _actions(env, 25):
        env.step(action)
    twin = duplicate(env)
    assert twin.spec == env.spec
    assert twin.edits == env.edits and twin.model_sha256 == env.model_sha256
    for action in _actions(env, 25, seed=1):
        (a, *one), (b, *two) = env.step(action), twin.step(action)
        assert _bits(env, a) == _bits(twin, b)
        assert one == two
    assert one[2], "truncated at the same step"
    assert _bits(env, env.reset()[0]) == _bits(twin, twin.reset()[0])
    twin.close()


def test_a_copy_before_the_first_reset(make: Make) -> None:
    env = make(task="reach", control_hz=100)
    twin = pickle.loads(pickle.dumps(env))
    assert twin.control_hz == 100
    assert _bits(env, env.reset(seed=1)[0]) == _bits(twin, twin.reset(seed=1)[0])


def test_a_copy_of_what_is_over_is_over(make: Make) -> None:
    env = make(time_limit_s=0.02)
    env.reset(seed=1)
    env.step(np.zeros(7, np.float32))
    with pytest.raises(RuntimeError, match="reset"):
        pickle.loads(pickle.dumps(env)).step(np.zeros(7, np.float32))


# --- vectors and processes ---


def _starts(envs: gym.vector.VectorEnv) -> tuple[bytes, ...]:
    obs, _ = envs.reset(seed=5)
    for _ in range(3):
        obs, *_ = envs.step(np.full((2, 7), 0.25, np.float32))
    return tuple(np.concatenate([obs[key][i] for key in sorted(obs)]).tobytes() for i in range(2))


def test_vectors_give_what_single_ones_give(make: Make) -> None:
    """In this process and in spawned workers, which import the module named before the colon."""
    expected = []
    randomize = ("visual", "dynamics")
    for seed in (5, 6):
        env = make(task="reach", randomize=randomize)
        env.reset(seed=seed)
        for _ in range(3):
            obs, *_ = env.step(np.full(7, 0.25, np.float32))
        expected.append(np.concatenate([obs[key] for key in sorted(obs)]).tobytes())
    assert expected[0] != expected[1]
    with_id = {"id": "envs:PicoPanda-v0", "num_envs": 2, "task": "reach", "randomize": randomize}
    found = []
    for mode, arguments in (("sync", None), ("async", {"context": "spawn"})):
        envs = gym.make_vec(**with_id, vectorization_mode=mode, vector_kwargs=arguments)
        try:
            found.append(_starts(envs))
        finally:
            envs.close()
    assert found == [tuple(expected)] * 2
    assert multiprocessing.active_children() == []


def test_a_stored_spec_makes_the_same_environment(make: Make) -> None:
    """From JSON, which is what a file holds."""
    options = {"task": "reach", "control": "joint", "control_hz": 25, "terminate_on_success": False}
    options["randomize"] = ["visual", "dynamics"]
    made = gym.make("envs:PicoPanda-v0", **options)
    assert made.spec is not None
    text = made.spec.to_json()
    assert json.loads(text)["kwargs"].items() >= options.items()
    again = gym.make(EnvSpec.from_json(text)).unwrapped
    assert isinstance(again, PicoPandaEnv)
    assert again.action_space.shape == (8,)
    assert again.control_hz == 25
    one, two = made.reset(seed=3)[0], again.reset(seed=3)[0]
    for key in one:
        np.testing.assert_array_equal(one[key], two[key])
