"""Robots, scenes and tasks as Gymnasium environments.

``import envs`` registers them; ``gym.make("envs:PicoPanda-v0")`` imports and makes in one.
"""

from gymnasium.envs.registration import register

register(id="PicoPanda-v0", entry_point="envs.panda_env:PicoPandaEnv")
register(
    id="PicoDualPanda-v0",
    entry_point="envs.panda_env:PicoPandaEnv",
    kwargs={"arms": 2, "task": "lift_tray"},
)
