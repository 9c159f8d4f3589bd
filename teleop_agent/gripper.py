"""The trigger closes the gripper, and a fault never opens it."""

import math
from dataclasses import dataclass

from .errors import TeleopError


@dataclass(frozen=True, slots=True)
class GripperConfig:
    """Tune how a trigger takes over a held gripper."""

    meet: float = 0.05
    """The trigger has met the held closure when within this: 2 mm of a finger's 40 mm."""

    def __post_init__(self) -> None:
        if not 0.0 < self.meet < 0.5:
            raise TeleopError(f"meet must be within (0, 0.5), got {self.meet}")


class TriggerGrip:
    """Turn a trigger into a closure, 0 open .. 1 closed, analogue and unfiltered.

    After a hold (and after a reset) the closure stays where it is until the trigger has come to
    it, or passed it. Engaging alone does not take over: an object gripped when tracking or
    buttons were lost stays gripped until the operator has taken it up with the trigger.
    """

    def __init__(self, config: GripperConfig | None = None) -> None:
        self._config = config or GripperConfig()
        self.closure = 0.0
        self._following = False
        self._release_first = False
        self._before: float | None = None

    @property
    def following(self) -> bool:
        """Return whether the trigger has the gripper."""
        return self._following

    def hold(self, release_first: bool = False) -> None:
        """Keep the closure until the trigger meets it.

        With ``release_first`` the trigger must be let go before that counts: for a pull that
        meant something else.
        """
        self._following, self._before = False, None
        self._release_first = self._release_first or release_first

    def reset(self, closure: float) -> None:
        """Hold this closure."""
        self.closure = closure
        self.hold()

    def follow(self, trigger: float) -> None:
        """Take a trigger value, 0 released .. 1 pulled, that was really read."""
        if not math.isfinite(trigger):
            return
        trigger = min(max(trigger, 0.0), 1.0)
        if self._release_first:
            if trigger > self._config.meet:
                return
            self._release_first = False
        if not self._following:
            off = trigger - self.closure
            passed = self._before is not None and off * (self._before - self.closure) < 0.0
            self._following = passed or abs(off) <= self._config.meet
        if self._following:
            self.closure = trigger
        self._before = trigger
