"""What a simulated person can do, each act as a course in time."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kinematics import Side
from kinematics.frames import Array

from ...errors import TeleopError
from ...frame import Button
from ...turns import norm
from ..base import SceneView
from .hand import SimHand
from .sight import Sight
from .stroke import SECOND_NS

Act = Iterator[None]
"""A course of action: yields whenever it waits for the next sample."""


@dataclass(frozen=True, slots=True)
class ActConfig:
    """Say how a person reacts, aims and waits."""

    reaction_s: float = 0.2
    """From a sight to the act it causes: simple visual reaction time."""
    aim_error: float = 0.03
    """Standard deviation of a stroke's end over its length, in each axis: aimed movements scatter
    in proportion to their speed (Schmidt 1979)."""
    lag_s: float = 0.1
    """What a person waits for the tool to come after the hand: 45 ms of filter and control, and
    the servo's rest."""
    fingers_s: float = 0.3
    """What it waits for the fingers: half their way at 0.1 m/s, and some."""
    hesitation_s: float = 0.1
    """Mean of the pause before a decision, exponentially distributed: people think."""
    release_s: float = 0.05
    """How long an open hand stays open before it squeezes again."""
    assurance_s: float = 0.3
    """For so long it must look done before a person says so."""
    press_s: float = 0.15
    """A tap on a button."""
    patience_s: float = 0.6
    """Without a response for so long, an act is tried again: well over reaction and lag."""

    def __post_init__(self) -> None:
        if not 0.05 <= self.reaction_s <= 1.0:
            raise TeleopError(f"reaction_s must be within 0.05 .. 1, got {self.reaction_s}")
        for name in self.__slots__:
            value = getattr(self, name)
            if not 0.0 <= value < 10.0:
                raise TeleopError(f"{name} must be within 0 .. 10, got {value}")


class EpisodeOverError(Exception):
    """Say that the episode is over, whatever the person was about to do."""


class LetGoError(Exception):
    """Say that the arm does not follow any more, although the hand squeezes."""


