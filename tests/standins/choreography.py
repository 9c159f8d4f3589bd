"""What an operator does with both controllers, written down as frames, and a device that plays it.

    script = Script()
    script.engage()
    script.move(1.0, (0.0, 0.1, 0.0))
    script.press(Side.RIGHT, Button.SECONDARY)
    device = ScriptedDevice(script.frames)

Positions m and turns rad are in tracking: y up, -z forward for an operator of yaw 0.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from scipy.spatial.transform import Rotation

from kinematics import Side
from teleop_agent.devices import Device, SceneView
from teleop_agent.errors import DeviceClosedError
from teleop_agent.frame import Button, Controller, OperatorFrame, TrackedPose

SECOND_NS = 1_000_000_000
LATENCY_NS = 2_000_000
"""From measurement to arrival."""


class ScriptedHand:
    """Hold what one controller publishes; plain attributes to change between two acts."""

    def __init__(self, x: float, jitter_m: float) -> None:
        self.position = np.array([x, 1.1, -0.3])
        self.turn = Rotation.from_euler("yx", [0.3, -0.4])
        self.grip = self.trigger = 0.0
        self.stick = (0.0, 0.0)
        self.buttons = Button.NONE
        self.connected = self.valid = self.tracked = self.input_valid = True
        self.matrix: np.ndarray | None = None
        """Published instead of position and turn."""
        self.frozen = False
        """Publish the last pose again and again, whatever the hand does."""
        self._published = np.zeros((3, 4))
        self._jitter_m = jitter_m

    def controller(self, number: int) -> Controller:
        """Return the sample of this number."""
        if not self.connected:
            return Controller(TrackedPose())
        matrix = self._published if self.frozen else self.matrix
        if matrix is None:  # a tracked hand is never bit-still
            shake = self._jitter_m * math.sin(2.4 * number)
            matrix = np.column_stack([self.turn.as_matrix(), self.position + shake])
        self._published = matrix
        pose = TrackedPose(True, self.valid, self.tracked, matrix)
        if not self.input_valid:
            return Controller(pose)
        return Controller(pose, True, self.trigger, self.grip, self.stick, self.buttons)


class Script:
    """Write frames, act after act; ``frames`` is what came of it so far."""

    def __init__(self, hz: int = 90, yaw: float = 0.0, jitter_m: float = 1e-6) -> None:
        """``yaw``: facing of the head, left of tracking's -z [rad]."""
        self._period_ns = SECOND_NS // hz
        self.head = TrackedPose(True, True, True, _matrix((0.0, 1.6, 0.0), yaw))
        self.headset_worn, self.space = True, 0
        self._recentred = np.eye(4)
        self.right = ScriptedHand(0.2, jitter_m)
        self.left = ScriptedHand(-0.2, jitter_m)
        self.frames: list[OperatorFrame] = []
        self.marks: dict[str, int] = {}
        """By name, the number of the first frame after it."""

    @property
    def seconds(self) -> float:
        """Return how long it takes so far."""
        return len(self.frames) * self._period_ns / SECOND_NS

    def hand(self, side: Side) -> ScriptedHand:
        """Return a side's hand."""
        return self.right if side is Side.RIGHT else self.left

    def mark(self, name: str) -> None:
        """Name this moment."""
        self.marks[name] = len(self.frames)

    def hold(self, seconds: float) -> None:
        """Publish the hands as they are for this long."""
        for _ in range(self._count(seconds)):
            self._publish()

    def move(self, seconds: float, by: Sequence[float], side: Side = Side.RIGHT) -> None:
        """Move a hand on a minimum-jerk stroke."""
        hand = self.hand(side)
        start, count = hand.position, self._count(seconds)
        for n in range(1, count + 1):
            hand.position = start + minimum_jerk(n / count) * np.asarray(by, float)
            self._publish()

    def rotate(self, seconds: float, rotvec: Sequence[float], side: Side = Side.RIGHT) -> None:
        """Turn a hand on the spot about tracking's axes on a minimum-jerk stroke."""
        hand = self.hand(side)
        start, count = hand.turn, self._count(seconds)
        for n in range(1, count + 1):
            part = minimum_jerk(n / count) * np.asarray(rotvec, float)
            hand.turn = Rotation.from_rotvec(part) * start
            self._publish()

    def recentre(self, yaw: float, shift: Sequence[float]) -> None:
        """Move the play space under everything, and say so: a turn about its vertical, a shift."""
        change = np.eye(4)
        change[:3] = _matrix(shift, yaw)
        self._recentred = change @ self._recentred
        self.space += 1

    def look(self, yaw: float, seconds: float, position: Sequence[float] = (0.0, 1.6, 0.0)) -> None:
        """Turn only the head, at even speed, from straight ahead of yaw 0."""
        count = self._count(seconds)
        for n in range(1, count + 1):
            self.head = TrackedPose(True, True, True, _matrix(position, yaw * n / count))
            self._publish()

    def engage(self, side: Side = Side.RIGHT) -> None:
        """Open the grip, then squeeze it."""
        self.hand(side).grip = 0.0
        self.hold(0.1)
        self.hand(side).grip = 1.0
        self.hold(0.1)

    def press(self, side: Side, button: Button, seconds: float = 0.15) -> None:
        """Press a button for this long, then let it go."""
        hand = self.hand(side)
        hand.buttons |= button
        self.hold(seconds)
        hand.buttons &= ~button
        self.hold(0.1)

    def pull_both_triggers(self, seconds: float = 1.1) -> None:
        """Ask for a pause, or for its end: open grips, both triggers."""
        self.right.grip = self.left.grip = 0.0
        self.right.trigger = self.left.trigger = 1.0
        self.hold(seconds)
        self.right.trigger = self.left.trigger = 0.0
        self.hold(0.1)

    def _count(self, seconds: float) -> int:
        return max(1, round(seconds * SECOND_NS / self._period_ns))

    def _publish(self) -> None:
        number = len(self.frames)
        t_ns = number * self._period_ns
        hands = {side: self.hand(side).controller(number) for side in Side}
        if self.space:
            hands = {s: replace(hand, pose=self._moved(hand.pose)) for s, hand in hands.items()}
        self.frames.append(
            OperatorFrame(
                seq=number,
                t_device_ns=t_ns,
                t_recv_ns=t_ns + LATENCY_NS,
                head=self._moved(self.head),
                controllers=hands,
                headset_worn=self.headset_worn,
                space=self.space,
            )
        )

    def _moved(self, pose: TrackedPose) -> TrackedPose:
        """Return a pose as the recentred play space has it; a runtime's default stays one."""
        if not self.space or not pose.matrix.any():
            return pose
        matrix = self._recentred[:3, :3] @ pose.matrix
        matrix[:, 3] += self._recentred[:3, 3]
        return replace(pose, matrix=matrix)


