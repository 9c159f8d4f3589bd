"""Every task, however it is drawn: nothing is done, nothing overlaps, the arms reach all of it."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from envs import ENV_IDS
from envs.panda_env import PicoPandaEnv
from envs.tasks import TASKS
from kinematics import Waypoint

SEEDS = 200


def way(env: PicoPandaEnv) -> list[Waypoint]:
    """Return what the guide asks for from here; past the fist that some pushes begin with."""
    asked = env.guide()
    if len(asked) > 1:
        return asked
    tools = {side: replace(env.measured(side), closure=1.0) for side in env.sides}
    return env.task.guide(env.data, tools)


@pytest.mark.parametrize("task", TASKS)
def test_resets_can_be_solved(task: str) -> None:
    """Over 200 seeds: the grasps and goals of the guide are in the workspace, and IK finds them."""
    env = gym.make(f"envs:{ENV_IDS[TASKS[task].n_arms]}", task=task).unwrapped
    assert isinstance(env, PicoPandaEnv)
    drawn = set()
    for seed in range(SEEDS):
        drawn.add(env.reset(seed=seed)[0]["object"].tobytes())
        assert not env.task.condition(env.data)
        assert env.data.ncon == 0 or env.data.contact.dist.min() > -1e-4  # m
        targets = [waypoint.target for waypoint in way(env)]
        assert targets
        poses = {(t.side, t.position.tobytes(), t.quat_wxyz.tobytes()): t for t in targets}
        for target in poses.values():
            arm = env.arms[target.side]
            assert np.all(arm.workspace.clamp(target.position.copy()) == target.position)
            assert arm.ik.solve(target.position, target.quat_wxyz).ok, (seed, target)
    assert len(drawn) == SEEDS
    env.close()
