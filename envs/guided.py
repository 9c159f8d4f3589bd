"""Play a task's guide straight into its environment, without devices."""

import mujoco
import numpy as np

from kinematics import EndEffectorTarget

from .panda_env import PicoPandaEnv

_HAND_SPEED, _HAND_TURN = 0.4, 1.5
"""m/s and rad/s at which the tool moves: a calm hand's."""


def step(env: PicoPandaEnv, guided: bool = True) -> bool:
    """Run one step, on the guide's way or standing still; return whether the episode ended."""
    commands = {side: env.commanded(side) for side in env.sides}
    waypoints = env.guide() if guided else []
    for side in env.sides:  # each hand does the first of its own
        target = next((point.target for point in waypoints if point.target.side is side), None)
        if target is not None:
            commands[side] = _on_the_way(commands[side], target, 1.0 / env.control_hz)
    *_, terminated, truncated, _ = env.step(env.encode(commands))
    return terminated or truncated


def _on_the_way(now: EndEffectorTarget, to: EndEffectorTarget, dt: float) -> EndEffectorTarget:
    """Return the command ``dt`` [s] farther from ``now`` to ``to``, at the speed of a calm hand."""
    way, turn, quat = to.position - now.position, np.zeros(3), now.quat_wxyz.copy()
    mujoco.mju_subQuat(turn, to.quat_wxyz, now.quat_wxyz)
    share = min(1.0, _HAND_SPEED * dt / max(mujoco.mju_norm3(way), 1e-9))
    part = min(1.0, _HAND_TURN * dt / max(mujoco.mju_norm3(turn), 1e-9))
    mujoco.mju_quatIntegrate(quat, turn, part)
    mujoco.mju_normalize4(quat)
    return EndEffectorTarget(now.side, now.position + share * way, quat, to.closure)
