"""Smooth a hand's pose and tell it at any instant; a filter holds no clock.

All filters take samples at their true times, in any rate and jitter. Zero and negative time steps
are ignored; after a gap longer than ``MAX_GAP_NS`` a filter starts anew. Rotations are handled in
the tangent space at the estimate, so the shortest way is taken and quaternion signs do not exist.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kinematics.frames import Array

from .errors import TeleopError
from .turns import norm, renormalised, turn_exp, turn_log

NS = 1e-9
MAX_GAP_NS = 250_000_000
"""As the guard's: no estimate bridges the loss of a stream."""


MAX_SLOPE_NS = 25_000_000
"""Two samples at 90 Hz, as far as the Kalman filter reaches past its newest."""


class PoseFilter(Protocol):
    """Estimate a pose from samples; positions (3,) [m], rotations as matrices (3, 3)."""

    @property
    def ready(self) -> bool:
        """Return whether a sample has arrived since the last reset."""
        ...

    def reset(self) -> None:
        """Forget everything."""
        ...

    def update(self, t_ns: int, position: Array, turn: Array) -> None:
        """Take the sample measured at ``t_ns``; ignore it unless it is newer than the last."""
        ...

    def evaluate(self, t_ns: int) -> tuple[Array, Array]:
        """Return the estimated position and rotation for control at ``t_ns``; needs ``ready``."""
        ...


