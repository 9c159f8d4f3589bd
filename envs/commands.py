"""The commands of ``python -m envs``; each returns its exit code."""

import itertools
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Union, cast

import tyro
from gymnasium import spaces
from rich.console import Console
from rich.table import Table

from . import ENV_IDS, GOAL_ID
from .actions import CONTROL_MODES
from .check import Report, Severity, Subject, check, environment_subject, file_subject
from .errors import EnvError
from .goal import GOAL_TASKS
from .guided import step
from .options import check_choice
from .panda_env import CONTROL_HZ, REWARDS, PicoPandaEnv
from .robots import MODELS
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
        goals = ", ".join(GOAL_TASKS)
        console.print(f'with goals apart: gym.make("envs:{GOAL_ID}", task=...); {goals}')
        tasks = _table("task", "arms", "what to do", "time limit", "object observation")
        for name, task in TASKS.items():
            tasks.add_row(
                name,
                str(task.n_arms),
                task.instruction,
                f"{task.time_limit_s:g} s",
                f"({len(task.object_names)},) {', '.join(task.object_names)}",
            )
        console.print(tasks)
        made = {n: {name: _bare(n, name) for name in CONTROL_MODES} for n in ENV_IDS}
        modes = _table("control", "one arm", "two arms", "action of one arm", "meaning")
        for name in CONTROL_MODES:
            shapes = [str(made[n][name].action_space.shape) for n in ENV_IDS]
            labels = " ".join(s.removeprefix("robot0_") for s in made[1][name].action_names)
            modes.add_row(name, *shapes, labels, made[1][name].action_description)
        console.print(modes)
        console.print(f"control_hz: {', '.join(map(str, CONTROL_HZ))}")
        console.print(f"reward: {', '.join(REWARDS)}\n")
        seen = _table("observation", "arms", "shape", "dtype")
        spaces_of = {
            n: cast(spaces.Dict, envs["joint"].observation_space).spaces for n, envs in made.items()
        }
        for key, box in spaces_of[2].items():
            shape = "by task" if key == "object" else str(box.shape)
            seen.add_row(key, "1, 2" if key in spaces_of[1] else "2", shape, str(box.dtype))
        console.print(seen)
        return 0


@dataclass(frozen=True)
class View:
    """Open a window on a task: the arm waits at home, or does what the task's guide says."""

    id: Annotated[str | None, tyro.conf.Positional] = None
    """Environment, such as PicoDualPanda-v0; without it the one that suits the task."""
    task: str | None = None
    """What to set up: see `python -m envs list`; without it the environment's first."""
    camera: str | None = None
    """Look through front, side or wrist first, instead of the free camera."""
    guide: bool = False
    """Do the task, again and again."""
    randomize: tuple[str, ...] = ()
    """Any of visual, dynamics and sizes: how scenes differ with them."""
    seed: int = 0
    """Of the first scene; the next ones count on."""
    seconds: float | None = None
    """Close after this time [s]; without it when the window is closed."""

    def run(self, console: Console) -> int:
        """Show the task in real time until the window is closed."""
        task = self.task or _FIRST_TASKS[_arms_of_id(self.id)]
        if self.id is not None:
            check_choice("task", task, _tasks_of(_arms_of_id(self.id)))
        env = PicoPandaEnv(
            task, arms=_arms_of(task), control_hz=_PICTURES_HZ, randomize=self.randomize
        )
        camera = None if self.camera is None else env.camera_name(self.camera)
        with ViewerProcess(env.model, camera=camera) as viewer:
            console.print(f"{env.task.instruction} Close the window to end.")
            started = time.monotonic()
            for step, message in enumerate(self._play(env)):
                viewer.edit(env.edits)
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
                yield f"{env.task.name}, seed {seed}"


