"""Real-time priority: granted, refused, half granted, and always given back."""

import ctypes
import os
import sys
import threading
from collections.abc import Callable

import pytest

from session import priority
from session.priority import LEVEL, NICE, Priority, raised_priority


class System:
    """Stand in for Linux's scheduler as one thread sees it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, rt: bool, nice: bool) -> None:
        """``rt``, ``nice``: whether it grants them to an ordinary user."""
        self.policy, self.param, self.niceness = 0, 0, 0
        self._rt, self._nice = rt, nice
        self.calls = 0
        monkeypatch.setattr(sys, "platform", "linux")
        for name, stand_in in (
            ("sched_getscheduler", lambda pid: self.policy),
            ("sched_getparam", lambda pid: self.param),
            ("sched_param", lambda level: level),
            ("sched_setscheduler", self._set_policy),
            ("getpriority", lambda which, who: self.niceness),
            ("setpriority", self._set_nice),
            ("SCHED_FIFO", 1),
            ("SCHED_RESET_ON_FORK", 0x40000000),
            ("PRIO_PROCESS", 0),
        ):
            monkeypatch.setattr(os, name, stand_in, raising=False)

    def _set_policy(self, pid: int, policy: int, param: int) -> None:
        self.calls += 1
        drops_reset = self.policy & 0x40000000 and not policy & 0x40000000
        if not self._rt or drops_reset:
            raise PermissionError(1, "Operation not permitted")
        self.policy, self.param = policy, param

    def _set_nice(self, which: int, who: int, value: int) -> None:
        if not self._nice and value < self.niceness:
            raise PermissionError(13, "Permission denied")
        self.niceness = value


def test_real_time_is_granted_for_the_block_only(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(monkeypatch, rt=True, nice=False)
    with raised_priority() as granted:
        assert (granted.realtime, granted.advice) == (True, "")
        assert f"SCHED_FIFO {LEVEL}" in str(granted)
        assert system.policy == 0x40000001  # what it starts is not real time
        assert system.param == LEVEL
    assert system.policy & 0xFF == 0  # an ordinary user cannot drop the flag, and need not
    assert system.niceness == 0


def test_a_refusal_is_said_with_what_to_do_about_it(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(monkeypatch, rt=False, nice=False)
    with raised_priority() as granted:
        assert not granted.realtime
        line = str(granted)
    assert line.startswith("no real-time priority (Operation not permitted)")
    assert f"rtprio {LEVEL}" in line
    assert "limits.d" in line
    assert (system.policy, system.niceness) == (0, 0)


def test_nice_is_better_than_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(monkeypatch, rt=False, nice=True)
    with raised_priority() as granted:
        assert not granted.realtime
        assert f"nice {NICE}" in str(granted)
        assert system.niceness == NICE
    assert system.niceness == 0


def test_it_is_given_back_after_an_error_too(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(monkeypatch, rt=True, nice=True)
    with pytest.raises(KeyboardInterrupt), raised_priority():
        raise KeyboardInterrupt
    assert system.policy & 0xFF == 0


def test_other_systems_say_that_they_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with raised_priority() as granted:
        assert granted == Priority(False, "not known on darwin", priority.OTHER_ADVICE)


class Kernel32:
    """Stand in for Windows' kernel32: attributes that are functions, as ctypes has them."""

    def __init__(self, grants: bool) -> None:
        self.level = 0

        def function(call: Callable[..., int]) -> Callable[..., int]:
            return call

        def set_priority(thread: int, level: int) -> int:
            self.level = level if grants else self.level
            return int(grants)

        self.GetCurrentThread = function(lambda: -2)
        self.GetThreadPriority = function(lambda thread: self.level)
        self.SetThreadPriority = function(set_priority)


@pytest.mark.parametrize("grants", [True, False])
def test_windows_raises_the_thread(monkeypatch: pytest.MonkeyPatch, grants: bool) -> None:
    kernel32 = Kernel32(grants)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(ctypes, "WinDLL", lambda name, use_last_error: kernel32, raising=False)
    with raised_priority() as granted:
        assert granted.realtime is grants
        assert kernel32.level == (priority.TIME_CRITICAL if grants else 0)
    assert kernel32.level == 0


def test_this_very_system_takes_it_and_gives_it_back() -> None:
    """Whatever it grants: nothing fails, another thread is untouched, and all is as before."""

    def state() -> tuple[int, ...]:
        if sys.platform != "linux":
            return ()
        return os.sched_getscheduler(0) & 0xFF, os.getpriority(os.PRIO_PROCESS, 0)

    before, started = state(), list[tuple[int, ...]]()
    with raised_priority() as granted:
        if sys.platform == "linux" and granted.realtime:
            assert state()[0] == os.SCHED_FIFO
            thread = threading.Thread(target=lambda: started.append(state()))
            thread.start()
            thread.join()
            assert started == [before]
    assert state() == before
