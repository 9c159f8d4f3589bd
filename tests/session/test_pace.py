"""Deadlines: kept, made up for, or begun anew, on a clock that does what it likes."""

import pytest

from session.pace import Pace
from teleop_agent.clock import VirtualClock

MS = 1_000_000
PERIOD = 20 * MS


class Timeline:
    """Run ticks that take the given times [ms] and note when each was due, began and was late."""

    def __init__(self, work_ms: list[float], start_ns: int = 10**12) -> None:
        clock = VirtualClock(start_ns)
        pace = Pace(clock, PERIOD)
        pace.start()
        self.due: list[float] = []
        self.begun: list[float] = []
        self.late: list[bool] = []
        for work in work_ms:
            begun = pace.begin()
            self.due.append((pace.due_ns - start_ns) / MS)
            self.begun.append((begun - start_ns) / MS)
            self.late.append(pace.late)
            clock.sleep_until(begun + round(work * MS))
            pace.wait()


def test_ticks_within_their_period_stay_on_the_grid() -> None:
    run = Timeline([0.0, 19.9, 5.0, 20.0, 1.0, 0.0])
    assert run.begun == run.due == [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    assert not any(run.late)


@pytest.mark.parametrize(("work", "late"), [(30.0, False), (30.1, True)])
def test_half_a_period_is_late(work: float, late: bool) -> None:
    run = Timeline([work, 0.0, 0.0])
    assert run.late == [False, late, False]
    assert run.due == [0.0, 20.0, 40.0]


def test_a_delay_of_five_periods_is_made_up_for() -> None:
    run = Timeline([120.0, *[1.0] * 9])
    assert run.due == [20.0 * k for k in range(10)]
    assert run.begun[:8] == [0.0, 120.0, 121.0, 122.0, 123.0, 124.0, 125.0, 140.0]
    assert run.late == [False, *[True] * 5, *[False] * 4]


@pytest.mark.parametrize("stall", [120.1, 200.0, 3_600_000.0])
def test_a_longer_one_is_told_once_and_not_caught_up_with(stall: float) -> None:
    """Ten periods in a step, or a computer that slept for an hour."""
    run = Timeline([stall, *[1.0] * 5])
    assert run.begun == [0.0, *(stall + 20.0 * k for k in range(5))]
    assert run.late == [False, True, False, False, False, False]
    assert run.begun[1] - run.due[1] == stall - 20.0  # all of the delay, not what a new grid says
    assert run.due[2:] == run.begun[2:]


def test_a_computer_that_is_always_too_slow_is_always_late() -> None:
    run = Timeline([25.0] * 100)
    assert sum(run.late) > 60
    assert run.begun == [25.0 * k for k in range(100)]  # as fast as it goes: it never waits


def test_a_slow_first_tick_counts() -> None:
    assert Timeline([500.0, 1.0]).late == [False, True]
