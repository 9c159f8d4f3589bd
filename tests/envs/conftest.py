"""Environments, made and closed, and what the tests do with them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from virtual_screen import no_screen, screen  # noqa: F401  (fixtures)

from envs import ENV_IDS, scene
from envs.panda_env import PicoPandaEnv
from envs.robots import MODELS, SPEC_FILE, read_table
from envs.tasks import TASKS
from kinematics import EndEffectorTarget, Side
from kinematics.frames import Array

DOWN = np.array([0.0, 1.0, 0.0, 0.0])
RIGHT = Side.RIGHT


@pytest.fixture
def make() -> Iterator[Callable[..., PicoPandaEnv]]:
    """Return the function that makes an environment without wrappers, closed at the end.

    The one with as many arms as the task needs.
    """
    made = []

    def build(**options: Any) -> PicoPandaEnv:
        n_arms = TASKS[options.get("task", "pick")].n_arms
        env = gym.make(ENV_IDS[n_arms], **options).unwrapped
        assert isinstance(env, PicoPandaEnv)
        made.append(env)
        return env

    yield build
    for env in made:
        env.close()


@pytest.fixture
def robot_file(tmp_path: Path) -> Callable[..., str]:
    """Return what writes the spec of one of our robots with other entries; it returns the path."""

    def write(name: str, **entries: object) -> str:
        table = {**read_table(MODELS / name / SPEC_FILE), **entries}
        table["mjcf"] = str(MODELS / name / str(table["mjcf"]))
        path = tmp_path / f"{name}.toml"
        # JSON's texts, numbers and lists are TOML's too.
        lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
        path.write_text("\n".join(lines), encoding="utf-8")
        return str(path)

    return write


WALL_Y = 0.15


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> float:
    """Put a wall to the left of the robot, and return the y [m] at which it begins."""
    compose = scene.assemble

    def with_wall(*arguments: Any) -> mujoco.MjSpec:
        spec = compose(*arguments)
        spec.worldbody.add_geom(
            name="wall",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=(0.5, 0.05, 0.5),
            pos=(0.5, WALL_Y + 0.05, 0.5),
        )
        return spec

    monkeypatch.setattr(scene, "assemble", with_wall)
    return WALL_Y


class Follow:
    """Command the right tool, step by step, and keep what happened."""

    def __init__(self, env: PicoPandaEnv, closure: float = 0.0) -> None:
        """Take over a running episode."""
        self.env, self.arm, self.closure = env, env.arms[RIGHT], closure
        self.limit = np.array([env.model.jnt_actfrcrange[j, 1] for j in self._joints()])
        self.target: list[Array] = []
        self.tool: list[Array] = []
        self.force: list[Array] = []
        self.velocity: list[Array] = []
        self.turn: list[float] = []

    def _joints(self) -> list[int]:
        return [self.env.model.joint(name).id for name in self.arm.ik.joints]

    def forget(self) -> None:
        """Drop what was kept so far."""
        for log in (self.target, self.tool, self.force, self.velocity, self.turn):
            log.clear()

    def to(self, position: Any, quat: Any = DOWN) -> dict[str, Any]:
        """Ask for a pose and run one control step; return its info."""
        command = EndEffectorTarget(RIGHT, np.array(position), np.array(quat), self.closure)
        *_, info = self.env.step(self.env.encode({RIGHT: command}))
        self.keep(command.quat_wxyz)
        self.target.append(command.position)
        return info

    def keep(self, quat: Array) -> None:
        """Keep what is measured now."""
        position, measured = self.arm.measure(self.env.data)
        difference = np.zeros(3)
        mujoco.mju_subQuat(difference, quat, measured)
        self.tool.append(position.copy())
        self.turn.append(float(np.linalg.norm(difference)))
        self.force.append(self.env.data.qfrc_actuator[self.arm.dof_adr].copy())
        self.velocity.append(self.env.data.qvel[self.arm.dof_adr].copy())

    def error(self) -> Array:
        """Return the tool's distance from its target at the end of every step [m]."""
        return np.linalg.norm(np.array(self.tool) - np.array(self.target), axis=1)

    def saturated(self) -> float:
        """Return the share of joints and steps with all the force that the joint allows."""
        return float((np.abs(self.force) >= 0.999 * self.limit).mean())

    def go(self, position: Any, seconds: float = 2.0, quat: Any = DOWN) -> None:
        """Move there on a smooth way and rest as long again."""
        start = self.env.commanded(RIGHT)
        steps = round(seconds * self.env.control_hz)
        turn, at = np.zeros(3), np.zeros(4)
        mujoco.mju_subQuat(turn, np.array(quat, float), start.quat_wxyz)
        for k in range(2 * steps):
            s = min(1.0, (k + 1) / steps)
            s = s**3 * (10.0 - 15.0 * s + 6.0 * s * s)
            at[:] = start.quat_wxyz
            mujoco.mju_quatIntegrate(at, turn, s)
            self.to(start.position + s * (np.array(position) - start.position), at)
        self.forget()


@pytest.fixture
def follow() -> type[Follow]:
    """Return the class that commands the right tool."""
    return Follow
