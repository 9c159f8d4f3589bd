"""How often the simulated operator succeeds: ``python benchmarks/operator_success.py --write``.

Every seed is one operator, standing and facing anywhere, and one scene, run by the session that
records demonstrations. Success: the task's own word when the episode ends, by itself or by B,
within the time limit. Times are simulated seconds. Seeds 0 .. 99 are for docs/tasks.md: whoever
tunes a task or the operator takes others (``--first 1000``).
"""

import multiprocessing
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import tyro

from envs import ENV_IDS
from envs.tasks import TASKS
from envs.tasks.describe import describe
from session.loop import EpisodeEnd, Listener, Phase, Rejected, Row, Session, SessionConfig
from teleop_agent.clock import VirtualClock
from teleop_agent.config import TeleopConfig
from teleop_agent.devices.sim import SimConfig, SimDevice
from teleop_agent.devices.sim.faults import FaultKind
from teleop_agent.frame import OperatorFrame
from teleop_agent.policy import PolicyStep, TeleopPolicy

ARM_M = 0.7
"""From shoulder to grip."""


@dataclass(frozen=True, slots=True)
class Options:
    """Choose task, seeds and what is off."""

    task: str = "all"
    """One or several, separated by commas."""
    seeds: int = 100
    first: int = 0
    """First seed."""
    dropout: bool = False
    """A 0.3 s dropout in every episode, while the arm is held."""
    jump: bool = False
    """A 40 cm jump for 50 ms in every episode."""
    frozen: bool = False
    """A pose frozen for 0.4 s in every episode."""
    beliefs_off: bool = False
    """Believed scale off by 10 %, facing by 10 % of a right angle, start by 10 % of an arm."""
    control: str = "ee_delta"
    control_hz: int = 50
    device_hz: int = 90
    auto_success: bool = True
    """End by itself after 0.5 s of success; else with B only."""
    limit_s: float | None = None
    """Instead of the task's own time limit."""
    jobs: int = 2
    verbose: bool = False
    """One line an episode."""
    write: bool = False
    """Bring the table in docs/tasks.md up to date: the rows of these tasks and faults."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Tell how one episode went."""

    seed: int
    success: bool
    why: str
    """What ended it."""
    seconds: float
    """Recorded: from the first engagement to the end."""
    waiting: float
    """From the reset to the first engagement."""
    clutches: int
    """How often the grip was squeezed."""
    losses: int
    """How often an engaged hand was held by a fault of the stream."""
    engaged: float
    """Share of the recorded time."""
    cpu_s: float


class Onlooker(Listener):
    """Count what the policy tells."""

    def __init__(self) -> None:
        self.losses = self.engaged = self.waiting = 0
        self.session: Session | None = None
        self._engaged = False

    def started(self, seed: int) -> None:
        """Let it begin."""

    def frames(self, frames: Sequence[OperatorFrame], policy: PolicyStep) -> None:
        """Let them pass."""

    def row(self, row: Row) -> None:
        """Let it pass."""

    def rewound(self, rejected: Rejected) -> None:
        """Let it go back."""

    def asked_to_delete(self) -> None:
        """Nothing is kept."""

    def ended(self, end: EpisodeEnd) -> None:
        """Let it end."""

    def tick(self, phase: Phase, policy: PolicyStep, late: int) -> None:
        """Count."""
        held = any(hand.reason is not None for hand in policy.hands.values())
        self.losses += self._engaged and held
        self._engaged = policy.engaged
        self.engaged += policy.engaged
        self.waiting += phase is Phase.WAITING
        if phase is Phase.PAUSED and self.session is not None:
            self.session.stop("paused")  # by accident: the operator never means it


def operator(options: Options, task: str, seed: int) -> SimConfig:
    """Return the operator's settings; the sign of each error is drawn from the seed."""
    config = SimConfig(device_hz=options.device_hz)
    window = (0.1, 1.0) if task == "reach" else config.faults.window_s
    faults = replace(config.faults, window_s=window)
    if options.dropout:
        faults = replace(faults, each_episode=FaultKind.DROPOUT)
    if options.jump:
        faults = replace(faults, each_episode=FaultKind.JUMP, duration_s=0.05)
    if options.frozen:
        faults = replace(faults, each_episode=FaultKind.FROZEN, duration_s=0.4)
    config = replace(config, faults=faults)
    if not options.beliefs_off:
        return config
    signs = np.random.default_rng([seed, 1]).choice([-1.0, 1.0], 5)
    turn = 0.1 * np.pi / 2.0 * signs[1]
    x, y, z = (0.1 * ARM_M / np.sqrt(3.0) * signs[2:]).tolist()
    return replace(
        config,
        mind=replace(config.mind, scale_error=0.1 * signs[0], facing_error=turn),
        body=replace(config.body, start_offset=(x, y, z)),
    )


