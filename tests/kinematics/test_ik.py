"""One tick: its Jacobian, its names, its limits, its bits; and ``solve``."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinematics import KinematicsError
from kinematics.frames import Array
from kinematics.ik import ArmIK, IKStatus

DT = 1.0 / 200.0
Models = Callable[..., mujoco.MjModel]
Solvers = Callable[..., ArmIK]


def _random_posture(ik: ArmIK, rng: np.random.Generator) -> Array:
    return rng.uniform(ik.lower, ik.upper)


def _away(ik: ArmIK, offset: tuple[float, float, float] = (0.1, -0.1, 0.05)) -> tuple:
    """Return a target beside where the tool is, turned by 0.4 rad about an odd axis."""
    position, quat = ik.tool()
    turn = np.array([0.980067, 0.084, 0.126, -0.12833])
    turned = np.zeros(4)
    mujoco.mju_mulQuat(turned, turn / np.linalg.norm(turn), quat)
    return position + offset, turned


def _angle(a: Array, b: Array) -> float:
    difference = np.zeros(3)
    mujoco.mju_subQuat(difference, a, b)
    return float(np.linalg.norm(difference))


# --- what a tick linearises ---


def test_the_jacobian_is_the_slope_of_the_error(ik: ArmIK) -> None:
    """Central differences of the error itself, signs and frames included."""
    rng, h = np.random.default_rng(3), 1e-6
    for _ in range(5):
        q = _random_posture(ik, rng)
        ik.reset(q)
        ik.step(*ik.tool(), DT)  # a target where the tool is: no error, no linear terms of it
        jacobian, slope = ik._jac.copy(), np.zeros((6, 7))
        for j in range(7):
            for sign in (1.0, -1.0):
                moved = q.copy()
                moved[j] += sign * h
                ik.reset(moved)
                ik._measure()
                slope[:, j] += sign * ik._error / (2.0 * h)
        np.testing.assert_allclose(jacobian, slope, atol=1e-8)  # h squared and 1e-16 / h


def _half_slope(ik: ArmIK, q: Array, previous: Array, dq: Array, error: Array) -> Array:
    """Return half the gradient of what the module says it minimises, by numpy."""
    config, J = ik.config, ik._jac
    N = np.eye(7) - J.T @ np.linalg.inv(J @ J.T + config.nullspace_damping * np.eye(6)) @ J
    pull = N @ (config.posture_gain * (ik.rest - q))
    damping = config.damping + config.error_damping * error @ error
    return (
        J.T @ (J @ dq - error)
        + damping * dq
        + config.smoothness * (dq - previous)
        + config.posture * (dq - pull)
    )


@pytest.mark.parametrize("offset", [(0.01, 0.02, -0.01), (0.4, 0.2, 0.1), (1.0, 0.0, 0.5)])
def test_a_tick_minimises_what_the_module_says(ik: ArmIK, offset: tuple) -> None:
    """No slope where a joint is free, uphill where a limit acts: the optimum of a convex cost."""
    position, quat = _away(ik, offset)
    acted = 0
    for _ in range(80):
        q, previous = ik.q, ik.velocity
        tool_p, tool_q = ik.tool()
        ik.step(position, quat, DT)
        local, turn = np.zeros(3), np.zeros(3)
        mujoco.mju_subQuat(local, quat, tool_q)
        mujoco.mju_rotVecQuat(turn, local, tool_q)
        dq = ik.q - q
        slope = _half_slope(ik, q, previous, dq, np.concatenate([position - tool_p, turn]))
        lower = np.maximum(ik.lower - q, -ik.velocity_limits * DT)
        upper = np.minimum(ik.upper - q, ik.velocity_limits * DT)
        at_lower, at_upper = dq <= lower + 1e-12, dq >= upper - 1e-12
        free = ~at_lower & ~at_upper
        acted += not free.all()
        assert np.abs(slope[free]).max(initial=0.0) < 1e-9  # of terms up to 1
        assert np.all(slope[at_lower] > -1e-9)
        assert np.all(slope[at_upper] < 1e-9)
    assert acted > 5, "limits were met"


def test_a_step_goes_where_the_target_is(ik: ArmIK) -> None:
    position, quat = _away(ik)
    before = np.linalg.norm(ik.tool()[0] - position), _angle(ik.tool()[1], quat)
    ik.step(position, quat, DT)
    after = np.linalg.norm(ik.tool()[0] - position), _angle(ik.tool()[1], quat)
    assert np.hypot(*after) < np.hypot(*before), "metres and radians weigh the same"
    for _ in range(400):
        ik.step(position, quat, DT)
    tick = ik.report()
    assert tick.status is IKStatus.CONVERGED
    assert np.linalg.norm(ik.tool()[0] - position) < 1e-6, "2 s are many time constants"
    assert _angle(ik.tool()[1], quat) < 1e-6
    assert tick.position_error == pytest.approx(np.linalg.norm(ik.tool()[0] - position), abs=1e-12)


# --- names, not slices ---


@pytest.mark.parametrize(
    "before", [("cube",), ("other",), ("door",), ("cube", "door"), ("door", "cube", "other")]
)
def test_what_stands_before_the_arm_changes_nothing(
    build_model: Models, solver: Solvers, ik: ArmIK, before: tuple[str, ...]
) -> None:
    """The same sums in the same order: equal to 1e-12 where not to the bit."""
    other = solver(build_model(*before))
    np.testing.assert_array_equal(other.lower, ik.lower)
    np.testing.assert_array_equal(other.upper, ik.upper)
    rest = other._data.qpos.copy()
    targets = [_away(ik), _away(ik, (-0.1, 0.2, -0.2)), _away(ik, (2.0, 0.0, 0.0))]
    for position, quat in targets:
        for _ in range(60):
            ik.step(position, quat, DT)
            other.step(position, quat, DT)
            np.testing.assert_allclose(other.q, ik.q, atol=1e-12, rtol=0.0)
    arm = np.isin(np.arange(rest.size), np.r_[other._qpos_at])
    np.testing.assert_array_equal(other._data.qpos[~arm], rest[~arm], "the rest stays")
    one, two = ik.solve(*targets[1]), other.solve(*targets[1])
    np.testing.assert_allclose(two.qpos, one.qpos, atol=1e-9)  # of many iterations
    assert two.ok


@pytest.mark.parametrize(
    ("pos", "quat"),
    [
        ((0.3, -0.2, 0.5), (1.0, 0.0, 0.0, 0.0)),
        ((0.0, 0.3, 0.0), (0.9238795325, 0.0, 0.0, -0.3826834324)),
        ((1.0, 2.0, -0.5), (0.5, 0.5, -0.5, 0.5)),
    ],
)
def test_a_moved_and_turned_base_carries_everything_along(
    build_model: Models, solver: Solvers, ik: ArmIK, pos: tuple, quat: tuple
) -> None:
    moved = solver(build_model(pos=pos, quat=quat))
    base = np.array(quat) / np.linalg.norm(quat)
    for target in (_away(ik), _away(ik, (0.2, 0.2, -0.3)), _away(ik, (1.5, 0.0, 0.5))):
        point, turn = np.zeros(3), np.zeros(4)
        mujoco.mju_rotVecQuat(point, target[0], base)
        mujoco.mju_mulQuat(turn, base, target[1])
        for _ in range(60):
            ik.step(*target, DT)
            moved.step(point + pos, turn, DT)
        # Rounding is 1e-16 a tick of coordinates of 1 m, and a damped solver does not amplify it.
        np.testing.assert_allclose(moved.q, ik.q, atol=1e-9, rtol=0.0)


def test_joints_may_come_in_any_order(bare: mujoco.MjModel, ik: ArmIK) -> None:
    order = [3, 0, 6, 2, 5, 1, 4]
    shuffled = ArmIK(
        bare,
        joints=[ik.joints[i] for i in order],
        site="arm/hand/ee",
        velocity_limits=ik.velocity_limits[order],
        rest=ik.rest[order],
    )
    target = _away(ik)
    for _ in range(50):
        ik.step(*target, DT)
        shuffled.step(*target, DT)
    np.testing.assert_allclose(shuffled.q, ik.q[order], atol=1e-12)


def test_the_simulation_is_not_touched(solver: Solvers, build_model: Models) -> None:
    model = build_model("cube")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    before = data.qpos.copy(), data.site_xpos.copy(), model.qpos0.copy()
    ik = solver(model)
    ik.step(*_away(ik), DT)
    ik.solve(*_away(ik))
    for now, then in zip((data.qpos, data.site_xpos, model.qpos0), before, strict=True):
        np.testing.assert_array_equal(now, then)


# --- limits ---


def _assert_within(ik: ArmIK, before: Array, dt: float) -> None:
    """Check one tick's speed and range; both boxes are added up in float64, hence 1e-12."""
    q = ik.q
    assert np.all(np.abs(q - before) <= ik.velocity_limits * dt + 1e-12)
    assert np.all(q >= np.minimum(ik.lower, before) - 1e-12)
    assert np.all(q <= np.maximum(ik.upper, before) + 1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1 / 200, 1 / 300, 1 / 150, 1 / 20]))
