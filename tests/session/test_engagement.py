"""Squeezing the grip moves no arm, wherever it stands and whatever it measures."""

from collections.abc import Callable

import numpy as np
import pytest
from choreography import Script

from envs.panda_env import PicoPandaEnv
from kinematics import Side
from teleop_agent.policy import TeleopPolicy

RIGHT = Side.RIGHT
TICK_NS = 20_000_000


class Play:
    """Play a script's frames to the agent and the real environment, tick by tick."""

    def __init__(self, env: PicoPandaEnv) -> None:
        self.env, self.script, self.policy = env, Script(), TeleopPolicy(env)
        self._observation, _ = env.reset(seed=1)
        self.policy.reset()
        self._next, self._now_ns = 0, 0

    def on(self) -> np.ndarray:
        """Go on to the script's end so far; return the commanded joints (T, n) [rad]."""
        joints = [self.env.arms[RIGHT].ik.q]
        while self._next < len(self.script.frames):
            self._now_ns += TICK_NS
            begin = self._next
            while (
                self._next < len(self.script.frames)
                and self.script.frames[self._next].t_recv_ns <= self._now_ns
            ):
                self._next += 1
            frames = self.script.frames[begin : self._next]
            self.step = self.policy.act(self._observation, frames, self._now_ns)
            self._observation, *_ = self.env.step(self.step.action)
            joints.append(self.env.arms[RIGHT].ik.q)
        return np.array(joints)


@pytest.mark.parametrize("control", ["ee_delta", "ee_pose", "joint"])
def test_ten_squeezes_of_a_still_hand_with_a_joint_past_its_limit(
    panda: Callable[..., PicoPandaEnv], control: str
) -> None:
    env = panda(control=control)
    play, arm = Play(env), env.arms[RIGHT]
    play.script.engage()
    play.script.move(0.8, (0.10, 0.05, -0.10))  # away from home
    play.script.rotate(2.0, (0.0, -2.9, 0.0))  # until the wrist is at its limit
    play.script.right.grip = 0.0
    play.script.hold(1.5)
    play.on()
    measured = env.data.qpos[arm.qpos_adr]  # a view
    low, high = arm.ik.lower[-1], arm.ik.upper[-1]
    assert max(low - arm.ik.q[-1], arm.ik.q[-1] - high) > -0.05, arm.ik.q
    memory = env.controller_memory()
    measured[-1] = high + 0.05 if arm.ik.q[-1] > 0.0 else low - 0.05
    env.restore(env.integration_state(), memory)
    start = arm.ik.q
    for _ in range(10):
        play.script.engage()
        path = play.on()
        assert play.step.engaged
        assert np.abs(path - path[0]).max() < 1e-4  # rad a squeeze; measured 5e-6
    assert np.abs(arm.ik.q - start).max() < 1e-3  # rad after ten; measured 5e-5
