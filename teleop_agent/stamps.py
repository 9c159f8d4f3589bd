"""Give every operator frame one trustworthy time, or a reason to drop it."""

from dataclasses import dataclass

from .frame import OperatorFrame
from .reasons import Reason


@dataclass(frozen=True, slots=True)
class StampConfig:
    """Bound what a time stamp may say."""

    max_age_ns: int = 250_000_000
    """A pose older than this when received is history, not the hand's place."""
    max_ahead_ns: int = 20_000_000
    """Clocks mapped across processes disagree by a few ms; more is a wrong stamp."""
    restart_frames: int = 10
    """Consecutive odd stamps that agree with each other before they are believed: 0.14 s at 72 Hz,
    so that a restarted sender is back within a second and no burst of noise is taken for one."""
    restart_spread_ns: int = 50_000_000
    """How far stamp and arrival intervals of such frames may differ: transport jitter."""


class StampGate:
    """Turn device stamps into strictly rising session times [ns].

    Odd stamps (repeated, in the past, in the future) are dropped. If they go on and agree with
    each other, the sender has restarted its clock: the new offset is taken over, once, with the
    reason CLOCK_RESTART, and time goes on. A stream that is merely late is never believed.
    """

    def __init__(self, config: StampConfig | None = None) -> None:
        self._config = config or StampConfig()
        self._offset_ns = 0
        self._last_ns: int | None = None
        self._odd: list[OperatorFrame] = []

    def take(self, frame: OperatorFrame) -> tuple[int, Reason | None]:
        """Return the frame's session time and None, CLOCK_RESTART or the reason to drop it."""
        t_ns = frame.t_device_ns + self._offset_ns
        reason = self._fault(t_ns, frame.t_recv_ns)
        if reason is Reason.LATE:
            self._odd.clear()
        elif reason is not None:
            if not self._restarted(frame):
                return t_ns, reason
            self._offset_ns = self._new_offset()
            t_ns = frame.t_device_ns + self._offset_ns
            reason = Reason.CLOCK_RESTART
        if reason is not Reason.LATE:
            self._odd.clear()
            self._last_ns = t_ns
        return t_ns, reason

    def _fault(self, t_ns: int, t_recv_ns: int) -> Reason | None:
        if t_ns - t_recv_ns > self._config.max_ahead_ns:
            return Reason.FUTURE_STAMP
        if self._last_ns is not None and t_ns <= self._last_ns:
            return Reason.DUPLICATE_STAMP if t_ns == self._last_ns else Reason.OLD_STAMP
        if t_recv_ns - t_ns > self._config.max_age_ns:
            return Reason.LATE
        return None

    def _restarted(self, frame: OperatorFrame) -> bool:
        if self._odd:
            device = frame.t_device_ns - self._odd[-1].t_device_ns
            arrival = frame.t_recv_ns - self._odd[-1].t_recv_ns
            if device <= 0 or abs(device - arrival) > self._config.restart_spread_ns:
                self._odd.clear()
        self._odd.append(frame)
        return len(self._odd) >= self._config.restart_frames

    def _new_offset(self) -> int:
        quickest = min(frame.t_recv_ns - frame.t_device_ns for frame in self._odd)
        plausible = -self._config.max_ahead_ns <= quickest <= self._config.max_age_ns
        return 0 if plausible else quickest
