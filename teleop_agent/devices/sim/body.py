"""Where a simulated person stands, looks and holds its hands."""

import math
from dataclasses import dataclass

import numpy as np

from kinematics import Side
from kinematics.frames import Array, world_from_tracking

from ...errors import TeleopError
from ...turns import turn_exp
from .stroke import SECOND_NS, HandPose


@dataclass(frozen=True, slots=True)
class BodyConfig:
    """Say how a person stands in the play space."""

    facing: float | None = None
    """Yaw left of tracking's -z [rad]; None draws any."""
    area_m: float = 1.0
    """The person stands anywhere within so much of the origin, in x and z: a room-sized space."""
    eye_m: tuple[float, float] = (1.50, 1.75)
    """Range of eye heights, standing adults."""
    gaze_rad: float = math.radians(-35.0)
    """Pitch of a head that looks at a table at arm's length."""
    sway_m: float = 0.005
    """Of a standing person's head, in each axis."""
    sway_rad: float = math.radians(1.5)
    """Of the head, in each axis: what a gaze wanders over a table."""
    start_offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """[m] forward, left, up: how far from its rest the right hand begins."""

    def __post_init__(self) -> None:
        if self.facing is not None and not math.isfinite(self.facing):
            raise TeleopError(f"facing must be finite, got {self.facing}")
        if len(self.start_offset) != 3 or not np.isfinite(self.start_offset).all():
            raise TeleopError(f"start_offset must be three finite m, got {self.start_offset}")
        if not 1.0 <= self.eye_m[0] <= self.eye_m[1] <= 2.2:
            raise TeleopError(f"eye_m must rise within 1.0 .. 2.2 m, got {self.eye_m}")


_WORK = {Side.RIGHT: (0.30, -0.22, -0.45), Side.LEFT: (0.30, 0.22, -0.45)}
"""m forward, left and up of the eyes: a working hand before the body with the elbow bent."""
_REST = {**_WORK, Side.LEFT: (0.05, 0.28, -0.85)}
"""And between episodes: the right one ready, the left one hanging at the hip."""
_SLOPE = math.radians(-30.0)
"""Pitch of a controller in a relaxed hand."""


class SimBody:
    """Place head and resting hands in tracking; drawn once from ``rng``."""

    def __init__(self, config: BodyConfig, rng: np.random.Generator) -> None:
        self._config = config
        drawn = rng.uniform(-math.pi, math.pi)
        self.yaw = drawn if config.facing is None else config.facing
        """Facing, left of tracking's -z [rad]."""
        x, z = rng.uniform(-config.area_m, config.area_m, 2)
        self._eyes = np.array([x, rng.uniform(*config.eye_m), z])
        self._R_tracking_body = world_from_tracking(self.yaw).inv().as_matrix()
        self._wrist = {side: rng.normal(0.0, math.radians(7.0), 3) for side in Side}
        self._sway_hz = rng.uniform(0.1, 0.4, 6)
        self._sway_phase = rng.uniform(0.0, 2.0 * math.pi, 6)

    def head(self, t_ns: int) -> HandPose:
        """Return ``T_tracking_head`` at ``t_ns``: looking at the table, swaying a little."""
        sway = np.sin(2.0 * math.pi * self._sway_hz * (t_ns / SECOND_NS) + self._sway_phase)
        turn = turn_exp(np.array([0.0, self.yaw, 0.0]))
        turn = turn @ turn_exp(np.array([self._config.gaze_rad, 0.0, 0.0]))
        sway[:3] *= self._config.sway_m
        sway[3:] *= self._config.sway_rad
        return HandPose(self._eyes, turn).moved(sway)

    def rest(self, side: Side) -> HandPose:
        """Return ``T_tracking_grip`` of a hand at rest."""
        return self._held(side, _REST[side])

    def work(self, side: Side) -> HandPose:
        """Return ``T_tracking_grip`` in the middle of a hand's reach."""
        return self._held(side, _WORK[side])

    def _held(self, side: Side, offset: tuple[float, float, float]) -> HandPose:
        position = self._eyes + self._R_tracking_body @ np.array(offset)
        turn = turn_exp(np.array([0.0, self.yaw, 0.0]))
        turn = turn @ turn_exp(np.array([_SLOPE, 0.0, 0.0])) @ turn_exp(self._wrist[side])
        return HandPose(position, turn)

    def start(self, side: Side) -> HandPose:
        """Return where a hand is at first."""
        rest = self.rest(side)
        if side is not Side.RIGHT:
            return rest
        return rest.moved(self._along_body(np.array(self._config.start_offset)))

    def _along_body(self, offset: Array) -> Array:
        return np.concatenate([self._R_tracking_body @ offset, np.zeros(3)])
