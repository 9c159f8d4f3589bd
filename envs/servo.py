"""From joint references to what the position servos get at every physics step.

A servo with gains kp and kv trails a moving reference by kv / kp seconds, so its velocity is fed
forward: ``ctrl = q + (kv / kp) v``. Steps of v would ask the wrist for more torque than it has, so
v is continuous: it runs linearly from one tick's increment to the next and is blended in over the
first half of every control period, at most 10 ms.
"""

from dataclasses import dataclass

import mujoco
import numpy as np

from kinematics.frames import Array


@dataclass(frozen=True, slots=True, eq=False)
class _Blend:
    """Hold what follows a number of IK ticks in one control step, and the room to do it in."""

    weights: Array
    """(n_substeps, 2 ticks + 2): share of each of ``inputs`` in ctrl."""
    inputs: Array
    """(2 ticks + 2, n): where each tick starts [rad], the velocity [rad/s], and the increments of
    the tick before and of each tick [rad]."""
    tick_time: float
    """s"""


class JointServo:
    """Turn joint references into ctrl for one arm; remembers the velocity it left off with."""

    def __init__(
        self, n_joints: int, n_substeps: int, timestep: float, servo_time: float, ctrlrange: Array
    ) -> None:
        """``ctrlrange`` (n, 2) [rad]; ``servo_time`` kv / kp [s]; ``timestep`` of physics [s]."""
        self._n, self._substeps, self._timestep = n_joints, n_substeps, timestep
        self._servo_time = servo_time
        self._lower, self._upper = (np.tile(bound, (n_substeps, 1)) for bound in ctrlrange.T)
        self._ctrl = np.zeros((n_substeps, n_joints))
        self.velocity = np.zeros(n_joints)
        """(n,) [rad/s] fed forward at the last physics step."""
        self._blends: dict[int, _Blend] = {}

    def reset(self) -> None:
        """Stand still."""
        self.velocity[:] = 0.0

    def follow(self, postures: Array, previous: Array, out: Array) -> None:
        """Write ctrl (n_substeps, n) for equally spaced ``postures`` (ticks + 1, n) [rad].

        The first posture is where the reference stands now; ``previous`` (n,) is the increment of
        the tick before it [rad].
        """
        ticks = len(postures) - 1
        if ticks not in self._blends:
            self._blends[ticks] = self._blend(ticks)
        blend = self._blends[ticks]
        inputs, starts = blend.inputs, postures[:-1]
        inputs[:ticks] = starts
        inputs[ticks] = self.velocity
        inputs[ticks + 1] = previous
        np.subtract(postures[1:], starts, out=inputs[ticks + 2 :])
        mujoco.mju_mulMatMat(self._ctrl, blend.weights, inputs)
        np.maximum(self._ctrl, self._lower, out=out)
        np.minimum(out, self._upper, out=out)
        np.divide(inputs[-1], blend.tick_time, out=self.velocity)

    def _blend(self, ticks: int) -> _Blend:
        """Return the weights that make ctrl of a number of ticks.

        At the share s of tick k the reference stands s d[k] past q[k] and moves at
        v = ((1 - s) d[k-1] + s d[k]) / tick_time, blended with the old velocity u by b:
        ctrl = q[k] + s d[k] + servo_time (b v + (1 - b) u). At the end s = b = 1: u becomes d / t.
        """
        per_tick = self._substeps // ticks
        time = per_tick * self._timestep
        ramp = min(self._substeps / 2, _BLEND_TIME / self._timestep)
        weights = np.zeros((self._substeps, 2 * ticks + 2))
        for row in range(self._substeps):
            tick, count = divmod(row, per_tick)
            share, b = (count + 1) / per_tick, min(1.0, (row + 1) / ramp)
            weights[row, tick] = 1.0
            weights[row, ticks] = self._servo_time * (1.0 - b)
            weights[row, ticks + 1 + tick] = self._servo_time * b * (1.0 - share) / time
            weights[row, ticks + 2 + tick] = share + self._servo_time * b * share / time
        return _Blend(weights, np.zeros((2 * ticks + 2, self._n)), time)


_BLEND_TIME = 0.010
"""s; half a period at 50 Hz. At 20 Hz a whole half costs 4 mm of tracking instead of 3."""


class GripperServo:
    """Move a gripper's reference toward the commanded closure at a bounded speed."""

    def __init__(
        self, n_substeps: int, timestep: float, max_speed: float, ctrl_open: float, closed: float
    ) -> None:
        """``max_speed`` in units of ctrl a second, between ``ctrl_open`` and ``closed``."""
        self._open, self._closed = ctrl_open, closed
        self.reference = ctrl_open
        """The last ctrl."""
        self._reach = max_speed * timestep * np.arange(1, n_substeps + 1)
        self._back = -self._reach

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
        if wanted == 0.0:
            out[:] = self.reference
            return
        if wanted < 0.0:
            np.maximum(wanted, self._back, out=out)
        else:
            np.minimum(wanted, self._reach, out=out)
        np.add(out, self.reference, out=out)
        self.reference = float(out[-1])
