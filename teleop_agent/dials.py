"""What the thumb sticks change while the arm is in use: scales, and which motion is let through."""

from dataclasses import dataclass
from enum import Enum, auto

from .clutch import ClutchConfig, Lock, Ratio
from .errors import TeleopError


@dataclass(frozen=True, slots=True)
class DialConfig:
    """Tune the thumb sticks."""

    flicked: float = 0.7
    """Deflection that counts as a flick; a thumb at rest stays below half of it."""
    centred: float = 0.3
    """Deflection below which the next flick may come."""
    straight: float = 2.0
    """A flick is this much farther along its axis than across: a diagonal means nothing."""
    step: float = 1.25
    """Factor of a flick: three double or halve, which is coarse enough to feel."""
    span: float = 4.0
    """Largest factor from the configured scale, both ways."""
    turn_span: float = 4.0
    """The same of rotation, which is 1:1 by default."""

    def __post_init__(self) -> None:
        if not 0.0 < self.centred < self.flicked < 1.0:
            raise TeleopError(
                "stick thresholds must rise 0 < centred < flicked < 1, "
                f"got centred {self.centred}, flicked {self.flicked}"
            )
        if not (self.step > 1.0 and self.span >= 1.0 and self.turn_span >= 1.0):
            raise TeleopError(
                "step must be > 1, span and turn_span >= 1, "
                f"got {self.step}, {self.span}, {self.turn_span}"
            )


class Flick(Enum):
    """Name the directions of a flick."""

    UP = auto()
    DOWN = auto()
    RIGHT = auto()
    LEFT = auto()


class FlickDetector:
    """Watch one stick; a flick counts only after the stick was seen centred."""

    def __init__(self, config: DialConfig) -> None:
        self._config, self._armed = config, False

    def lose(self) -> None:
        """Ask for a centred stick first."""
        self._armed = False

    def update(self, stick: tuple[float, float]) -> Flick | None:
        """Take the stick's x (right) and y (up), each -1 .. 1."""
        x, y = stick
        across, along = sorted((abs(x), abs(y)))
        if not self._armed:
            self._armed = along <= self._config.centred
            return None
        # Written so that what is no number is no flick.
        if not (along >= self._config.flicked and along >= self._config.straight * across):
            return None
        self._armed = False
        if abs(y) >= abs(x):
            return Flick.UP if y > 0.0 else Flick.DOWN
        return Flick.RIGHT if x > 0.0 else Flick.LEFT


_LOCKS = tuple(Lock)


class Dials:
    """Hold one hand's scales and lock; they outlive episodes, as an operator's habits do.

    Up and down change what the hand is doing: the scale, in fine mode the fine share, with
    ``Lock.TURN`` the rotation's scale. Right and left go round the locks.
    """

    def __init__(self, config: DialConfig, clutch: ClutchConfig) -> None:
        self._config, self._clutch = config, clutch
        self._stick = FlickDetector(config)
        self._scale, self._fine, self._turn = clutch.scale, clutch.fine, 1.0
        self._lock = Lock.FREE

    def ratio(self, fine: bool) -> Ratio:
        """Return what holds now."""
        return Ratio(self._scale * (self._fine if fine else 1.0), self._turn, self._lock)

    def lose(self) -> None:
        """Forget the stick, which could not be read."""
        self._stick.lose()

    def take(self, stick: tuple[float, float], fine: bool) -> str | None:
        """Take the stick as read; return in words what it changed, if anything."""
        flick = self._stick.update(stick)
        if flick is None:
            return None
        if flick in (Flick.RIGHT, Flick.LEFT):
            by = 1 if flick is Flick.RIGHT else -1
            self._lock = _LOCKS[(_LOCKS.index(self._lock) + by) % len(_LOCKS)]
            return str(self._lock)
        factor = self._config.step if flick is Flick.UP else 1.0 / self._config.step
        if self._lock is Lock.TURN:
            self._turn = _within(self._turn * factor, 1.0, self._config.turn_span)
            return f"rotation scale {self._turn:.2f}"
        if fine:
            self._fine = min(
                _within(self._fine * factor, self._clutch.fine, self._config.span), 1.0
            )
            return f"fine scale {self._scale * self._fine:.3f}"
        self._scale = _within(self._scale * factor, self._clutch.scale, self._config.span)
        return f"scale {self._scale:.2f}"


def _within(value: float, middle: float, span: float) -> float:
    """Return ``value`` within a factor ``span`` of ``middle``, and exactly there when near it."""
    if abs(value / middle - 1.0) < 1e-9:  # up and down again lands where it began
        return middle
    return min(max(value, middle / span), middle * span)
