"""Waiting for what a device with a thread of its own will publish."""

import time
from collections.abc import Callable

from teleop_agent.clock import RealClock
from teleop_agent.devices import Device
from teleop_agent.frame import OperatorFrame

DEADLINE_S = 10.0
"""Far beyond what any wait takes; reaching it is the failure."""


def frames_until(device: Device, wanted: Callable[[OperatorFrame], bool]) -> list[OperatorFrame]:
    """Read until a frame is as ``wanted``; return all frames read, the last read's included."""
    clock = RealClock()
    deadline_ns = clock.now_ns() + int(DEADLINE_S * 1e9)
    frames: list[OperatorFrame] = []
    while clock.now_ns() < deadline_ns:
        new = device.read(clock.now_ns())
        frames += new
        if any(wanted(frame) for frame in new):
            return frames
        time.sleep(0.001)
    raise AssertionError(f"no frame as wanted in {DEADLINE_S} s; the last is {frames[-1:]}")


def frame_after(device: Device, wanted: Callable[[OperatorFrame], bool]) -> OperatorFrame:
    """Read until a frame is as ``wanted`` and return it."""
    return next(filter(wanted, frames_until(device, wanted)))


def error_of(device: Device, kind: type[Exception]) -> tuple[list[OperatorFrame], Exception]:
    """Read until ``kind`` is raised; return the frames read before and the error."""
    clock = RealClock()
    deadline_ns = clock.now_ns() + int(DEADLINE_S * 1e9)
    frames: list[OperatorFrame] = []
    while clock.now_ns() < deadline_ns:
        try:
            frames += device.read(clock.now_ns())
        except kind as error:
            return frames, error
        time.sleep(0.001)
    raise AssertionError(f"no {kind.__name__} in {DEADLINE_S} s")


def wait_for(condition: Callable[[], bool]) -> None:
    """Return once ``condition`` holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not so within {DEADLINE_S} s")
        time.sleep(0.005)
