"""Let a pose through only if it can be the hand's."""

import math
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kinematics.frames import Array

from .errors import TeleopError
from .frame import TrackedPose
from .reasons import Reason
from .turns import nearest_rotation, norm

NS = 1e-9
_DEFAULT_POSE = np.eye(4)[:3]


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """Bound what a controller's pose stream may do."""

    max_speed: float = 4.5
    """m/s; beyond any reach at a table, 5 cm between samples at 90 Hz."""
    max_turn_rate: float = 55.0
    """rad/s; beyond any wrist, 35 degrees between samples at 90 Hz."""
    max_gap_periods: float = 3.0
    """After a longer gap the gates grow no wider, else a late sample could leap anywhere."""
    max_age_ns: int = 250_000_000
    """Without a fresh sample for so long the hand's place is unknown: a hand moves 20 cm in it."""
    max_still_ns: int = 250_000_000
    """A tracked hand is never bit-still; engaged, a position repeated for so long is a frozen one,
    turning or not: a controller out of sight may still feel its turns."""
    settle_samples: int = 3
    """Consecutive samples that must agree before a stream is believed (again)."""
    repeat_periods: float = 1.5
    """A pose repeated sooner than this was read twice between two measurements and is skipped."""
    rigid_tolerance: float = 0.02
    """Largest entry of R'R - I. Runtimes' float32 gives 1e-6, chains of float32 products 1e-4;
    2 percent is far above both and far below any scale or shear that matters."""
    default_period_ns: int = 11_111_111
    """90 Hz, the fastest of Pico's rates, until the stream has shown its own."""

    def __post_init__(self) -> None:
        if self.settle_samples < 1:
            raise TeleopError(f"settle_samples must be at least 1, got {self.settle_samples}")
        if not (self.max_speed > 0.0 and self.max_turn_rate > 0.0):
            raise TeleopError(
                f"jump gates must be > 0, got {self.max_speed} m/s, {self.max_turn_rate} rad/s"
            )


class Sample(NamedTuple):
    """Hold one believed pose of a controller in the tracking frame."""

    t_ns: int
    position: Array
    """(3,) [m]."""
    turn: Array
    """(3, 3), orthonormal to rounding."""


def pose_fault(pose: TrackedPose, rigid_tolerance: float) -> Reason | None:
    """Return what is wrong with a pose by itself, or None."""
    if not pose.connected:
        return Reason.DISCONNECTED
    if not pose.valid:
        return Reason.INVALID
    if not pose.tracked:
        return Reason.UNTRACKED
    return matrix_fault(pose.matrix, rigid_tolerance)


def matrix_fault(matrix: Array, rigid_tolerance: float) -> Reason | None:
    """Return what keeps a matrix (3, 4) from being a measured pose, or None."""
    if not np.isfinite(matrix).all():
        return Reason.NON_FINITE
    if not matrix.any():
        return Reason.ZERO
    if np.array_equal(matrix, _DEFAULT_POSE):
        return Reason.IDENTITY
    turn = matrix[:, :3]
    gram = turn.T @ turn
    gram.flat[::4] -= 1.0
    if np.abs(gram).max() > rigid_tolerance:
        return Reason.NOT_RIGID
    return Reason.MIRRORED if np.linalg.det(turn) < 0.0 else None


class PoseGuard:
    """Judge one controller's stream, sample by sample; times are the stamp gate's.

    A fault or a jump makes the stream unsettled; it is believed again after ``settle_samples``
    consecutive samples that agree with each other, wherever they are.
    """

    def __init__(self, config: GuardConfig | None = None) -> None:
        self._config = config or GuardConfig()
        self._last: Sample | None = None
        self._matrix = np.full((3, 4), np.nan)
        self._serial = ""
        self._chain = 0
        self._changed_ns = 0
        self._still_since_ns = 0
        self._frozen = False
        self._gaps_ns: deque[int] = deque(maxlen=31)

    @property
    def settled(self) -> bool:
        """Return whether the stream is believed."""
        return self._chain >= self._config.settle_samples

    @property
    def period_ns(self) -> int:
        """Return the time between measurements [ns]: the median of the latest, 200 .. 30 Hz."""
        if len(self._gaps_ns) < 8:
            return self._config.default_period_ns
        median = sorted(self._gaps_ns)[len(self._gaps_ns) // 2]
        return min(max(median, 5_000_000), 33_333_333)

    def forget(self) -> None:
        """Make the stream unsettled, whatever comes next."""
        self._last, self._chain, self._frozen = None, 0, False

    def take(self, pose: TrackedPose, t_ns: int, engaged: bool) -> Sample | Reason:
        """Return the pose to use, or the reason why not; ``engaged`` arms the frozen check."""
        fault = pose_fault(pose, self._config.rigid_tolerance)
        if fault is not None:
            self.forget()
            return fault
        if pose.serial and pose.serial != self._serial:
            known, self._serial = self._serial, pose.serial
            if known:  # roles were swapped, which is no motion even if the two are close together
                self.forget()
                return Reason.OTHER_DEVICE
        last = self._last
        self._watch_position(pose.matrix[:, 3], t_ns, engaged)
        if last is not None and np.array_equal(pose.matrix, self._matrix):
            sample, again = last._replace(t_ns=t_ns), True
        else:
            sample, again = self._measured(pose, t_ns), False
        if self._frozen:
            self._last = sample
            return Reason.FROZEN
        if again and t_ns - self._changed_ns < self._config.repeat_periods * self.period_ns:
            return Reason.REPEAT
        return self._take_new(sample)

    def _measured(self, pose: TrackedPose, t_ns: int) -> Sample:
        if self._last is not None:
            self._gaps_ns.append(t_ns - self._last.t_ns)
        self._matrix, self._changed_ns = pose.matrix, t_ns
        return Sample(t_ns, pose.matrix[:, 3], nearest_rotation(pose.matrix[:, :3]))

    def _watch_position(self, position: Array, t_ns: int, engaged: bool) -> None:
        """Tell a position that stands still, to the bit, from one that only trembles."""
        still = self._last is not None and np.array_equal(position, self._matrix[:, 3])
        if not (still and engaged):
            self._still_since_ns = t_ns
        if not still:
            self._frozen = False
        elif t_ns - self._still_since_ns > self._config.max_still_ns:
            self._frozen, self._chain = True, 0

    def _take_new(self, sample: Sample) -> Sample | Reason:
        last, self._last = self._last, sample
        self._chain += 1
        if last is not None and sample.t_ns - last.t_ns > self._config.max_age_ns:
            self._chain = 1
            return Reason.STALE
        if last is not None and self._jumped(last, sample):
            self._chain = 1
            return Reason.JUMP
        return sample if self.settled else Reason.SETTLING

    def _jumped(self, last: Sample, sample: Sample) -> bool:
        # Never narrower than one period: stamps of a polled or bursty source lie close together
        # although the measurements do not.
        period = self.period_ns
        gap_ns = min(max(sample.t_ns - last.t_ns, period), self._config.max_gap_periods * period)
        gap = gap_ns * NS
        if norm(sample.position - last.position) > self._config.max_speed * gap:
            return True
        cosine = (float(np.vdot(last.turn, sample.turn)) - 1.0) / 2.0
        return math.acos(min(max(cosine, -1.0), 1.0)) > self._config.max_turn_rate * gap
