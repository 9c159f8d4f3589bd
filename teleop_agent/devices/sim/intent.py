"""What a simulated person means to do with a hand: from what it has seen to the next act."""

import math
from dataclasses import dataclass

import numpy as np

from kinematics import Waypoint
from kinematics.frames import Array, world_from_tracking

from ...errors import TeleopError
from ...turns import norm, turn_log, turn_matrix
from ..base import SceneView
from .acts import Act, Actor, LetGoError
from .stroke import SECOND_NS


@dataclass(frozen=True, slots=True)
class MindConfig:
    """Say what a person believes of the teleoperation."""

    scale: float = 0.6
    """Believed tool metres for one of the hand's: the clutch's default."""
    scale_error: float = 0.0
    """Relative error of that belief: 0.1 believes 0.66."""
    facing_error: float = 0.0
    """Error of the believed facing [rad]; 0 believes the true one."""
    closure_step: float = 0.05
    """A smaller difference of closure is not worth moving the trigger."""

    def __post_init__(self) -> None:
        if not (0.0 < self.scale < math.inf and -1.0 < self.scale_error < math.inf):
            raise TeleopError(
                f"the believed scale must be > 0, got {self.scale} x (1 + {self.scale_error})"
            )
        if not math.isfinite(self.facing_error):
            raise TeleopError(f"facing_error must be finite, got {self.facing_error}")


class Intent:
    """Move one hand so that its tool goes where the waypoints of its side, as seen, ask.

    Waypoints are met one at a time: the tool goes there first, then the gripper closes or opens.
    """

    def __init__(self, actor: Actor, yaw: float, config: MindConfig) -> None:
        """``yaw``: true facing, left of tracking's -z [rad]."""
        self._actor, self._config = actor, config
        self._scale = config.scale * (1.0 + config.scale_error)
        believed = world_from_tracking(yaw + config.facing_error)
        self._R_tracking_world = believed.inv().as_matrix()
        self.idle = True
        """Whether there is nothing for this hand to do: it stays as it is."""

    def work(self) -> Act:
        """Do what the waypoints ask of this hand, for ever."""
        actor = self._actor
        while True:
            try:
                view = actor.sight.running()
                waypoint = self._first(view)
                self.idle = waypoint is None
                if waypoint is None:
                    yield from actor.work_for(_GLANCE_S)
                else:
                    yield from self._approach(view, waypoint)
            except LetGoError:
                yield from actor.let_go()

    def _first(self, view: SceneView) -> Waypoint | None:
        """Return the first waypoint of this hand."""
        mine = (point for point in view.waypoints if point.target.side is self._actor.side)
        return next(mine, None)

    def _approach(self, view: SceneView, waypoint: Waypoint) -> Act:
        """Take the one next step towards a waypoint."""
        actor, target = self._actor, waypoint.target
        by = self._needed(view, waypoint)
        if not (actor.holds and view.engaged.get(target.side, False)):
            if actor.hand.is_away(actor.t_ns):
                yield from actor.make_room(by)
            yield from actor.squeeze()
        elif not self._met(by, waypoint):
            yield from self._reach(by, waypoint)
        elif self._differs(actor.hand.trigger.goal, target.closure):
            yield from actor.set_trigger(target.closure)
        else:
            yield from self._look_again(by, waypoint)

    def _reach(self, by: Array, waypoint: Waypoint) -> Act:
        """Move the hand by ``by`` (6,) [m, rad, tracking], as far as the arm has room."""
        actor, hand = self._actor, self._actor.hand
        share = hand.room(actor.t_ns, by)
        if share < 1.0 and hand.is_short(share * by):
            share = 0.0
        if share > 0.0:
            yield from self._stroke(share * by, waypoint)
        if share < 1.0:
            yield from actor.reclutch((1.0 - share) * by)
        else:
            yield from actor.see_result(actor.config.lag_s)

    def _look_again(self, by: Array, waypoint: Waypoint) -> Act:
        """Wait while all looks done; after a while go closer than asked."""
        actor = self._actor
        end_ns = actor.t_ns + round(actor.config.patience_s * SECOND_NS)
        while actor.t_ns < end_ns:
            yield from actor.work_for(_GLANCE_S)
            if self._changed(actor.sight.running(), waypoint):
                return
        yield from self._stroke(by, waypoint)
        yield from actor.see_result(actor.config.lag_s)

    def _stroke(self, by: Array, waypoint: Waypoint) -> Act:
        width_m = 2.0 * waypoint.tolerance_m / self._scale
        yield from self._actor.stroke(by, width_m, 2.0 * waypoint.tolerance_rad)

    # Judging what is seen.

    def _needed(self, view: SceneView, waypoint: Waypoint) -> Array:
        """Return the hand's motion (6,) [m, rad, tracking] that would bring the tool there."""
        tool, target = view.tools[waypoint.target.side], waypoint.target
        move = (target.position - tool.position) / self._scale
        turn = turn_log(turn_matrix(target.quat_wxyz) @ turn_matrix(tool.quat_wxyz).T)
        return np.concatenate([self._R_tracking_world @ move, self._R_tracking_world @ turn])

    def _met(self, by: Array, waypoint: Waypoint) -> bool:
        near = norm(by[:3]) * self._scale <= waypoint.tolerance_m
        return near and norm(by[3:]) <= waypoint.tolerance_rad

    def _changed(self, view: SceneView, before: Waypoint) -> bool:
        """Return whether there is something else to do than ``before``, or nothing."""
        waypoint = self._first(view)
        if waypoint is None or self._differs(waypoint.target.closure, before.target.closure):
            return True
        return not self._met(self._needed(view, waypoint), waypoint)

    def _differs(self, closure: float, other: float) -> bool:
        return abs(closure - other) > self._config.closure_step


_GLANCE_S = 0.05
"""Between two looks at something that should change by itself."""
