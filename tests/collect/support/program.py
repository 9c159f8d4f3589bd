"""The program as a process of its own, and waiting for what it says."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from episodes.commands import main

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_S = 240.0
"""Far beyond what any wait takes, on a busy computer too; reaching it is the failure."""


class Program:
    """Run ``collect.py`` from the project's folder, or another script with the same arguments.

    What it says goes to files, so that it never waits for a reader.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        log: Path,
        script: Path | str = "collect.py",
        env: Mapping[str, str] | None = None,
        before: Callable[[], None] | None = None,
    ) -> None:
        self._out, self._err = log.with_suffix(".out"), log.with_suffix(".err")
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, str(script), *arguments],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, "PYTHONUTF8": "1", **(env or {})},
                preexec_fn=before,
            )

    @property
    def out(self) -> str:
        """Return what it said so far."""
        return self._out.read_text("utf-8")

    @property
    def err(self) -> str:
        """Return its complaints so far."""
        return self._err.read_text("utf-8")

    def wait_for(self, text: str) -> None:
        """Return once it has said ``text``."""
        self.wait_until(lambda: text in self.out, f"{text!r}")

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Return once ``condition`` holds, of a running program."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            code = self.process.poll()
            if code is not None and not condition():
                raise AssertionError(f"ended with {code} before {what}\n{self.out}\n{self.err}")
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what} in {DEADLINE_S} s\n{self.out}\n{self.err}")
            time.sleep(0.01)

    def code(self) -> int:
        """Return the exit code once it has ended."""
        return self.process.wait(DEADLINE_S)

    def ends_with(self, code: int) -> None:
        """Wait for the end and compare the exit code."""
        assert self.code() == code, f"ended with {self.code()}\n{self.out}\n{self.err}"

    def interrupt(self, number: int = signal.SIGINT) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()


def episodes_command(*arguments: object) -> int:
    """Run a command of ``python -m episodes`` here, in another process than what it looks at."""
    return main([str(argument) for argument in arguments])
