"""What the operator feels: a small language of vibrations, since the screen is out of sight."""

from collections import deque
from collections.abc import Iterable, Mapping
from enum import StrEnum

from kinematics import Side

from .errors import TeleopError
from .limits import Clamp
from .policy import HandStep
from .reasons import HandState


class Cue(StrEnum):
    """Name what is felt; a later one is more urgent, and is not replaced by an earlier one."""

    LIMIT = "limit"
    RELEASED = "released"
    ENGAGED = "engaged"
    RECORDING = "recording"
    SAVED = "saved"
    FAILED = "failed"
    DISCARDED = "discarded"
    HELD = "held"


MEANINGS = {
    Cue.LIMIT: "the arm slides along a limit; again every 0.3 s meanwhile",
    Cue.RELEASED: "the arm no longer follows this hand",
    Cue.ENGAGED: "the arm follows this hand",
    Cue.RECORDING: "an episode has begun",
    Cue.SAVED: "the episode is on the disk as a success",
    Cue.FAILED: "the episode is on the disk as a failure",
    Cue.DISCARDED: "the episode is gone",
    Cue.HELD: "the arm is held: tracking lost, dashboard open, headset off, ...",
}

Pattern = tuple[tuple[float, float], ...]
"""Seconds and amplitude (0 .. 1) of one piece after the other."""

PATTERNS: dict[Cue, Pattern] = {
    Cue.LIMIT: ((0.04, 0.25),),
    Cue.RELEASED: ((0.04, 0.3),),
    Cue.ENGAGED: ((0.06, 0.6),),
    Cue.RECORDING: ((0.06, 0.5), (0.06, 0.0), (0.06, 0.5)),
    Cue.SAVED: ((0.08, 0.4), (0.06, 0.0), (0.08, 0.7), (0.06, 0.0), (0.14, 1.0)),
    Cue.FAILED: ((0.2, 0.7), (0.1, 0.0), (0.2, 0.7)),
    Cue.DISCARDED: ((0.15, 0.8), (0.15, 0.3)),
    Cue.HELD: ((0.4, 1.0),),
}
"""Short and weak for what comes often, long and strong for what asks for an answer. The shortest is
two steps at 50 Hz: a motor takes some 20 ms to be felt."""

_LIMITS = ~(Clamp.SPEED | Clamp.ACCELERATION)
"""What is felt as a limit; those two act in every quick motion."""
_LIMIT_AGAIN_S = 0.3


class Haptics:
    """Turn what becomes of hands and episodes into the strength of each controller's vibration."""

    def __init__(self, control_hz: int, strength: float = 1.0) -> None:
        """``strength`` 0 (nothing) .. 1 scales every amplitude. Raises TeleopError."""
        if not 0.0 <= strength <= 1.0:
            raise TeleopError(f"haptic strength must be within [0, 1], got {strength}")
        self._hz, self._strength = control_hz, strength
        self._again = max(1, round(_LIMIT_AGAIN_S * control_hz))
        self._hands = {side: _Hand() for side in Side}

    def play(self, cue: Cue, sides: Iterable[Side] = tuple(Side)) -> None:
        """Begin a cue on these controllers, unless a more urgent one is felt there."""
        for side in sides:
            hand = self._hands[side]
            if not hand.left or _ORDER[cue] >= _ORDER[hand.cue]:
                hand.cue = cue
                hand.left = deque(
                    amplitude
                    for seconds, amplitude in PATTERNS[cue]
                    for _ in range(max(1, round(seconds * self._hz)))
                )

    def tick(self, hands: Iterable[HandStep]) -> Mapping[Side, float]:
        """Return the strength of each controller, 0 .. 1, during this control step."""
        for step in hands:
            self._follow(step)
        return {
            side: self._strength * (hand.left.popleft() if hand.left else 0.0)
            for side, hand in self._hands.items()
        }

    def _follow(self, step: HandStep) -> None:
        hand, side = self._hands[step.controller], (step.controller,)
        if step.state is not hand.state:
            if step.state is HandState.HELD and hand.state is not None:
                self.play(Cue.HELD, side)
            elif step.state is HandState.ENGAGED:
                self.play(Cue.ENGAGED, side)
            elif hand.state is HandState.ENGAGED:
                self.play(Cue.RELEASED, side)
            hand.state = step.state
        if not (step.engaged and step.clamps & _LIMITS):
            hand.touching = 0
            return
        if hand.touching % self._again == 0:
            self.play(Cue.LIMIT, side)
        hand.touching += 1


class _Hand:
    """What one controller is doing."""

    def __init__(self) -> None:
        self.state: HandState | None = None
        """At the last step; None before the first."""
        self.cue = Cue.LIMIT
        self.left: deque[float] = deque()
        """Amplitudes of the steps to come."""
        self.touching = 0
        """Steps since a limit was reached."""


_ORDER = {cue: place for place, cue in enumerate(Cue)}


def table() -> str:
    """Return the language as a table in Markdown."""
    lines = ["| felt | amplitude x seconds | means |", "|---|---|---|"]
    for cue in Cue:
        pieces = [
            f"{amplitude:g} x {seconds:g}" if amplitude else f"pause {seconds:g}"
            for seconds, amplitude in PATTERNS[cue]
        ]
        lines.append(f"| {cue} | {', '.join(pieces)} | {MEANINGS[cue]} |")
    return "\n".join(lines) + "\n"
