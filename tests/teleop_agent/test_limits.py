"""Speed, acceleration and walls of one step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from kinematics import SpeedLimits, Workspace
from kinematics.frames import pose
from teleop_agent.limits import STILL, Clamp, Step, StepLimiter

LIMITS = SpeedLimits()
rates = pytest.mark.parametrize("hz", [20, 50, 200])
BASE = pose((0.1, 0.3, 0.0), (np.cos(0.4), 0.0, 0.0, np.sin(0.4)))


def limiter(hz: int) -> StepLimiter:
    return StepLimiter(LIMITS, Workspace(BASE), 1.0 / hz)


def centre() -> np.ndarray:
    return BASE.apply([0.5, 0.0, 0.4])


@rates
def test_a_wish_within_limits_passes_unchanged(hz) -> None:
    wanted = Step(np.array([0.001, 0.0, -0.001]) / hz, np.array([0.01, 0.0, 0.0]) / hz)
    step, clamps = limiter(hz).limit(centre(), wanted, STILL)
    assert step.move is wanted.move
    assert step.turn is wanted.turn
    assert clamps is Clamp.NONE


@rates
def test_full_speed_is_reached_at_full_acceleration_and_not_passed(hz) -> None:
    lim, position, last = limiter(hz), centre(), STILL
    wanted = Step(np.array([0.0, 0.0, 9.0]), np.array([0.0, 9.0, 0.0]))
    for k in range(1, 8):
        last, clamps = lim.limit(position, wanted, last)
        assert np.linalg.norm(last.move) * hz == pytest.approx(min(1.0, k * 13.0 / hz), rel=1e-9)
        assert np.linalg.norm(last.turn) * hz == pytest.approx(min(2.5, k * 25.0 / hz), rel=1e-9)
        assert Clamp.SPEED in clamps


@rates
def test_braking_ends_at_rest_without_turning_back(hz) -> None:
    lim, position = limiter(hz), centre()
    last, speeds = Step(np.array([0.0, 0.0, -0.9 / hz]), np.array([2.0 / hz, 0.0, 0.0])), []
    for _ in range(60):
        last, _ = lim.limit(position, STILL, last)  # the hand stands: nothing more is wanted
        position = position + last.move
        speeds.append((-last.move[2] * hz, last.turn[0] * hz))
    assert np.min(speeds) >= -1e-15
    assert np.allclose(speeds[-1], 0.0, atol=1e-15)
    assert np.all(-np.diff(speeds, axis=0).min(axis=0) <= np.array([13.0, 25.0]) / hz + 1e-9)


@rates
def test_a_target_that_was_drawn_back_fast_is_asked_no_faster_than_allowed(hz) -> None:
    """The environment draws its target back to an arm that is blocked, at any speed."""
    drawn = Step(np.array([3.0, 0.0, 0.0]) / hz, np.array([0.0, 9.0, 0.0]) / hz)
    step, _ = limiter(hz).limit(centre(), drawn, drawn)
    assert np.linalg.norm(step.move) * hz <= 1.0 + 1e-12
    assert np.linalg.norm(step.turn) * hz <= 2.5 + 1e-12


@rates
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_wall_is_reached_exactly_and_gently(hz, axis, sign) -> None:
    lim, position, last, moves = limiter(hz), centre(), STILL, []
    wanted = Step(BASE.rotation.apply(9.0 * sign * np.eye(3)[axis]), np.zeros(3))
    for _ in range(2 * hz):
        last, clamps = lim.limit(position, wanted, last)
        position = position + last.move
        moves.append(np.linalg.norm(last.move))
    box = Workspace()
    wall = (box.upper if sign > 0 else box.lower)[axis]
    assert BASE.inv().apply(position)[axis] == pytest.approx(wall, abs=1e-12)
    assert Clamp.WORKSPACE in clamps
    assert moves[-1] < 1e-12
    assert np.abs(np.diff(moves)).max() * hz**2 <= 13.0 * (1 + 1e-6)  # m/s2, also while stopping
    assert max(moves) * hz == pytest.approx(1.0, rel=1e-6) or hz == 20


@rates
def test_along_a_wall_and_away_from_it_nothing_is_lost(hz) -> None:
    position = BASE.apply([0.8, 0.0, 0.4])
    along = np.array([0.0, 0.004, -0.003]) / hz
    wanted = Step(BASE.rotation.apply(along + np.array([0.004 / hz, 0.0, 0.0])), np.zeros(3))
    step, clamps = limiter(hz).limit(position, wanted, STILL)
    assert np.allclose(BASE.rotation.inv().apply(step.move), along, atol=1e-15)
    assert clamps is Clamp.WORKSPACE
    back = Step(BASE.rotation.apply([-0.004 / hz, 0.0, 0.0]), np.zeros(3))
    assert limiter(hz).limit(position, back, STILL) == (back, Clamp.NONE)


@rates
def test_outside_the_box_it_may_only_come_back(hz) -> None:
    outside = BASE.apply([0.9, 0.0, 0.4])
    out = Step(BASE.rotation.apply([0.0001, 0.0, 0.0]), np.zeros(3))
    step, clamps = limiter(hz).limit(outside, out, STILL)
    assert np.allclose(step.move, 0.0, atol=1e-15)
    assert clamps is Clamp.WORKSPACE
    home = Step(-out.move, np.zeros(3))
    assert limiter(hz).limit(outside, home, STILL)[0].move is home.move


vectors = st.tuples(*[st.floats(-3.0, 3.0)] * 3).map(np.array)


@given(
    wishes=st.lists(st.tuples(vectors, vectors), min_size=1, max_size=40),
    hz=st.sampled_from([20, 50, 200]),
)
def test_whatever_is_wanted_no_limit_is_broken(wishes, hz) -> None:
    lim, position, last = limiter(hz), centre(), STILL
    box = Workspace()
    for move, turn in wishes:
        step, _ = lim.limit(position, Step(move, turn), last)
        assert np.linalg.norm(step.move) <= 1.0 / hz * (1 + 1e-12)
        assert np.linalg.norm(step.turn) <= 2.5 / hz * (1 + 1e-12)
        assert np.linalg.norm(step.turn - last.turn) <= 25.0 / hz**2 * (1 + 1e-9)
        # Two or three walls can brake at once, each at the limit.
        assert np.linalg.norm(step.move - last.move) <= np.sqrt(3) * 13.0 / hz**2 * (1 + 1e-9)
        position, last = position + step.move, step
        inside = BASE.inv().apply(position)
        assert np.all(inside >= box.lower - 1e-12) and np.all(inside <= box.upper + 1e-12)


def test_rotation_of_the_base_is_seen() -> None:
    # A base turned a quarter to the left: its x is world's y.
    base = pose((0.0, 0.0, 0.0), Rotation.from_rotvec([0, 0, np.pi / 2]).as_quat(scalar_first=True))
    lim = StepLimiter(LIMITS, Workspace(base), 0.02)
    step, clamps = lim.limit(
        np.array([0.0, 0.8, 0.4]), Step(np.array([0.0, 0.004, 0.0]), np.zeros(3)), STILL
    )
    assert np.allclose(step.move, 0.0, atol=1e-15)
    assert clamps is Clamp.WORKSPACE
