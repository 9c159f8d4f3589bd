"""The native vector environment: the bits of single ones, and Gymnasium's rules of episodes."""

import multiprocessing
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
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


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Any, Any]]:
    """Return three environments of reach in two processes, and in this one, freshly reset."""
    native, sync = (
        gym.make_vec(ENV_IDS[1], 3, vectorization_mode=mode, task="reach", **workers)
        for mode, workers in (("vector_entry_point", {"n_workers": 2}), ("sync", {}))
    )
    yield native, sync
    native.close()
    sync.close()


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


# Workers know nothing of tasks: one with an arm and one with two stand for all.
@pytest.mark.parametrize(
    ("task", "control"), [("pick", "joint"), ("reach", "ee_pose"), ("lift_tray", "ee_delta")]
)
def test_it_gives_the_bits_of_single_environments(
    make_vec: MakeVec, task: str, control: str
) -> None:
    """Past the time limit, so that episodes end and begin; with the arm driven into things."""
    options = {"task": task, "control": control, "reward": "dense", "time_limit_s": 0.4}
    options["control_hz"] = 25
    native, sync = make_vec(**options, n_workers=2), make_vec(**options, mode="sync")
    assert native.single_observation_space == sync.single_observation_space
    assert native.observation_space == sync.observation_space
    assert native.action_space == sync.action_space
    assert_same(native.reset(seed=5), sync.reset(seed=5))
    rng = np.random.default_rng(3)
    for _ in range(14):  # 10, an end, and 3 of the next episode
        actions = rng.uniform(-1.2, 1.2, native.action_space.shape).astype(np.float32)
        actions[:, 2] = -1.0  # down onto the table: contacts, and their warm start
        assert_same(native.step(actions), sync.step(actions))
    assert_same(native.call("integration_state"), sync.call("integration_state"))


def test_randomised_episodes_are_equal_too(make_vec: MakeVec) -> None:
    """Each environment edits a model of its own."""
    options = {"task": "pick", "randomize": ("dynamics",), "time_limit_s": 0.1}
    native, sync = make_vec(**options, n_workers=2), make_vec(**options, mode="sync")
    assert_same(native.reset(seed=2)[0], sync.reset(seed=2)[0])
    for _ in range(15):
        actions = np.full((3, 7), -0.4, np.float32)
        assert_same(native.step(actions)[:4], sync.step(actions)[:4])


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_autoreset_and_masks_are_gymnasiums(make_vec: MakeVec, mode: AutoresetMode) -> None:
    """Episodes of different ends; ``reset_mask`` in every mode."""
    options = {"control_hz": 25, "time_limit_s": 0.2}
    native = make_vec(
        **options, autoreset_mode=mode, n_workers=2 if mode == AutoresetMode.SAME_STEP else 1
    )
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


def test_workers_change_no_bit_and_end(make_vec: MakeVec) -> None:
    """One, and more than there are environments."""
    before = multiprocessing.active_children()
    made = [make_vec(task="pick", n_workers=n_workers) for n_workers in (1, 5)]
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
    assert multiprocessing.active_children() == before
    with pytest.raises(EnvError, match="closed"):
        one.step(np.zeros((3, 7), np.float32))


def test_results_are_the_callers_own(pair: tuple[Any, Any]) -> None:
    """What was returned before stays as it was."""
    envs, _ = pair
    results = [envs.reset(seed=0)[0], envs.step(np.full((3, 7), 0.5, np.float32))[0]]
    copies = [{key: array.copy() for key, array in seen.items()} for seen in results]
    envs.step(np.full((3, 7), -0.5, np.float32))
    assert_same(results, copies)


def test_what_is_asked_of_each_environment(pair: tuple[Any, Any]) -> None:
    """As SyncVectorEnv answers it, in the order of the environments."""
    native, sync = pair
    for envs in pair:
        envs.reset(seed=[4, 9, 1])
        envs.set_attr("mark", ["a", "b", "c"])
        envs.set_attr("same", 5)
    for ask in (
        lambda envs: envs.get_attr("mark") + envs.get_attr("same"),
        lambda envs: envs.np_random_seed,
        lambda envs: [made.random() for made in envs.np_random],
        lambda envs: envs.call("controller_memory"),
    ):
        assert_same(ask(native), ask(sync))
    with pytest.raises(AttributeError, match="nothing"):
        native.get_attr("nothing")
    with pytest.raises(OptionError, match="got 2"):
        native.set_attr("mark", [1, 2])
    assert native.get_attr("mark") == ("a", "b", "c")  # an error leaves the workers at work


@pytest.mark.parametrize(
    ("seed", "mask", "says"),
    [
        ([1, 2], None, "got 2"),
        (None, [True, False, True], "bool array"),
        (None, np.array([1, 0, 1]), "bool array"),
        (None, np.array([True]), "bool array"),
        (None, np.zeros(3, bool), "at least one"),
    ],
)
def test_resets_that_cannot_be(make_vec: MakeVec, seed: Any, mask: Any, says: str) -> None:
    envs = make_vec(n_workers=1)
    envs.reset(seed=0)
    with pytest.raises(OptionError, match=says):
        envs.reset(seed=seed, options=None if mask is None else {"reset_mask": mask})


