"""What a simulated person can do with a hand, each act as a course in time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from kinematics import Side
from kinematics.frames import Array

from ...errors import TeleopError
from ...frame import Button
from ...turns import norm
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


class LetGoError(Exception):
    """Say that the arm does not follow any more, although the hand squeezes."""


class Actor:
    """Act with one hand of a person who watches what comes of it.

    Every act but ``relax``, ``go_to_rest`` and ``tap`` ends by ``EpisodeOverError`` once the
    episode is seen to be over, and by ``LetGoError`` once the arm is seen not to follow a hand that
    squeezes. The other hand is nobody's business here.
    """

    def __init__(
        self, side: Side, hand: SimHand, sight: Sight, config: ActConfig, rng: np.random.Generator
    ) -> None:
        self.side, self.hand, self.sight, self.config = side, hand, sight, config
        self._rng = rng
        self.holds = False
        """Whether the hand has seen its arm follow, and has not let go since."""
        self.clutches = 0
        """How often the grip was squeezed."""

    @property
    def t_ns(self) -> int:
        """Return the time [ns]."""
        return self.sight.t_ns

    # Whatever is to be seen.

    def relax(self) -> Act:
        """Stop the hand and open it."""
        hand, self.holds = self.hand, False
        hand.buttons = Button.NONE
        hand.stop(self.t_ns)
        hand.grip.to(0.0, self.t_ns)
        yield from self._until(self._is_open)
        hand.trigger.to(0.0, self.t_ns)

    def go_to_rest(self) -> Act:
        """Bring the hand to its rest."""
        self.hand.go_to_rest(self.t_ns)
        yield from self._until(self._is_open)

    def tap(self, button: Button) -> Act:
        """Press a button, and wait for a response."""
        self.hand.buttons = button
        yield from self._pause(self.config.press_s)
        self.hand.buttons = Button.NONE
        yield from self._pause(self.config.patience_s)

    # While the episode runs.

    def squeeze(self) -> Act:
        """Open the hand, squeeze the grip and wait until the arm is seen to follow, or not."""
        yield from self.let_go()
        begin_ns = self.t_ns
        self.hand.grip.to(1.0, begin_ns)
        self.clutches += 1
        while self.t_ns - begin_ns < round(self.config.patience_s * SECOND_NS):
            yield
            view = self.sight.running()
            if view.t_ns > begin_ns and view.engaged.get(self.side, False):
                self.holds = True
                return

    def let_go(self) -> Act:
        """Stop the hand and open it fully."""
        self.holds = False
        self.hand.stop(self.t_ns)
        self.hand.grip.to(0.0, self.t_ns)
        yield from self.work_until(self._is_open)
        yield from self.work_for(self.config.release_s)

    def stroke(self, by: Array, width_m: float, width_rad: float) -> Act:
        """Move the hand by ``by`` (6,) [m, rad, tracking], scattering as aimed movements do."""
        scatter = self.config.aim_error * self._rng.standard_normal(6)
        scatter[:3] *= norm(by[:3])
        scatter[3:] *= norm(by[3:])
        self.hand.move(self.t_ns, by + scatter, width_m, width_rad)
        yield from self.work_until(self._is_still)

    def make_room(self, remaining: Array) -> Act:
        """Bring the open hand to where what remains (6,) [m, rad] fits in."""
        self.hand.move_to(self.t_ns, self.hand.place_for(remaining))
        yield from self.work_until(self._is_still)

    def reclutch(self, remaining: Array) -> Act:
        """Open the hand, bring it to where what remains (6,) [m, rad] fits in, squeeze again."""
        yield from self.work_for(self.config.lag_s)
        yield from self.let_go()
        yield from self.make_room(remaining)
        yield from self.squeeze()

    def set_trigger(self, closure: float) -> Act:
        """Close or open the gripper; if the arm lets go meanwhile, take the trigger back."""
        trigger = self.hand.trigger
        before = trigger.goal
        trigger.to(closure, self.t_ns)
        try:
            yield from self.work_until(lambda: trigger.done(self.t_ns))
            yield from self.see_result(self.config.fingers_s)
        except LetGoError:
            trigger.to(before, self.t_ns)
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
            engaged = self.sight.running().engaged.get(self.side, False)
            if self.holds and not engaged:
                raise LetGoError

    def _pause(self, seconds: float) -> Act:
        end_ns = self.t_ns + round(seconds * SECOND_NS)
        yield from self._until(lambda: self.t_ns >= end_ns)

    @staticmethod
    def _until(over: Callable[[], bool]) -> Act:
        while not over():
            yield

    def _is_still(self) -> bool:
        return self.hand.still(self.t_ns)

    def _is_open(self) -> bool:
        return self.hand.grip.done(self.t_ns) and self._is_still()
