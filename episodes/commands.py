"""The commands of ``python -m episodes``; each returns its exit code and what to say as JSON."""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Union

import tyro
from rich.console import Console
from rich.table import Table

from .docs import markdown
from .errors import EpisodesError, ReplayError
from .export import export
from .reader import Episode, open_run
from .repair import repair
from .replay import Mode, ReplayReport, replay
from .report import default_out, report
from .schema import JOURNAL_SUFFIX
from .symptoms import advice, symptoms, table
from .timing import timing_table
from .verify_run import leftovers, verify
from .view import view

OK = 0
FAULT = 1
"""A check failed: a fault in a file, or a replay that differs."""
UNREADABLE = 3
"""A file or folder is not what it should be, or cannot be written."""
REFUSED = 4
"""This replay cannot be had here: other MuJoCo, other model, no environment."""


@dataclass(frozen=True)
class Info:
    """Say what a run or a file holds."""

    path: tyro.conf.Positional[Path]
    """A run's folder, its dataset.hdf5 or an episode's file."""
    json: bool = False
    """Print JSON instead of tables."""

    def run(self, console: Console) -> int:
        """Print a summary and one line an episode."""
        episodes = open_run(self.path)
        rows = [_episode_row(episode) for episode in episodes]
        seconds = sum(row["seconds"] for row in rows)
        left = [str(path) for path in leftovers(self.path)]
        summary = {
            "path": str(self.path),
            "episodes": len(rows),
            "rows": sum(row["rows"] for row in rows),
            "seconds": seconds,
            "outcomes": dict(Counter(row["outcome"] for row in rows)),
            "operators": dict(Counter(str(e.attrs.get("operator_id")) for e in episodes)),
            "bytes": sum(row["bytes"] for row in rows),
            "leftovers": left,
        }
        if self.json:
            _print_json(console, {**summary, "list": rows})
            return OK
        tasks = ", ".join(sorted({row["task"] for row in rows}))
        _print_rows(console, rows, f"{tasks}: {self.path}")
        console.print(
            f"{summary['episodes']} episodes, {summary['rows']} rows, {seconds:.1f} s, "
            f"{summary['bytes'] / 1e6:.1f} MB, {summary['outcomes']}",
            highlight=False,
        )
        for path in left:
            _say(console, _leftover(path))
        return OK


@dataclass(frozen=True)
class Verify:
    """Check files against the schema; exit code 1 when there is a fault."""

    path: tyro.conf.Positional[Path]
    """A run's folder, its dataset.hdf5 or an episode's file."""
    json: bool = False
    """Print JSON instead of lines."""

    def run(self, console: Console) -> int:
        """Print every fault, the first one first."""
        faults = verify(self.path)
        left = [str(path) for path in leftovers(self.path)]
        if self.json:
            content = [asdict(fault) for fault in faults]
            _print_json(console, {"ok": not faults, "faults": content, "leftovers": left})
        else:
            for fault in faults:
                console.print(f"fault: {fault}", highlight=False, markup=False, soft_wrap=True)
            for path in left:
                _say(console, _leftover(path))
            console.print("no faults" if not faults else f"{len(faults)} faults")
        return FAULT if faults else OK


@dataclass(frozen=True)
class Repair:
    """Make episodes of what a crash has left of running ones; exit code 1 when some is left.

    They are kept as interrupted failures. Doing it again does no harm.
    """

    path: tyro.conf.Positional[Path]
    """A run's folder, or one above several, such as datasets."""
    json: bool = False
    """Print JSON instead of lines."""

    def run(self, console: Console) -> int:
        """Print one line a journal."""
        done = repair(self.path)
        if self.json:
            _print_json(console, {"journals": [asdict(one) for one in done]})
        for one in () if self.json else done:
            made = f"{one.rows} rows in {', '.join(one.episodes)}" if one.episodes else one.note
            _say(console, f"{one.journal}: {made}")
        if not self.json and not done:
            _say(console, f"no crash has left anything in {self.path}")
        return FAULT if any(one.kept for one in done) else OK


@dataclass(frozen=True)
class Replay:
    """Replay episodes against their own files; exit code 1 when one differs, 4 when refused."""

    path: tyro.conf.Positional[Path]
    """A run's folder, its dataset.hdf5 or an episode's file."""
    mode: Mode = Mode.CTRL
    """ctrl: same bits from the actuators' values. action: through the controller, from the seed.
    state: only show the stored states."""
    view: bool = False
    """Show the stored states in a window, with the frames of hand (green), target (orange) and tool
    (blue), before anything is replayed."""
    speed: float = 1.0
    """Of the window, in times of what it was."""
    json: bool = False
    """Print JSON instead of lines."""

    def run(self, console: Console) -> int:
        """Print one line an episode."""
        code, reports = OK, list[dict[str, Any]]()
        for episode in open_run(self.path):
            try:
                if self.view:
                    view(episode, self.speed)
                done = replay(episode, self.mode)
            except ReplayError as error:
                code = REFUSED
                reports.append({"episode": str(episode), "refused": str(error)})
                if not self.json:
                    _say(console, f"refused: {error}")
                continue
            if not done.ok and code == OK:
                code = FAULT
            reports.append(asdict(done))
            if not self.json:
                _say(console, _replay_line(done))
        if self.json:
            _print_json(console, {"code": code, "replays": reports})
        return code


