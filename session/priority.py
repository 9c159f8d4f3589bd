"""Real-time priority for the thread that runs the control loop, where the system grants it.

An ordinary thread that wakes up on a busy computer waits for its turn, several ms at worst; one of
real-time priority runs at once. The process's other threads, such as the device's reader, are
raised too, to below the loop: one that waits for its turn with the interpreter's lock in its hand
would make the loop wait with it. What they do is short. The viewer, a process, is not raised.
"""

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

LEVEL = 20
"""Of SCHED_FIFO: before all that is not real time, after the kernel's interrupt threads at 50."""
OTHER_LEVEL = 10
"""Of the other threads: the loop goes before them."""
NICE = -10
"""Where real time is not granted but this is: a share of a busy processor nine times as large."""
HIGH_PRIORITY_CLASS, TIME_CRITICAL = 0x80, 15
"""Windows' names for the process and the loop's thread: before all but processes of the real-time
class, which only an administrator may make."""

LINUX_ADVICE = (
    f'to allow it: echo "$USER - rtprio {LEVEL}" | sudo tee /etc/security/limits.d/picopanda.conf, '
    "then log in anew; in a container: --cap-add=SYS_NICE"
)
OTHER_ADVICE = "close other programs, or take a lower --control-hz"

Restore = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Priority:
    """Say at what priority the loop runs."""

    realtime: bool
    """Whether it goes before every ordinary program."""
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

    Threads that it starts have it too, processes as well where the system hands it on.

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
    before = {
        thread: (os.sched_getscheduler(thread), os.sched_getparam(thread)) for thread in _threads()
    }

    def restore() -> None:
        for thread, (policy, param) in before.items():
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.sched_setscheduler(thread, policy, param)

    try:
        for thread in before:
            level = LEVEL if thread == threading.get_native_id() else OTHER_LEVEL
            with contextlib.suppress(ProcessLookupError):
                os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(level))
    except OSError as error:
        restore()
        return _raise_nice(error.strerror or "refused")
    return Priority(True, f"SCHED_FIFO {LEVEL}"), restore


def _raise_nice(refusal: str) -> tuple[Priority, Restore]:
    # Of threads, as Linux has it; POSIX would have it of the process.
    before = {thread: os.getpriority(os.PRIO_PROCESS, thread) for thread in _threads()}

    def restore() -> None:
        for thread, nice in before.items():
            with contextlib.suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, thread, nice)

    try:
        for thread, nice in before.items():
            with contextlib.suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, thread, min(NICE, nice))
    except OSError:
        restore()
        return Priority(False, refusal, LINUX_ADVICE), _stay
    return Priority(False, f"{refusal}; nice {NICE} instead", LINUX_ADVICE), restore


def _threads() -> list[int]:
    """Return the ids of Python's threads; libraries' own never hold the interpreter's lock."""
    found = (thread.native_id for thread in threading.enumerate())
    return [thread for thread in found if thread is not None]


def _raise_windows(kernel32: "ctypes.CDLL") -> tuple[Priority, Restore]:
    """Raise process and thread; since Python 3.11 ``time.sleep`` has a fine timer of its own."""
    kernel32.GetCurrentProcess.restype = kernel32.GetCurrentThread.restype = ctypes.c_void_p
    for name in ("GetPriorityClass", "GetThreadPriority"):
        getattr(kernel32, name).argtypes = [ctypes.c_void_p]
    for name in ("SetPriorityClass", "SetThreadPriority"):
        getattr(kernel32, name).argtypes = [ctypes.c_void_p, ctypes.c_int]
    process, thread = kernel32.GetCurrentProcess(), kernel32.GetCurrentThread()
    before = kernel32.GetPriorityClass(process), kernel32.GetThreadPriority(thread)

    def restore() -> None:
        kernel32.SetThreadPriority(thread, before[1])
        kernel32.SetPriorityClass(process, before[0])

    raised = kernel32.SetPriorityClass(process, HIGH_PRIORITY_CLASS)
    if not (raised and kernel32.SetThreadPriority(thread, TIME_CRITICAL)):
        restore()
        return Priority(False, "refused by Windows", OTHER_ADVICE), _stay
    return Priority(True, "high class, time-critical thread"), restore
