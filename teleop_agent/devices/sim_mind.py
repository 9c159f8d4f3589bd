"""What a simulated person intends: from what it has seen to strokes, squeezes and presses."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kinematics import Side, Waypoint
from kinematics.frames import Array, world_from_tracking

from ..errors import TeleopError
from ..frame import Button
from ..turns import norm, turn_log, turn_matrix
from .base import SceneView
from .sim_hand import SimHand
from .sim_sight import Sight
from .sim_stroke import SECOND_NS

Act = Iterator[None]
"""A course of action: yields whenever it waits for the next sample."""


@dataclass(frozen=True, slots=True)
class MindConfig:
    """Say how a person reacts, and what it believes of the teleoperation."""

    reaction_s: float = 0.2
    """From a sight to the act it causes: simple visual reaction time."""
    scale: float = 0.6
    """Believed tool metres for one of the hand's: the clutch's default."""
    scale_error: float = 0.0
    """Relative error of that belief: 0.1 believes 0.66."""
    facing_error: float = 0.0
    """Error of the believed facing [rad]."""
    aim_error: float = 0.03
    """Standard deviation of a stroke's end over its length, in each axis: aimed movements scatter
    in proportion to their speed (Schmidt 1979)."""
    lag_s: float = 0.1
    """What a person waits for the tool to come after the hand: 45 ms of filter and control, and
    the servo's rest."""
    hesitation_s: float = 0.1
    """Mean of the pause before a decision, exponentially distributed: people think."""
    fingers_s: float = 0.3
    """What it waits for the fingers: half their way at 0.1 m/s, and some."""
    press_s: float = 0.15
    """A tap on a button."""
    patience_s: float = 0.6
    """Without a response for so long, an action is tried again: well over reaction and lag."""
    short_stroke_m: float = 0.05
    """Arm and wrist have always room for corrections up to so much ..."""
    short_stroke_rad: float = 0.1
    """... and so much: the body gives."""

    def __post_init__(self) -> None:
        if not 0.05 <= self.reaction_s <= 1.0:
            raise TeleopError(f"reaction_s must be within 0.05 .. 1, got {self.reaction_s}")
        if not (self.scale > 0.0 and self.scale_error > -1.0):
            raise TeleopError(
                f"the believed scale must be > 0, got {self.scale} x (1 + {self.scale_error})"
            )
        if not (math.isfinite(self.facing_error) and self.aim_error >= 0.0):
            raise TeleopError(
                f"facing_error must be finite and aim_error >= 0, "
                f"got {self.facing_error} and {self.aim_error}"
            )
        for name in ("lag_s", "hesitation_s", "fingers_s", "press_s", "patience_s"):
            value = getattr(self, name)
            if not 0.0 <= value < 10.0:
                raise TeleopError(f"{name} must be within 0 .. 10 s, got {value}")


class _NothingToDoError(Exception):
    """The episode is over, whatever the person was about to do."""


class _LetGoError(Exception):
    """The arm does not follow any more, although the hand squeezes."""


