"""Fixtures of the tests that run the program as a user does."""

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from openvr_standin.fixtures import openvr_library, runtime

sys.path.insert(0, str(Path(__file__).parent / "support"))

from program import ROOT, Program

__all__ = ["openvr_library", "runtime"]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return a folder for a run, with a name as users have them; it does not exist yet."""
    return tmp_path / "mes démos à moi" / "run 1"


@pytest.fixture
def collect(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Return what starts the program; it does not outlive the test."""
    started: list[Program] = []

    def start(*arguments: object, **options: object) -> Program:
        log = tmp_path / f"program_{len(started)}"
        started.append(Program([str(a) for a in arguments], log, **options))
        return started[-1]

    yield start
    for program in started:
        program.kill()


@pytest.fixture
def refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[int, str]]]:
    """Return what runs the program here, which costs no start; it returns code and complaints.

    For what ends before anything is recorded.
    """
    monkeypatch.syspath_prepend(str(ROOT))
    import collect

    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["collect.py", *map(str, arguments)])
        try:
            code = collect.main()
        except SystemExit as end:  # of the parser of options
            code = end.code
        return code, capsys.readouterr().err

    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.getsignal(number) for number in numbers]
    yield run
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)
