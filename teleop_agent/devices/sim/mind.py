"""What a simulated person intends: from what it has seen to the next act."""

import contextlib
import math
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from kinematics import Side, Waypoint
from kinematics.frames import Array, world_from_tracking

from ...errors import TeleopError
from ...frame import Button
from ...turns import norm, turn_log, turn_matrix
from ..base import SceneView
from .acts import Act, Actor, EpisodeOverError, LetGoError
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


class SimMind:
    """Move the hands so that the tools go where the waypoints, as seen, ask.

    Waypoints are met one at a time: the tool goes there first, then the gripper closes or opens.
    """

    def __init__(self, actor: Actor, yaw: float, config: MindConfig) -> None:
        """``yaw``: true facing, left of tracking's -z [rad]."""
        self._actor, self._config = actor, config
        self._scale = config.scale * (1.0 + config.scale_error)
        believed = world_from_tracking(yaw + config.facing_error)
        self._R_tracking_world = believed.inv().as_matrix()
        self._script = self._live()
        self.episodes = 0
        """How many it has begun to work on."""

    def advance(self, t_ns: int) -> None:
        """Live on to ``t_ns``."""
        self._actor.advance(t_ns)
        next(self._script)

    def _live(self) -> Act:
        actor = self._actor
        yield from actor.pause_until(lambda: self._asked_since(-1))
        while True:
            self.episodes += 1
            actor.begin()
            with contextlib.suppress(EpisodeOverError):
                yield from self._work()
            begin_ns = actor.t_ns
            yield from actor.relax()
            yield from actor.go_to_rest()
            yield from actor.pause_until(lambda begin_ns=begin_ns: self._asked_since(begin_ns))

    def _asked_since(self, begin_ns: int) -> bool:
        view = self._actor.sight.seen
        return view is not None and view.t_ns > begin_ns and view.running and bool(view.waypoints)

    def _work(self) -> Act:
        """Do what the waypoints ask until none is left, then press B."""
        actor, done = self._actor, False
        while not done:
            try:
                view = actor.seen()
                if view.waypoints:
                    yield from self._approach(view, view.waypoints[0])
                else:
                    done = yield from self._make_sure()
            except LetGoError:
                yield from actor.let_go()
        yield from actor.tap(Side.RIGHT, Button.SECONDARY)

    def _make_sure(self) -> Generator[None, None, bool]:
        """Return whether nothing is left to do for a moment: at a boundary it may come back."""
        actor = self._actor
        end_ns = actor.t_ns + round(actor.config.assurance_s * SECOND_NS)
        while actor.t_ns < end_ns:
            yield from actor.work_for(_GLANCE_S)
            if actor.seen().waypoints:
                return False
        return True

    def _approach(self, view: SceneView, waypoint: Waypoint) -> Act:
        """Take the one next step towards a waypoint."""
        actor, target = self._actor, waypoint.target
        actor.working = target.side
        if not (actor.holds(target.side) and view.engaged.get(target.side, False)):
            yield from actor.squeeze()
            return
        by = self._needed(view, waypoint)
        if not self._met(by, waypoint):
            yield from self._reach(by, waypoint)
        elif self._differs(actor.hands[target.side].trigger.goal, target.closure):
            yield from actor.set_trigger(target.closure)
        else:
            yield from self._look_again(by, waypoint)

    def _reach(self, by: Array, waypoint: Waypoint) -> Act:
        """Move the hand by ``by`` (6,) [m, rad, tracking], as far as the arm has room."""
        actor = self._actor
        hand = actor.hands[actor.working]
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
            view = actor.seen()
            if not view.waypoints or self._changed(view, waypoint):
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
        """Return whether there is something else to do than ``before``."""
        waypoint = view.waypoints[0]
        if waypoint.target.side is not before.target.side:
            return True
        if self._differs(waypoint.target.closure, before.target.closure):
            return True
        return not self._met(self._needed(view, waypoint), waypoint)

    def _differs(self, closure: float, other: float) -> bool:
        return abs(closure - other) > self._config.closure_step


_GLANCE_S = 0.05
"""Between two looks at something that should change by itself."""
