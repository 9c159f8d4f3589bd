"""Say where the program stands when a tick of the control loop does not come back."""

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Self

_log = logging.getLogger(__name__)


class Watchdog:
    """Watch the thread that enters it from a thread of its own. A context manager.

    A tick stands between ``begin`` and ``end``; what becomes of the arms after a long one is the
    policy's to decide.

    A call that keeps the interpreter's lock stops the watching thread, too; it is not told of.
    `faulthandler`'s timer needs no lock, but reads the stacks of threads that may run: when a
    process that was stopped goes on, it ends it (measured: once in a dozen stops).
    """

    def __init__(self, limit_s: float, now_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        """``now_ns`` is real time: a session on a virtual clock hangs in real time, too."""
        self._limit_s, self._now_ns = limit_s, now_ns
        self._since_ns: int | None = None
        self._told_ns: int | None = None
        """Beginning of the tick that was told of."""
        self._watched = 0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """A tick begins."""
        self._since_ns = self._now_ns()

    def end(self) -> None:
        """It came back, or may take its time from here on."""
        self._since_ns = None

    def check(self) -> str | None:
        """Return for how long the tick has been out and the stack it is in, once a tick."""
        since, now = self._since_ns, self._now_ns()
        if since is None or since == self._told_ns or now - since <= self._limit_s * 1e9:
            return None
        self._told_ns = since
        frame = sys._current_frames().get(self._watched)
        stack = "".join(traceback.format_stack(frame)) if frame else "  (thread is gone)\n"
        seconds = (now - since) * 1e-9
        return f"the control loop has not come back for {seconds:.1f} s; it stands in\n{stack}"

    def __enter__(self) -> Self:
        """Start to watch the calling thread."""
        self._watched = threading.get_ident()
        self._over.clear()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.end()
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._over.wait(self._limit_s / 4):
            found = self.check()
            if found is not None:
                _log.error("%s", found.rstrip())
