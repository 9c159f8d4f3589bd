"""Real-time priority for the thread that runs the control loop, where the system grants it.

An ordinary thread that wakes up on a busy computer waits for its turn, several ms at worst; one of
real-time priority runs at once. Only the calling thread is raised: reader, writer and viewer stay
what they are.
"""

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

LEVEL = 20
"""Of SCHED_FIFO: before all that is not real time, after the kernel's interrupt threads at 50."""
NICE = -10
"""Where real time is not granted but this is: a share of a busy processor nine times as large."""
TIME_CRITICAL = 15
"""Windows' THREAD_PRIORITY_TIME_CRITICAL: before all but processes of the real-time class, which
only an administrator may make. Unlike a class it is the thread's own."""
_THREAD_PRIORITY_ERROR = 0x7FFFFFFF

LINUX_ADVICE = (
    f'to allow it: echo "$USER - rtprio {LEVEL}" | sudo tee /etc/security/limits.d/picopanda.conf, '
    "then log in anew; in a container: --cap-add=SYS_NICE"
)
OTHER_ADVICE = "close other programs, or take a lower --control-hz"

Restore = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Priority:
    """Say at what priority the thread runs."""

    realtime: bool
    """Whether it goes before every ordinary thread."""
    what: str
    advice: str = ""
    """How to be granted real time; empty when it is."""

    def __str__(self) -> str:
        """Return it in a line for the operator."""
        if self.realtime:
            return f"real-time priority ({self.what})"
        return f"no real-time priority ({self.what}): ticks may be late; {self.advice}"


@contextlib.contextmanager
def raised_priority() -> Iterator[Priority]:
    """Give the calling thread the highest priority that is granted, until the block ends.

    Never fails: what was granted is said by the ``Priority``.
    """
    if sys.platform == "linux":
        priority, restore = _raise_linux()
    elif sys.platform == "win32":
        priority, restore = _raise_windows(ctypes.WinDLL("kernel32", use_last_error=True))
    else:
        priority, restore = Priority(False, f"not known on {sys.platform}", OTHER_ADVICE), _stay
    try:
        yield priority
    finally:
        restore()


def _stay() -> None:
    """Restore nothing."""


def _raise_linux() -> tuple[Priority, Restore]:
    before, param = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        # Threads and processes that this one starts are ordinary ones.
        reset = os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, os.SCHED_FIFO | reset, os.sched_param(LEVEL))
    except OSError as error:
        return _raise_nice(error.strerror or "refused")

    def restore() -> None:
        try:
            os.sched_setscheduler(0, before, param)
        except PermissionError:  # dropping reset-on-fork takes more rights than setting it
            os.sched_setscheduler(0, before | reset, param)

    return Priority(True, f"SCHED_FIFO {LEVEL}"), restore


def _raise_nice(refusal: str) -> tuple[Priority, Restore]:
    # Of the thread, as Linux has it; POSIX would have it of the process.
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, min(NICE, before))
    except OSError:
        return Priority(False, refusal, LINUX_ADVICE), _stay
    what = f"{refusal}; nice {NICE} instead"

    def restore() -> None:
        os.setpriority(os.PRIO_PROCESS, 0, before)

    return Priority(False, what, LINUX_ADVICE), restore


def _raise_windows(kernel32: "ctypes.CDLL") -> tuple[Priority, Restore]:
    """Raise the thread; since Python 3.11 ``time.sleep`` has a fine timer of its own there."""
    kernel32.GetCurrentThread.restype = ctypes.c_void_p
    kernel32.GetThreadPriority.argtypes = [ctypes.c_void_p]
    kernel32.SetThreadPriority.argtypes = [ctypes.c_void_p, ctypes.c_int]
    thread = kernel32.GetCurrentThread()
    before = kernel32.GetThreadPriority(thread)
    if before == _THREAD_PRIORITY_ERROR or not kernel32.SetThreadPriority(thread, TIME_CRITICAL):
        return Priority(False, "refused by Windows", OTHER_ADVICE), _stay

    def restore() -> None:
        kernel32.SetThreadPriority(thread, before)

    return Priority(True, "THREAD_PRIORITY_TIME_CRITICAL"), restore
