"""Seconds of ticks: no chatter, no loss, no drift; at the limits, out of reach and turned about."""

from collections.abc import Callable

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinematics.frames import Array
from kinematics.ik import ArmIK, IKConfig, IKStatus

DT = 1.0 / 200.0
DOWN = np.array([0.0, 1.0, 0.0, 0.0])
SINE_HZ, PEAK = 0.5, 0.7  # m/s
RAMP = 400  # ticks: 2 s

Solvers = Callable[..., ArmIK]
WITHOUT = IKConfig(smoothness=0.0, error_damping=1e-3, posture=1e-6)
"""Plain damped least squares in the box, which chatters."""


def _x_sine(centre: tuple[float, float, float], peak: float = PEAK, seconds: float = 8) -> Array:
    """Return positions (N, 3) on a sine along x with ramp-in."""
    t = np.arange(round(seconds / DT)) * DT
    swing = np.minimum(1.0, t / (RAMP * DT)) * np.sin(2 * np.pi * SINE_HZ * t)
    return np.array(centre) + (peak / (2 * np.pi * SINE_HZ) * swing)[:, None] * [1.0, 0.0, 0.0]


# --- no chatter ---


@pytest.mark.parametrize(("z", "most"), [(0.28, 15.0), (0.35, 15.0), (0.42, 15.0), (0.48, 25.0)])
def test_the_speed_box_does_not_chatter(
    ik: ArmIK, drive: type, go_to: Callable, z: float, most: float
) -> None:
    """An x sine that asks for more than the joints' speed. Measured 6.6, 7.6, 10.7 rad/s2.

    Higher up its far end is out of reach, too, and the joints stop from full speed there: 21
    rad/s2, without a reversal.
    """
    path = _x_sine((0.5, 0.0, z))
    go_to(ik, path[0], DOWN)
    run = drive(ik, path, DOWN)
    assert np.abs(run.velocity).max() > 2.17, "the box acts"
    assert run.rms_acceleration(RAMP) <= most
    assert run.reversals(RAMP) <= 1e-3


def test_past_reach_does_not_chatter(ik: ArmIK, drive: type, go_to: Callable) -> None:
    """The same sine beyond reach, from 0.63 to 1.07 m; measured 16 rad/s2, 283 undamped.

    Once a period the joints stop from full speed when they catch up: that is most of it.
    """
    path = _x_sine((0.85, 0.0, 0.4))
    go_to(ik, path[0], DOWN)
    run = drive(ik, path, DOWN)
    assert np.max(run.position_error) > 0.2, "out of reach"
    assert run.rms_acceleration(RAMP) <= 20.0
    assert run.reversals(RAMP) <= 1e-3


def test_past_reach_slowly(ik: ArmIK, drive: type, go_to: Callable) -> None:
    path = _x_sine((0.85, 0.0, 0.4), peak=0.3)
    go_to(ik, path[0], DOWN)
    run = drive(ik, path, DOWN)
    assert np.max(run.position_error) > 0.05, "out of reach"
    assert run.rms_acceleration(RAMP) <= 15.0
    assert run.reversals(RAMP) <= 1e-3


@pytest.mark.parametrize("x", [0.5, 0.85])
def test_plain_damping_would_chatter(
    bare: mujoco.MjModel, solver: Solvers, drive: type, go_to: Callable, x: float
) -> None:
    """What the figures above are worth: without the regularisation they are 10 times as large."""
    ik, path = solver(bare, WITHOUT), _x_sine((x, 0.0, 0.4))
    go_to(ik, path[0], DOWN)
    run = drive(ik, path, DOWN)
    assert run.rms_acceleration(RAMP) > 100.0
    assert run.reversals(RAMP) > 0.05


@pytest.mark.parametrize(
    "target",
    [(1.28, 0.0, 0.333), (0.0, 0.0, 1.61), (0.005, 0.0, 1.6), (1.28, 0.0, 0.005)],
    ids=["ahead", "up", "beside the axis", "low"],
)
def test_holding_far_beyond_reach(ik: ArmIK, drive: type, target: tuple) -> None:
    """A target at 1.5 times the reach (0.855 m from the shoulder), held for 5 s."""
    run = drive(ik, np.tile(target, (1000, 1)), DOWN)
    assert run.status[-1] is IKStatus.UNREACHABLE
    tool = np.array([ik.forward(q)[0] for q in run.q[300::50]])
    np.testing.assert_allclose(tool, tool[-1:].repeat(len(tool), 0), atol=0.02)
    late = run.velocity[300:]  # the way there takes 1.0 to 1.23 s at joint speed
    assert np.abs(late).max() < 0.01
    for joint in run.velocity[200:].T:
        directions = np.sign(joint[np.abs(joint) > 1e-3])
        assert np.count_nonzero(np.diff(directions)) <= 5


