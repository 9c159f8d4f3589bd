"""One arm: from the filtered hand pose at a control instant to the target of its tool."""

import numpy as np

from kinematics import EndEffectorTarget, SpeedLimits, Workspace
from kinematics.frames import Array

from .clutch import Clutch, Ratio
from .config import TeleopConfig
from .limits import STILL, Clamp, Step, StepLimiter
from .turns import norm, renormalised, turn_exp, turn_log, turn_matrix, turn_quat


class ArmMapper:
    """Move one arm's target with an engaged hand, from what the environment really accepted."""

    def __init__(
        self, config: TeleopConfig, limits: SpeedLimits, workspace: Workspace, period_s: float
    ) -> None:
        self._tolerance = config.accepted_tolerance
        self._limiter = StepLimiter(limits, workspace, period_s)
        self._clutch = Clutch()
        self._engagement: int | None = None
        self._before = self._sent = (np.zeros(3), np.eye(3))
        self._last = STILL
        self.clamps = Clamp.NONE

    def release(self) -> None:
        """Stop: until the next engagement the target is what the environment has accepted."""
        self._engagement = None
        self.clamps = Clamp.NONE

    def step(
        self,
        hand: tuple[Array, Array],
        commanded: EndEffectorTarget,
        engagement: int,
        ratio: Ratio,
    ) -> tuple[Array, Array]:
        """Return the next target's position (3,) and wxyz quaternion (4,), in world.

        ``hand`` is position (3,) and rotation (3, 3) of the grip in world at the control instant.
        """
        position, quat = commanded.position, commanded.quat_wxyz
        turn = turn_matrix(quat)
        if engagement != self._engagement:
            self._engage(hand, position, turn, engagement, ratio)
            return position, quat
        self.clamps = Clamp.NONE
        goal = self._clutch.target(*hand)
        if self._clutch.ratio != ratio or self._clutch.turned(hand[1]):
            self._clutch.anchor(*hand, *goal, ratio)
        goal = self._follow_accepted(hand, goal, position, turn)
        wanted = Step(goal[0] - position, turn_log(goal[1] @ turn.T))
        self._last, clamps = self._limiter.limit(position, wanted, self._last)
        if clamps:
            self.clamps |= clamps
            goal = position + self._last.move, renormalised(turn_exp(self._last.turn) @ turn)
            self._clutch.anchor(*hand, *goal, self._clutch.ratio)
        self._before, self._sent = (position, turn), goal
        return goal[0], turn_quat(goal[1])

    def _engage(
        self, hand: tuple[Array, Array], position: Array, turn: Array, engagement: int, ratio: Ratio
    ) -> None:
        self._clutch.anchor(*hand, position, turn, ratio)
        self._engagement, self._last, self.clamps = engagement, STILL, Clamp.NONE
        self._before = self._sent = position, turn

    def _follow_accepted(
        self, hand: tuple[Array, Array], goal: tuple[Array, Array], position: Array, turn: Array
    ) -> tuple[Array, Array]:
        """Slide the anchor by what the environment did not accept of the last step."""
        lost = position - self._sent[0]
        lost_turn = turn @ self._sent[1].T
        if norm(lost) <= self._tolerance and _angle(lost_turn) <= self._tolerance:
            return goal
        self.clamps |= Clamp.LEASH
        self._last = Step(position - self._before[0], turn_log(turn @ self._before[1].T))
        goal = goal[0] + lost, renormalised(lost_turn @ goal[1])
        self._clutch.anchor(*hand, *goal, self._clutch.ratio)
        return goal


def _angle(turn: Array) -> float:
    """Return the angle [rad] of a small rotation (3, 3), accurate near zero."""
    axis = (turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1])
    return 0.5 * norm(np.array(axis)) if np.trace(turn) > 1.0 else np.pi