class ScriptedDevice(Device):
    """Play frames on the session's clock, the first one at the first read."""

    realtime: ClassVar[bool] = False

    def __init__(
        self, frames: Sequence[OperatorFrame], end: Exception | None = None, eyes: bool = False
    ) -> None:
        """``end`` is raised after the last frame; by default the source is then over."""
        self._frames, self._next, self._shift_ns = frames, 0, 0
        self._end = end or DeviceClosedError("the script is over")
        self.has_eyes = eyes  # type: ignore[misc]
        self.views: list[SceneView] = []
        self.reads: list[int] = []
        self.felt: list[Mapping[Side, float]] = []
        self.lost = 0

    def connect(self) -> None:
        """Do nothing: the frames are there."""

    def close(self) -> None:
        """Do nothing."""

    @property
    def overflow(self) -> int:
        return self.lost

    def watch(self, view: SceneView) -> None:
        self.views.append(view)

    def vibrate(self, strengths: Mapping[Side, float]) -> None:
        self.felt.append(strengths)

    def read(self, now_ns: int) -> list[OperatorFrame]:
        if not self.reads:
            self._shift_ns = now_ns - self._frames[0].t_recv_ns
        self.reads.append(now_ns)
        if self._next == len(self._frames):
            raise self._end
        due: list[OperatorFrame] = []
        while self._next < len(self._frames):
            frame = self._frames[self._next]
            if frame.t_recv_ns + self._shift_ns > now_ns:
                break
            due.append(
                replace(
                    frame,
                    t_device_ns=frame.t_device_ns + self._shift_ns,
                    t_recv_ns=frame.t_recv_ns + self._shift_ns,
                )
            )
            self._next += 1
        return due


def minimum_jerk(s: float) -> float:
    """Return the share of a stroke done at the share ``s`` of its time."""
    return s**3 * (10.0 - 15.0 * s + 6.0 * s**2)


def _matrix(position: Sequence[float], yaw: float) -> np.ndarray:
    return np.column_stack([Rotation.from_rotvec([0.0, yaw, 0.0]).as_matrix(), position])
