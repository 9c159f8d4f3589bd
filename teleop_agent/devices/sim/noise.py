"""What lies between a hand and a frame: tremor, tracker noise, rounding, latency."""

import math
from dataclasses import dataclass

import numpy as np

from kinematics.frames import Array

from ...errors import TeleopError
from .stroke import SECOND_NS, HandPose


@dataclass(frozen=True, slots=True)
class NoiseConfig:
    """Set the imperfections that are always there; all zero gives a machine's hand."""

    tremor_hz: tuple[float, float] = (8.0, 12.0)
    """Physiological tremor of a hand held out."""
    tremor_m: tuple[float, float] = (0.3e-3, 0.5e-3)
    """Amplitude in each axis."""
    tremor_rad: float = math.radians(0.1)
    """Amplitude about each axis: the tremor's 0.4 mm over a hand's width."""
    tracker_m: float = 0.3e-3
    """Standard deviation of a tracked position in each axis, inside-out tracking at its best."""
    tracker_rad: float = math.radians(0.1)
    """And of a rotation about each axis."""
    latency_s: float = 0.003
    """From measurement to reception, at least: streaming on one computer."""
    jitter_s: float = 0.004
    """What comes on top, uniform from 0."""

    def __post_init__(self) -> None:
        values = (*self.tremor_hz, *self.tremor_m, self.tremor_rad, self.tracker_m)
        values = (*values, self.tracker_rad, self.latency_s, self.jitter_s)
        if not all(math.isfinite(value) and value >= 0.0 for value in values):
            raise TeleopError(f"noise settings must be finite and >= 0, got {self}")


class Tremor:
    """Shake one hand: a sine in each axis, drawn once."""

    def __init__(self, config: NoiseConfig, rng: np.random.Generator) -> None:
        self._omega = 2.0 * math.pi * rng.uniform(*config.tremor_hz, 6)
        self._phase = rng.uniform(0.0, 2.0 * math.pi, 6)
        amplitude = rng.uniform(*config.tremor_m, 3)
        self._amplitude = np.concatenate([amplitude, np.full(3, config.tremor_rad)])

    def offset(self, t_ns: int) -> Array:
        """Return translation and rotation vector (6,) [m, rad] at ``t_ns``."""
        return self._amplitude * np.sin(self._omega * (t_ns / SECOND_NS) + self._phase)


class Tracker:
    """Measure poses with white noise and publish them as a runtime does, in single precision."""

    def __init__(self, config: NoiseConfig, rng: np.random.Generator) -> None:
        self._rng = rng
        self._deviation = np.repeat([config.tracker_m, config.tracker_rad], 3)

    def measure(self, pose: HandPose, shake: Array | None = None) -> Array:
        """Return ``T_tracking_device`` (3, 4), float64 holding float32 values.

        ``shake`` (6,) [m, rad] is how far the hand really is from ``pose``.
        """
        noise = self._deviation * self._rng.standard_normal(6)
        position, turn = pose.moved(noise if shake is None else noise + shake)
        matrix = np.empty((3, 4), np.float32)
        matrix[:, :3], matrix[:, 3] = turn, position
        return matrix.astype(np.float64)


class Transport:
    """Delay samples without changing their order."""

    def __init__(self, config: NoiseConfig, rng: np.random.Generator) -> None:
        self._config, self._rng = config, rng
        self._last_ns = -(2**62)

    def receive(self, t_ns: int) -> int:
        """Return when a sample of ``t_ns`` is received [ns]."""
        delay_s = self._config.latency_s + self._config.jitter_s * self._rng.random()
        self._last_ns = max(self._last_ns, t_ns + round(delay_s * SECOND_NS))
        return self._last_ns
