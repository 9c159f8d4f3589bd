"""Notice that the frame of tracking itself was moved: by a recentring, or a new room setup."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kinematics import Side
from kinematics.frames import Array

from .errors import TeleopError
from .frame import OperatorFrame, TrackedPose
from .guard import matrix_fault
from .turns import nearest_rotation, norm, turn_log

NS = 1e-9


@dataclass(frozen=True, slots=True)
class PlaySpaceConfig:
    """Bound what a body can do to head and hands together."""

    max_speed: float = 2.0
    """m/s; a person at a table does not move the head so fast, with the hands in line."""
    max_turn_rate: float = 8.0
    """rad/s; heads alone do turn so fast, but not with the hands around them."""
    min_gap_ns: int = 11_111_111
    """One sample at 90 Hz: a bursty source's stamps lie closer together than its measurements."""
    max_gap_ns: int = 33_333_333
    """Three samples at 90 Hz; a longer gap allows no longer leap, as for the guard."""
    window_ns: int = 50_000_000
    """Drivers publish device by device: the leaps of one recentring lie so close together."""
    agree_m: float = 0.02
    """Two devices' leaps are one rigid motion if they take a hand to places so near each other:
    what hands and head move in between by themselves."""
    agree_rad: float = 0.06
    """And turn it alike within 3.4 degrees."""

    def __post_init__(self) -> None:
        if not (self.max_speed > 0.0 and self.max_turn_rate > 0.0):
            raise TeleopError(
                "speeds of the play space must be > 0, "
                f"got {self.max_speed} m/s, {self.max_turn_rate} rad/s"
            )


class _Leap(NamedTuple):
    """Hold a device's step from ``start``: ``p_now = turn p_before + shift``, in tracking."""

    t_ns: int
    turn: Array
    shift: Array
    start: Array


class _Watch:
    """Remember one device's pose and its last leap."""

    def __init__(self, config: PlaySpaceConfig, tolerance: float) -> None:
        self._config, self._tolerance = config, tolerance
        self._t_ns = 0
        self._matrix: Array | None = None
        self.leap: _Leap | None = None

    def take(self, pose: TrackedPose, t_ns: int) -> None:
        if not (pose.connected and pose.valid and pose.tracked):
            return
        now, before = pose.matrix, self._matrix
        if before is not None:
            if np.array_equal(now, before):
                return  # read again between two measurements
            if self._is_motion(now, before, t_ns - self._t_ns):
                self._matrix, self._t_ns = now, t_ns
                return
        if matrix_fault(now, self._tolerance) is None:
            self._matrix, self._t_ns = now, t_ns
            if before is not None and matrix_fault(before, self._tolerance) is None:
                start = before[:, 3]
                turn = nearest_rotation(now[:, :3]) @ nearest_rotation(before[:, :3]).T
                self.leap = _Leap(t_ns, turn, now[:, 3] - turn @ start, start)

    def _is_motion(self, now: Array, before: Array, gap_ns: int) -> bool:
        """Return whether a body may have made this step; never, if a number is not finite."""
        config = self._config
        gap_s = NS * min(max(gap_ns, config.min_gap_ns), config.max_gap_ns)
        cosine = (float(np.vdot(now[:, :3], before[:, :3])) - 1.0) / 2.0
        near = norm(now[:, 3] - before[:, 3]) <= config.max_speed * gap_s
        return near and cosine >= math.cos(config.max_turn_rate * gap_s)


class PlaySpace:
    """Watch head and hands for a leap that all make together; and for the runtime's own word.

    A recentring is one rigid motion of everything that is tracked. Not every runtime tells of it
    and a small one is within what the guard lets a hand do; but no body moves its head and a hand
    as one piece, so fast.
    """

    def __init__(self, config: PlaySpaceConfig, rigid_tolerance: float) -> None:
        self._config = config
        self._head = _Watch(config, rigid_tolerance)
        self._hands = {side: _Watch(config, rigid_tolerance) for side in Side}
        self._count: int | None = None

    def moved(self, frame: OperatorFrame, t_ns: int) -> bool:
        """Take a frame, of session time ``t_ns``; return whether the space has just moved."""
        told = self._count is not None and frame.space != self._count
        self._count = frame.space
        self._head.take(frame.head, t_ns)
        for side, watch in self._hands.items():
            watch.take(frame.controllers[side].pose, t_ns)
        return self._leapt_together(t_ns) or told

    def _leapt_together(self, t_ns: int) -> bool:
        """Return whether the head and a hand leapt alike; tell of one recentring once."""
        head = self._head.leap
        if head is None or t_ns - head.t_ns > self._config.window_ns:
            return False
        for watch in self._hands.values():
            hand = watch.leap
            if hand is None or t_ns - hand.t_ns > self._config.window_ns:
                continue
            apart = head.turn @ hand.start + head.shift - (hand.turn @ hand.start + hand.shift)
            turned = norm(turn_log(head.turn.T @ hand.turn))
            if norm(apart) <= self._config.agree_m and turned <= self._config.agree_rad:
                self._head.leap = watch.leap = None
                return True
        return False
