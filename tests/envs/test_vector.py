"""The native vector environment: the bits of single ones, and Gymnasium's rules of episodes."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from envs import ENV_IDS
from envs.errors import ActionError, EnvError, OptionError, StateError
from envs.tasks import TASKS
from envs.vector import PicoPandaVectorEnv

MakeVec = Callable[..., Any]


@pytest.fixture
def make_vec() -> Iterator[MakeVec]:
    """Return the function that makes a vector environment of a task, closed at the end."""
    made = []

    def build(num_envs: int = 3, **options: Any) -> Any:
        mode = options.pop("mode", "vector_entry_point")
        id_ = ENV_IDS[TASKS[options.setdefault("task", "reach")].n_arms]
        envs = gym.make_vec(id_, num_envs, vectorization_mode=mode, **options)
        made.append(envs)
        return envs

    yield build
    for envs in made:
        envs.close()


def assert_same(one: Any, two: Any) -> None:
    """Compare results of reset or step to the last bit, with infos."""
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        for key in one:
            assert_same(one[key], two[key])
    elif isinstance(one, tuple | list) or (np.ndim(one) and np.asarray(one).dtype.hasobject):
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            assert_same(a, b)
    else:
        np.testing.assert_array_equal(one, two)
        assert np.asarray(one).dtype == np.asarray(two).dtype


CASES = [(task, "ee_delta") for task in TASKS]
CASES += [("reach", "ee_pose"), ("reach", "joint"), ("pick", "ee_pose"), ("pick", "joint")]


@pytest.mark.parametrize(("task", "control"), CASES)
def test_it_gives_the_bits_of_single_environments(
    make_vec: MakeVec, task: str, control: str
) -> None:
    """Past the time limit, so that episodes end and begin; with the arm driven into things."""
    options = {"task": task, "control": control, "reward": "dense", "time_limit_s": 0.4}
    options |= {"control_hz": 25, "num_envs": 2}
    native, sync = make_vec(**options, n_threads=2), make_vec(**options, mode="sync")
    assert native.single_observation_space == sync.single_observation_space
    assert native.observation_space == sync.observation_space
    assert native.action_space == sync.action_space
    assert_same(native.reset(seed=5), sync.reset(seed=5))
    rng = np.random.default_rng(3)
    for _ in range(14):  # 10, an end, and 3 of the next episode
        actions = rng.uniform(-1.2, 1.2, native.action_space.shape).astype(np.float32)
        actions[:, 2] = -1.0  # down onto the table: contacts, and their warm start
        assert_same(native.step(actions), sync.step(actions))
    states = [[env.unwrapped.integration_state() for env in envs.envs] for envs in (native, sync)]
    assert_same(*states)


def test_randomised_episodes_are_equal_too(make_vec: MakeVec) -> None:
    """Each environment edits a model of its own."""
    options = {"task": "pick", "randomize": ("dynamics",), "time_limit_s": 0.1}
    native, sync = make_vec(**options, n_threads=2), make_vec(**options, mode="sync")
    assert_same(native.reset(seed=2)[0], sync.reset(seed=2)[0])
    for _ in range(15):
        actions = np.full((3, 7), -0.4, np.float32)
        assert_same(native.step(actions)[:4], sync.step(actions)[:4])


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_autoreset_and_masks_are_gymnasiums(make_vec: MakeVec, mode: AutoresetMode) -> None:
    """Episodes of different ends; ``reset_mask`` in every mode."""
    options = {"control_hz": 25, "time_limit_s": 0.2}
    native = make_vec(**options, autoreset_mode=mode)
    sync = make_vec(**options, mode="sync", vector_kwargs={"autoreset_mode": mode})
    assert native.metadata == sync.metadata
    mask = np.array([True, False, False])
    both = [(envs, envs.reset(seed=[4, 9, 1])) for envs in (native, sync)]
    assert_same(both[0][1], both[1][1])
    ends = 0
    for k in range(13):
        if k == 3:
            assert_same(*(e.reset(seed=7, options={"reset_mask": mask}) for e in (native, sync)))
        results = [envs.step(np.full((3, 7), 0.1, np.float32)) for envs in (native, sync)]
        assert_same(*results)
        over = results[0][2] | results[0][3]
        ends += over.sum()
        assert ("final_obs" in results[0][4]) == (mode == AutoresetMode.SAME_STEP and over.any())
        if mode == AutoresetMode.DISABLED and over.any():
            assert_same(*(e.reset(options={"reset_mask": over.copy()}) for e in (native, sync)))
    assert ends >= 3


def test_threads_change_no_bit_and_end(make_vec: MakeVec) -> None:
    """None, fewer than there are environments, more, and one per core."""
    made = [make_vec(task="pick", n_threads=n_threads) for n_threads in (1, 2, 5, None)]
    one, *others = made
    first = one.reset(seed=0)
    for envs in others:
        assert_same(envs.reset(seed=0), first)
    for k in range(5):
        actions = np.full((3, 7), 0.2 * k, np.float32)
        expected = one.step(actions)
        for envs in others:
            assert_same(envs.step(actions), expected)
    for envs in (*made, *made):  # twice is fine
        envs.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("physics")]


def test_bad_actions_move_nothing(make_vec: MakeVec) -> None:
    envs = make_vec()
    envs.reset(seed=0)
    before = [env.integration_state() for env in envs.envs]
    actions = np.zeros((3, 7), np.float32)
    actions[2, 4] = np.nan
    with pytest.raises(ActionError, match=r"actions\[2, 4\]"):
        envs.step(actions)
    with pytest.raises(ActionError, match=r"\(3, 7\)"):
        envs.step(actions[:2])
    assert_same(before, [env.integration_state() for env in envs.envs])


def test_a_simulation_that_breaks_down_is_told_and_a_reset_mends_it(make_vec: MakeVec) -> None:
    envs, other = make_vec(n_threads=2), make_vec(mode="sync")
    envs.reset(seed=0)
    envs.envs[0].data.qvel[:] = 1e12
    with pytest.raises(StateError, match="broke down"):
        envs.step(np.zeros((3, 7), np.float32))
    assert_same(envs.reset(seed=1), other.reset(seed=1))
    actions = np.full((3, 7), 0.3, np.float32)
    assert_same(envs.step(actions), other.step(actions))


def test_a_step_before_the_first_reset(make_vec: MakeVec) -> None:
    with pytest.raises(EnvError, match="reset"):
        make_vec().step(np.zeros((3, 7), np.float32))


def test_no_pictures_but_a_word_where_to_get_them(make_vec: MakeVec) -> None:
    with pytest.raises(OptionError, match="'sync'"):
        make_vec(render_mode="rgb_array")
    with pytest.raises(OptionError, match=r"cameras=.*vectorization_mode='sync'"):
        make_vec(cameras=("front",))
    with pytest.raises(EnvError, match="'sync'"):
        make_vec().render()


@pytest.mark.parametrize("options", [{"n_threads": 0}, {"n_threads": 1.5}, {"num_envs": 0}])
def test_numbers_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=">= 1"):
        PicoPandaVectorEnv(**{"num_envs": 2, **options})


def test_starts_differ_and_repeat(make_vec: MakeVec) -> None:
    envs = make_vec(num_envs=4)
    first = envs.reset(seed=5)
    assert len({row.tobytes() for row in first[0]["object"]}) == 4
    later = envs.reset()
    objects = np.concatenate([first[0]["object"], later[0]["object"]])
    assert len({row.tobytes() for row in objects}) == 8
    assert_same(envs.reset(seed=5), first)
    assert_same(envs.reset(), later)


@pytest.mark.parametrize("id_", ENV_IDS.values())
def test_both_ids_in_workers_too(id_: str) -> None:
    """As Windows and macOS start them; equal to the native one, and none is left."""
    found = []
    for mode, arguments in (("vector_entry_point", None), ("async", {"context": "spawn"})):
        envs = gym.make_vec("envs:" + id_, 2, vectorization_mode=mode, vector_kwargs=arguments)
        try:
            results = [envs.reset(seed=5)]
            results += [envs.step(np.zeros(envs.action_space.shape, np.float32)) for _ in "ab"]
            found.append(results)
        finally:
            envs.close()
    assert_same(*found)
