"""What holds for every device, whatever its source."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from openvr_standin import StandInRuntime, pose_matrix

from kinematics import Side
from teleop_agent.clock import Clock, RealClock, VirtualClock
from teleop_agent.devices import Device, make_device
from teleop_agent.devices.trace_file import TraceWriter
from teleop_agent.errors import DeviceClosedError
from teleop_agent.frame import Controller, OperatorFrame, TrackedPose

PERIOD_NS = 10_000_000
"""Between two reads: more often than a device publishes, so that some reads are empty."""


def _openvr(request: pytest.FixtureRequest) -> str:
    runtime: StandInRuntime = request.getfixturevalue("runtime")
    runtime.add_controller(1, Side.RIGHT, pose_matrix((0.2, 1.0, -0.4)))
    return "openvr"


def _trace(request: pytest.FixtureRequest) -> str:
    path: Path = request.getfixturevalue("tmp_path") / "contract.jsonl"
    with TraceWriter(path, "contract") as writer:
        for seq in range(200):
            t_ns = 7_000 + seq * 11_111_111
            controllers = dict.fromkeys(Side, Controller())
            writer.write(OperatorFrame(seq, t_ns - 900, t_ns, TrackedPose(), controllers))
    return f"trace:{path}"


def _sim(request: pytest.FixtureRequest) -> str:
    return "sim"


NAMES: dict[str, Callable[[pytest.FixtureRequest], str]] = {"openvr": _openvr, "trace": _trace}
if find_spec("teleop_agent.devices.sim") is not None:
    NAMES["sim"] = _sim


@pytest.fixture(params=NAMES)
def device(request: pytest.FixtureRequest) -> Device:
    """Return a device that is not connected, and whose source is there."""
    return make_device(NAMES[request.param](request))


@pytest.fixture
def clock(device: Device) -> Clock:
    """Return the clock that fits the device."""
    return RealClock() if device.realtime else VirtualClock(123_456_789)


def gather(device: Device, clock: Clock, count: int) -> list[OperatorFrame]:
    """Read every period until there are ``count`` frames; check what one read may return."""
    frames: list[OperatorFrame] = []
    for _ in range(100 * count):
        now_ns = clock.now_ns()
        new = device.read(now_ns)
        assert all(frame.t_recv_ns <= now_ns for frame in new)
        frames += new
        if len(frames) >= count:
            return frames
        clock.sleep_until(now_ns + PERIOD_NS)
    raise AssertionError(f"{len(frames)} frames in {100 * count} reads, wanted {count}")


def test_frames_come_in_order_and_once(device: Device, clock: Clock) -> None:
    with device:
        frames = gather(device, clock, 20)
    assert [frame.seq - frames[0].seq for frame in frames] == list(range(len(frames)))
    received = [frame.t_recv_ns for frame in frames]
    measured = [frame.t_device_ns for frame in frames]
    assert received == sorted(received)
    assert measured == sorted(measured)
    assert all(frame.t_device_ns <= frame.t_recv_ns for frame in frames)
    assert device.overflow == 0


def test_a_second_read_at_the_same_time_returns_nothing(device: Device, clock: Clock) -> None:
    with device:
        gather(device, clock, 3)
        now_ns = clock.now_ns()
        seen = device.read(now_ns)
        again = device.read(now_ns)
        assert not {frame.seq for frame in seen} & {frame.seq for frame in again}
        assert again == []


def test_frames_are_whole_and_read_only(device: Device, clock: Clock) -> None:
    with device:
        frames = gather(device, clock, 5)
    for frame in frames:
        assert set(frame.controllers) == set(Side)
        for pose in (frame.head, *(hand.pose for hand in frame.controllers.values())):
            assert pose.matrix.shape == (3, 4)
            assert pose.matrix.dtype == np.float64
            with pytest.raises(ValueError, match="read-only"):
                pose.matrix[0, 0] = 1.0


def test_closing_twice_and_connecting_again(device: Device, clock: Clock) -> None:
    device.close()
    for _ in range(2):
        device.connect()
        assert len(gather(device, clock, 2)) >= 2
        device.close()
        device.close()
        with pytest.raises(DeviceClosedError):
            device.read(clock.now_ns())


def test_the_context_closes_after_an_error(device: Device, clock: Clock) -> None:
    with pytest.raises(ZeroDivisionError), device as same:
        assert same is device
        gather(device, clock, 1)
        raise ZeroDivisionError
    with pytest.raises(DeviceClosedError):
        device.read(clock.now_ns())