@dataclass(frozen=True)
class Report:
    """Print which classic faults the rows show and how their time went, and draw one PNG an episode
    (extra "plot"): paths, gripper, limits and pictures."""

    path: tyro.conf.Positional[Path]
    """An episode's file, or a run's folder for all of its episodes."""
    out: Path | None = None
    """The PNG (for one episode) or a folder; beside the episode's file when not given."""
    draw: bool = True
    """Draw; else only print."""

    def run(self, console: Console) -> int:
        """Print the symptoms over all episodes, then draw, and print where."""
        episodes = open_run(self.path)
        findings = symptoms(episodes)
        console.print(table(findings))
        for line in advice(findings):
            _say(console, line)
        single = len(episodes) == 1 and (self.out is None or self.out.suffix.lower() == ".png")
        for episode in episodes:
            console.print(timing_table(episode))
            if not self.draw:
                continue
            if self.out is None:
                out = default_out(episode)
            else:
                out = self.out if single else self.out / f"{episode.name}.png"
            for remark in report(episode, out):
                _say(console, remark)
            _say(console, str(out))
        return OK


@dataclass(frozen=True)
class Export:
    """Write episodes in another format, one file an episode, for analysis elsewhere."""

    path: tyro.conf.Positional[Path]
    """An episode's file, or a run's folder for all of its episodes."""
    out: Path
    """The folder to write into, as demo_000000.csv and so on."""
    format: str = "csv"
    """csv: every row with targets, poses, what the IK left, limits, times, states and ctrl; npz:
    every dataset under its path, for NumPy alone."""
    overwrite: bool = False
    """Replace files that are there; else they are an error."""

    def run(self, console: Console) -> int:
        """Write, and print where."""
        for path in export(open_run(self.path), self.out, self.format, self.overwrite):
            _say(console, str(path))
        return OK


@dataclass(frozen=True)
class Schema:
    """Print the layout's page, docs/dataset.md."""

    out: Path | None = None
    """Write it here instead."""

    def run(self, console: Console) -> int:
        """Print or write the page."""
        if self.out is None:
            console.print(markdown(), highlight=False, markup=False, soft_wrap=True, end="")
        else:
            self.out.write_text(markdown(), encoding="utf-8")
        return OK


Command = Union[  # noqa: UP007  tyro wants the names of its subcommands inside
    Annotated[Info, tyro.conf.subcommand("info")],
    Annotated[Verify, tyro.conf.subcommand("verify")],
    Annotated[Repair, tyro.conf.subcommand("repair")],
    Annotated[Replay, tyro.conf.subcommand("replay")],
    Annotated[Report, tyro.conf.subcommand("report")],
    Annotated[Export, tyro.conf.subcommand("export")],
    Annotated[Schema, tyro.conf.subcommand("schema")],
]


def main(args: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    command: Command = tyro.cli(
        Command,  # pyright: ignore[reportArgumentType]
        args=args,
        prog="python -m episodes",
        config=(tyro.conf.EnumChoicesFromValues,),
        description="Look at recorded episodes, check, replay and draw them.",
    )
    try:
        return command.run(Console())
    except EpisodesError as error:
        Console(stderr=True).print(
            f"error: {error}", style="red", highlight=False, markup=False, soft_wrap=True
        )
        return REFUSED if isinstance(error, ReplayError) else UNREADABLE


def _episode_row(episode: Episode) -> dict[str, Any]:
    attrs = episode.attrs
    return {
        "name": episode.name,
        "task": episode.task,
        "seed": episode.seed,
        "rows": episode.n_rows,
        "seconds": episode.n_rows / float(attrs.get("control_hz", 1)),
        "outcome": str(attrs.get("outcome")),
        "interrupted": bool(attrs.get("interrupted")),
        "success": episode.success,
        "end_reason": str(attrs.get("end_reason")),
        "quality": asdict(episode.quality),
        "doubts": "; ".join(episode.quality.doubts()),
        "late_ticks": int(attrs.get("late_ticks", 0)),
        "bytes": episode.path.stat().st_size,
        "file": str(episode.path),
    }


def _print_rows(console: Console, rows: list[dict[str, Any]], title: str) -> None:
    table = Table(title=title)
    columns = ("name", "seed", "rows", "seconds", "outcome", "end_reason", "doubts")
    for column in columns:
        table.add_column(column.replace("_", " "), no_wrap=column == "name")
    for row in rows:
        cells = [f"{row[c]:.1f}" if isinstance(row[c], float) else str(row[c]) for c in columns]
        table.add_row(*cells)
    console.print(table)


def _replay_line(done: ReplayReport) -> str:
    words = [f"{'same' if done.ok else 'DIFFERS'}: {done.episode} {done.mode} {done.rows} rows"]
    words.append(f"largest joint error {done.max_position_error:.3g}")
    if done.divergence is not None:
        words.append(f"first difference at {done.divergence}")
    if done.success_replayed is not None:
        words.append(f"success {done.success_stored} then, {done.success_replayed} now")
    return "; ".join([*words, *done.notes])


def _leftover(path: str) -> str:
    if path.endswith(JOURNAL_SUFFIX):
        return f"of a running episode, or left by a crash (python -m episodes repair): {path}"
    return f"left by an interrupted save, no episode: {path}"


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _print_json(console: Console, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=2, allow_nan=False, default=str)
    console.print(text, highlight=False, markup=False, soft_wrap=True)
