"""Robots, scenes and tasks as Gymnasium environments.

``import envs`` registers them; ``gym.make("envs:PicoPanda-v0")`` imports and makes in one.
"""

from gymnasium.envs.registration import register

import kinematics as _kinematics  # noqa: F401  (first: it tells of a MuJoCo that will not do)

ENV_IDS = {1: "PicoPanda-v0", 2: "PicoDualPanda-v0"}
"""What to make for a task, by its ``n_arms``."""

GOAL_ID = "PicoPandaGoal-v0"
"""Reach, push or place with goals apart, for hindsight relabelling."""

_VECTOR = "envs.vector:PicoPandaVectorEnv"

register(id=ENV_IDS[1], entry_point="envs.panda_env:PicoPandaEnv", vector_entry_point=_VECTOR)
register(
    id=ENV_IDS[2],
    entry_point="envs.panda_env:PicoPandaEnv",
    vector_entry_point=_VECTOR,
    kwargs={"arms": 2, "task": "lift_tray"},
)
register(id=GOAL_ID, entry_point="envs.goal:PicoPandaGoalEnv")
