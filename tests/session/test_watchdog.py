"""The watchdog: told of a stuck tick once, with the stack, and of no other."""

import logging
import threading

import pytest

from session.watchdog import Watchdog

SECOND = 1_000_000_000


class Times:
    """A clock to be set."""

    def __init__(self) -> None:
        self.ns = 7 * SECOND

    def __call__(self) -> int:
        return self.ns


def test_a_tick_that_comes_back_in_time_is_not_told_of() -> None:
    times = Times()
    dog = Watchdog(1.0, times)
    for _ in range(100):
        dog.begin()
        times.ns += SECOND
        assert dog.check() is None
        dog.end()
        times.ns += 5 * SECOND  # waiting, saving: nothing is out
        assert dog.check() is None


def test_a_stuck_tick_is_told_of_once() -> None:
    times = Times()
    dog = Watchdog(1.0, times)
    for _ in range(2):
        dog.begin()
        times.ns += SECOND + 1
        found = dog.check()
        assert found is not None
        assert "1.0 s" in found
        times.ns += SECOND
        assert dog.check() is None
        dog.end()


def test_the_stack_of_the_watched_thread_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    told = threading.Event()

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.set()

    def device_read_that_never_returns() -> None:
        assert told.wait(60.0)  # a bound, not an expectation

    ear = Ear()
    log = logging.getLogger("session.watchdog")
    log.addHandler(ear)
    try:
        with caplog.at_level(logging.ERROR), Watchdog(0.05) as dog:
            dog.begin()
            device_read_that_never_returns()
            dog.end()
    finally:
        log.removeHandler(ear)
    (record,) = caplog.records
    assert "device_read_that_never_returns" in record.message
    assert not [t for t in threading.enumerate() if t.name == "watchdog"]


def test_it_can_be_entered_again(caplog: pytest.LogCaptureFixture) -> None:
    dog = Watchdog(60.0)
    for _ in range(2):
        with dog:
            dog.begin()
        assert dog.check() is None  # over: nothing is out
