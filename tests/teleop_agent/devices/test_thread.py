"""The reader thread, over sources made of a few lines."""

import threading
import time
from collections.abc import Callable, Mapping

import pytest
from watching import error_of, frames_until

from kinematics import Side
from teleop_agent.clock import RealClock
from teleop_agent.devices import thread
from teleop_agent.devices.thread import FrameRing, ThreadedDevice
from teleop_agent.errors import DeviceClosedError, DeviceFailedError, RuntimeUnavailableError
from teleop_agent.frame import Controller, OperatorFrame, TrackedPose


def frame_at(seq: int, t_ns: int) -> OperatorFrame:
    return OperatorFrame(seq, t_ns, t_ns, TrackedPose(), dict.fromkeys(Side, Controller()))


class CountingSource:
    """Yield ``count`` frames, then end, or raise ``error``."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self._count, self._error = count, error
        self.polled = 0
        self.threads = {threading.get_ident()}
        self.closed = threading.Event()
        self.felt: list[Mapping[Side, float]] = []

    def poll(self) -> OperatorFrame | None:
        self.threads.add(threading.get_ident())
        if self.polled == self._count:
            if self._error is not None:
                raise self._error
            return None
        self.polled += 1
        return frame_at(self.polled - 1, RealClock().now_ns())

    def vibrate(self, strengths: Mapping[Side, float]) -> None:
        self.threads.add(threading.get_ident())
        self.felt.append(strengths)

    def close(self) -> None:
        self.threads.add(threading.get_ident())
        self.closed.set()


class SourceDevice(ThreadedDevice):
    def __init__(self, make: Callable[[], CountingSource], ring_frames: int = 100) -> None:
        super().__init__("source", poll_hz=1000, ring_frames=ring_frames)
        self._make = make
        self.source: CountingSource | None = None

    def _open(self) -> CountingSource:
        self.source = self._make()
        return self.source


def test_pending_frames_come_before_the_end() -> None:
    device = SourceDevice(lambda: CountingSource(5))
    with device:
        assert device.source is not None
        assert device.source.closed.wait(5)
        frames, _ = error_of(device, DeviceClosedError)
    assert [frame.seq for frame in frames] == [0, 1, 2, 3, 4]


def test_frames_of_the_future_wait() -> None:
    device = SourceDevice(lambda: CountingSource(3))
    with device:
        assert device.source is not None
        assert device.source.closed.wait(5)
        assert device.read(0) == []  # nothing yet, and not the end either
        assert [frame.seq for frame in device.read(RealClock().now_ns())] == [0, 1, 2]
        with pytest.raises(DeviceClosedError, match="source has ended"):
            device.read(RealClock().now_ns())


def test_pending_frames_come_before_an_error_which_stays() -> None:
    fault = ZeroDivisionError("poll 3")
    with SourceDevice(lambda: CountingSource(2, fault)) as device:
        frames, error = error_of(device, DeviceFailedError)
        assert [frame.seq for frame in frames] == [0, 1]
        assert error.__cause__ is fault
        with pytest.raises(DeviceFailedError, match="poll 3"):
            device.read(RealClock().now_ns())


def test_an_unread_ring_drops_the_oldest_and_counts() -> None:
    with SourceDevice(lambda: CountingSource(30), ring_frames=8) as device:
        assert device.source is not None
        assert device.source.closed.wait(5)
        frames, _ = error_of(device, DeviceClosedError)
        assert [frame.seq for frame in frames] == list(range(22, 30))
        assert device.overflow == 22
    assert device.overflow == 0


def test_one_thread_makes_all_calls() -> None:
    with SourceDevice(lambda: CountingSource(10**9)) as device:
        frames_until(device, lambda frame: frame.seq > 3)
    assert device.source is not None
    assert device.source.closed.is_set()
    assert len(device.source.threads) == 1
    assert threading.get_ident() not in device.source.threads


def test_an_error_of_opening_is_raised_by_connect() -> None:
    def fail() -> CountingSource:
        raise RuntimeUnavailableError("switch it on")

    device = SourceDevice(fail)
    with pytest.raises(RuntimeUnavailableError, match="switch it on"):
        device.connect()
    device.close()
    with pytest.raises(DeviceClosedError):
        device.read(0)


def test_a_source_that_hangs_is_given_up_and_closed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread, "OPEN_TIMEOUT_S", 0.05)
    let_go = threading.Event()
    source = CountingSource(10**9)

    def hang() -> CountingSource:
        let_go.wait(5)
        return source

    with pytest.raises(RuntimeUnavailableError, match=r"did not answer within 0\.05 s"):
        SourceDevice(hang).connect()
    let_go.set()
    assert source.closed.wait(5)
    assert source.polled == 0


def test_close_reports_a_thread_that_does_not_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(thread, "JOIN_TIMEOUT_S", 0.05)
    let_go = threading.Event()

    class Stuck(CountingSource):
        def poll(self) -> OperatorFrame | None:
            let_go.wait(5)
            return None

    device = SourceDevice(lambda: Stuck(0))
    device.connect()
    device.close()
    assert "did not end within 0.05 s" in caplog.text
    let_go.set()
    assert device.source is not None
    assert device.source.closed.wait(5)


def test_the_ring_gives_each_frame_once_in_order() -> None:
    ring = FrameRing(3)
    for seq in range(5):
        ring.put(frame_at(seq, 10 * seq))
    assert [frame.seq for frame in ring.take(30)] == [2, 3]
    assert [frame.seq for frame in ring.take(100)] == [4]
    assert ring.take(100) == []
    assert ring.overflow == 2


def test_vibrations_reach_the_source_in_its_thread_and_end_by_themselves() -> None:
    """A program that stands still does not leave hands shaking."""
    with SourceDevice(lambda: CountingSource(10**6)) as device:
        source = device.source
        assert source is not None
        time.sleep(0.02)
        assert source.felt == []
        device.vibrate({Side.RIGHT: 0.5, Side.LEFT: 0.0})
        time.sleep(0.3)
        felt = len(source.felt)
        assert felt > 5
        assert source.felt == [{Side.RIGHT: 0.5}] * felt  # zero is silence, not a weak pulse
        time.sleep(0.05)
        assert len(source.felt) == felt
        device.vibrate({Side.RIGHT: 1.0})
        device.vibrate({})  # the newest counts
        time.sleep(0.05)
        assert len(source.felt) <= felt + 1
    assert len(source.threads) == 1
    assert threading.get_ident() not in source.threads
    device.vibrate({Side.RIGHT: 1.0})  # closed: nothing to shake
