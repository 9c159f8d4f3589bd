"""Real-time priority: granted, refused, half granted, and always given back."""

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from session import priority
from session.priority import (
    HIGH_PRIORITY_CLASS,
    LEVEL,
    NICE,
    OTHER_LEVEL,
    TIME_CRITICAL,
    Priority,
    raised_priority,
)


class System:
    """Stand in for Linux's scheduler: policy, parameter and niceness by thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, rt: bool, nice: bool) -> None:
        """``rt``, ``nice``: whether it grants them."""
        self.policies: dict[int, tuple[int, int]] = {}
        self.niceness: dict[int, int] = {}
        self.gone: set[int] = set()
        """Threads that have ended."""
        self._rt, self._nice = rt, nice
        monkeypatch.setattr(sys, "platform", "linux")
        for name, stand_in in (
            ("sched_getscheduler", lambda thread: self.policies.get(thread, (0, 0))[0]),
            ("sched_getparam", lambda thread: self.policies.get(thread, (0, 0))[1]),
            ("sched_param", lambda level: level),
            ("sched_setscheduler", self._set_policy),
            ("getpriority", lambda which, thread: self.niceness.get(thread, 0)),
            ("setpriority", self._set_nice),
            ("SCHED_FIFO", 1),
            ("PRIO_PROCESS", 0),
        ):
            monkeypatch.setattr(os, name, stand_in, raising=False)

    def _set_policy(self, thread: int, policy: int, param: int) -> None:
        if thread in self.gone:
            raise ProcessLookupError(3, "No such process")
        if not self._rt and policy:
            raise PermissionError(1, "Operation not permitted")
        self.policies[thread] = (policy, param)

    def _set_nice(self, which: int, thread: int, value: int) -> None:
        if not self._nice and value < self.niceness.get(thread, 0):
            raise PermissionError(13, "Permission denied")
        self.niceness[thread] = value

    @property
    def untouched(self) -> bool:
        """Return whether all is as it was."""
        return not any(self.niceness.values()) and set(self.policies.values()) <= {(0, 0)}


@pytest.fixture
def reader() -> Iterator[threading.Thread]:
    """Return another thread of this process, such as a device's reader."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    yield thread
    over.set()
    thread.join()


def test_real_time_is_granted_for_the_block_only(
    monkeypatch: pytest.MonkeyPatch, reader: threading.Thread
) -> None:
    system = System(monkeypatch, rt=True, nice=False)
    assert reader.native_id is not None
    with raised_priority() as granted:
        assert (granted.realtime, granted.advice) == (True, "")
        assert f"SCHED_FIFO {LEVEL}" in str(granted)
        assert system.policies[threading.get_native_id()] == (1, LEVEL)
        assert system.policies[reader.native_id] == (1, OTHER_LEVEL)  # it may hold the lock
    assert system.untouched


def test_a_thread_that_ends_meanwhile_is_no_trouble(
    monkeypatch: pytest.MonkeyPatch, reader: threading.Thread
) -> None:
    system = System(monkeypatch, rt=True, nice=False)
    assert reader.native_id is not None
    with raised_priority() as granted:
        system.gone.add(reader.native_id)
    assert granted.realtime
    assert system.policies[threading.get_native_id()] == (0, 0)


def test_a_refusal_is_said_with_what_to_do_about_it(
    monkeypatch: pytest.MonkeyPatch, reader: threading.Thread
) -> None:
    system = System(monkeypatch, rt=False, nice=False)
    with raised_priority() as granted:
        assert not granted.realtime
        line = str(granted)
        assert system.untouched
    assert line.startswith("no real-time priority (Operation not permitted)")
    assert f"rtprio {LEVEL}" in line
    assert "limits.d" in line
    assert system.untouched


def test_nice_is_better_than_nothing(
    monkeypatch: pytest.MonkeyPatch, reader: threading.Thread
) -> None:
    system = System(monkeypatch, rt=False, nice=True)
    with raised_priority() as granted:
        assert not granted.realtime
        assert f"nice {NICE}" in str(granted)
        assert {system.niceness[t] for t in (threading.get_native_id(), reader.native_id)} == {NICE}
    assert system.untouched


def test_it_is_given_back_after_an_error_too(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(monkeypatch, rt=True, nice=True)
    with pytest.raises(KeyboardInterrupt), raised_priority():
        raise KeyboardInterrupt
    assert system.untouched


def test_other_systems_say_that_they_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with raised_priority() as granted:
        assert granted == Priority(False, "not known on darwin", priority.OTHER_ADVICE)


class Kernel32:
    """Stand in for Windows' kernel32: attributes that are functions, as ctypes has them."""

    NORMAL_CLASS = 0x20

    def __init__(self, process: bool, thread: bool) -> None:
        """``process``, ``thread``: whether it lets them be raised."""
        self.now = {"process": self.NORMAL_CLASS, "thread": 0}
        grants = {"process": process, "thread": thread}

        def put(what: str, level: int) -> int:
            lowers = level in (self.NORMAL_CLASS, 0)
            self.now[what] = level if grants[what] or lowers else self.now[what]
            return int(grants[what] or lowers)

        self.GetCurrentProcess: Callable[[], str] = lambda: "process"
        self.GetCurrentThread: Callable[[], str] = lambda: "thread"
        self.GetPriorityClass: Callable[[str], int] = lambda what: self.now[what]
        self.GetThreadPriority: Callable[[str], int] = lambda what: self.now[what]
        self.SetPriorityClass = lambda what, level: put(what, level)
        self.SetThreadPriority = lambda what, level: put(what, level)


@pytest.mark.parametrize("process", [True, False])
@pytest.mark.parametrize("thread", [True, False])
def test_windows_raises_process_and_thread_or_neither(
    monkeypatch: pytest.MonkeyPatch, process: bool, thread: bool
) -> None:
    kernel32 = Kernel32(process, thread)
    before = dict(kernel32.now)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(ctypes, "WinDLL", lambda name, use_last_error: kernel32, raising=False)
    with raised_priority() as granted:
        assert granted.realtime is (process and thread)
        raised = {"process": HIGH_PRIORITY_CLASS, "thread": TIME_CRITICAL}
        assert kernel32.now == (raised if granted.realtime else before)
    assert kernel32.now == before


def test_this_very_system_takes_it_and_gives_it_back(reader: threading.Thread) -> None:
    """Whatever it grants: nothing fails, and all is as before."""

    def state() -> list[tuple[int, int]]:
        if sys.platform != "linux":
            return []
        threads = (threading.get_native_id(), reader.native_id or 0)
        return [(os.sched_getscheduler(t), os.getpriority(os.PRIO_PROCESS, t)) for t in threads]

    before = state()
    with raised_priority() as granted:
        if sys.platform == "linux" and granted.realtime:
            assert [policy for policy, _ in state()] == [os.SCHED_FIFO] * 2
    assert state() == before
