"""Fixtures of the tests that run the program as a user does."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from openvr_standin.fixtures import openvr_library, runtime

sys.path.insert(0, str(Path(__file__).parent / "support"))

from program import Program

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
