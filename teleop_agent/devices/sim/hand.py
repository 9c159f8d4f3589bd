"""A simulated hand: where it can go, how fast it goes, and what its fingers press."""

import math
from dataclasses import dataclass

import numpy as np

from kinematics.frames import Array

from ...errors import TeleopError
from ...frame import Button
from ...turns import norm, shortened, turn_log
from .stroke import PEAK, HandPose, Ramp, Stroke


@dataclass(frozen=True, slots=True)
class HandConfig:
    """Say what an arm and a hand can do."""

    reach_m: float = 0.35
    """Radius of the ball in which a hand works: with the elbow bent in its middle, it ends where
    the elbow is straight or the hand at the shoulder."""
    twist_rad: float = math.radians(70.0)
    """From the turn in the middle: a forearm turns 80 degrees either way, the last tenth is a
    strain."""
    peak_speed: float = 0.55
    """m/s; unhurried, below the 0.7 m/s peak of a recorded teleoperation session."""
    peak_turn_rate: float = 2.0
    """rad/s; unhurried too, below the tool's limit of 2.5."""
    stroke_s: float = 0.15
    """Shortest time of a stroke, to a target as wide as the way (Fitts's a)."""
    bit_s: float = 0.10
    """Time for each doubling of way over width: Fitts's b, 0.1 s/bit for pointing (MacKenzie
    1992)."""
    grip_s: float = 0.12
    """Time to squeeze the whole hand; a fast, unaimed pull."""
    trigger_s: float = 0.25
    """Time to pull or open the trigger; aimed, hence slower."""
    stop_s: float = 0.25
    """Time to stop a hand in motion; a tenth of a second less would jerk it."""
    short_m: float = 0.05
    """For corrections up to so much there is always room ..."""
    short_rad: float = 0.1
    """... and so much: the body gives."""
    pace: tuple[float, float] = (0.85, 1.15)
    """Range of a person's speed over these, drawn once: people differ."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            values = np.atleast_1d(getattr(self, name))
            if not (np.isfinite(values).all() and (values > 0.0).all()):
                raise TeleopError(f"hand setting {name} must be finite and > 0, got {values}")


class SimHand:
    """Hold one hand's state; poses are ``T_tracking_grip``, times session time [ns]."""

    def __init__(
        self, start: HandPose, rest: HandPose, middle: HandPose, config: HandConfig, pace: float
    ) -> None:
        """Begin still at ``start``; the reach is about ``middle``. ``pace`` multiplies speeds."""
        self._config, self._rest, self._middle, self._pace = config, rest, middle, pace
        self._stroke = Stroke(0, 1e-3, start, np.zeros(6))
        self.grip, self.trigger = Ramp(config.grip_s), Ramp(config.trigger_s)
        self.buttons = Button.NONE

    def pose(self, t_ns: int) -> HandPose:
        """Return where the hand is."""
        return self._stroke.pose(t_ns)

    def still(self, t_ns: int) -> bool:
        """Return whether the last stroke is over."""
        return t_ns >= self._stroke.end_ns

    def move(self, t_ns: int, by: Array, width_m: float, width_rad: float) -> None:
        """Start a stroke of ``by`` (6,) [m, rad, tracking axes], aimed as well as the widths ask.

        It starts from rest: no stroke begins before the last one is over or stopped.
        """
        duration_s = max(
            self._duration(norm(by[:3]), width_m, self._config.peak_speed),
            self._duration(norm(by[3:]), width_rad, self._config.peak_turn_rate),
        )
        self._stroke = Stroke(t_ns, duration_s, self.pose(t_ns), by)

    def move_to(self, t_ns: int, goal: HandPose) -> None:
        """Start a stroke to a pose, aimed no better than a rest needs (5 cm, 0.3 rad)."""
        here = self.pose(t_ns)
        turn = turn_log(goal.turn @ here.turn.T)
        self.move(t_ns, np.concatenate([goal.position - here.position, turn]), 0.05, 0.3)

    def stop(self, t_ns: int) -> None:
        """Brake a stroke under way to rest, without a jolt."""
        if self.still(t_ns):
            return
        rate, acceleration = self._stroke.motion(t_ns)
        stop_s = self._config.stop_s
        by = 0.5 * stop_s * rate
        self._stroke = Stroke(t_ns, stop_s, self.pose(t_ns), by, rate, acceleration)

    def room(self, t_ns: int, by: Array) -> float:
        """Return the share, 0 .. 1, of a motion (6,) [m, rad] that arm and wrist have room for."""
        if self.is_short(by):
            return 1.0
        here = self.pose(t_ns)
        out = here.position - self._middle.position
        share = _share_in_ball(out, by[:3], self._config.reach_m)
        return min(share, self._share_of_turn(here, by))

    def is_away(self, t_ns: int) -> bool:
        """Return whether the hand is out of its reach: it hangs at the hip."""
        out = norm(self.pose(t_ns).position - self._middle.position)
        return out > self._config.reach_m + self._config.short_m

    def is_short(self, by: Array) -> bool:
        """Return whether a motion (6,) [m, rad] is no more than a correction."""
        config = self._config
        return norm(by[:3]) <= config.short_m and norm(by[3:]) <= config.short_rad

    def go_to_rest(self, t_ns: int) -> None:
        """Start a stroke to the rest pose."""
        self.move_to(t_ns, self._rest)

    def place_for(self, by: Array) -> HandPose:
        """Return the pose from which a motion (6,) [m, rad] fits best: half of it to each side."""
        back = np.concatenate(
            [
                shortened(-0.5 * by[:3], 0.95 * self._config.reach_m),
                shortened(-0.5 * by[3:], 0.95 * self._config.twist_rad),
            ]
        )
        return self._middle.moved(back)

    def _duration(self, way: float, width: float, peak: float) -> float:
        config = self._config
        fitts = config.stroke_s + config.bit_s * math.log2(way / width + 1.0)
        return max(fitts, PEAK * way / peak) / self._pace

    def _share_of_turn(self, here: HandPose, by: Array) -> float:
        """Return the largest share of the turn, in twentieths, that the wrist can do."""
        twist = norm(turn_log(here.turn @ self._middle.turn.T))
        most = max(self._config.twist_rad, twist)
        for twentieths in range(20, 0, -1):
            share = twentieths / 20.0
            turned = here.moved(share * by).turn
            if norm(turn_log(turned @ self._middle.turn.T)) <= most:
                return share
        return 0.0


def _share_in_ball(start: Array, by: Array, radius: float) -> float:
    """Return the largest share s, 0 .. 1, with |start + s by| <= radius, all (3,) [m]."""
    a, b, c = float(by @ by), float(start @ by), float(start @ start) - radius**2
    if a == 0.0:
        return 1.0
    inside = b * b - a * c
    return 0.0 if inside < 0.0 else min(max((-b + math.sqrt(inside)) / a, 0.0), 1.0)