def test_ranges_and_speeds_hold_on_every_tick(
    build_model: Models, solver: Solvers, seed: int, dt: float
) -> None:
    rng = np.random.default_rng(seed)
    ik = solver(build_model())
    ik.reset(_random_posture(ik, rng))
    for _ in range(4):
        quat = rng.normal(size=4)
        position, quat = rng.uniform(-1.2, 1.2, 3), quat / np.linalg.norm(quat)
        for _ in range(25):
            before = ik.q
            ik.step(position, quat, dt)
            _assert_within(ik, before, dt)
            assert np.all(np.isfinite(ik.q))


@pytest.mark.parametrize("joint", range(7))
@pytest.mark.parametrize("end", ["lower", "upper"])
@pytest.mark.parametrize("beyond", [0.0, 1e-6, 0.05])
def test_starting_at_or_beyond_a_limit(ik: ArmIK, joint: int, end: str, beyond: float) -> None:
    start = np.clip(ik.rest, ik.lower + 0.3, ik.upper - 0.3)
    limit = getattr(ik, end)[joint]
    start[joint] = limit + (beyond if end == "upper" else -beyond)
    ik.reset(start)
    target = ik.forward(np.clip(start, ik.lower + 0.4, ik.upper - 0.4))
    reach = ik.velocity_limits[joint] * DT
    ticks_outside = int(np.ceil(beyond / reach))
    for tick in range(400):
        before = ik.q
        ik.step(*target, DT)
        _assert_within(ik, before, DT)
        if tick + 1 >= ticks_outside:
            assert np.all(ik.q >= ik.lower - 1e-12)
            assert np.all(ik.q <= ik.upper + 1e-12)
    assert ik.report().status is IKStatus.CONVERGED, "not stuck at the limit"


