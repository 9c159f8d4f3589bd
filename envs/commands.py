"""The commands of ``python -m envs``; each returns its exit code."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Union, cast

import mujoco
import numpy as np
import tyro
from gymnasium import spaces
from rich.console import Console
from rich.table import Table

from kinematics import EndEffectorTarget

from . import ENV_IDS
from .actions import CONTROL_MODES
from .errors import EnvError
from .options import check_choice
from .panda_env import CONTROL_HZ, REWARDS, PicoPandaEnv
from .tasks import TASKS
from .viewer import ViewerProcess

_HAND_SPEED, _HAND_TURN = 0.4, 1.5
"""m/s and rad/s at which ``view --guide`` moves the tool: a calm hand's."""
_PICTURES_HZ = 50
"""Control rate of ``view``; the window takes about 30 pictures a second of it."""


@dataclass(frozen=True)
class List:
    """List environments, tasks, control modes, rates and spaces."""

    def run(self, console: Console) -> int:
        """Print tables."""
        for n_arms, env_id in ENV_IDS.items():
            arms = "one arm" if n_arms == 1 else f"{n_arms} arms"
            console.print(f'{arms}: gym.make("envs:{env_id}", task=..., control=...)')
        tasks = _table("task", "arms", "what to do", "time limit", "object observation")
        for name, task in TASKS.items():
            tasks.add_row(
                name,
                str(task.n_arms),
                task.instruction,
                f"{task.time_limit_s:g} s",
                ", ".join(task.object_names),
            )
        console.print(tasks)
        modes = _table("control", "action of one arm", "meaning")
        for name in CONTROL_MODES:
            env = PicoPandaEnv(control=name)
            labels = " ".join(label.removeprefix("robot0_") for label in env.action_names)
            modes.add_row(name, f"{env.action_space.shape} {labels}", env.action_description)
        console.print(modes)
        console.print(f"control_hz: {', '.join(map(str, CONTROL_HZ))}")
        console.print(f"reward: {', '.join(REWARDS)}\n")
        seen = _table("observation", "shape", "dtype")
        space = cast(spaces.Dict, PicoPandaEnv().observation_space)
        for key, box in space.items():
            shape = "by task" if key == "object" else str(box.shape)
            seen.add_row(key, shape, str(box.dtype))
        console.print(seen)
        return 0


@dataclass(frozen=True)
class View:
    """Open a window on a task: the arm waits at home, or does what the task's guide says."""

    task: str = "pick"
    """What to set up: see `python -m envs list`."""
    camera: str | None = None
    """Look through front, side or wrist first, instead of the free camera."""
    guide: bool = False
    """Do the task, again and again."""
    seed: int = 0
    """Of the first scene; the next ones count on."""
    seconds: float | None = None
    """Close after this time [s]; without it when the window is closed."""

    def run(self, console: Console) -> int:
        """Show the task in real time until the window is closed."""
        env = PicoPandaEnv(self.task, arms=_arms_of(self.task), control_hz=_PICTURES_HZ)
        camera = None if self.camera is None else env.camera_name(self.camera)
        with ViewerProcess(env.model, camera=camera) as viewer:
            console.print(f"{env.task.instruction} Close the window to end.")
            started = time.monotonic()
            for step, message in enumerate(self._play(env)):
                viewer.update(env.integration_state(), message)
                now = time.monotonic() - started
                if not viewer.alive or (self.seconds is not None and now >= self.seconds):
                    break
                time.sleep(max(0.0, (step + 1) / _PICTURES_HZ - now))
        return 0

    def _play(self, env: PicoPandaEnv) -> Iterator[str]:
        """Run episode after episode; give the words of the window after each step."""
        for seed in itertools.count(self.seed):
            env.reset(seed=seed)
            ended = False
            while not ended:
                ended = _step(env, self.guide)
                yield f"{self.task}, seed {seed}"


def _arms_of(task: str) -> int:
    check_choice("task", task, TASKS)
    return TASKS[task].n_arms


def _step(env: PicoPandaEnv, guided: bool) -> bool:
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


def _table(*columns: str) -> Table:
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


Command = Union[  # noqa: UP007  (tyro reads the annotations)
    Annotated[List, tyro.conf.subcommand("list")],
    Annotated[View, tyro.conf.subcommand("view")],
]


def main(args: list[str] | None = None) -> int:
    """Run the command line: 0 done, 1 error, 2 usage."""
    command: List | View = tyro.cli(
        Command,  # pyright: ignore[reportArgumentType]
        args=args,
        prog="python -m envs",
        description="Look at environments.",
    )
    try:
        return command.run(Console())
    except EnvError as e:
        Console(stderr=True).print(
            f"error: {e}", style="red", highlight=False, markup=False, soft_wrap=True
        )
        return 1
    except KeyboardInterrupt:
        return 130
