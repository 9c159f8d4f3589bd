"""Measure how late the control loop's ticks begin, with all that runs beside it in a session.

    python benchmarks/realtime.py [--seconds 60] [--rounds 3] [--busy 0] [--json]

The whole path at 200 Hz in real time: a reader thread with a 90 Hz hand, the policy, the pick
environment, the recorder, and the viewer in its process (on a virtual display where there is no
other). Three loops take turns: ours at ordinary and at real-time priority, and one that does what
is usually written, ``time.sleep(period - elapsed)``. What is told is read from the episodes' own
files. Exit code 1 if a limit is missed: see ``LIMITS``.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import numpy.typing as npt

import envs  # noqa: F401  (registers PicoPanda-v0)
import episodes
from envs.panda_env import PicoPandaEnv
from envs.viewer import ViewerProcess
from episodes.reader import Episode, open_episode
from kinematics import Side
from session.collector import Collector
from session.loop import Phase, Session, SessionConfig
from session.pace import Pace
from session.priority import Priority, raised_priority
from session.records import episode_info
from teleop_agent.clock import RealClock
from teleop_agent.config import TeleopConfig
from teleop_agent.devices.thread import ThreadedDevice
from teleop_agent.frame import Controller, OperatorFrame, TrackedPose
from teleop_agent.haptics import Haptics
from teleop_agent.policy import PolicyStep, TeleopPolicy

CONTROL_HZ = 200
PERIOD_MS = 1e3 / CONTROL_HZ
READER_HZ = 90
LIMITS = {"ordinary": 5.0, "real time": 0.1}
"""Largest p99 of lateness [ms]; at real-time priority no tick may be late."""
GRIP_OPEN_FRAMES = 20
"""The hand is seen open first, then squeezes."""


# What runs beside the loop.


class HandSource:
    """Publish a head that rests and a right hand that moves in small circles, grip squeezed."""

    def __init__(self) -> None:
        self._seq = 0

    def poll(self) -> OperatorFrame:
        """Return the sample of now."""
        now, seq = time.perf_counter_ns(), self._seq
        self._seq += 1
        angle = 2.0 * np.pi * 0.5 * seq / READER_HZ
        hand = (0.2 + 0.03 * np.cos(angle), 1.1 + 0.03 * np.sin(angle), -0.3)
        grip = float(seq >= GRIP_OPEN_FRAMES)
        right = Controller(_pose(hand), True, 0.0, grip)
        controllers = {Side.RIGHT: right, Side.LEFT: Controller()}
        return OperatorFrame(seq, now - 2_000_000, now, _pose((0.0, 1.6, 0.0)), controllers)

    def vibrate(self, strengths: Mapping[Side, float]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _pose(position: tuple[float, float, float]) -> TrackedPose:
    return TrackedPose(True, True, True, np.column_stack([np.eye(3), position]))


class HandDevice(ThreadedDevice):
    """Read ``HandSource`` from a thread, as a headset is read."""

    def __init__(self) -> None:
        super().__init__("a made-up hand", READER_HZ, 1024)

    def _open(self) -> HandSource:
        return HandSource()


@contextlib.contextmanager
def display() -> Iterator[bool]:
    """Have a display, a virtual one if need be; yield whether there is one."""
    server = shutil.which("Xvfb")
    if sys.platform != "linux" or os.environ.get("DISPLAY"):
        yield True
        return
    if server is None:
        yield False
        return
    command = [server, "-displayfd", "1", "-screen", "0", "1024x768x24"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        os.environ["DISPLAY"] = ":" + process.stdout.readline().strip()
        try:
            yield True
        finally:
            del os.environ["DISPLAY"]
            process.terminate()


def _burn() -> None:
    while True:
        pass


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep processors busy with other programs."""
    context = multiprocessing.get_context("spawn")
    burning = [context.Process(target=_burn, daemon=True) for _ in range(count)]
    for process in burning:
        process.start()
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.join()


# The loops.


class NaivePace(Pace):
    """Sleep for what is left of the period since the tick began; was due by an even count."""

    def __init__(self, clock: RealClock, period_ns: int) -> None:
        super().__init__(clock, period_ns)
        self._period_s, self._begun_s = period_ns * 1e-9, 0.0
        self._step_ns = period_ns

    def begin(self) -> int:
        """Note when the tick begins."""
        now = super().begin()
        self._begun_s = time.perf_counter()
        return now

    def wait(self) -> None:
        """Sleep as it is usually written."""
        self.due_ns += self._step_ns
        time.sleep(max(0.0, self._period_s - (time.perf_counter() - self._begun_s)))


class Timed(Collector):
    """Stop the session after a number of rows."""

    rows_wanted = 0
    cpu_s = 0.0
    """Processor time when it was enough, before saving."""

    def tick(self, phase: Phase, policy: PolicyStep, late: int) -> None:
        """Show where things stand, and stop when it is enough."""
        super().tick(phase, policy, late)
        if phase is Phase.RUNNING and self._recorder.n_rows >= self.rows_wanted:
            assert self.session is not None
            self.cpu_s = time.process_time()
            self.session.stop("measured")

    def say(self, text: str) -> None:
        """Say nothing."""


@dataclass(frozen=True, slots=True)
class Rig:
    """Hold what all loops share."""

    env: PicoPandaEnv
    viewer: ViewerProcess | None
    folder: Path


@dataclass(frozen=True, slots=True)
class Trace:
    """Hold one round of a loop."""

    lateness_ms: npt.NDArray[np.float64]
    """(T,) against the instants at which steps were due, an even count from the first."""
    interval_ms: npt.NDArray[np.float64]
    """(T - 1,) between beginnings."""
    late: int
    cpu_ms: float
    """Of the process, a tick: reader and recorder included, viewer not."""


