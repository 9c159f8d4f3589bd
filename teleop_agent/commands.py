"""The commands of ``python -m teleop_agent``; each returns its exit code."""

import contextlib
import itertools
import json
import logging
import math
import signal
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.text import Text

from .clock import Clock, RealClock, VirtualClock
from .computer import check_computer
from .devices import DEVICES, make_device
from .devices.openvr_doctor import check_steamvr
from .devices.trace_file import record_trace
from .errors import RuntimeUnavailableError, TeleopError, UnknownDeviceError
from .findings import Finding, Level

OK, ERROR, USAGE, NO_RUNTIME = 0, 1, 2, 3


@dataclass(frozen=True)
class RecordTrace:
    """Write down what a device publishes, untouched: for bug reports, and to be played back with
    `collect.py --device trace:FILE`. Ctrl-C ends it and keeps what was written."""

    file: tyro.conf.Positional[Path]
    """Where to; an existing file is never overwritten."""
    device: str = "openvr"
    """openvr (a headset, through SteamVR), sim (a simulated person, at rest) or trace:FILE."""
    seconds: float = math.inf
    """How long. Default: until Ctrl-C or the end of the stream."""
    seed: int = 0
    """Of the simulated person."""

    def run(self, console: Console) -> int:
        """Record until told to stop."""
        if not self.seconds > 0.0:
            raise UsageError(f"--seconds must be > 0, got {self.seconds}")
        device = make_device(self.device, seed=self.seed)
        if math.isinf(self.seconds) and self.device == "sim":
            raise UsageError("a simulated person never stops: say how long with --seconds")
        clock: Clock = RealClock() if device.realtime else VirtualClock()
        with device, _signals() as stop:
            _say(console, f"recording {self.device} into {self.file}, Ctrl-C to end")
            frames = record_trace(
                device,
                self.file,
                clock,
                name=self.device,
                seconds=self.seconds,
                stopped=stop.is_set,
            )
        _say(console, f"{frames} frames in {self.file}")
        return OK


@dataclass(frozen=True)
class Latency:
    """Measure in real time how long a hand's motion takes to the robot, stage by stage.

    By default the hand is a stimulus that leaps by 10 mm at known times, polled by a thread as
    SteamVR is: only with it are the answers of ctrl and tool known. No window, no recording.
    """

    device: str = "leap"
    """leap (the stimulus), or one that `python -m teleop_agent devices` lists."""
    seconds: float = 10.0
    """How long; the stimulus leaps twice a second after the first."""
    control_hz: Literal[20, 25, 30, 50, 60, 100, 200] = 50
    """Ticks a second."""
    control: Literal["ee_delta", "ee_pose", "joint"] = "ee_delta"
    """Meaning of an action."""
    device_hz: int = 90
    """Samples a second of the stimulus."""
    json: bool = False
    """Print JSON instead of a table."""

    def run(self, console: Console) -> int:
        """Run a loop, then print p50, p95 and p99 of every stage."""
        from . import latency  # with gymnasium, which no other command needs
        from .devices.leaping_hand import LeapingHand

        if not 2.0 <= self.seconds <= 1800.0:
            raise UsageError(f"--seconds must be within 2 .. 1800, got {self.seconds}")
        if not 20 <= self.device_hz <= 1000:
            raise UsageError(f"--device-hz must be within 20 .. 1000, got {self.device_hz}")
        leaping = self.device == "leap"
        device = LeapingHand(self.device_hz) if leaping else make_device(self.device)
        env = latency.make_env(self.control_hz, self.control)
        with contextlib.closing(env), device, _signals() as stop:
            ticks = latency.run_loop(env, device, self.seconds, stop.is_set)
            leaps_ns = device.leaps_ns if isinstance(device, LeapingHand) else ()
        found = latency.report(ticks, leaps_ns, self.control_hz)
        if self.json:
            _say(console, json.dumps(found.as_dict(), indent=2))
        else:
            _say(console, str(found))
        return OK


@dataclass(frozen=True)
class ListDevices:
    """List what can be named as a device."""

    def run(self, console: Console) -> int:
        """Print a line a device."""
        for name, text in DEVICES.items():
            console.print(f"{name:12} {text}", highlight=False, markup=False)
        return OK


@dataclass(frozen=True)
class Doctor:
    """Look at the computer, SteamVR, headset and controllers, and say what to mend.

    Hold both controllers and move them meanwhile. Exit code 1 when something keeps teleoperation
    from working.
    """

    seconds: float = 3.0
    """How long to watch headset and controllers."""
    folder: Path = Path("datasets")
    """Where episodes are going to be."""
    headset: bool = True
    """Look at SteamVR, headset and controllers."""
    json: bool = False
    """Print JSON instead of lines."""

    def run(self, console: Console) -> int:
        """Print a line a finding, as soon as it is known."""
        if not 0.0 < self.seconds <= 600.0:
            raise UsageError(f"--seconds must be within (0, 600], got {self.seconds}")
        found: list[Finding] = []
        checks = [check_computer(self.folder)]
        if self.headset:
            checks.append(check_steamvr(self.seconds))
        for finding in itertools.chain(*checks):
            found.append(finding)
            if not self.json:
                _say_finding(console, finding)
        if self.json:
            _say(console, json.dumps([asdict(finding) for finding in found], indent=2))
        return ERROR if any(finding.level is Level.FAULT for finding in found) else OK


def _say_finding(console: Console, finding: Finding) -> None:
    colour = {Level.OK: "green", Level.WARNING: "yellow", Level.FAULT: "red"}[finding.level]
    line = Text.assemble((f"{finding.level:8}", colour), f"{finding.what}: {finding.found}")
    console.print(line, soft_wrap=True)
    if finding.fix:
        console.print(Text(f"{'':8}-> {finding.fix}"), soft_wrap=True)


@contextlib.contextmanager
def _signals() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C and SIGTERM set: they end a command, they do not break it off."""
    stop = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class UsageError(TeleopError):
    """Report an option that cannot be; the message says which and what can be."""


Command = (
    Annotated[Doctor, tyro.conf.subcommand("doctor")]
    | Annotated[RecordTrace, tyro.conf.subcommand("record-trace")]
    | Annotated[Latency, tyro.conf.subcommand("latency")]
    | Annotated[ListDevices, tyro.conf.subcommand("devices")]
)


def main(args: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    command: Doctor | RecordTrace | Latency | ListDevices = tyro.cli(
        Command,  # pyright: ignore[reportArgumentType]
        args=args,
        prog="python -m teleop_agent",
        description="Look at the operator's devices.",
    )
    try:
        return command.run(Console())
    except TeleopError as error:
        Console(stderr=True).print(
            f"error: {error}", style="red", highlight=False, markup=False, soft_wrap=True
        )
        if isinstance(error, RuntimeUnavailableError):
            return NO_RUNTIME
        return USAGE if isinstance(error, (UsageError, UnknownDeviceError)) else ERROR


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
