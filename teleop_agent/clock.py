"""The session's clock: real, or as fast as the computer goes."""

import time
from typing import Protocol


class Clock(Protocol):
    """Tell the session's time [ns] and wait for a moment of it."""

    def now_ns(self) -> int:
        """Return the present time [ns], monotonic."""
        ...

    def sleep_until(self, t_ns: int) -> None:
        """Return when ``now_ns() >= t_ns``; at once if that is past."""
        ...


class RealClock:
    """Follow the system's performance counter: monotonic, and fine on every system.

    ``time.monotonic`` has steps of 16 ms on Windows before Python 3.13.
    """

    def now_ns(self) -> int:
        """Return ``time.perf_counter_ns()``."""
        return time.perf_counter_ns()

    def sleep_until(self, t_ns: int) -> None:
        """Sleep to the absolute time ``t_ns`` [ns]."""
        while (left := t_ns - time.perf_counter_ns()) > 0:
            time.sleep(left * 1e-9)


class VirtualClock:
    """Advance only by waiting, which takes no time: a session as fast as the computer goes."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """Return the virtual time [ns]."""
        return self._now_ns

    def sleep_until(self, t_ns: int) -> None:
        """Jump to ``t_ns`` [ns]; never back."""
        self._now_ns = max(self._now_ns, t_ns)
