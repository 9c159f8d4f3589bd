"""Gymnasium's wrappers give the one Box and the stacked frames; wrong option names are told."""

import ast
import re
from inspect import Parameter, signature
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation, FrameStackObservation

from envs import ENV_IDS, GOAL_ID
from envs.errors import OptionError
from envs.goal import GOAL_TASKS, PicoPandaGoalEnv
from envs.panda_env import PicoPandaEnv
from envs.tasks import TASKS
from envs.tasks.goal import GoalTask

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "environments.md"


@pytest.mark.parametrize("id_", ENV_IDS.values())
def test_one_box_in_the_order_of_the_dict(id_: str) -> None:
    """Sorted by name, which is how the observation space lists its entries."""
    with gym.make(id_) as plain, FlattenObservation(gym.make(id_)) as flat:
        assert isinstance(plain.observation_space, spaces.Dict)
        assert isinstance(flat.observation_space, spaces.Box)
        assert list(plain.observation_space) == sorted(plain.observation_space)
        obs, found = plain.reset(seed=3)[0], flat.reset(seed=3)[0]
        for _ in range(3):
            parts = [obs[key] for key in plain.observation_space]
            np.testing.assert_array_equal(found, np.concatenate(parts))
            assert found.dtype == np.float32
            assert flat.observation_space.contains(found)
            action = plain.action_space.sample()
            obs, found = plain.step(action)[0], flat.step(action)[0]


@pytest.mark.parametrize("flatten", [True, False])
def test_frames_stack(flatten: bool) -> None:
    """The newest frame comes last."""
    env = gym.make("PicoPanda-v0", task="reach")
    stacked = FrameStackObservation(FlattenObservation(env) if flatten else env, 3)
    with stacked:
        stacked.reset(seed=1)
        obs, *_ = stacked.step(np.full(7, 0.5, np.float32))
        assert stacked.observation_space.contains(obs)
        last = env.unwrapped.observe()  # pyright: ignore[reportAttributeAccessIssue]
        if flatten:
            np.testing.assert_array_equal(
                obs[-1], np.concatenate([last[key] for key in sorted(last)])
            )
        else:
            for key, value in last.items():
                np.testing.assert_array_equal(obs[key][-1], value)


@pytest.mark.parametrize("mode", ["single", "sync", "vector_entry_point"])
def test_an_unknown_option_is_answered_with_those_that_exist(mode: str) -> None:
    with pytest.raises(OptionError, match=r"\['taks'\].*'task', 'arms'"):
        if mode == "single":
            gym.make("PicoPanda-v0", taks="reach")
        else:
            gym.make_vec("PicoPanda-v0", 2, vectorization_mode=mode, taks="reach")


def test_the_documented_options_and_tasks_are_those_that_exist() -> None:
    """With their defaults, in their order."""
    text = DOCUMENT.read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `(.+?)` \| ", text, re.M)
    documented = [(name, ast.literal_eval(default)) for name, default in rows]
    parameters = signature(PicoPandaEnv.__init__).parameters.values()
    assert documented == [
        (each.name, each.default)
        for each in parameters
        if each.name != "self" and each.kind is not Parameter.VAR_KEYWORD
    ]
    ids = {
        id_: re.findall(r"`(\w+)`", tasks)
        for id_, tasks in re.findall(r"^\| `(\w+-v0)` \|.*\| (.+) \|$", text, re.M)
    }
    assert set(ids) == {*ENV_IDS.values(), GOAL_ID}
    for n_arms, id_ in ENV_IDS.items():
        assert set(ids[id_]) == {name for name, task in TASKS.items() if task.n_arms == n_arms}
    assert set(ids[GOAL_ID]) == set(GOAL_TASKS)


@pytest.mark.parametrize("text", [DOCUMENT.read_text("utf-8"), PicoPandaGoalEnv.__doc__ or ""])
def test_the_documented_tolerances_are_the_tasks(text: str) -> None:
    rows = re.findall(r"^ *\| `+(\w+)`+ \| [^|]+ \| [^|]+ \| (\d+) mm \|", text, re.M)
    tasks = [task for task in TASKS.values() if issubclass(task, GoalTask)]
    assert dict(rows) == {task.name: f"{task.tolerance * 1e3:.0f}" for task in tasks}