class SimMind:
    """Move the hands so that the tools go where the waypoints, as seen, ask.

    Waypoints are met one at a time: the tool goes there first, then the gripper closes or opens.
    """

    def __init__(
        self,
        hands: Mapping[Side, SimHand],
        yaw: float,
        config: MindConfig,
        rng: np.random.Generator,
    ) -> None:
        """``yaw``: true facing left of tracking's -z [rad]."""
        self._hands, self._config, self._rng = hands, config, rng
        self._scale = config.scale * (1.0 + config.scale_error)
        believed = world_from_tracking(yaw + config.facing_error)
        self._R_tracking_world = believed.inv().as_matrix()
        self._reaction_ns = round(config.reaction_s * SECOND_NS)
        self._sight = Sight(self._reaction_ns)
        self._t_ns = 0
        self._squeezed: set[Side] = set()
        self._began_ns = 0
        self._script = self._live()
        self.episodes = 0
        """How many it has begun to work on."""
        self.clutches = 0
        """How often it has squeezed a grip."""
        self.working = Side.RIGHT
        """The hand that works, or did last."""

    @property
    def holding(self) -> bool:
        """Return whether the working hand has seen its arm follow, and has not let go since."""
        return self.working in self._squeezed

    def watch(self, view: SceneView) -> None:
        """Look at the scene; it is noticed a reaction time later."""
        self._sight.watch(view)

    def advance(self, t_ns: int) -> None:
        """Live on to ``t_ns``."""
        self._t_ns = t_ns
        self._sight.advance(t_ns)
        next(self._script)

    # The day of an operator.

    def _live(self) -> Act:
        while True:
            yield from self._rest()
            self.episodes += 1
            self._began_ns = self._t_ns
            try:
                yield from self._work()
            except _NothingToDoError:
                continue

    def _rest(self) -> Act:
        """Open the hands, bring them back, and wait for something to do."""
        begin_ns = self._t_ns
        self._squeezed.clear()
        for hand in self._hands.values():
            hand.buttons = Button.NONE
            hand.stop(self._t_ns)
            hand.grip.to(0.0, self._t_ns)
        yield from self._pause_until(lambda: self._hands_done(lambda hand: hand.grip.done))
        yield from self._pause_until(lambda: self._hands_done(lambda hand: hand.still))
        for hand in self._hands.values():
            hand.trigger.to(0.0, self._t_ns)
            hand.go_to_rest(self._t_ns)
        yield from self._pause_until(lambda: self._hands_done(lambda hand: hand.still))
        yield from self._pause_until(lambda: self._asked_since(begin_ns))

    def _work(self) -> Act:
        """Do what the waypoints ask until none is left, then press B."""
        while True:
            view = self._seen()
            if not view.waypoints:
                break
            try:
                yield from self._approach(view, view.waypoints[0])
            except _LetGoError:
                yield from self._let_go(self.working)
        hand = self._hands[Side.RIGHT]
        hand.buttons = Button.SECONDARY
        yield from self._pause(self._config.press_s)
        hand.buttons = Button.NONE
        yield from self._pause(self._config.patience_s)

    def _approach(self, view: SceneView, waypoint: Waypoint) -> Act:
        """Take the one next step towards a waypoint."""
        side, closure = waypoint.target.side, waypoint.target.closure
        self.working = side
        hand = self._hands[side]
        if side not in self._squeezed or not view.engaged.get(side, False):
            yield from self._squeeze(side)
            return
        by = self._needed(view, waypoint)
        far = norm(by[:3]) * self._scale > waypoint.tolerance_m
        turned = norm(by[3:]) > waypoint.tolerance_rad
        if far or turned:
            yield from self._reach(side, by, waypoint)
        elif abs(hand.trigger.goal - closure) > 0.05:
            yield from self._set_trigger(side, closure)
        else:
            yield from self._look_again(view, side, by, waypoint)

    # What a hand does.

    def _squeeze(self, side: Side) -> Act:
        """Open the hand, squeeze the grip and wait until the arm is seen to follow."""
        yield from self._let_go(side)
        begin_ns = self._t_ns
        self._hands[side].grip.to(1.0, begin_ns)
        self.clutches += 1
        while self._t_ns - begin_ns < round(self._config.patience_s * SECOND_NS):
            yield
            view = self._seen()
            if view.t_ns > begin_ns and view.engaged.get(side, False):
                self._squeezed.add(side)
                return

    def _let_go(self, side: Side) -> Act:
        """Stop the hand and open it fully."""
        hand = self._hands[side]
        self._squeezed.discard(side)
        hand.stop(self._t_ns)
        hand.grip.to(0.0, self._t_ns)
        yield from self._work_while(
            lambda: not (hand.grip.done(self._t_ns) and hand.still(self._t_ns))
        )
        yield from self._work_for(0.05)

    def _reach(self, side: Side, by: Array, waypoint: Waypoint) -> Act:
        """Move the hand by ``by`` (6,) [m, rad, tracking], as far as the arm has room."""
        config = self._config
        share = 1.0 if self._short(by) else self._hands[side].room(self._t_ns, by)
        if share == 1.0:
            yield from self._stroke(side, by, waypoint)
            yield from self._see_result(config.lag_s)
            return
        if self._short(share * by):
            share = 0.0
        else:
            yield from self._stroke(side, share * by, waypoint)
        yield from self._reclutch(side, (1.0 - share) * by)

    def _short(self, by: Array) -> bool:
        config = self._config
        return norm(by[:3]) <= config.short_stroke_m and norm(by[3:]) <= config.short_stroke_rad

    def _stroke(self, side: Side, by: Array, waypoint: Waypoint) -> Act:
        """Move the hand, scattering as aimed movements do."""
        hand = self._hands[side]
        scatter = self._config.aim_error * self._rng.standard_normal(6)
        scatter[:3] *= norm(by[:3])
        scatter[3:] *= norm(by[3:])
        width_m = 2.0 * waypoint.tolerance_m / self._scale
        hand.move(self._t_ns, by + scatter, width_m, 2.0 * waypoint.tolerance_rad)
        yield from self._work_while(lambda: not hand.still(self._t_ns))

    def _reclutch(self, side: Side, remaining: Array) -> Act:
        """Open the hand, bring it to where what remains fits in, and squeeze again."""
        hand = self._hands[side]
        yield from self._work_for(self._config.lag_s)
        yield from self._let_go(side)
        hand.move_to(self._t_ns, hand.place_for(remaining))
        yield from self._work_while(lambda: not hand.still(self._t_ns))
        yield from self._squeeze(side)

    def _set_trigger(self, side: Side, closure: float) -> Act:
        """Close or open the gripper; if the arm lets go meanwhile, take the trigger back."""
        hand = self._hands[side]
        before = hand.trigger.goal
        hand.trigger.to(closure, self._t_ns)
        try:
            yield from self._work_while(lambda: not hand.trigger.done(self._t_ns))
            yield from self._see_result(self._config.fingers_s)
        except _LetGoError:
            hand.trigger.to(before, self._t_ns)
            raise

    def _look_again(self, view: SceneView, side: Side, by: Array, waypoint: Waypoint) -> Act:
        """Wait while all looks done; after a while go closer than asked."""
        begin_ns = view.t_ns
        patience_ns = round(self._config.patience_s * SECOND_NS)
        while self._t_ns - begin_ns < patience_ns:
            yield from self._work_for(0.05)
            now = self._seen()
            if not now.waypoints or now.waypoints[0].target.closure != waypoint.target.closure:
                return
            if self._out_of_tolerance(now):
                return
        yield from self._stroke(side, by, waypoint)
        yield from self._see_result(self._config.lag_s)

    def _out_of_tolerance(self, view: SceneView) -> bool:
        waypoint = view.waypoints[0]
        by = self._needed(view, waypoint)
        far = norm(by[:3]) * self._scale > waypoint.tolerance_m
        return far or norm(by[3:]) > waypoint.tolerance_rad

    # What a person sees, and how it waits.

    def _needed(self, view: SceneView, waypoint: Waypoint) -> Array:
        """Return the hand's motion (6,) [m, rad, tracking] that would bring the tool there."""
        tool, target = view.tools[waypoint.target.side], waypoint.target
        move = (target.position - tool.position) / self._scale
        turn = turn_log(turn_matrix(target.quat_wxyz) @ turn_matrix(tool.quat_wxyz).T)
        return np.concatenate([self._R_tracking_world @ move, self._R_tracking_world @ turn])

    def _seen(self) -> SceneView:
        """Return what is seen of a running episode; raise once it has stopped."""
        view, stopped_ns = self._sight.seen, self._sight.stopped_ns
        stopped = stopped_ns is not None and stopped_ns > self._began_ns - self._reaction_ns
        if view is None or not view.running or stopped:
            raise _NothingToDoError
        return view

    def _asked_since(self, begin_ns: int) -> bool:
        view = self._sight.seen
        return view is not None and view.t_ns > begin_ns and view.running and bool(view.waypoints)

    def _see_result(self, lag_s: float) -> Act:
        """Wait until what was done has come about and been seen, and make up one's mind."""
        pause_s = self._config.hesitation_s * self._rng.standard_exponential()
        yield from self._work_for(lag_s + self._config.reaction_s + pause_s)

    def _work_for(self, seconds: float) -> Act:
        end_ns = self._t_ns + round(seconds * SECOND_NS)
        yield from self._work_while(lambda: self._t_ns < end_ns)

    def _work_while(self, busy: Callable[[], bool]) -> Act:
        """Wait, but notice the episode's end and a hand that the arm no longer follows."""
        while busy():
            yield
            engaged = self._seen().engaged.get(self.working, False)
            if self.working in self._squeezed and not engaged:
                raise _LetGoError

    def _pause(self, seconds: float) -> Act:
        end_ns = self._t_ns + round(seconds * SECOND_NS)
        yield from self._pause_until(lambda: self._t_ns >= end_ns)

    def _pause_until(self, over: Callable[[], bool]) -> Act:
        while not over():
            yield

    def _hands_done(self, what: Callable[[SimHand], Callable[[int], bool]]) -> bool:
        return all(what(hand)(self._t_ns) for hand in self._hands.values())
