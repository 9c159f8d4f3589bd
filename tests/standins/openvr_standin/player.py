"""Serving a recorded stream through the stand-in runtime, in real time."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import openvr

from kinematics import Side
from teleop_agent.clock import RealClock
from teleop_agent.devices.trace_file import TraceWriter
from teleop_agent.frame import Button, Controller, OperatorFrame, TrackedPose

from .runtime import StandInRuntime

_HEADSET = 0
_INDICES = {Side.RIGHT: 1, Side.LEFT: 2}
_ACTIVITY = {
    True: openvr.k_EDeviceActivityLevel_UserInteraction,
    False: openvr.k_EDeviceActivityLevel_Standby,
}
_BUTTON_IDS = {
    Button.PRIMARY: openvr.k_EButton_A,
    Button.SECONDARY: openvr.k_EButton_ApplicationMenu,
    Button.STICK: openvr.k_EButton_Axis0,
}


class Player:
    """Play ``frames`` from a thread, each when its ``t_recv_ns`` says, from the moment of start.

    ``frames`` come from ``read_trace`` or a device. The constructor connects both controllers and
    serves the first frame, so that a program may connect before the start. ``served`` grows by
    what was put into the runtime: matrices rounded to float32 as OpenVR holds them, times when it
    was done.
    """

    def __init__(
        self,
        runtime: StandInRuntime,
        frames: Sequence[OperatorFrame],
        indices: Mapping[Side, int] = _INDICES,
        waits: Mapping[int, Callable[[], bool]] | None = None,
    ) -> None:
        """``waits``: the frames, by number, before which the hands stand still until it is so."""
        self._waits = waits or {}
        self._runtime = runtime
        self._frames = frames
        self._indices = indices
        self._clock = RealClock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._play, name="player")
        self.served: list[OperatorFrame] = []
        for side, index in indices.items():
            runtime.add_controller(index, side)
        self._serve(frames[0])

    def start(self) -> None:
        """Begin to play."""
        self._thread.start()

    def wait(self) -> None:
        """Return once the last frame is served."""
        self._thread.join()

    def write_served(self, path: Path) -> None:
        """Write what was served as a trace."""
        with TraceWriter(path, "openvr stand-in") as writer:
            for frame in self.served:
                writer.write(frame)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _play(self) -> None:
        shift_ns = self._clock.now_ns() - self._frames[0].t_recv_ns
        for frame in self._frames[1:]:
            if frame.seq in self._waits:
                while not (self._waits[frame.seq]() or self._stop.wait(0.01)):
                    pass
                shift_ns = self._clock.now_ns() - frame.t_recv_ns
            self._clock.sleep_until(frame.t_recv_ns + shift_ns)
            if self._stop.is_set():
                return
            self._serve(frame)

    def _serve(self, frame: OperatorFrame) -> None:
        with self._runtime.changing():
            self._serve_pose(_HEADSET, frame.head)
            self._runtime.wear_headset(frame.headset_worn, _ACTIVITY[frame.headset_worn])
            for side, index in self._indices.items():
                self._serve_pose(index, frame.controllers[side].pose)
                self._serve_inputs(index, frame.controllers[side])
            now_ns = self._clock.now_ns()
        self.served.append(
            replace(
                frame,
                seq=len(self.served),
                t_device_ns=now_ns,
                t_recv_ns=now_ns,
                head=_as_float32(frame.head),
                controllers={
                    side: replace(controller, pose=_as_float32(controller.pose))
                    for side, controller in frame.controllers.items()
                },
            )
        )

    def _serve_pose(self, index: int, pose: TrackedPose) -> None:
        tracked, lost = openvr.TrackingResult_Running_OK, openvr.TrackingResult_Running_OutOfRange
        with self._runtime.changing() as world:
            self._runtime.move(index, pose.matrix)
            self._runtime.track(index, tracked if pose.tracked else lost, pose.valid)
            world.devices[index].connected = pose.connected

    def _serve_inputs(self, index: int, controller: Controller) -> None:
        pressed = [number for button, number in _BUTTON_IDS.items() if button in controller.buttons]
        self._runtime.set_inputs(
            index,
            pressed=pressed,
            trigger=controller.trigger,
            grip=controller.grip,
            stick=controller.stick,
        )


def find_served(recorded: Sequence[OperatorFrame], served: Sequence[OperatorFrame]) -> list[int]:
    """Return which served frame each recorded one shows, by the bits of its three matrices.

    A reader polls: it may see a served frame twice or never, but in order and nothing else.
    Raises AssertionError at the first recorded frame that was not served, or not in its turn.
    """
    keys = [_key(frame) for frame in served]
    found: list[int] = []
    for frame in recorded:
        start = found[-1] if found else 0
        key = _key(frame)
        if key not in keys[start:]:
            raise AssertionError(f"recorded frame {frame.seq} was not served after {start}")
        found.append(keys.index(key, start))
    return found


def _key(frame: OperatorFrame) -> bytes:
    poses = [frame.head, *(frame.controllers[side].pose for side in Side)]
    return b"".join(pose.matrix.tobytes() for pose in poses)


def _as_float32(pose: TrackedPose) -> TrackedPose:
    """Return the pose as the runtime hands it out: a disconnected device's matrix is zero."""
    rounded = pose.matrix.astype(np.float32).astype(np.float64)
    return replace(pose, matrix=rounded if pose.connected else np.zeros((3, 4)))
