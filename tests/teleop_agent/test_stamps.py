"""Session times from device stamps: repeated, past, future, restarted."""

from itertools import pairwise

import pytest

from teleop_agent.frame import Controller, OperatorFrame, TrackedPose
from teleop_agent.reasons import Reason
from teleop_agent.stamps import StampGate

MS = 1_000_000
HOUR = 3_600_000 * MS


def frame(t_ms: float, recv_ms: float | None = None) -> OperatorFrame:
    t_recv = round((t_ms if recv_ms is None else recv_ms) * MS)
    return OperatorFrame(0, round(t_ms * MS), t_recv, TrackedPose(), {"right": Controller()})


@pytest.fixture
def gate() -> StampGate:
    gate = StampGate()
    assert gate.take(frame(1000)) == (1000 * MS, None)
    return gate


@pytest.mark.parametrize(
    ("stamp_ms", "reason"),
    [
        (1000, Reason.DUPLICATE_STAMP),
        (950, Reason.OLD_STAMP),
        (1000 + 3_600_000, Reason.FUTURE_STAMP),
        (1040, Reason.FUTURE_STAMP),
    ],
)
def test_one_odd_stamp_is_dropped_and_the_stream_goes_on(gate, stamp_ms, reason) -> None:
    assert gate.take(frame(stamp_ms, 1011))[1] is reason
    assert gate.take(frame(1022)) == (1022 * MS, None)


def test_a_late_stream_is_never_believed(gate) -> None:
    for k in range(1, 200):
        assert gate.take(frame(1000 + 11 * k, 1300 + 11 * k))[1] is Reason.LATE


@pytest.mark.parametrize("shift_ms", [-995, -600_000, 3_600_000, 25])
def test_a_restarted_clock_is_taken_over_within_a_second(gate, shift_ms) -> None:
    reasons = [gate.take(frame(1011 + 11 * k + shift_ms, 1011 + 11 * k))[1] for k in range(91)]
    restart = reasons.index(Reason.CLOCK_RESTART)
    assert restart * 11 < 200  # ms
    assert reasons.count(Reason.CLOCK_RESTART) == 1
    assert set(reasons[restart + 1 :]) == {None}
    t_ns, reason = gate.take(frame(2200 + shift_ms, 2200))
    assert reason is None
    assert abs(t_ns - 2200 * MS) <= 250 * MS


def test_times_rise_strictly_over_a_restart(gate) -> None:
    times = [1000 * MS]
    for k in range(300):
        shift = -1005 if 100 <= k < 200 else 0
        t_ns, reason = gate.take(frame(1011 + 11 * k + shift, 1012 + 11 * k))
        if reason in (None, Reason.CLOCK_RESTART):
            times.append(t_ns)
    assert len(times) > 270
    assert all(a < b for a, b in pairwise(times))


def test_noise_of_stamps_is_not_taken_for_a_restart(gate) -> None:
    for k in range(100):
        stamp = 1000 - (k * 37) % 900  # all in the past, in no order of time
        assert gate.take(frame(stamp, 1011 + 11 * k))[1] in (
            Reason.OLD_STAMP,
            Reason.DUPLICATE_STAMP,
        )
