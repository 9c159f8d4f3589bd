"""A small quadratic program: a box, and half-spaces besides.

For a handful of variables and a few dozen limits, without BLAS: the same bits under any of them.
"""

import mujoco
import numpy as np

from .frames import Array


def move_within(
    x: Array,
    hessian: Array,
    gradient: Array,
    rows: Array,
    floors: Array,
    lower: Array,
    upper: Array,
) -> bool:
    """Move ``x`` (n,) to the least of x' H x / 2 + g' x over rows x >= floors and the box.

    ``hessian`` (n, n) is positive definite, ``rows`` (m, n), ``floors`` (m,). Returns False, with
    ``x`` as it was, if nothing satisfies all limits.

    The dual has no limits but signs: with C x >= d for all, the multipliers are the least of
    k' (C H^-1 C') k / 2 - (d + C H^-1 g)' k over k >= 0, found by an active set (Lawson & Hanson
    1974), and x = H^-1 (C' k - g).
    """
    m, n = rows.shape
    factor, least, trial = hessian.copy(), np.zeros(n), np.zeros(n)
    mujoco.mju_cholFactor(factor, 0.0)
    mujoco.mju_cholSolve(least, factor, gradient)
    np.negative(least, out=least)
    limits, slack = np.concatenate([floors, lower, -upper]), np.empty(m + 2 * n)
    active: list[_Limit] = []
    trial[:] = least
    for _ in range(_MOST * (m + 2 * n)):
        mujoco.mju_mulMatVec(slack[:m], rows, trial)
        slack[m : m + n], slack[m + n :] = trial, -trial
        np.subtract(slack, limits, out=slack)
        least_slack = slack.min()
        slack[[limit.index for limit in active]] = 0.0
        worst = int(slack.argmin())
        if slack[worst] >= -EXACT:
            if least_slack < -_MISSED:  # active limits that contradict each other
                return False
            x[:] = trial
            return True
        row = np.zeros(n)
        if worst < m:
            row[:] = rows[worst]
        else:
            row[(worst - m) % n] = 1.0 if worst < m + n else -1.0
        active.append(_Limit(worst, row, float(limits[worst]), factor, least))
        if not _settle(active):
            return False
        trial[:] = least
        for limit in active:
            mujoco.mju_addToScl(trial, limit.response, limit.force)
    return False


class _Limit:
    """Hold an active limit and the force, its multiplier, that holds it."""

    __slots__ = ("force", "index", "lack", "response", "row")

    def __init__(self, index: int, row: Array, bound: float, factor: Array, least: Array) -> None:
        self.index, self.row, self.force = index, row, 0.0
        self.response = np.zeros(len(row))
        mujoco.mju_cholSolve(self.response, factor, row)
        self.lack = bound - mujoco.mju_dot(row, least)


def _settle(active: list[_Limit]) -> bool:
    """Set the forces that hold the active limits; drop those that would have to pull.

    Returns False if no forces do.
    """
    while active:
        k = len(active)
        gram, new = np.zeros((k, k)), np.zeros(k)
        for i, one in enumerate(active):
            for j, other in enumerate(active[: i + 1]):
                gram[i, j] = gram[j, i] = mujoco.mju_dot(one.row, other.response)
            gram[i, i] *= 1.0 + _INDEPENDENT
        if mujoco.mju_cholFactor(gram, 0.0) < k:
            return False
        mujoco.mju_cholSolve(new, gram, np.array([limit.lack for limit in active]))
        wanted = list(zip(active, new.tolist(), strict=True))
        if min(force for _, force in wanted) > 0.0:
            for limit, force in wanted:
                limit.force = force
            return True
        # Go toward the new forces until the first one vanishes.
        share = min(limit.force / (limit.force - force) for limit, force in wanted if force <= 0.0)
        for limit, force in wanted:
            limit.force += share * (force - limit.force)
        active[:] = [limit for limit in active if limit.force > _NO_FORCE]
    return True


EXACT = 1e-8
"""What a limit may be missed by: as m or rad in a tick of 5 ms 2 um/s, which nothing shows."""
_MISSED = 1e-6
"""The same of active limits, which ``_INDEPENDENT`` lets give way a little."""
_INDEPENDENT = 1e-10
"""Keeps the dual's matrix definite when two limits are one, as those of two corners of an edge."""
_NO_FORCE = 1e-15
_MOST = 4
"""Changes of the active set for each limit; seldom are there more than twenty in all."""