@pytest.mark.parametrize("quat", [(1, 0, 0, 0), (0.5**0.5, 0, 0.5**0.5, 0)])
@pytest.mark.parametrize("target", [(1.28, 0.0, 0.333), (0.0, 0.0, 1.61), (0.0, 0.0, 0.005)])
def test_holding_beyond_reach_turned(ik: ArmIK, drive: type, target: tuple, quat: tuple) -> None:
    """The null space may still creep to its rest posture, but nothing goes to and fro."""
    run = drive(ik, np.tile(target, (1000, 1)), np.array(quat, float))
    assert np.all(np.isfinite(run.q))
    assert run.reversals(200) <= 2e-3
    for joint in run.velocity[200:].T:
        directions = np.sign(joint[np.abs(joint) > 1e-3])
        assert np.count_nonzero(np.diff(directions)) <= 5


# --- half turns ---

axes = (
    st.tuples(*[st.floats(-1.0, 1.0)] * 3)
    .map(np.array)
    .filter(lambda v: np.linalg.norm(v) > 0.1)
    .map(lambda v: v / np.linalg.norm(v))
)


def _half_turn(quat: Array, axis: Array, angle: float) -> Array:
    turn, turned = np.zeros(4), np.zeros(4)
    mujoco.mju_axisAngle2Quat(turn, axis, angle)
    mujoco.mju_mulQuat(turned, turn, quat)
    return turned


@settings(max_examples=20, deadline=None)
@given(axes, st.sampled_from([np.pi, np.pi - 1e-9, np.pi + 1e-9, -np.pi]))
def test_a_half_turn_about_any_axis(
    bare: mujoco.MjModel, solver: Solvers, drive: type, axis: Array, angle: float
) -> None:
    """Some cannot be reached past the wrist's ranges; none may shake or leave the numbers.

    Measured over 150: at most 18 reversals on the way, the last before 4.2 s. The null space may
    still bring a joint to its range later, where it stops at once: one tick, never to and fro.
    """
    ik = solver(bare)
    position, quat = ik.tool()
    run = drive(ik, np.tile(position, (1200, 1)), _half_turn(quat, axis, angle))
    assert np.all(np.isfinite(run.q))
    assert np.all(np.abs(run.velocity) <= ik.velocity_limits + 1e-9)
    assert run.reversals() * run.acceleration.size < 50
    last = np.abs(run.acceleration[-100:]).max(axis=1)
    assert run.reversals(-100) == 0.0
    assert np.count_nonzero(last > 10.0) <= 2, "at most one stop; a joint that shakes never rests"


@pytest.mark.parametrize("axis", [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, -1)])
def test_a_half_turn_about_the_axes_arrives(ik: ArmIK, drive: type, axis: tuple) -> None:
    position, quat = ik.tool()
    target = _half_turn(quat, np.array(axis, float), np.pi)
    run = drive(ik, np.tile(position, (1200, 1)), target)
    assert run.status[-1] is IKStatus.CONVERGED


# --- not lost, no drift ---


def _smooth(n: int) -> Array:
    s = np.linspace(0.0, 1.0, n)
    return s**3 * (10.0 - 15.0 * s + 6.0 * s * s)


def _to_the_limit_and_back(ik: ArmIK, joint: int, goal: float) -> Array:
    """Return postures (N, 7) in which one joint goes to ``goal`` and back, others swinging."""
    seconds = max(2.0, abs(goal - ik.rest[joint]) * 1.875 / 1.5)  # peak 1.5 rad/s
    rise = _smooth(round(seconds / DT))
    profile = np.concatenate([rise, np.ones(200), rise[::-1], np.zeros(200)])
    q = np.tile(ik.rest, (len(profile), 1))
    q[:, joint] += profile * (goal - ik.rest[joint])
    t = np.arange(len(profile)) * DT
    q[:, 0] += 0.3 * np.sin(t)
    q[:, 1] += 0.1 * np.sin(0.7 * t)
    return q


