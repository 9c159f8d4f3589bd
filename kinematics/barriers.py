"""Barriers: distances that an arm's motion keeps, inside the IK's tick.

A gap between two bodies must not close faster than in proportion to what is left of it, a velocity
damper (Faverjon & Tournassoud 1987): with ``row`` the gap's gradient over the joints,

    row dq >= -rate dt max(gap, 0).

Along the surface nothing is taken from dq, so the tool slides; a gap that is negative from the
start must only not close any further, so dq = 0 always does and the arm is never pushed.

Rows and gaps are taken anew in every tick: with those of a tick before, the least squares would
find in the joints' null space a way to come nearer that is none, and run there at full speed.
"""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from .frames import Array
from .half_spaces import EXACT, move_within
from .names import as_index


class Barrier(NamedTuple):
    """Hold a plane in front of a point of the arm.

    Bodies are those of the IK's model, 0 the world; a point (3,) is in its body's frame [m].
    """

    body: int
    point: Array
    other: int
    """What carries the plane."""
    other_point: Array
    direction: Array
    """(3,) unit, in world, from the point to the plane."""
    least: float
    """m that the point keeps from the plane."""
    rate: float
    """Share of the gap that may close in a second [1/s]."""


class Barriers:
    """Keep an arm's increments within barriers, which stand for a control step."""

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        dofs: npt.NDArray[np.intp],
        speeds: Array,
    ) -> None:
        """``data`` is where the IK stands; addresses (n,) and limits (n,) [rad/s] of its joints."""
        n = len(dofs)
        self._model, self._data, self._dofs, self._n = model, data, as_index(dofs), n
        self._speeds = speeds.tolist()
        self._standing: Sequence[Barrier] = ()
        self._rows, self._moves, self._floors = np.zeros((0, n)), np.zeros(0), np.zeros(0)
        self._jac, self._full, self._point = (
            np.zeros((3, model.nv)),
            np.zeros(model.nv),
            np.zeros(3),
        )
        self.acted = False
        """One has changed a step since they were put up."""

    def set(self, barriers: Sequence[Barrier]) -> None:
        """Put up barriers in place of those before, without any that no joint can hurt."""
        self.acted = False
        if not barriers and not self._standing:
            return
        mujoco.mj_comPos(self._model, self._data)
        self._standing = [barrier for barrier in barriers if self._in_reach(barrier)]
        if len(self) != len(self._floors):
            m, n = len(self), self._n
            self._rows, self._moves, self._floors = np.zeros((m, n)), np.zeros(m), np.zeros(m)

    def __len__(self) -> int:
        return len(self._standing)

    def keep(
        self,
        step: Array,
        dt: float,
        hessian: Array,
        gradient: Array,
        drag: Array,
        lower: Array,
        upper: Array,
    ) -> None:
        """Bring ``step`` (n,) [rad], the least of a box QP, within the barriers too.

        If one acts it becomes the least of ``step' hessian step / 2 + (gradient + drag)' step``
        over the box and the barriers. The kinematics are those before the step.
        """
        for index, barrier in enumerate(self._standing):
            gap = self._look(barrier, self._rows[index])
            self._floors[index] = -dt * barrier.rate * max(gap, 0.0)
        mujoco.mju_mulMatVec(self._moves, self._rows, step)
        if bool((self._moves < self._floors - EXACT).any()):
            self.acted = True
            np.add(gradient, drag, out=gradient)
            move_within(step, hessian, gradient, self._rows, self._floors, lower, upper)

    def _in_reach(self, barrier: Barrier) -> bool:
        """Return whether the joints' speeds could close a gap faster than may be."""
        row = np.zeros(self._n)
        allowed = barrier.rate * max(self._look(barrier, row), 0.0)
        return sum(abs(r) * v for r, v in zip(row.tolist(), self._speeds, strict=True)) > allowed

    def _look(self, barrier: Barrier, row: Array) -> float:
        """Set a barrier's row (n,) [m/rad] and return its gap [m]."""
        row[:] = 0.0
        ahead = self._end(barrier.other, barrier.other_point, barrier.direction, row, 1.0)
        here = self._end(barrier.body, barrier.point, barrier.direction, row, -1.0)
        return ahead - here - barrier.least

    def _end(self, body: int, local: Array, direction: Array, row: Array, sign: float) -> float:
        """Add a point's motion along a direction to ``row``; return where on it the point is."""
        if body == 0:
            return mujoco.mju_dot3(local, direction)
        data, point = self._data, self._point
        mujoco.mju_mulMatVec3(point, data.xmat[body], local)
        mujoco.mju_addTo3(point, data.xpos[body])
        mujoco.mj_jac(self._model, data, self._jac, None, point, body)
        mujoco.mju_mulMatTVec(self._full, self._jac, direction)
        mujoco.mju_addToScl(row, self._full[self._dofs], sign)
        return mujoco.mju_dot3(point, direction)
