"""Axes, facing and quaternions against numbers written by hand and against MuJoCo's."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from kinematics import KinematicsError
from kinematics.frames import (
    R_WORLD_TRACKING,
    axes_table,
    facing_yaw,
    pose,
    quat_wxyz,
    rotation,
    world_from_tracking,
)

ROOT = Path(__file__).parents[2]
EXACT = 1e-12  # a few products of numbers near 1: rounding is 1e-16 each

vectors = st.tuples(*[st.floats(-1.0, 1.0)] * 3).map(np.array)
axes = vectors.filter(lambda v: np.linalg.norm(v) > 0.1).map(lambda v: v / np.linalg.norm(v))
# Exactly 0 and pi, their neighbourhoods, and everything between.
angles = st.one_of(
    st.sampled_from([0.0, 1e-12, 1e-8, 1e-4, np.pi - 1e-8, np.pi - 1e-12, np.pi]),
    st.floats(-np.pi, np.pi),
)


# --- axes ---


@pytest.mark.parametrize(
    ("tracking", "world"),
    [
        ((1, 0, 0), (0, -1, 0)),  # right of the operator is -y
        ((0, 1, 0), (0, 0, 1)),  # up stays up
        ((0, 0, 1), (-1, 0, 0)),  # behind the operator is -x
        ((0, 0, -1), (1, 0, 0)),  # ahead is +x
    ],
)
def test_axes_of_an_operator_who_faces_ahead(tracking: tuple, world: tuple) -> None:
    np.testing.assert_array_equal(R_WORLD_TRACKING @ tracking, world)


def test_the_table_is_a_rotation_and_cannot_be_changed() -> None:
    assert np.linalg.det(R_WORLD_TRACKING) == pytest.approx(1.0, abs=EXACT)
    np.testing.assert_array_equal(R_WORLD_TRACKING[2], [0.0, 1.0, 0.0])
    with pytest.raises(ValueError, match="read-only"):
        R_WORLD_TRACKING[0, 0] = 1.0


@given(axes, axes)
def test_any_two_orthonormal_rows_make_a_right_handed_table(x: np.ndarray, other: np.ndarray):
    y = np.cross(x, other)
    if np.linalg.norm(y) < 0.1:
        return
    table = axes_table(x, y / np.linalg.norm(y))
    assert np.linalg.det(table) == pytest.approx(1.0, abs=EXACT)


@pytest.mark.parametrize("rows", [((1, 0, 0), (1, 0, 0)), ((2, 0, 0), (0, 1, 0)), ((0, 0, 0),) * 2])
def test_rows_that_are_not_orthonormal_are_refused(rows: tuple) -> None:
    with pytest.raises(KinematicsError, match="not orthonormal"):
        axes_table(*rows)


# --- facing ---


@pytest.mark.parametrize(
    ("degrees", "gaze"),
    [(0, (0, 0, -1)), (90, (-1, 0, 0)), (180, (0, 0, 1)), (-90, (1, 0, 0))],
)
def test_where_the_operator_looks_becomes_forward(degrees: float, gaze: tuple) -> None:
    turn = world_from_tracking(np.deg2rad(degrees))
    np.testing.assert_allclose(turn.apply(gaze), [1, 0, 0], atol=EXACT)
    np.testing.assert_allclose(turn.apply([0, 1, 0]), [0, 0, 1], atol=EXACT)


@given(st.floats(-3.1, 3.1), st.floats(-1.3, 1.3), st.floats(-3.0, 3.0))
def test_facing_ignores_pitch_and_roll(yaw: float, pitch: float, roll: float) -> None:
    head = Rotation.from_euler("YXZ", [yaw, pitch, roll])
    assert facing_yaw(head) == pytest.approx(yaw, abs=1e-9)  # divided by cos(pitch) >= 0.26


@given(st.floats(-3.1, 3.1))
def test_facing_and_axes_agree(yaw: float) -> None:
    head = Rotation.from_euler("Y", yaw)
    ahead = world_from_tracking(facing_yaw(head)).apply(head.apply([0, 0, -1]))
    np.testing.assert_allclose(ahead, [1, 0, 0], atol=1e-9)


@pytest.mark.parametrize("degrees", [81, 90, -85])
def test_a_vertical_gaze_has_no_facing(degrees: float) -> None:
    with pytest.raises(KinematicsError, match="vertical"):
        facing_yaw(Rotation.from_euler("YX", [20, degrees], degrees=True))


# --- turns seen from the world ---


def _turn_in_world(rotvec: tuple[float, ...]) -> np.ndarray:
    """Return the world rotation matrix of a turn given in tracking."""
    to_world = world_from_tracking()
    return (to_world * Rotation.from_rotvec(rotvec) * to_world.inv()).as_matrix()


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        ((1, 0, 0), (0, -1, 0)),  # about right: -30 degrees about y
        ((0, 1, 0), (0, 0, 1)),  # about up: +30 about z
        ((0, 0, 1), (-1, 0, 0)),  # about back: -30 about x
    ],
)
def test_turns_of_thirty_degrees(axis: tuple, expected: tuple) -> None:
    angle = np.deg2rad(30.0)
    wanted = Rotation.from_rotvec(np.multiply(expected, angle)).as_matrix()
    np.testing.assert_allclose(_turn_in_world(np.multiply(axis, angle)), wanted, atol=EXACT)


@pytest.mark.parametrize(
    ("axis", "matrix"),
    [
        # About (1, -1, 0) in tracking, (0, -1, -1) in world: 2 n n' - 1, by hand.
        ((1, -1, 0), [[-1, 0, 0], [0, 0, 1], [0, 1, 0]]),
        # About (1, 2, -3), (3, -1, 2) in world: n n' / 7 - 1.
        ((1, 2, -3), np.array([[2, -3, 6], [-3, -6, -2], [6, -2, -3]]) / 7.0),
    ],
)
def test_half_turns_are_exact(axis: tuple, matrix: np.ndarray) -> None:
    rotvec = np.pi * np.array(axis) / np.linalg.norm(axis)
    turned = _turn_in_world(rotvec)
    np.testing.assert_allclose(turned, matrix, atol=1e-9)
    back = rotation(quat_wxyz(Rotation.from_matrix(turned))).as_matrix()
    np.testing.assert_allclose(back, matrix, atol=1e-9)  # 1e-9 rad; 0.01 degree was asked


# --- quaternions ---


@given(axes, angles)
@example(np.array([0.0, 0.0, 1.0]), np.pi)
def test_quaternions_are_those_of_mujoco(axis: np.ndarray, angle: float) -> None:
    turn = Rotation.from_rotvec(axis * angle)
    quat, matrix = quat_wxyz(turn), np.zeros(9)
    mujoco.mju_quat2Mat(matrix, quat)
    np.testing.assert_allclose(matrix.reshape(3, 3), turn.as_matrix(), atol=EXACT)
    np.testing.assert_allclose(rotation(quat).as_matrix(), turn.as_matrix(), atol=EXACT)
    assert quat[0] >= 0.0
    assert np.linalg.norm(quat) == pytest.approx(1.0, abs=EXACT)


def test_the_scalar_comes_first() -> None:
    """An odd quaternion, whose matrix in the other order is far off."""
    quat = np.array([0.5, 0.1, -0.7, 0.5])
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, quat / np.linalg.norm(quat))
    np.testing.assert_allclose(rotation(quat).as_matrix().ravel(), matrix, atol=EXACT)
    np.testing.assert_array_equal(quat_wxyz(Rotation.identity()), [1, 0, 0, 0])


@given(vectors, axes, angles)
def test_a_pose_carries_a_point_from_b_to_a(p: np.ndarray, axis: np.ndarray, angle: float) -> None:
    turn = Rotation.from_rotvec(axis * angle)
    T_a_b = pose(p, quat_wxyz(turn))
    np.testing.assert_allclose(T_a_b.apply([1, 2, 3]), turn.apply([1, 2, 3]) + p, atol=1e-11)
    np.testing.assert_allclose((T_a_b.inv() * T_a_b).as_matrix(), np.eye(4), atol=1e-11)
    same = quat_wxyz(T_a_b)
    assert abs(same @ quat_wxyz(turn)) == pytest.approx(1.0, abs=EXACT), "up to sign"


@pytest.mark.parametrize(
    "quat", [(0, 0, 0, 0), (1, 0, 0), (np.nan, 0, 0, 1), (np.inf, 0, 0, 1), ((1, 0, 0, 0),)]
)
def test_what_is_no_quaternion_is_refused(quat: tuple) -> None:
    with pytest.raises(KinematicsError, match="wxyz"):
        rotation(quat)


@pytest.mark.parametrize("position", [(0, 0), (0, 0, np.nan), (0, 0, -np.inf)])
def test_what_is_no_position_is_refused(position: tuple) -> None:
    with pytest.raises(KinematicsError, match="position"):
        pose(position)


# --- one boundary ---


def _sources() -> list[Path]:
    rooms = ("kinematics", "envs", "teleop_agent", "episodes", "benchmarks", "examples")
    files = [file for room in rooms for file in (ROOT / room).rglob("*.py")]
    return [*files, *ROOT.glob("*.py")]


def test_no_other_order_occurs_in_the_code() -> None:
    other = "xy" + "zw"
    sources = _sources()
    assert ROOT / "kinematics" / "frames.py" in sources
    assert [file for file in sources if other in file.read_text(encoding="utf-8").lower()] == []


def test_scipy_is_asked_for_quaternions_in_one_module_only() -> None:
    words = ("from_quat(", "as_quat(", "scalar_first")
    guilty = [
        file.relative_to(ROOT)
        for file in _sources()
        if "benchmarks" not in file.parts  # other libraries' solvers speak scipy
        and any(word in file.read_text(encoding="utf-8") for word in words)
    ]
    assert guilty == [Path("kinematics/frames.py")]
