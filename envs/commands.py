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

from .actions import CONTROL_MODES
from .errors import EnvError
from .panda_env import CONTROL_HZ, REWARDS, PicoPandaEnv
from .tasks import TASKS
from .viewer import ViewerProcess

ID = "PicoPanda-v0"
_HAND_SPEED, _HAND_TURN = 0.4, 1.5
"""m/s and rad/s at which ``view --guide`` moves the tool: a calm hand's."""
_PICTURES_HZ = 50
"""Control rate of ``view``; the window takes about 30 pictures a second of it."""


@dataclass(frozen=True)
class List:
    """List environments, tasks, control modes, rates and spaces."""

    def run(self, console: Console) -> int:
        """Print tables."""
        console.print(f'gym.make("envs:{ID}", task=..., control=..., control_hz=...)\n')
        tasks = _table("task", "what to do", "time limit", "object observation")
        for name, task in TASKS.items():
            tasks.add_row(
                name, task.instruction, f"{task.time_limit_s:g} s", ", ".join(task.object_names)
            )
        console.print(tasks)
        modes = _table("control", "action of one arm", "meaning")
        for name, mode in CONTROL_MODES.items():
            modes.add_row(name, f"({mode.width},) {' '.join(mode.labels)}", mode.description)
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
        env = PicoPandaEnv(self.task, control_hz=_PICTURES_HZ)
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


def _step(env: PicoPandaEnv, guided: bool) -> bool:
    """Run one step, on the guide's way or standing still; return whether the episode ended."""
    commands = {side: env.commanded(side) for side in env.sides}
    waypoints = env.guide() if guided else []
    if waypoints:
        target = waypoints[0].target
        commands[target.side] = _on_the_way(commands[target.side], target, 1.0 / env.control_hz)
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
