"""Turn buttons into what the operator wants of the episode."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from kinematics import Side

from .errors import TeleopError
from .frame import Button, Controller, OperatorFrame


class EpisodeEvent(StrEnum):
    """Say what the operator asked for; ``collect`` acts on it."""

    GOOD = "good"
    """Keep the episode as a success (B)."""
    KEEP_FAILURE = "keep failure"
    """Keep the episode as a failure (B held)."""
    DISCARD = "discard"
    """Drop the episode (X)."""
    RESET = "reset"
    """Start over with the same seed (Y)."""
    REREFERENCE = "re-reference"
    """The facing was taken anew and the arms let go (A); done by the policy, told for the log."""
    REREFERENCE_REFUSED = "re-reference refused"
    """A was pressed, the arms were let go, but the headset's pose could not tell a facing."""
    REWIND = "rewind"
    """Go back along what was done (Y held) .."""
    REWIND_END = "rewind end"
    """.. until here (Y let go)."""
    DELETE_LAST = "delete last"
    """Take back the episode that was kept last (X held)."""
    PAUSE = "pause"
    """Pause or go on (both triggers held, no grip)."""


@dataclass(frozen=True, slots=True)
class ButtonConfig:
    """Tune presses."""

    hold_ns: int = 800_000_000
    """Longer than any tap, shorter than impatience."""
    pause_hold_ns: int = 1_000_000_000
    """Both triggers are also how grippers close; a second is no grasp by chance."""
    pause_carrying_ns: int = 3_000_000_000
    """If both were pulled before the grips opened, as when two hands that hold something take a
    new grip: twice as long as that lasts."""
    bounce_ns: int = 30_000_000
    """An opening shorter than this is a contact's bounce or a lost bit, no release."""
    max_gap_ns: int = 250_000_000
    """After a longer gap between frames nobody knows what a button did meanwhile."""
    pulled: float = 0.6
    """Trigger that counts as held, as the clutch's squeeze."""
    open: float = 0.4
    """Grip that counts as open, as the clutch's release."""
    touched: float = 0.1
    """Both triggers beyond this, with open grips, may be the beginning of a pause."""

    def __post_init__(self) -> None:
        if not 0 <= self.bounce_ns < self.hold_ns:
            raise TeleopError(
                f"bounce_ns must be within 0 .. hold_ns, got {self.bounce_ns}, {self.hold_ns}"
            )


class Press(Enum):
    """Name the moments of a press."""

    DOWN = auto()
    SHORT = auto()
    """Let go before the hold time."""
    HOLD = auto()
    """Still down at the hold time; fires once, and no SHORT follows."""
    UP = auto()
    """Let go after a hold."""


class PressDetector:
    """Watch one button; a press counts only after a release was seen."""

    def __init__(self, hold_ns: int, bounce_ns: int) -> None:
        self._hold_ns, self._bounce_ns = hold_ns, bounce_ns
        self._forget()

    def lose(self) -> Press | None:
        """Forget a press under way and ask for a release first; a hold thereby ends."""
        end = Press.UP if self._held else None
        self._forget()
        return end

    def _forget(self) -> None:
        self._armed = False
        self._down_ns: int | None = None
        self._up_ns: int | None = None
        self._held = False

    def update(self, t_ns: int, down: bool) -> Press | None:
        """Take the button's state at ``t_ns``."""
        if not self._armed:
            self._armed = not down
            return None
        if self._down_ns is None:
            self._down_ns = t_ns if down else None
            return Press.DOWN if down else None
        if down:
            self._up_ns = None
            if self._held or t_ns - self._down_ns < self._hold_ns:
                return None
            self._held = True
            return Press.HOLD
        return self._released(t_ns, self._down_ns)

    def _released(self, t_ns: int, down_ns: int) -> Press | None:
        if self._up_ns is None:
            self._up_ns = t_ns
        if t_ns - self._up_ns < self._bounce_ns:
            return None
        held, short = self._held, self._up_ns - down_ns < self._hold_ns
        self._down_ns, self._up_ns, self._held = None, None, False
        if held:
            return Press.UP
        return Press.SHORT if short else None


