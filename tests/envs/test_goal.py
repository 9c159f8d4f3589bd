"""The goal-conditioned variants: goals, rewards that can be worked out anew, spaces."""

import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from envs import GOAL_ID
from envs.errors import OptionError
from envs.goal import GOAL_TASKS, PicoPandaGoalEnv
from envs.guided import step as guided_step
from envs.tasks import TASKS

Make = Callable[..., PicoPandaGoalEnv]


@pytest.fixture
def make_goal() -> Iterator[Make]:
    """Return the function that makes a goal environment without wrappers, closed at the end."""
    made = []

    def build(task: str = "reach", **options: Any) -> PicoPandaGoalEnv:
        env = gym.make(GOAL_ID, task=task, **options).unwrapped
        assert isinstance(env, PicoPandaGoalEnv)
        made.append(env)
        return env

    yield build
    for env in made:
        env.close()


def test_the_tasks_with_goals_are_these() -> None:
    assert set(GOAL_TASKS) == {"reach", "push", "place"}


@pytest.mark.parametrize("task", GOAL_TASKS)
@pytest.mark.parametrize("options", [{}, {"randomize": ("dynamics",), "reward": "dense"}])
def test_the_checker_has_nothing_to_say(
    make_goal: Make, task: str, options: dict[str, Any]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make_goal(task, **options), skip_render_check=True)


@pytest.mark.parametrize("task", sorted(set(TASKS) - set(GOAL_TASKS)))
def test_other_tasks_are_refused_with_the_list(task: str) -> None:
    with pytest.raises(OptionError, match=r"'reach', .*'push'"):
        gym.make(GOAL_ID, task=task)


@pytest.mark.parametrize("options", [{"arms": 2}, {"taks": "reach"}, {"reward": "shaped"}])
def test_wrong_options_are_told(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="choose from"):
        gym.make(GOAL_ID, **options)


@pytest.mark.parametrize("task", GOAL_TASKS)
def test_it_is_the_plain_task_seen_otherwise(make_goal: Make, make: Any, task: str) -> None:
    """Same actions, same states, same starts; the flat entries are the plain ones by name."""
    goal, plain = make_goal(task), make(task=task, terminate_on_success=False)
    assert goal.action_space == plain.action_space
    rng = np.random.default_rng(1)
    seen, obs = goal.reset(seed=6)[0], plain.reset(seed=6)[0]
    for _ in range(5):
        named = {f"{key}_{i}": value for key in obs for i, value in enumerate(obs[key])}
        named |= dict(zip(plain.task.object_names, obs["object"], strict=True))
        flat = seen["observation"]
        assert len(goal.observation_names) == len(set(goal.observation_names)) == len(flat)
        np.testing.assert_array_equal(flat, [named[name] for name in goal.observation_names])
        assert goal.observation_space.contains(seen)
        action = rng.uniform(-1, 1, 7).astype(np.float32)
        seen, obs = goal.step(action)[0], plain.step(action)[0]
        np.testing.assert_array_equal(goal.integration_state(), plain.integration_state())


@pytest.mark.parametrize("task", GOAL_TASKS)
def test_what_is_observed_beside_the_goal_does_not_tell_it(make_goal: Make, task: str) -> None:
    """Only the goal moves: nothing else may differ, or a relabelled row contradicts itself."""
    env = make_goal(task)
    env.reset(seed=0)
    before = env.observe()
    body = {"reach": "target", "push": "zone", "place": "bin"}[task]
    env.data.mocap_pos[env.model.body(f"task/{body}").mocapid[0], :2] += (0.01, 0.02)
    after = env.observe()
    np.testing.assert_allclose(
        after["desired_goal"] - before["desired_goal"], (0.01, 0.02, 0), atol=1e-6
    )
    np.testing.assert_array_equal(after["achieved_goal"], before["achieved_goal"])
    changed = np.array(env.observation_names)[after["observation"] != before["observation"]]
    # The bin's walls stay where they are, whatever goal is put in its place.
    assert set(changed) == ({"bin_x", "bin_y"} if task == "place" else set())