def run(rig: Rig, seconds: float, naive: bool = False, raised: bool = False) -> Trace:
    """Run one loop for some seconds of steps."""
    clock, config, env = RealClock(), TeleopConfig(), rig.env
    model = episodes.CompiledModel.of(env.model)
    info = episode_info(env, "made-up", "nobody", config, clock, model.sha256)
    opened = episodes.Run.open(rig.folder, episodes.RunSpec.of(info))
    with HandDevice() as device, episodes.Recorder(opened) as recorder:
        cues = Haptics(CONTROL_HZ, 0.0)
        collector = Timed(env, recorder, info, model, device, clock, rig.viewer, 1, cues)
        collector.rows_wanted = round(seconds * CONTROL_HZ)
        policy = TeleopPolicy(env, config)
        settings = SessionConfig(auto_success=False)
        session = Session(env, device, policy, clock, collector, settings)
        if naive:
            session._pace = NaivePace(clock, round(1e9 / CONTROL_HZ))
        collector.session = session
        before = time.process_time()
        with raised_priority() if raised else contextlib.nullcontext():
            session.run_episode(1)
        cpu = collector.cpu_s - before
    kept = sorted((rig.folder / "episodes").glob("*.hdf5"))
    return _read(open_episode(kept[-1]), cpu)


def _read(episode: Episode, cpu_s: float) -> Trace:
    begun = episode.array("timing/t_obs_ns")
    lateness = (begun - episode.array("timing/t_due_ns")) * 1e-6
    late = int(episode.array("timing/overrun").sum())
    return Trace(lateness, np.diff(begun) * 1e-6, late, 1e3 * cpu_s / len(begun))


# The figures.


@dataclass(frozen=True, slots=True)
class Result:
    """Hold the figures of one loop, over all rounds [ms]."""

    loop: str
    p50: float
    p99: float
    longest: float
    late: int
    ticks: int
    rate_hz: float
    interval_p99: float
    """Of |time between two ticks - period|."""
    cpu_ms: float

    @property
    def ok(self) -> bool:
        """Return whether the limit holds."""
        none_late = self.loop != "real time" or self.late == 0
        return self.p99 <= LIMITS.get(self.loop, np.inf) and none_late


def result(loop: str, traces: list[Trace]) -> Result:
    """Join the rounds of one loop."""
    lateness = np.concatenate([trace.lateness_ms for trace in traces])
    intervals = np.concatenate([trace.interval_ms for trace in traces])
    return Result(
        loop=loop,
        p50=float(np.median(lateness)),
        p99=float(np.percentile(lateness, 99, method="higher")),
        longest=float(lateness.max()),
        late=sum(trace.late for trace in traces),
        ticks=len(lateness),
        rate_hz=float(1e3 / intervals.mean()),
        interval_p99=float(np.percentile(np.abs(intervals - PERIOD_MS), 99, method="higher")),
        cpu_ms=float(np.mean([trace.cpu_ms for trace in traces])),
    )


def measure(rig: Rig, seconds: float, rounds: int) -> tuple[list[Result], Priority]:
    """Let the loops take turns."""
    found: dict[str, list[Trace]] = {"naive sleep": [], "ordinary": [], "real time": []}
    with raised_priority() as granted:
        pass
    for _ in range(rounds):
        for loop, traces in found.items():
            raised = loop == "real time"
            if granted.realtime or not raised:
                traces.append(run(rig, seconds / rounds, loop == "naive sleep", raised))
                print(result(loop, traces), file=sys.stderr, flush=True)  # as it comes in
    return [result(loop, traces) for loop, traces in found.items() if traces], granted


def table(results: list[Result]) -> str:
    """Return the figures as a Markdown table."""
    lines = [
        "| loop | late by: p50 | p99 | max | late ticks | rate | interval off by: p99 "
        "| CPU a tick | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        verdict = "" if r.loop not in LIMITS else "ok" if r.ok else "missed"
        lines.append(
            f"| {r.loop} | {r.p50:.3f} ms | {r.p99:.3f} ms | {r.longest:.2f} ms "
            f"| {r.late} of {r.ticks} | {r.rate_hz:.2f} Hz | {r.interval_p99:.3f} ms "
            f"| {r.cpu_ms:.2f} ms | {verdict} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Print the table, or JSON; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each loop")
    parser.add_argument("--rounds", type=int, default=3, help="parts that take turns")
    parser.add_argument("--busy", type=int, default=0, help="other programs that never rest")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if options.seconds < 2.0 * options.rounds:
        parser.error("--seconds must be at least 2 a round: shorter episodes are not kept")
    made = gym.make(
        "PicoPanda-v0", control_hz=CONTROL_HZ, terminate_on_success=False, time_limit_s=600.0
    )
    env = made.unwrapped
    assert isinstance(env, PicoPandaEnv)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shown = stack.enter_context(display())
        viewer = stack.enter_context(ViewerProcess(env.model)) if shown else None
        stack.enter_context(busy_processes(options.busy))
        results, granted = measure(Rig(env, viewer, folder), options.seconds, options.rounds)
    if options.json:
        print(json.dumps([asdict(r) | {"ok": r.ok} for r in results], indent=2))
    else:
        beside = f"{options.busy} busy programs beside" if options.busy else "nothing else beside"
        print(f"{os.cpu_count()} processors, {beside}, {'a' if shown else 'NO'} viewer; {granted}")
        print(table(results))
    return 0 if all(r.ok for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
