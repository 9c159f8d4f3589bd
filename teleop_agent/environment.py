"""The agent's whole view of an environment."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kinematics import EndEffectorTarget, Side, SpeedLimits, Workspace


class TeleopEnv(Protocol):
    """What the agent needs of an environment (``env.unwrapped``); nothing else crosses."""

    @property
    def sides(self) -> tuple[Side, ...]:
        """Return the arms, in the order of the action."""
        ...

    @property
    def control_hz(self) -> int:
        """Return the rate of actions [1/s]."""
        ...

    @property
    def speed_limits(self) -> SpeedLimits:
        """Return the limits that the environment puts on commanded targets."""
        ...

    def workspace(self, side: Side) -> Workspace:
        """Return the box that keeps the side's tool centre."""
        ...

    def commanded(self, side: Side) -> EndEffectorTarget:
        """Return the target the environment has accepted, which the next action changes."""
        ...

    def encode(self, commands: Mapping[Side, EndEffectorTarget]) -> npt.NDArray[np.float32]:
        """Return the action that asks for ``commands`` (all sides), in the control mode."""
        ...
