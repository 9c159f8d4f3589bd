"""From joint references to what the position servos get at every physics step.

A servo with gains kp and kv trails a moving reference by kv / kp seconds, so its velocity is fed
forward: ``ctrl = q + (kv / kp) v``. Steps of v would ask the wrist for more torque than it has, so
v is continuous: it runs linearly from one tick's increment to the next and is blended in over the
first half of every control period, at most 10 ms.
"""

import numpy as np

from kinematics.frames import Array


class JointServo:
    """Turn joint references into ctrl for one arm; remembers the velocity it left off with."""

    def __init__(
        self, n_joints: int, n_substeps: int, timestep: float, servo_time: float, ctrlrange: Array
    ) -> None:
        """``ctrlrange`` (n, 2) [rad]; ``servo_time`` kv / kp [s]; ``timestep`` of physics [s]."""
        self._n, self._substeps, self._timestep = n_joints, n_substeps, timestep
        self._servo_time = servo_time
        self._lower, self._upper = ctrlrange[:, 0].copy(), ctrlrange[:, 1].copy()
        self.velocity = np.zeros(n_joints)
        """(n,) [rad/s] fed forward at the last physics step."""
        count = np.arange(1, n_substeps + 1)
        self._blend = np.minimum(1.0, count / min(n_substeps / 2, _BLEND / timestep))[:, None]
        self._unblend = 1.0 - self._blend

    def reset(self) -> None:
        """Stand still."""
        self.velocity[:] = 0.0

    def follow(self, postures: Array, previous: Array, out: Array) -> None:
        """Write ctrl (n_substeps, n) for equally spaced ``postures`` (ticks + 1, n) [rad].

        The first posture is where the reference stands now; ``previous`` (n,) is the increment of
        the tick before it [rad].
        """
        ticks = len(postures) - 1
        per_tick = self._substeps // ticks
        share = (np.arange(1, per_tick + 1) / per_tick)[:, None]
        increments = np.diff(postures, axis=0)
        before = np.concatenate([previous[None], increments[:-1]])
        q = postures[:-1, None] + share * increments[:, None]
        v = before[:, None] + share * (increments - before)[:, None]
        v = v.reshape(self._substeps, self._n) / (per_tick * self._timestep)
        v = self._blend * v + self._unblend * self.velocity
        self.velocity = v[-1].copy()
        np.add(q.reshape(self._substeps, self._n), self._servo_time * v, out=out)
        np.clip(out, self._lower, self._upper, out=out)


_BLEND = 0.010
"""s; half a period at 50 Hz. At 20 Hz a whole half costs 4 mm of tracking instead of 3."""


class GripperServo:
    """Move a gripper's reference toward the commanded opening at a bounded speed."""

    def __init__(
        self, n_substeps: int, timestep: float, max_speed: float, ctrlrange: Array
    ) -> None:
        """``max_speed`` [m/s] and ``ctrlrange`` (2,) [m] of one finger; ctrl is 0 when closed."""
        self.stroke = float(ctrlrange[1])
        self.reference = self.stroke
        """m of one finger; the last ctrl."""
        self._reach = max_speed * timestep * np.arange(1, n_substeps + 1)

    def reset(self, reference: float) -> None:
        """Stand at ``reference`` [m] of one finger."""
        self.reference = reference

    def follow(self, closure: float, out: Array) -> None:
        """Write ctrl (n_substeps,) [m] on the way to ``closure`` (0 open .. 1 closed)."""
        wanted = (1.0 - closure) * self.stroke - self.reference
        np.clip(wanted, -self._reach, self._reach, out=out)
        out += self.reference
        self.reference = float(out[-1])
