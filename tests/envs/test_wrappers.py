"""Gymnasium's wrappers give the one Box and the stacked frames; wrong option names are told."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation, FrameStackObservation

from envs import ENV_IDS
from envs.errors import OptionError


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
