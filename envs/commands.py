"""The commands of ``python -m envs``; each returns its exit code."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Union, cast

import tyro
from gymnasium import spaces
from rich.console import Console
from rich.table import Table

from . import ENV_IDS
from .actions import CONTROL_MODES
from .errors import EnvError
from .guided import step
from .options import check_choice
from .panda_env import CONTROL_HZ, REWARDS, PicoPandaEnv
from .sheet import draw_sheet
from .tasks import TASKS
from .viewer import ViewerProcess

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
                ended = step(env, self.guide)
                yield f"{self.task}, seed {seed}"


@dataclass(frozen=True)
class Sheet:
    """Draw every task in the middle of being done into one picture."""

    out: Path = Path("tasks.png")
    """Where to write it: a .png file."""

    def run(self, console: Console) -> int:
        """Play and draw all tasks, about half a minute without a GPU."""
        draw_sheet(self.out)
        console.print(f"{len(TASKS)} tasks in {self.out}", highlight=False)
        return 0


def _arms_of(task: str) -> int:
    check_choice("task", task, TASKS)
    return TASKS[task].n_arms


def _table(*columns: str) -> Table:
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


Command = Union[  # noqa: UP007  (tyro reads the annotations)
    Annotated[List, tyro.conf.subcommand("list")],
    Annotated[View, tyro.conf.subcommand("view")],
    Annotated[Sheet, tyro.conf.subcommand("sheet")],
]


def main(args: list[str] | None = None) -> int:
    """Run the command line: 0 done, 1 error, 2 usage."""
    command: List | View | Sheet = tyro.cli(
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