@pytest.mark.parametrize("task", GOAL_TASKS)
@pytest.mark.parametrize("reward", ["sparse", "dense"])
def test_rewards_worked_out_anew_are_those_of_the_steps(
    make_goal: Make, task: str, reward: str
) -> None:
    """Over 50 random steps, at once and one by one, to the last bit; hindsight changes them."""
    env = make_goal(task, reward=reward, control_hz=20)
    rng = np.random.default_rng(4)
    env.reset(seed=4)
    rows = [env.step(rng.uniform(-1, 1, 7).astype(np.float32)) for _ in range(50)]
    achieved, desired = (
        np.stack([row[0][key] for row in rows]) for key in ("achieved_goal", "desired_goal")
    )
    infos = np.array([row[4] for row in rows])
    given = [row[1] for row in rows]
    np.testing.assert_array_equal(env.compute_reward(achieved, desired, infos), given)
    np.testing.assert_array_equal(
        env.compute_reward(achieved.reshape(5, 10, 3), desired.reshape(5, 10, 3), infos).ravel(),
        given,
    )
    one_by_one = [
        env.compute_reward(a, d, i) for a, d, i in zip(achieved, desired, infos, strict=True)
    ]
    assert one_by_one == given
    assert all(type(value) is float for value in (*given, *one_by_one))
    np.testing.assert_array_equal(
        env.achieved(achieved, desired), [info["is_success"] for info in infos]
    )
    # As if the last point had been the goal: with HER it succeeds.
    hindsight = env.compute_reward(achieved, achieved[-1], infos)
    assert hindsight.shape == (50,)
    assert hindsight[-1] == 0.0
    if reward == "sparse":
        assert set(hindsight) <= {-1.0, 0.0}
    else:
        expected = -np.linalg.norm(achieved.astype(float) - achieved[-1], axis=1)
        np.testing.assert_allclose(hindsight, expected, atol=1e-12)


@pytest.mark.parametrize("terminate", [False, True])
@pytest.mark.parametrize("task", GOAL_TASKS)
def test_the_guide_achieves_the_goal_and_the_task(
    make_goal: Make, task: str, terminate: bool
) -> None:
    """The goal is achieved no later than the task; an end comes with it only on request."""
    env = make_goal(task, control_hz=20, terminate_on_success=terminate)
    rewards, infos = [], []
    step = env.step

    def watched(action: Any) -> Any:
        result = step(action)
        assert result[2] == (terminate and result[4]["is_success"])
        assert result[1] == float(result[4]["is_success"]) - 1.0
        rewards.append(result[1])
        infos.append(result[4])
        return result

    env.step = watched  # pyright: ignore[reportAttributeAccessIssue]
    env.reset(seed=2)
    while not guided_step(env, True) and not infos[-1]["success"]:
        pass
    assert rewards[0] == -1.0
    assert infos[-1]["is_success"]
    assert infos[-1]["success"] == (not terminate)


@pytest.mark.parametrize("terminate", [False, True])
def test_ends_worked_out_anew(make_goal: Make, terminate: bool) -> None:
    env = make_goal(terminate_on_success=terminate)
    goals = np.zeros((3, 3)), np.array([[0.0, 0, 0], [0, 0, 0.0199], [0, 0.0201, 0]])
    np.testing.assert_array_equal(env.achieved(*goals), [True, True, False])
    np.testing.assert_array_equal(env.compute_terminated(*goals, {}), [terminate, terminate, False])
    assert env.compute_terminated(goals[0][0], goals[1][0], {}) is terminate
    np.testing.assert_array_equal(env.compute_truncated(*goals, {}), [False] * 3)
    assert env.compute_truncated(goals[0][0], goals[1][0], {}) is False
    np.testing.assert_array_equal(env.compute_reward(*goals, {}), [0.0, 0.0, -1.0])


@pytest.mark.parametrize("task", GOAL_TASKS)
def test_seeds_repeat_and_copies_go_on(make_goal: Make, task: str) -> None:
    env, twin = make_goal(task, control_hz=20), make_goal(task, control_hz=20)
    one, two = env.reset(seed=9), twin.reset(seed=9)
    other = twin.reset(seed=10)
    assert (other[0]["desired_goal"] != one[0]["desired_goal"]).any()
    copy = pickle.loads(pickle.dumps(env))
    action = np.full(7, 0.3, np.float32)
    for first, second in ((one, two), (env.step(action), copy.step(action))):
        assert spaces.flatten(env.observation_space, first[0]).tobytes() == (
            spaces.flatten(env.observation_space, second[0]).tobytes()
        )
        assert first[1:] == second[1:]
    copy.close()


def test_pictures_keep_their_keys(make_goal: Make) -> None:
    env = make_goal(cameras=("front",), camera_width=32, camera_height=24)
    obs, _ = env.reset(seed=0)
    assert obs["front_image"].shape == (24, 32, 3)
    assert env.observation_space.contains(obs)
    assert set(obs) == {"observation", "achieved_goal", "desired_goal", "front_image"}


def test_many_at_once() -> None:
    """``gym.make_vec`` in Gymnasium's own modes."""
    envs = gym.make_vec(GOAL_ID, 2, vectorization_mode="sync", task="reach")
    try:
        obs, _ = envs.reset(seed=3)
        assert obs["desired_goal"].shape == (2, 3)
        assert envs.step(envs.action_space.sample())[1].tolist() == [-1.0, -1.0]
    finally:
        envs.close()