@pytest.mark.parametrize("end", ["lower", "upper"])
@pytest.mark.parametrize("joint", [4, 5, 6])
def test_the_wrist_comes_back_from_its_limits(ik: ArmIK, drive: type, joint: int, end: str) -> None:
    """Tool paths that ask a wrist joint for 0.3 rad more than its range."""
    limit = getattr(ik, end)[joint]
    beyond = limit + (0.3 if end == "upper" else -0.3)
    poses = [ik.forward(q) for q in _to_the_limit_and_back(ik, joint, beyond)]
    positions, quats = (np.array(part) for part in zip(*poses, strict=True))
    run = drive(ik, positions, quats)
    assert run.position_error[-100:].max() < 1e-3, "lost for good"
    assert run.rotation_error[-100:].max() < 1e-2
    assert run.rms_acceleration() < 20.0
    if joint != 5:  # joints 5 and 7 can be stood in for; past joint 6's range there is no posture
        assert np.percentile(run.position_error, 95) < 4e-3  # measured 0.006 mm


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_hand_may_jump(ik: ArmIK, drive: type, axis: int) -> None:
    """A target that jumps by 15 cm every second, as after lost tracking."""
    path = np.tile(ik.tool()[0], (1600, 1))
    path[:, axis] += 0.075 * np.sign(np.sin(np.pi * np.arange(1600) * DT + 1e-9))
    run = drive(ik, path, ik.tool()[1])
    for end in range(200, 1601, 200):
        assert run.position_error[end - 1] < 1e-3  # 1 mm after 1 s
    assert run.reversals() <= 5e-3  # at the jumps; a joint that chatters adds 0.14


def _circle(ik: ArmIK, laps: int, diameter: float = 0.1, hz: float = 0.2) -> Array:
    angle = 2 * np.pi * hz * np.arange(1, round(laps / hz / DT) + 1) * DT
    ring = np.stack([np.cos(angle) - 1.0, np.sin(angle), np.zeros_like(angle)], axis=1)
    return ik.tool()[0] + 0.5 * diameter * ring


def test_laps_do_not_drift(ik: ArmIK, drive: type) -> None:
    """20 laps of a 10 cm circle at 0.2 Hz: the elbow is where it was after the first."""
    lap = round(1 / 0.2 / DT)
    run = drive(ik, _circle(ik, 20), ik.tool()[1])
    ends = run.q[lap::lap]
    assert np.abs(ends - ends[0]).max() < 1e-3  # 0.05 rad was asked; measured 4e-6
    assert run.position_error.max() < 2e-3
    assert np.all(np.abs(run.velocity) <= ik.velocity_limits + 1e-9)


@pytest.mark.parametrize(("posture", "drifts"), [(IKConfig().posture, False), (0.0, True)])
def test_the_posture_term_ends_the_drift(
    bare: mujoco.MjModel, solver: Solvers, drive: type, posture: float, drifts: bool
) -> None:
    """Laps that start aside of the rest posture: 0.02 rad a lap without the term."""
    ik = solver(bare, IKConfig(posture=posture))
    ik.reset(np.add(ik.rest, [0.5, 0.0, -0.6, 0.0, 0.3, 0.0, 0.0]))
    run = drive(ik, _circle(ik, 6), ik.tool()[1])
    last = np.abs(run.q[-1] - run.q[-1001]).max()
    assert last > 0.01 if drifts else last < 1e-4


@pytest.mark.parametrize("shape", [(1, 2, 3), (2, 1, 2), (3, 2, 1)])
def test_closed_loops_close(ik: ArmIK, drive: type, shape: tuple[int, int, int]) -> None:
    """A Lissajous figure of position and turn, run 5 times: rounds soon repeat."""
    n = 800
    phase = 2 * np.pi * np.arange(1, 5 * n + 1) / n
    position, quat = ik.tool()
    swing = np.stack([np.sin(k * phase) for k in shape], axis=1)
    quats = []
    for angles in 0.3 * swing[:, ::-1]:
        turned = quat.copy()
        mujoco.mju_quatIntegrate(turned, angles, 1.0)
        quats.append(turned)
    run = drive(ik, position + 0.08 * swing, np.array(quats))
    rounds = run.q[1:].reshape(5, n, 7)
    change = np.abs(np.diff(rounds, axis=0)).max(axis=(1, 2))
    assert np.all(change[1:] < 0.5 * change[:-1]), "measured a fifth from round to round"
    assert change[-1] < 1e-3  # rad
    assert np.percentile(run.position_error, 95) < 1e-3
