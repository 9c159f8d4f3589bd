"""What Stable-Baselines3 makes of the environments; only with the extra ``rl``."""

import warnings
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.wrappers import FlattenObservation

from envs import ENV_IDS, GOAL_ID
from envs.goal import GOAL_TASKS
from envs.tasks import TASKS

pytestmark = pytest.mark.rl


def check(env: gym.Env[Any, Any]) -> None:
    """Run the checker, its warnings taken for errors."""
    from stable_baselines3.common.env_checker import check_env

    with env, warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env)


@pytest.mark.parametrize("task", TASKS)
def test_the_plain_ids(task: str) -> None:
    check(gym.make(ENV_IDS[TASKS[task].n_arms], task=task))


@pytest.mark.parametrize("task", TASKS)
def test_flat_ones(task: str) -> None:
    check(FlattenObservation(gym.make(ENV_IDS[TASKS[task].n_arms], task=task)))


@pytest.mark.parametrize("task", GOAL_TASKS)
@pytest.mark.parametrize("reward", ["sparse", "dense"])
def test_goals(task: str, reward: str) -> None:
    """Bare: the checker looks for ``compute_reward`` where Gymnasium's wrappers do not show it."""
    check(gym.make(GOAL_ID, task=task, reward=reward).unwrapped)


def test_pictures() -> None:
    check(gym.make(ENV_IDS[1], cameras=("front",), camera_width=64, camera_height=64))
