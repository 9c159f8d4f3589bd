"""A hand that leaps at known times: a stimulus for measuring, read by a thread as SteamVR is."""

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from kinematics import Side

from ..clock import Clock, RealClock
from ..frame import Controller, OperatorFrame, TrackedPose
from .thread import FrameSource, ThreadedDevice

LEAP_M = 0.01
"""A fifth of what the guard calls a jump."""
GRIPS_S, FIRST_LEAP_S = 0.3, 1.0
"""After the hand's first sample."""
EVERY_S = (0.45, 0.55)
"""Between two leaps, drawn: they fall anywhere in the periods of device and control. By then the
arm has come to rest."""


class LeapingHand(ThreadedDevice):
    """Publish a right hand that grips and then leaps up and down by ``LEAP_M``."""

    def __init__(self, device_hz: int = 90, seed: int = 0) -> None:
        super().__init__("the leaping hand", device_hz, 1024)
        self._rng = np.random.default_rng(seed)
        self._lock = threading.Lock()
        self._times: list[int] = []

    def _open(self) -> FrameSource:
        with self._lock:
            gaps = self._rng.uniform(*EVERY_S, 4000)  # half an hour
            clock = RealClock()
            begin = clock.now_ns()
            self._times = [begin + round(1e9 * (FIRST_LEAP_S + t)) for t in np.cumsum(gaps)]
            return LeapingSource(clock, begin, self._times)

    @property
    def leaps_ns(self) -> Sequence[int]:
        """Return when the hand leaps, on the real clock [ns]."""
        with self._lock:
            return self._times


class LeapingSource:
    """Tell where the hand is at the moment of the call."""

    def __init__(self, clock: Clock, begin_ns: int, leaps_ns: Sequence[int]) -> None:
        """The hand is there from ``begin_ns`` and leaps at ``leaps_ns``, on ``clock`` [ns]."""
        self._clock, self._begin_ns, self._leaps_ns = clock, begin_ns, np.array(leaps_ns)
        self._seq = 0

    def poll(self) -> OperatorFrame:
        """Return where the hand is now."""
        t_ns = self._clock.now_ns()
        up = int(np.searchsorted(self._leaps_ns, t_ns, side="right")) % 2
        alive = 1e-9 * (self._seq % 2)  # no tracked hand is ever bit-still
        grip = float(t_ns - self._begin_ns > GRIPS_S * 1e9)
        pose = _tracked((0.2, 1.1 + LEAP_M * up + alive, -0.3))
        frame = OperatorFrame(
            seq=self._seq,
            t_device_ns=t_ns,
            t_recv_ns=self._clock.now_ns(),
            head=_tracked((0.0, 1.6, alive)),
            controllers={Side.RIGHT: Controller(pose, True, grip=grip), Side.LEFT: Controller()},
        )
        self._seq += 1
        return frame

    def vibrate(self, strengths: Mapping[Side, float]) -> None:
        """Feel nothing."""

    def close(self) -> None:
        """Release nothing."""


def _tracked(position: tuple[float, float, float]) -> TrackedPose:
    return TrackedPose(True, True, True, np.column_stack([np.eye(3), position]))
