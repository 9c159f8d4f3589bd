"""All settings of the agent in one value that goes into an episode's file."""

import math
from dataclasses import dataclass, field
from typing import Literal

from kinematics import Side

from .buttons import ButtonConfig
from .clutch import ClutchConfig
from .dials import DialConfig
from .errors import TeleopError
from .filters import (
    ExponentialConfig,
    KalmanConfig,
    KalmanFilter,
    LowPassFilter,
    OneEuroConfig,
    PoseFilter,
)
from .gripper import GripperConfig
from .guard import GuardConfig
from .play_space import PlaySpaceConfig
from .stamps import StampConfig

FilterName = Literal["kalman", "one_euro", "exponential"]


@dataclass(frozen=True, slots=True)
class TeleopConfig:
    """Configure the agent; ``dataclasses.asdict`` gives JSON types."""

    filter: FilterName = "kalman"
    """Aligned to the control instants, the Kalman filter has a quarter of the others' jerk."""
    facing_yaw: float | None = None
    """Operator's facing, left of tracking's -z [rad]; None takes the head's at first engagement."""
    stamps: StampConfig = field(default_factory=StampConfig)
    guard: GuardConfig = field(default_factory=GuardConfig)
    space: PlaySpaceConfig = field(default_factory=PlaySpaceConfig)
    clutch: ClutchConfig = field(default_factory=ClutchConfig)
    swap_hands: bool = False
    """Each arm follows the other hand's controller; a single arm, the left one's."""
    require_headset: bool = True
    """An arm is held while the headset is off the head; False for who looks at a screen instead."""
    dials: DialConfig = field(default_factory=DialConfig)
    gripper: GripperConfig = field(default_factory=GripperConfig)
    buttons: ButtonConfig = field(default_factory=ButtonConfig)
    kalman: KalmanConfig = field(default_factory=KalmanConfig)
    one_euro: OneEuroConfig = field(default_factory=OneEuroConfig)
    exponential: ExponentialConfig = field(default_factory=ExponentialConfig)
    accepted_tolerance: float = 1e-3
    """m and rad by which the accepted target may differ from the one sent before the anchor
    slides. Rounding of a float32 action (1e-8) and what the IK of a joint mode leaves for the next
    step (1e-5) must not slide it, since the hand would lose that way in every step (1.7 mm in
    8 s); a leash at a contact takes 10 mm. The target winds up by no more than this."""

    def __post_init__(self) -> None:
        if self.filter not in ("kalman", "one_euro", "exponential"):
            raise TeleopError(
                f"unknown filter {self.filter!r}; choose kalman, one_euro or exponential"
            )
        if self.facing_yaw is not None and not math.isfinite(self.facing_yaw):
            raise TeleopError(f"facing_yaw must be finite, got {self.facing_yaw}")
        if not 0.0 < self.accepted_tolerance < 0.01:
            raise TeleopError(
                f"accepted_tolerance must be within (0, 0.01), got {self.accepted_tolerance}"
            )

    def controller(self, side: Side) -> Side:
        """Return whose controller moves the arm of ``side``."""
        return side.other if self.swap_hands else side

    def make_filter(self) -> PoseFilter:
        """Return a new filter of the chosen kind."""
        if self.filter == "kalman":
            return KalmanFilter(self.kalman)
        return LowPassFilter(self.one_euro if self.filter == "one_euro" else self.exponential)