def test_bad_actions_move_nothing(pair: tuple[Any, Any]) -> None:
    envs, _ = pair
    envs.reset(seed=0)
    before = envs.call("integration_state")
    actions = np.zeros((3, 7), np.float32)
    actions[2, 4] = np.nan
    with pytest.raises(ActionError, match=r"actions\[2, 4\]"):
        envs.step(actions)
    with pytest.raises(ActionError, match=r"\(3, 7\)"):
        envs.step(actions[:2])
    assert_same(before, envs.call("integration_state"))


@pytest.mark.parametrize("broken", [0, 2], ids=["own", "worker's"])
def test_a_simulation_that_breaks_down_is_told_and_a_reset_mends_it(
    pair: tuple[Any, Any], broken: int
) -> None:
    envs, other = pair
    envs.reset(seed=0)
    state = envs.call("integration_state")[broken]
    state[10:19] = 1e12  # qvel, after time and qpos (9,)
    if broken == 0:
        envs._own.envs[0].restore(state)
    else:
        envs._workers[0].ask("call", "restore", state)
        envs._workers[0].answer()
    with pytest.raises(StateError, match="broke down"):
        envs.step(np.zeros((3, 7), np.float32))
    with pytest.raises(EnvError, match=r"reset\(\)"):
        envs.step(np.zeros((3, 7), np.float32))
    assert_same(envs.reset(seed=1), other.reset(seed=1))
    actions = np.full((3, 7), 0.3, np.float32)
    assert_same(envs.step(actions), other.step(actions))


def test_a_worker_that_dies_is_told(make_vec: MakeVec) -> None:
    before = multiprocessing.active_children()
    envs = make_vec(n_workers=2)
    envs.reset(seed=0)
    (child,) = set(multiprocessing.active_children()).difference(before)
    child.kill()
    with pytest.raises(EnvError, match="has ended with code -9"):
        for _ in range(2):
            envs.step(np.zeros((3, 7), np.float32))
    with pytest.raises(EnvError, match="anew"):
        envs.reset()


def test_an_interrupted_step_leaves_nothing_behind(
    pair: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the middle: the answer that nobody fetched is not taken for the next one's."""
    envs, other = pair
    envs.reset(seed=0)

    def interrupted(actions: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(envs._own, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            envs.step(np.zeros((3, 7), np.float32))
    with pytest.raises(EnvError, match=r"reset\(\)"):
        envs.step(np.zeros((3, 7), np.float32))
    assert_same(envs.reset(seed=1), other.reset(seed=1))


def test_a_script_without_a_main_guard_is_told(tmp_path: Path) -> None:
    """The process started for it would run the script again."""
    script = tmp_path / "no guard é.py"
    script.write_text(
        "import gymnasium as gym\n"
        "envs = gym.make_vec('envs:PicoPanda-v0', 2, task='reach', n_workers=2)\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert '__name__ == "__main__"' in done.stderr.strip().splitlines()[-1]


def test_a_step_before_the_first_reset(make_vec: MakeVec) -> None:
    envs = make_vec(n_workers=1)
    with pytest.raises(EnvError, match="reset"):
        envs.step(np.zeros((3, 7), np.float32))
    with pytest.raises(EnvError, match="reset"):
        envs.reset(options={"reset_mask": np.array([True, False, False])})


def test_pictures_come_from_workers_too(make_vec: MakeVec) -> None:
    options = {"render_mode": "rgb_array", "width": 64, "height": 48, "num_envs": 2}
    options |= {"cameras": ("front",), "camera_width": 32, "camera_height": 24}
    native, sync = make_vec(**options, n_workers=2), make_vec(**options, mode="sync")
    assert_same(native.reset(seed=5), sync.reset(seed=5))
    assert_same(native.render(), sync.render())
    with pytest.raises(OptionError, match="n_workers=1"):
        make_vec(render_mode="human", n_workers=2)


@pytest.mark.parametrize("options", [{"n_workers": 0}, {"n_workers": 1.5}, {"num_envs": 0}])
def test_numbers_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=">= 1"):
        PicoPandaVectorEnv(**{"num_envs": 2, **options})


def test_wrong_options_start_no_process() -> None:
    before = multiprocessing.active_children()
    with pytest.raises(OptionError, match="reach"):
        PicoPandaVectorEnv(4, n_workers=4, task="nothing")
    assert multiprocessing.active_children() == before


def test_starts_differ_and_repeat(make_vec: MakeVec) -> None:
    envs = make_vec(num_envs=4, n_workers=1)
    first = envs.reset(seed=5)
    assert len({row.tobytes() for row in first[0]["object"]}) == 4
    later = envs.reset()
    objects = np.concatenate([first[0]["object"], later[0]["object"]])
    assert len({row.tobytes() for row in objects}) == 8
    assert_same(envs.reset(seed=5), first)
    assert_same(envs.reset(), later)