@dataclass(frozen=True)
class Check:
    """Look for faults of a model that the eye cannot see; 1 when there are errors."""

    subject: Annotated[str, tyro.conf.Positional] = ENV_IDS[1]
    """An MJCF or URDF file, or an environment's id."""
    task: str | None = None
    """Check the environment with this task only; without it with every one."""
    robot: str = "panda"
    """Check the environment with this arm: a folder of models/, or a path to a robot.toml."""
    end_effector: str = "gripper"
    """And with this tool."""
    all: bool = False
    """Check every file of models/ and every environment with every task instead."""
    strict: bool = False
    """Let warnings count as errors."""
    json: bool = False
    """Print JSON."""

    def run(self, console: Console) -> int:
        """Print what was found; 1 for errors, with ``strict`` also for warnings."""
        reports = []
        for subject in self._subjects():
            reports.append(check(subject))
            if not self.json:
                _show(console, reports[-1])
        if self.json:
            print(json.dumps([_plain(report) for report in reports], indent=2, allow_nan=False))
        bad = Severity.WARNING if self.strict else Severity.ERROR
        return int(any(report.worst >= bad for report in reports))

    def _subjects(self) -> Iterator[Subject]:
        if self.all:
            yield from map(file_subject, sorted(MODELS.glob("*/*.xml")))
            for n_arms in ENV_IDS:
                yield from self._environments(n_arms)
        elif self.subject.removeprefix("envs:") in ENV_IDS.values():
            yield from self._environments(_arms_of_id(self.subject))
        elif Path(self.subject).suffix.lower() in (".xml", ".urdf", ".mjcf"):
            yield file_subject(Path(self.subject))
        else:
            ids = list(ENV_IDS.values())
            raise EnvError(
                f"{self.subject!r} is neither a file ending in .xml or .urdf nor of {ids}"
            )

    def _environments(self, n_arms: int) -> Iterator[Subject]:
        tasks = _tasks_of(n_arms)
        if self.task is not None and not self.all:
            check_choice("task", self.task, tasks)
            tasks = [self.task]
        for task in tasks:
            env = PicoPandaEnv(task, n_arms, self.robot, self.end_effector)
            yield environment_subject(env, f"{ENV_IDS[n_arms]}, task {task}")


def _show(console: Console, report: Report) -> None:
    """Print one report: a line for what was found, a line for what to do."""
    counts = [sum(found.severity is s for found in report.findings) for s in reversed(Severity)]
    words = zip(counts, ("errors", "warnings", "notes"), strict=True)
    count = ", ".join(f"{n} {word}" for n, word in words)
    heading = f"{report.subject}: {count}"
    console.print(heading, style="bold", highlight=False, markup=False, soft_wrap=True)
    styles = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: None}
    for found in report.findings:
        limit = "" if found.limit is None else f" (limit {found.limit:.4g} {found.unit})"
        number = f"{found.measured:.4g} {found.unit}".rstrip()
        console.print(
            f"  {found.severity.name.lower()} {found.code}: {found.where}: {found.what}: {number}"
            f"{limit.replace(' )', ')')}\n    {found.advice}",
            style=styles[found.severity],
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    for reason in report.left_out:
        console.print(f"  left out {reason}", highlight=False, markup=False, soft_wrap=True)


def _plain(report: Report) -> dict[str, Any]:
    """Return a report as JSON types; an infinite number is null."""

    def number(value: float | None) -> float | None:
        return value if value is not None and math.isfinite(value) else None

    findings = [
        asdict(found)
        | {
            "severity": found.severity.name.lower(),
            "measured": number(found.measured),
            "limit": number(found.limit),
        }
        for found in report.findings
    ]
    return {
        "subject": report.subject,
        "worst": report.worst.name.lower() if report.findings else None,
        "findings": findings,
        "left_out": list(report.left_out),
    }


_FIRST_TASKS = {1: "pick", 2: "lift_tray"}


def _arms_of_id(env_id: str | None) -> int:
    """Return the arms of an environment; one where none is named."""
    if env_id is None:
        return 1
    check_choice("id", env_id.removeprefix("envs:"), ENV_IDS.values())
    return next(n for n, known in ENV_IDS.items() if known == env_id.removeprefix("envs:"))


def _bare(n_arms: int, control: str) -> PicoPandaEnv:
    """Return an environment whose arms' spaces are to be shown; any task has the same."""
    return PicoPandaEnv(_FIRST_TASKS[n_arms], n_arms, control=control)


def _tasks_of(n_arms: int) -> list[str]:
    return [name for name, task in TASKS.items() if task.n_arms == n_arms]


@dataclass(frozen=True)
class Sheet:
    """Draw every task in the middle of being done into one picture."""

    out: Path = Path("tasks.png")
    """Where to write it: a .png file."""

    def run(self, console: Console) -> int:
        """Play and draw all tasks, about half a minute without a GPU."""
        draw_sheet(self.out)
        console.print(f"{len(TASKS)} tasks in {self.out}", highlight=False, soft_wrap=True)
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
    Annotated[Check, tyro.conf.subcommand("check")],
]


def main(args: list[str] | None = None) -> int:
    """Run the command line: 0 done, 1 error, 2 usage."""
    command: List | View | Sheet | Check = tyro.cli(
        Command,  # pyright: ignore[reportArgumentType]
        args=args,
        prog="python -m envs",
        description="Look at environments and check models.",
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
