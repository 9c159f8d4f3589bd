"""Make the support modules importable and share a real environment."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from envs import ENV_IDS
from envs.panda_env import PicoPandaEnv
from envs.tasks import TASKS

sys.path.insert(0, str(Path(__file__).parent / "support"))


@pytest.fixture(scope="session")
def panda() -> Callable[..., PicoPandaEnv]:
    """Return a maker of environments that end no episode; one of each kind, to be reset."""
    made: dict[tuple[object, ...], PicoPandaEnv] = {}

    def make(
        task: str = "reach", control: str = "ee_delta", control_hz: int = 50, **options: Any
    ) -> PicoPandaEnv:
        key = (task, control, control_hz, *sorted(options.items()))
        if key not in made:
            made[key] = gym.make(
                ENV_IDS[TASKS[task].n_arms],
                task=task,
                control=control,
                control_hz=control_hz,
                time_limit_s=60.0,
                terminate_on_success=False,
                disable_env_checker=True,
                **options,
            ).unwrapped
        return made[key]

    return make
