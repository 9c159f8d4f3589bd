"""From joint references to what the position servos get at every physics step.

A servo with gains kp and kv trails a moving reference by kv / kp seconds, so its velocity is fed
forward: ``ctrl = q + (kv / kp) v``. Steps of v would ask the wrist for more torque than it has, so
v is continuous: it runs linearly from one tick's increment to the next and is blended in over 10 ms
of every control period. Where that is shorter, an increment is mostly noise of the tracker in the
hand, and the blending goes on over several periods: v is their running average.
"""

from collections.abc import Sequence

import mujoco
import numpy as np

from kinematics.frames import Array


class JointServo:
    """Turn joint references into ctrl for one arm; remembers the velocity it left off with.

    A control step of ``ticks`` equal parts is a row for each of: where the parts start [rad], the
    velocity left off with [rad/s], and the increments of the part before and of each part [rad].
    Ctrl is a product of these with weights that depend on nothing else.
    """

    def __init__(
        self,
        n_joints: int,
        n_substeps: int,
        n_ticks: int,
        timestep: float,
        servo_time: float,
        ctrlrange: Array,
    ) -> None:
        """``ctrlrange`` (n, 2) [rad]; ``servo_time`` kv / kp [s]; ``timestep`` of physics [s]."""
        self._substeps, self._timestep = n_substeps, timestep
        self._servo_time = servo_time
        self._lower, self._upper = (np.tile(bound, (n_substeps, 1)) for bound in ctrlrange.T)
        self._ctrl = np.zeros((n_substeps, n_joints))
        rows = np.zeros((2 * n_ticks + 2, n_joints))
        self._starts, self.velocity, self._before, self._moves = (
            rows[:n_ticks],
            rows[n_ticks],
            rows[n_ticks + 1],
            rows[n_ticks + 2 :],
        )
        period = n_substeps * timestep
        self._ramp = _BLEND_TIME if period > _SHORT else _BLEND_LAG + period / 2.0
        self._kept = max(0.0, 1.0 - period / self._ramp)
        # A single part takes the rows next to the middle.
        self._all, self._single = rows, rows[n_ticks - 1 : n_ticks + 3]
        self._weights, self._single_weights = self._blend(n_ticks), self._blend(1)
        self._tick_time, self._time = (n_substeps * timestep / parts for parts in (n_ticks, 1))

    velocity: Array
    """(n,) [rad/s] fed forward at the last physics step."""

    def reset(self) -> None:
        """Stand still."""
        self.velocity[:] = 0.0

    def follow(self, postures: Array, previous: Array, out: Array) -> None:
        """Write ctrl (n_substeps, n) for equally spaced ``postures`` (ticks + 1, n) [rad].

        The first posture is where the reference stands now; ``previous`` (n,) is the increment of
        the tick before it [rad].
        """
        starts = postures[:-1]
        self._starts[:] = starts
        self._before[:] = previous
        np.subtract(postures[1:], starts, out=self._moves)
        self._write(self._weights, self._all, out)
        if self._kept:
            self._average(self._moves[-1] / self._tick_time)
        else:
            np.divide(self._moves[-1], self._tick_time, out=self.velocity)

    def glide(
        self, start: Sequence[float], move: Sequence[float], out: Array, inside: bool
    ) -> None:
        """Write ctrl (n_substeps, n) for one even ``move`` (n,) [rad] from ``start`` (n,) [rad].

        ``inside``: the joints are so far from the ends of their ctrl that none can pass them.
        """
        rows, time = self._single, self._time
        rows[0] = start
        rows[2] = rows[3] = move
        self._write(self._single_weights, rows, out, inside)
        speeds = [step / time for step in move]
        if self._kept:
            self._average(np.array(speeds))
        else:
            self.velocity[:] = speeds

    def _average(self, velocity: Array) -> None:
        """Leave off between the velocity before and the latest (n,) [rad/s], where ctrl ended."""
        self.velocity *= self._kept
        self.velocity += (1.0 - self._kept) * velocity

    def _write(self, weights: Array, rows: Array, out: Array, inside: bool = False) -> None:
        mujoco.mju_mulMatMat(self._ctrl, weights, rows)
        if inside:
            out[:] = self._ctrl
        else:
            np.maximum(self._ctrl, self._lower, out=out)
            np.minimum(out, self._upper, out=out)

    def _blend(self, ticks: int) -> Array:
        """Return the weights (n_substeps, 2 ticks + 2) that make ctrl of a number of ticks.

        At the share s of tick k the reference stands s d[k] past q[k] and moves at
        v = ((1 - s) d[k-1] + s d[k]) / tick_time, blended with the old velocity u by b:
        ctrl = q[k] + s d[k] + servo_time (b v + (1 - b) u). At the end s = 1: u becomes b v + (1 -
        b) u, which is d / t where the blending has ended, b = 1.
        """
        per_tick = self._substeps // ticks
        time = per_tick * self._timestep
        ramp = self._ramp / self._timestep
        weights = np.zeros((self._substeps, 2 * ticks + 2))
        for row in range(self._substeps):
            tick, count = divmod(row, per_tick)
            share, b = (count + 1) / per_tick, min(1.0, (row + 1) / ramp)
            weights[row, tick] = 1.0
            weights[row, ticks] = self._servo_time * (1.0 - b)
            weights[row, ticks + 1 + tick] = self._servo_time * b * (1.0 - share) / time
            weights[row, ticks + 2 + tick] = share + self._servo_time * b * share / time
        return weights


_BLEND_TIME = 0.010
"""s; half a period at 50 Hz. At 20 Hz a whole half costs 4 mm of tracking instead of 3."""
_SHORT = 0.015
"""s; at 100 and 200 Hz a period is shorter."""
_BLEND_LAG = 0.0075
"""s by which v then lags in the mean. A tracker (0.3 mm, 0.1 degree) shakes the wrist's torque by
4 Nm rms, as at 50 Hz; blended in within 5 ms it was 6, a tenth of the time at the joints' limits.
More lag would cost more tracking than 3 mm at 0.7 m/s: 2.8 now, 1.9 before."""


class GripperServo:
    """Move a gripper's reference toward the commanded closure at a bounded speed."""

    def __init__(
        self, n_substeps: int, timestep: float, max_speed: float, ctrl_open: float, closed: float
    ) -> None:
        """``max_speed`` in units of ctrl a second, between ``ctrl_open`` and ``closed``."""
        self._open, self._closed = ctrl_open, closed
        self.reference = ctrl_open
        """The last ctrl."""
        self._reach = [max_speed * timestep * step for step in range(1, n_substeps + 1)]

    @property
    def closure(self) -> float:
        """Return the reference as closure, 0 open .. 1 closed."""
        return (self.reference - self._open) / (self._closed - self._open)

    def reset(self, reference: float) -> None:
        """Stand at ``reference``, a ctrl."""
        self.reference = reference

    def follow(self, closure: float, out: Array) -> None:
        """Write ctrl (n_substeps,) on the way to ``closure`` (0 open .. 1 closed)."""
        wanted = self._open + closure * (self._closed - self._open) - self.reference
        start = self.reference
        if wanted == 0.0:
            out[:] = start
            return
        if wanted < 0.0:
            way = [start + max(wanted, -reach) for reach in self._reach]
        else:
            way = [start + min(wanted, reach) for reach in self._reach]
        out[:] = way
        self.reference = way[-1]