def test_a_limit_that_acts_is_told(ik: ArmIK) -> None:
    position, quat = _away(ik, (0.3, 0.0, 0.0))
    ik.step(position, quat, DT)
    tick = ik.report()
    assert tick.limited
    assert tick.status is IKStatus.LIMITED
    ik.reset()
    ik.step(*ik.tool(), DT)
    assert not ik.report().limited
    assert ik.report().status is IKStatus.CONVERGED


# --- the same bits ---


def test_the_same_ticks_give_the_same_bits(bare: mujoco.MjModel, solver: Solvers) -> None:
    runs = []
    for _ in range(2):
        ik = solver(bare)
        target = _away(ik, (0.4, 0.3, -0.2))
        log = []
        for _ in range(100):
            ik.step(*target, DT)
            log.append(ik.q.tobytes())
        runs.append(log)
    assert runs[0] == runs[1]


def test_a_solver_goes_on_from_posture_and_increment_to_the_bit(
    bare: mujoco.MjModel, solver: Solvers
) -> None:
    """Also while limits act, where the solver's starting point shows in its last digits."""
    one, two = solver(bare), solver(bare)
    target = _away(one, (0.4, 0.3, -0.2))
    for tick in range(120):
        one.step(*target, DT)
        if tick % 7 == 0:
            two.reset(one.q, one.velocity)
        else:
            two.step(*target, DT)
        assert two.q.tobytes() == one.q.tobytes()


def test_looking_changes_nothing(ik: ArmIK, bare: mujoco.MjModel, solver: Solvers) -> None:
    """``forward``, ``solve``, ``tool`` and ``report`` leave the next ticks as they were."""
    other, target = solver(bare), _away(ik)
    for _ in range(40):
        ik.step(*target, DT)
        other.step(*target, DT)
        kept = ik.q, ik.velocity, *ik.tool()
        ik.report()
        ik.forward(np.full(7, 0.1))
        ik.solve((0.4, 0.2, 0.3), (0.0, 1.0, 0.0, 0.0), restarts=1, iterations=5)
        for now, then in zip((ik.q, ik.velocity, *ik.tool()), kept, strict=True):
            np.testing.assert_array_equal(now, then)
        assert ik.q.tobytes() == other.q.tobytes()


def test_what_is_handed_out_is_a_copy(ik: ArmIK) -> None:
    ik.step(*_away(ik), DT)
    kept = ik.q, ik.velocity, *ik.tool()
    for array in (ik.q, ik.velocity, *ik.tool(), *ik.forward(ik.q)):
        array[:] = 99.0
    for now, then in zip((ik.q, ik.velocity, *ik.tool()), kept, strict=True):
        np.testing.assert_array_equal(now, then)


