"""Keep one step of the target within speed, acceleration and workspace."""

from enum import IntFlag
from typing import NamedTuple

import numpy as np

from kinematics import SpeedLimits, Workspace
from kinematics.frames import Array

from .turns import shortened


class Clamp(IntFlag):
    """Name what kept the tool's target from where the hand asked for it."""

    NONE = 0
    WORKSPACE = 1
    """The wall of the workspace, or the braking before it."""
    SPEED = 2
    ACCELERATION = 4
    LEASH = 8
    """The environment accepted less than the last step asked for."""


class Step(NamedTuple):
    """Hold the change of a target in one control step, in world."""

    move: Array
    """(3,) [m]."""
    turn: Array
    """(3,) rotation vector [rad]."""


STILL = Step(np.zeros(3), np.zeros(3))


class StepLimiter:
    """Shorten the steps of one arm's target.

    Speed comes first, acceleration then holds the step near the last one, the workspace is last.
    Each only ever shortens towards a step that is already allowed, so that a later one cannot
    break an earlier. The caller slides the clutch's anchor by what was lost: the hand then asks
    for the limited target, and the way back, or a stop, counts at once. Braking after a dead stop
    of the hand therefore runs out in a straight line and ends at rest; nothing pulls the tool
    back, so it cannot oscillate, and at rest no limit acts, so it cannot creep.
    """

    def __init__(self, limits: SpeedLimits, workspace: Workspace, period_s: float) -> None:
        self._max_move = limits.linear * period_s
        self._max_turn = limits.angular * period_s
        self._max_move_change = limits.linear_acceleration * period_s**2
        self._max_turn_change = limits.angular_acceleration * period_s**2
        self._lower, self._upper = workspace.lower, workspace.upper
        self._R_base_world = workspace.T_world_base.rotation.as_matrix().T
        self._base = workspace.T_world_base.translation

    def limit(self, position: Array, wanted: Step, last: Step) -> tuple[Step, Clamp]:
        """Return the allowed step from ``position`` (3,) in world, and what acted.

        ``last`` is the target's last change. It may have been faster than allowed, when the
        environment drew its target back; what follows may not.
        """
        last = Step(shortened(last.move, self._max_move), shortened(last.turn, self._max_turn))
        move = shortened(wanted.move, self._max_move)
        turn = shortened(wanted.turn, self._max_turn)
        fast = move is not wanted.move or turn is not wanted.turn
        slow_move = _near(move, last.move, self._max_move_change)
        slow_turn = _near(turn, last.turn, self._max_turn_change)
        abrupt = slow_move is not move or slow_turn is not turn
        kept = self._keep_inside(position, slow_move)
        clamps = Clamp.SPEED if fast else Clamp.NONE
        clamps |= Clamp.ACCELERATION if abrupt else Clamp.NONE
        clamps |= Clamp.WORKSPACE if kept is not slow_move else Clamp.NONE
        return Step(kept, slow_turn), clamps

    def _keep_inside(self, position: Array, move: Array) -> Array:
        """Return ``move`` without what would pass a wall, or could not brake before it.

        A target outside the box is not pulled in (that would be a leap); it may only come back.
        """
        inside = self._R_base_world @ (position - self._base)
        along = self._R_base_world @ move
        kept = np.clip(along, -self._room(inside - self._lower), self._room(self._upper - inside))
        return move if np.array_equal(kept, along) else self._R_base_world.T @ kept

    def _room(self, distance: Array) -> Array:
        """Return the longest steps (3,) from which braking at the limit ends before the wall.

        In units of the change a step may have: steps k + f, k - 1 + f, .. f (f in 0 .. 1) cover
        k (k + 1) / 2 + (k + 1) f, which is the distance.
        """
        units = np.maximum(distance, 0.0) / self._max_move_change
        k = np.floor(np.sqrt(0.25 + 2.0 * units) - 0.5)
        return self._max_move_change * (0.5 * k + units / (k + 1.0))


def _near(step: Array, last: Array, most: float) -> Array:
    """Return ``step``, or the step towards it that differs from ``last`` by ``most``."""
    change = step - last
    allowed = shortened(change, most)
    return step if allowed is change else last + allowed