def _require_positive(config: object, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if not (np.isfinite(value) and value > 0.0):
            raise TeleopError(f"{name} of {type(config).__name__} must be > 0, got {value}")


@dataclass(frozen=True, slots=True)
class KalmanConfig:
    """Tune the constant-velocity Kalman filter.

    The gains depend on acceleration / noise only (1667 1/s2, a bandwidth of 41 rad/s), so one
    covariance serves position and rotation: for a tracker's 0.1 degree of rotation noise the same
    gains mean 2.9 rad/s2 of hand acceleration. Equal gains keep turn and move of a hand in step,
    and measured as well in rotation as in position (jerk to 0.058, error at most 0.22 degree).
    """

    acceleration: float = 1.0
    """m/s2 rms, constant over a sample interval (piecewise-constant white acceleration)."""
    noise: float = 0.6e-3
    """m rms of the tracker and the hand's tremor together, the middle of 0.3 .. 1 mm."""
    lag_s: float = 0.025
    """The estimate is told for this long ago: jerk falls to 0.063 of the raw stream's at 90 Hz,
    where the newest estimate alone leaves 0.30."""
    max_ahead_s: float = 0.025
    """Extrapolate at most so far past the newest sample, 50 ms after it with the lag: bridges a
    stall of four samples; a hand at 13 m/s2 is then 4 mm off, and the tool stands still until
    the stream returns or goes stale."""
    start_speed: float = 1.0
    """m/s rms of a hand of which one sample is known."""

    def __post_init__(self) -> None:
        _require_positive(self, "acceleration", "noise", "max_ahead_s", "start_speed")
        if not 0.0 <= self.lag_s <= 0.2:
            raise TeleopError(f"lag_s must be within 0 .. 0.2 s, got {self.lag_s}")


class KalmanFilter:
    """Track position and velocity, rotation and turn rate, with gains for the true time steps."""

    def __init__(self, config: KalmanConfig | None = None) -> None:
        self._config = config or KalmanConfig()
        self._t_ns = 0
        self._ready = False
        self.gains = (1.0, 0.0)
        """alpha and beta of the last update: the shares of an innovation that go into the pose and,
        per time step, into the velocity."""

    @property
    def ready(self) -> bool:
        """Return whether a sample has arrived since the last reset."""
        return self._ready

    def reset(self) -> None:
        """Forget everything."""
        self._ready = False

    def update(self, t_ns: int, position: Array, turn: Array) -> None:
        """Take the sample measured at ``t_ns``; ignore it unless it is newer than the last."""
        if self._ready and t_ns <= self._t_ns:
            return
        if not self._ready or t_ns - self._t_ns > MAX_GAP_NS:
            self._start(t_ns, position, turn)
            return
        dt = (t_ns - self._t_ns) * NS
        self._t_ns = t_ns
        alpha, beta = self.gains = self._step_covariance(dt)
        ahead = self._position + dt * self._velocity
        error = position - ahead
        self._position = ahead + alpha * error
        self._velocity = self._velocity + (beta / dt) * error
        turned = turn_exp(dt * self._rate) @ self._turn
        error = turn_log(turn @ turned.T)
        self._turn = renormalised(turn_exp(alpha * error) @ turned)
        self._rate = self._rate + (beta / dt) * error

    def evaluate(self, t_ns: int) -> tuple[Array, Array]:
        """Return position and rotation at ``t_ns - lag``, from the newest estimate."""
        lag, ahead = self._config.lag_s, self._config.max_ahead_s
        dt = min(max((t_ns - self._t_ns) * NS - lag, -2.0 * lag), ahead)
        return self._position + dt * self._velocity, turn_exp(dt * self._rate) @ self._turn

    def _start(self, t_ns: int, position: Array, turn: Array) -> None:
        self._t_ns, self._ready = t_ns, True
        self._position, self._velocity = position, np.zeros(3)
        self._turn, self._rate = turn, np.zeros(3)
        # Variances of pose and velocity and their covariance, in units of the noise variance.
        ratio = self._config.start_speed / self._config.noise
        self._var, self._cov, self._rate_var = 1.0, 0.0, ratio * ratio
        self.gains = (1.0, 0.0)

    def _step_covariance(self, dt: float) -> tuple[float, float]:
        q = (self._config.acceleration / self._config.noise * dt) ** 2
        var = self._var + dt * (2.0 * self._cov + dt * self._rate_var) + 0.25 * q * dt * dt
        cov = self._cov + dt * self._rate_var + 0.5 * q * dt
        rate_var = self._rate_var + q
        alpha, gain = var / (var + 1.0), cov / (var + 1.0)
        self._var, self._cov = (1.0 - alpha) * var, (1.0 - alpha) * cov
        self._rate_var = rate_var - gain * cov
        return alpha, gain * dt


@dataclass(frozen=True, slots=True)
class OneEuroConfig:
    """Tune the One-Euro filter (Casiez et al. 2012): still when slow, quick when fast."""

    min_cutoff: float = 1.0
    """Hz at rest."""
    beta: float = 8.0
    """Hz more for each m/s."""
    beta_turn: float = 2.0
    """Hz more for each rad/s: a fast wrist (2.8 rad/s) opens it as a fast hand (0.7 m/s) does."""
    rate_cutoff: float = 5.0
    """Hz, of the speed estimate. (1, 8, 5) has the least jerk of those that stay within 25 ms."""

    def __post_init__(self) -> None:
        _require_positive(self, "min_cutoff", "rate_cutoff")
        if not (0.0 <= self.beta < np.inf and 0.0 <= self.beta_turn < np.inf):
            raise TeleopError(f"beta must be >= 0, got {self.beta} and {self.beta_turn}")


class LowPassFilter:
    """Follow the samples with a first-order low-pass; One-Euro's cutoff changes, exponential's not.

    Between samples the estimate goes on along its last slope. Held instead, it would beat against
    the control rate: 23 m/s2 in a steady 0.2 m/s drag at 200 Hz, more than an arm may have.
    """

    def __init__(self, config: "OneEuroConfig | ExponentialConfig") -> None:
        self._config = config
        self._t_ns = 0
        self._ready = False

    @property
    def ready(self) -> bool:
        """Return whether a sample has arrived since the last reset."""
        return self._ready

    def reset(self) -> None:
        """Forget everything."""
        self._ready = False

    def update(self, t_ns: int, position: Array, turn: Array) -> None:
        """Take the sample measured at ``t_ns``; ignore it unless it is newer than the last."""
        if self._ready and t_ns <= self._t_ns:
            return
        if not self._ready or t_ns - self._t_ns > MAX_GAP_NS:
            self._t_ns, self._ready = t_ns, True
            self._position = self._raw_position = position
            self._turn = self._raw_turn = turn
            self._velocity, self._rate = np.zeros(3), np.zeros(3)
            self._slope, self._turn_slope = np.zeros(3), np.zeros(3)
            return
        dt = (t_ns - self._t_ns) * NS
        self._t_ns = t_ns
        move, spin = self._shares(dt, position, turn)
        self._raw_position, self._raw_turn = position, turn
        change = move * (position - self._position)
        turned = spin * turn_log(turn @ self._turn.T)
        self._position = self._position + change
        self._turn = renormalised(turn_exp(turned) @ self._turn)
        self._slope, self._turn_slope = change / dt, turned / dt

    def evaluate(self, t_ns: int) -> tuple[Array, Array]:
        """Return position and rotation at ``t_ns``, at most ``MAX_SLOPE_NS`` past the newest."""
        dt = min(max(t_ns - self._t_ns, 0), MAX_SLOPE_NS) * NS
        return self._position + dt * self._slope, turn_exp(dt * self._turn_slope) @ self._turn

    def _shares(self, dt: float, position: Array, turn: Array) -> tuple[float, float]:
        config = self._config
        if isinstance(config, ExponentialConfig):
            share = float(-np.expm1(-dt / config.time_constant_s))
            return share, share
        smooth = _share(config.rate_cutoff, dt)
        velocity = (position - self._raw_position) / dt
        rate = turn_log(turn @ self._raw_turn.T) / dt
        self._velocity = self._velocity + smooth * (velocity - self._velocity)
        self._rate = self._rate + smooth * (rate - self._rate)
        move = _share(config.min_cutoff + config.beta * norm(self._velocity), dt)
        return move, _share(config.min_cutoff + config.beta_turn * norm(self._rate), dt)


def _share(cutoff_hz: float, dt: float) -> float:
    """Return the share of a new sample in a first-order low-pass after ``dt``."""
    return float(-np.expm1(-2.0 * np.pi * cutoff_hz * dt))


@dataclass(frozen=True, slots=True)
class ExponentialConfig:
    """Tune the exponential filter."""

    time_constant_s: float = 0.03115
    """alpha = 0.3 at 90 Hz: -(1 / 90) / ln(1 - 0.3)."""

    def __post_init__(self) -> None:
        _require_positive(self, "time_constant_s")