TICKS = """
import hashlib
import numpy as np
from conftest import build, make_ik
ik = make_ik(build())
position, quat = ik.tool()
digest = hashlib.sha256()
for tick in range(2000):
    offset = [0.5 * np.sin(0.011 * tick), 0.4 * np.sin(0.017 * tick), -0.3 * np.sin(0.007 * tick)]
    ik.step(position + offset, quat, 1 / 200)
    digest.update(ik.q.tobytes())
digest.update(ik.solve(position + [0.1, 0.2, -0.2], quat).qpos.tobytes())
print(digest.hexdigest())
"""


def test_the_bits_do_not_depend_on_the_blas() -> None:
    """Two kernels of OpenBLAS, which give different last digits to a product of matrices."""
    found = set()
    for kernel in ("Prescott", "Haswell"):
        path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.getenv("PYTHONPATH")]))
        environment = os.environ | {"OPENBLAS_CORETYPE": kernel, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", TICKS],
            env=environment, capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        found.add(done.stdout.strip())
    assert len(found) == 1
    assert len(found.pop()) == len(hashlib.sha256().hexdigest())


# --- solve ---


def test_solve_reaches_what_can_be_reached(ik: ArmIK) -> None:
    """At least 99.5 % of random reachable poses: 199 of 200."""
    rng, reached = np.random.default_rng(1), 0
    for _ in range(200):
        position, quat = ik.forward(_random_posture(ik, rng))
        solution = ik.solve(position, quat)
        assert np.all(solution.qpos >= ik.lower - 1e-12)
        assert np.all(solution.qpos <= ik.upper + 1e-12)
        p, q = ik.forward(solution.qpos)
        close = np.linalg.norm(p - position) <= 1e-3 and _angle(q, quat) <= np.deg2rad(1.01)
        assert close == solution.ok, "the tolerances are 1 mm and 0.0175 rad"
        assert solution.position_error == pytest.approx(np.linalg.norm(p - position), abs=1e-9)
        reached += close
    assert reached >= 199


def test_solve_says_when_there_is_no_way(ik: ArmIK) -> None:
    solution = ik.solve((2.0, 0.0, 0.5), (0.0, 1.0, 0.0, 0.0), restarts=2)
    assert not solution.ok
    assert solution.status is not IKStatus.CONVERGED
    assert solution.position_error > 1.0
    assert np.all(np.isfinite(solution.qpos))


def test_solve_repeats(ik: ArmIK) -> None:
    """The first target needs restarts, drawn from a fixed seed unless another is given."""
    target = ((-0.3, -0.35, 0.2), (0.5, -0.5, 0.5, 0.5))
    one, two = ik.solve(*target), ik.solve(*target)
    assert one.qpos.tobytes() == two.qpos.tobytes()
    assert one.iterations == two.iterations


def test_solve_starts_at_the_seed_it_is_given(ik: ArmIK) -> None:
    q = np.clip(ik.rest + 0.3, ik.lower, ik.upper)
    solution = ik.solve(*ik.forward(q), seed=q)
    np.testing.assert_allclose(solution.qpos, q, atol=1e-9)
    assert solution.iterations == 1


@pytest.mark.parametrize(
    ("position", "quat", "message"),
    [
        ((0.5, 0.0, np.nan), (1, 0, 0, 0), "position"),
        ((0.5, 0.0), (1, 0, 0, 0), "position"),
        ((0.5, 0.0, 0.3), (0, 0, 0, 0), "wxyz"),
        ((0.5, 0.0, 0.3), (np.inf, 0, 0, 0), "wxyz"),
    ],
)
def test_solve_refuses_what_is_no_pose(
    ik: ArmIK, position: tuple, quat: tuple, message: str
) -> None:
    kept = ik.q
    with pytest.raises(KinematicsError, match=message):
        ik.solve(position, quat)
    np.testing.assert_array_equal(ik.q, kept)


def test_solve_takes_a_quaternion_of_any_length(ik: ArmIK) -> None:
    position, quat = ik.tool()
    assert ik.solve(position, 3.0 * quat).ok


@pytest.mark.parametrize("posture", [np.zeros(6), np.full(7, np.nan), np.full(7, np.inf)])
def test_a_bad_posture_is_refused(ik: ArmIK, posture: np.ndarray) -> None:
    with pytest.raises(KinematicsError, match="posture must be 7 finite"):
        ik.reset(posture)