_MEANING: Mapping[tuple[Side, Button, Press | None], EpisodeEvent] = {
    (Side.RIGHT, Button.PRIMARY, Press.DOWN): EpisodeEvent.REREFERENCE,
    (Side.RIGHT, Button.SECONDARY, Press.SHORT): EpisodeEvent.GOOD,
    (Side.RIGHT, Button.SECONDARY, Press.HOLD): EpisodeEvent.KEEP_FAILURE,
    (Side.LEFT, Button.PRIMARY, Press.SHORT): EpisodeEvent.DISCARD,
    (Side.LEFT, Button.PRIMARY, Press.HOLD): EpisodeEvent.DELETE_LAST,
    (Side.LEFT, Button.SECONDARY, Press.SHORT): EpisodeEvent.RESET,
    (Side.LEFT, Button.SECONDARY, Press.HOLD): EpisodeEvent.REWIND,
    (Side.LEFT, Button.SECONDARY, Press.UP): EpisodeEvent.REWIND_END,
}


class ButtonPanel:
    """Watch all buttons of both controllers, whichever arms there are.

    Buttons count while they can be read, tracked or not; when they cannot, a press under way is
    forgotten.
    """

    def __init__(self, config: ButtonConfig | None = None) -> None:
        self._config = config = config or ButtonConfig()
        self._buttons = {
            (side, button): PressDetector(config.hold_ns, config.bounce_ns)
            for side in Side
            for button in (Button.PRIMARY, Button.SECONDARY)
        }
        self._triggers = PressDetector(config.pause_hold_ns, config.bounce_ns)
        self._carrying_triggers = PressDetector(config.pause_carrying_ns, config.bounce_ns)
        self._carrying = False
        """Whether both triggers have been pulled since before both grips were open."""
        self._last_ns: int | None = None

    def reset(self) -> list[EpisodeEvent]:
        """Forget presses under way and ask for releases first; return what thereby ends."""
        self._lose_triggers()
        ended = [(*key, detector.lose()) for key, detector in self._buttons.items()]
        return [_MEANING[key] for key in ended if key in _MEANING]

    def take(self, t_ns: int, frame: OperatorFrame) -> list[EpisodeEvent]:
        """Return what this frame, of session time ``t_ns``, asks for."""
        gap = self._last_ns is not None and t_ns - self._last_ns > self._config.max_gap_ns
        events = self.reset() if gap else []
        self._last_ns = t_ns
        for (side, button), detector in self._buttons.items():
            controller = frame.controllers[side]
            if controller.input_valid:
                press = detector.update(t_ns, button in controller.buttons)
            else:
                press = detector.lose()
            if (side, button, press) in _MEANING:
                events.append(_MEANING[side, button, press])
        if self._pause(t_ns, frame.controllers):
            events.append(EpisodeEvent.PAUSE)
        return events

    def may_pause(self, controllers: Mapping[Side, Controller]) -> bool:
        """Return whether both triggers are being pulled with open grips: for a pause, it seems."""
        return all(
            c.input_valid and c.trigger >= self._config.touched and c.grip <= self._config.open
            for c in controllers.values()
        )

    def _pause(self, t_ns: int, controllers: Mapping[Side, Controller]) -> bool:
        both = [controllers[side] for side in Side]
        if not all(c.input_valid for c in both):
            self._lose_triggers()
            return False
        pulled = all(c.trigger >= self._config.pulled for c in both)
        is_open = all(c.grip <= self._config.open for c in both)
        self._carrying = pulled and (self._carrying or not is_open)
        held, carrying = pulled and is_open, self._carrying
        presses = (
            self._triggers.update(t_ns, held and not carrying),
            self._carrying_triggers.update(t_ns, held and carrying),
        )
        return Press.HOLD in presses

    def _lose_triggers(self) -> None:
        self._triggers.lose()
        self._carrying_triggers.lose()
