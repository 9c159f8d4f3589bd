"""How a simulated hand and its fingers move: minimum-jerk strokes and ramps."""

from typing import NamedTuple

import numpy as np

from kinematics.frames import Array

from ...turns import turn_exp

SECOND_NS = 1_000_000_000
PEAK = 1.875
"""Peak speed of a minimum-jerk stroke over its mean speed (Flash and Hogan 1985)."""


class HandPose(NamedTuple):
    """Hold one pose of a hand in a frame that its owner names."""

    position: Array
    """(3,) [m]."""
    turn: Array
    """(3, 3)."""

    def moved(self, by: Array) -> "HandPose":
        """Return the pose after a motion (6,): translation [m], rotation vector [rad]."""
        return HandPose(self.position + by[:3], turn_exp(by[3:]) @ self.turn)


class Stroke:
    """Go from one pose to rest at another with the least jerk, whatever the speed at the start.

    A quintic in translation and in the rotation vector about the frame's axes (Flash and Hogan
    1985): ``by`` (6,) [m, rad] in ``duration_s``, from ``rate`` (6,) [1/s] and ``acceleration``
    (6,) [1/s2].
    """

    def __init__(
        self,
        begin_ns: int,
        duration_s: float,
        origin: HandPose,
        by: Array,
        rate: Array | None = None,
        acceleration: Array | None = None,
    ) -> None:
        self._begin_ns, self._duration_s, self._origin = begin_ns, duration_s, origin
        self.end_ns = begin_ns + round(duration_s * SECOND_NS)
        self.goal = origin.moved(by)
        v = np.zeros(6) if rate is None else rate * duration_s
        a = np.zeros(6) if acceleration is None else acceleration * duration_s**2
        self._coefficients = (
            v,
            0.5 * a,
            10.0 * by - 6.0 * v - 1.5 * a,
            -15.0 * by + 8.0 * v + 1.5 * a,
            6.0 * by - 3.0 * v - 0.5 * a,
        )

    def pose(self, t_ns: int) -> HandPose:
        """Return the pose at ``t_ns``; the goal from the end on."""
        if t_ns >= self.end_ns:
            return self.goal
        u = self._share(t_ns)
        c1, c2, c3, c4, c5 = self._coefficients
        return self._origin.moved(u * (c1 + u * (c2 + u * (c3 + u * (c4 + u * c5)))))

    def motion(self, t_ns: int) -> tuple[Array, Array]:
        """Return rate (6,) [1/s] and acceleration (6,) [1/s2] at ``t_ns``.

        Of the rotation vector, which is the angular velocity as long as the axis stays.
        """
        if t_ns >= self.end_ns:
            return np.zeros(6), np.zeros(6)
        u, duration_s = self._share(t_ns), self._duration_s
        c1, c2, c3, c4, c5 = self._coefficients
        rate = c1 + u * (2.0 * c2 + u * (3.0 * c3 + u * (4.0 * c4 + u * 5.0 * c5)))
        acceleration = 2.0 * c2 + u * (6.0 * c3 + u * (12.0 * c4 + u * 20.0 * c5))
        return rate / duration_s, acceleration / duration_s**2

    def _share(self, t_ns: int) -> float:
        return (t_ns - self._begin_ns) / SECOND_NS / self._duration_s


class Ramp:
    """Bring an analogue input from one value to another at a steady rate."""

    def __init__(self, full_s: float) -> None:
        """Take ``full_s`` for the whole way from 0 to 1."""
        self._full_s = full_s
        self._begin_ns, self._from, self.goal = 0, 0.0, 0.0

    def to(self, goal: float, t_ns: int) -> None:
        """Start for ``goal`` (0 .. 1) at ``t_ns``."""
        self._from, self._begin_ns, self.goal = self.value(t_ns), t_ns, goal

    def value(self, t_ns: int) -> float:
        """Return the input at ``t_ns``, 0 .. 1."""
        way = (t_ns - self._begin_ns) / SECOND_NS / self._full_s
        rest = self.goal - self._from
        return self.goal if way >= abs(rest) else self._from + (way if rest > 0.0 else -way)

    def done(self, t_ns: int) -> bool:
        """Return whether the input has come to its goal."""
        return self.value(t_ns) == self.goal