def run(options: Options, task: str, seed: int) -> Outcome:
    """Run one episode."""
    begin = time.process_time()
    env: Any = gym.make(
        ENV_IDS[TASKS[task].n_arms],
        task=task,
        control=options.control,
        control_hz=options.control_hz,
        time_limit_s=options.limit_s or TASKS[task].time_limit_s,
        terminate_on_success=False,
    ).unwrapped
    policy, seen = TeleopPolicy(env, TeleopConfig()), Onlooker()
    config = SessionConfig(auto_success=options.auto_success, waiting_limit_s=20.0)
    with SimDevice(seed, operator(options, task, seed)) as device:
        seen.session = Session(env, device, policy, VirtualClock(), seen, config)
        end = seen.session.run_episode(seed)
        clutches = device.clutches
    env.close()
    return Outcome(
        seed=seed,
        success=end.success,
        why=end.reason,
        seconds=end.rows / options.control_hz,
        waiting=seen.waiting / options.control_hz,
        clutches=clutches,
        losses=seen.losses,
        engaged=seen.engaged / max(end.rows, 1),
        cpu_s=time.process_time() - begin,
    )


def report(task: str, outcomes: list[Outcome]) -> None:
    """Print what there is to know about one task."""
    good = [outcome for outcome in outcomes if outcome.success]
    print(f"{task}: {len(good)} of {len(outcomes)} succeed; ended by: ", end="")
    print(", ".join(f"{why} {n}" for why, n in Counter(o.why for o in outcomes).most_common()))
    rows: list[tuple[str, Callable[[Outcome], float]]] = [
        ("seconds", lambda o: o.seconds),
        ("waiting", lambda o: o.waiting),
        ("clutches", lambda o: o.clutches),
        ("losses", lambda o: o.losses),
        ("engaged", lambda o: o.engaged),
        ("CPU s", lambda o: o.cpu_s),
    ]
    print(f"{'':10}{'mean':>8}{'p5':>8}{'median':>8}{'p95':>8}{'max':>8}")
    for name, value in rows:
        values = [value(outcome) for outcome in outcomes]
        cells = [np.mean(values), *np.percentile(values, [5, 50, 95]), max(values)]
        print(f"{name:10}" + "".join(f"{cell:8.2f}" for cell in cells))
    failed = [f"{o.seed} ({o.why}, {o.seconds:.1f} s)" for o in outcomes if not o.success]
    if failed:
        print("failed seeds: " + ", ".join(failed))


# docs/tasks.md

PAGE = Path(__file__).parents[1] / "docs" / "tasks.md"
INTRO = """# Tasks

How often the simulated operator solves each task, through the whole path that a person's hands
take: device, guard, filter, clutch, limits, environment. It stands and faces anywhere, trembles,
aims with an error, sees with a delay and knows no task; every seed is another person and another
scene. Seconds (simulated, from the first grip to the end) and clutches (squeezes of a grip) are
medians. A fault that a row names comes once in every episode; with `--beliefs-off` the operator is
wrong about scale, facing and where its hands are. Written by
`python benchmarks/operator_success.py --write`; rows with faults by their options, too.

| Task | Success | Seconds | p95 | Clutches | Failures | Date |
|---|---|---|---|---|---|---|
"""
FAULTS = ("dropout", "jump", "frozen", "beliefs_off")


def label(options: Options, task: str) -> str:
    """Return the name of a row: the task and what makes it harder."""
    flags = [f"`--{name.replace('_', '-')}`" for name in FAULTS if getattr(options, name)]
    return " ".join([f"`{task}`", *flags])


def cells(outcomes: list[Outcome]) -> str:
    """Return the rest of a row."""
    good = sum(outcome.success for outcome in outcomes)
    seconds = np.array([outcome.seconds for outcome in outcomes])
    clutches = np.median([outcome.clutches for outcome in outcomes])
    failed = Counter(outcome.why for outcome in outcomes if not outcome.success)
    why = ", ".join(f"{why} {n}" for why, n in failed.most_common()) or "none"
    today = datetime.now(UTC).date().isoformat()
    return (
        f"{good} of {len(outcomes)} | {np.median(seconds):.1f} | {np.percentile(seconds, 95):.1f} "
        f"| {clutches:g} | {why} | {today}"
    )


def write_page(rows: dict[str, str]) -> None:
    """Replace these rows of the page and keep the others; describe every task."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    found = dict(re.findall(r"^\| (`[^|]*) \| (.*) \|$", text, re.MULTILINE)) | rows
    order = list(TASKS)
    names = sorted(found, key=lambda name: (name.count("`") > 2, order.index(name.split("`")[1])))
    table = "".join(f"| {name} | {found[name]} |\n" for name in names)
    sections = "\n".join(describe(task) for task in TASKS.values())
    page = f"{INTRO}{table}\n## What each asks for\n\n{sections}"
    PAGE.write_text(page, encoding="utf-8", newline="\n")


def main(options: Options) -> None:
    """Run all seeds and report."""
    if options.write and options.first:
        raise SystemExit("--write is for seeds from 0 on, which nobody tunes on: leave --first out")
    tasks = list(TASKS) if options.task == "all" else options.task.split(",")
    seeds, rows = range(options.first, options.first + options.seeds), {}
    # Spawned everywhere: what holds a GL context or a thread must not be forked.
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for task in tasks:
            outcomes = pool.map(partial(run, options, task), seeds, chunksize=1)
            if options.verbose:
                for outcome in outcomes:
                    print(outcome)
            report(task, outcomes)
            rows[label(options, task)] = cells(outcomes)
            if options.write:  # task by task: what has been run is not lost
                write_page(rows)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