class Actor:
    """Act with the hands of a person who watches what comes of it.

    While ``working``, every act ends by ``EpisodeOverError`` once the episode is seen to be over,
    and by ``LetGoError`` once the arm is seen not to follow a hand that squeezes.
    """

    def __init__(
        self, hands: Mapping[Side, SimHand], config: ActConfig, rng: np.random.Generator
    ) -> None:
        self.hands, self.config, self._rng = hands, config, rng
        self.sight = Sight(round(config.reaction_s * SECOND_NS))
        self.t_ns = 0
        self.working = Side.RIGHT
        """The hand that works, or did last."""
        self.clutches = 0
        """How often a grip was squeezed."""
        self._holding: set[Side] = set()
        self._began_ns = 0

    def holds(self, side: Side) -> bool:
        """Return whether the hand has seen its arm follow, and has not let go since."""
        return side in self._holding

    def advance(self, t_ns: int) -> None:
        """Let it be ``t_ns`` [ns]."""
        self.t_ns = t_ns
        self.sight.advance(t_ns)

    def seen(self) -> SceneView:
        """Return what is seen of a running episode; raise once it is over."""
        view, stopped_ns = self.sight.seen, self.sight.stopped_ns
        if view is None or not view.running:
            raise EpisodeOverError
        if stopped_ns is not None and stopped_ns > self._began_ns - self.sight.reaction_ns:
            raise EpisodeOverError
        return view

    # With all hands.

    def begin(self) -> None:
        """Begin to work on an episode: only its own end counts."""
        self._began_ns = self.t_ns

    def relax(self) -> Act:
        """Stop and open all hands, whatever is to be seen."""
        self._holding.clear()
        for hand in self.hands.values():
            hand.buttons = Button.NONE
            hand.stop(self.t_ns)
            hand.grip.to(0.0, self.t_ns)
        yield from self.pause_until(self._all_open)
        for hand in self.hands.values():
            hand.trigger.to(0.0, self.t_ns)

    def go_to_rest(self) -> Act:
        """Bring all hands to their rest."""
        for hand in self.hands.values():
            hand.go_to_rest(self.t_ns)
        yield from self.pause_until(self._all_open)

    def tap(self, side: Side, button: Button) -> Act:
        """Press a button, and wait for a response."""
        self.hands[side].buttons = button
        yield from self.pause(self.config.press_s)
        self.hands[side].buttons = Button.NONE
        yield from self.pause(self.config.patience_s)

    # With the working hand.

    def squeeze(self) -> Act:
        """Open the hand, squeeze the grip and wait until the arm is seen to follow, or not."""
        yield from self.let_go()
        side, begin_ns = self.working, self.t_ns
        self.hands[side].grip.to(1.0, begin_ns)
        self.clutches += 1
        while self.t_ns - begin_ns < round(self.config.patience_s * SECOND_NS):
            yield
            view = self.seen()
            if view.t_ns > begin_ns and view.engaged.get(side, False):
                self._holding.add(side)
                return

    def let_go(self) -> Act:
        """Stop the hand and open it fully."""
        hand = self.hands[self.working]
        self._holding.discard(self.working)
        hand.stop(self.t_ns)
        hand.grip.to(0.0, self.t_ns)
        yield from self.work_until(lambda: hand.grip.done(self.t_ns) and hand.still(self.t_ns))
        yield from self.work_for(self.config.release_s)

    def stroke(self, by: Array, width_m: float, width_rad: float) -> Act:
        """Move the hand by ``by`` (6,) [m, rad, tracking], scattering as aimed movements do."""
        hand = self.hands[self.working]
        scatter = self.config.aim_error * self._rng.standard_normal(6)
        scatter[:3] *= norm(by[:3])
        scatter[3:] *= norm(by[3:])
        hand.move(self.t_ns, by + scatter, width_m, width_rad)
        yield from self.work_until(lambda: hand.still(self.t_ns))

    def reclutch(self, remaining: Array) -> Act:
        """Open the hand, bring it to where what remains (6,) [m, rad] fits in, squeeze again."""
        hand = self.hands[self.working]
        yield from self.work_for(self.config.lag_s)
        yield from self.let_go()
        hand.move_to(self.t_ns, hand.place_for(remaining))
        yield from self.work_until(lambda: hand.still(self.t_ns))
        yield from self.squeeze()

    def set_trigger(self, closure: float) -> Act:
        """Close or open the gripper; if the arm lets go meanwhile, take the trigger back."""
        hand = self.hands[self.working]
        before = hand.trigger.goal
        hand.trigger.to(closure, self.t_ns)
        try:
            yield from self.work_until(lambda: hand.trigger.done(self.t_ns))
            yield from self.see_result(self.config.fingers_s)
        except LetGoError:
            hand.trigger.to(before, self.t_ns)
            raise

    # Waiting.

    def see_result(self, lag_s: float) -> Act:
        """Wait until what was done has come about and been seen, and make up one's mind."""
        pause_s = self.config.hesitation_s * self._rng.standard_exponential()
        yield from self.work_for(lag_s + self.config.reaction_s + pause_s)

    def work_for(self, seconds: float) -> Act:
        """Wait for a time, watching."""
        end_ns = self.t_ns + round(seconds * SECOND_NS)
        yield from self.work_until(lambda: self.t_ns >= end_ns)

    def work_until(self, over: Callable[[], bool]) -> Act:
        """Wait, watching for the episode's end and a hand that its arm no longer follows."""
        while not over():
            yield
            engaged = self.seen().engaged.get(self.working, False)
            if self.holds(self.working) and not engaged:
                raise LetGoError

    def pause(self, seconds: float) -> Act:
        """Wait for a time, whatever happens."""
        end_ns = self.t_ns + round(seconds * SECOND_NS)
        yield from self.pause_until(lambda: self.t_ns >= end_ns)

    def pause_until(self, over: Callable[[], bool]) -> Act:
        """Wait, whatever else happens."""
        while not over():
            yield

    def _all_open(self) -> bool:
        t_ns = self.t_ns
        return all(hand.grip.done(t_ns) and hand.still(t_ns) for hand in self.hands.values())
