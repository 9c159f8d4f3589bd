"""What moves between the rooms is validated, copied and read-only."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinematics import EndEffectorTarget, KinematicsError, Side, SpeedLimits, Waypoint, Workspace
from kinematics.frames import pose, quat_wxyz
from kinematics.ik import IKConfig

DOWN = (0.0, 1.0, 0.0, 0.0)


def test_a_target_owns_its_arrays() -> None:
    position, quat = np.array([0.5, 0.0, 0.2]), np.array(DOWN)
    target = EndEffectorTarget(Side.RIGHT, position, quat, 0.5)
    position[:], quat[:] = 9.0, 9.0
    np.testing.assert_array_equal(target.position, [0.5, 0.0, 0.2])
    np.testing.assert_array_equal(target.quat_wxyz, DOWN)
    for array in (target.position, target.quat_wxyz):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        target.closure = 1.0  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("position", "quat", "closure", "message"),
    [
        ((0, 0), DOWN, 0, r"target position must be finite with shape \(3,\)"),
        ((0, 0, np.nan), DOWN, 0, "target position"),
        ((0, 0, 0), (1, 0, 0), 0, "target quaternion"),
        ((0, 0, 0), (np.inf, 0, 0, 0), 0, "target quaternion"),
        ((0, 0, 0), (1, 1, 0, 0), 0, "has norm 1.414"),
        ((0, 0, 0), (0, 0, 0, 0), 0, "has norm 0.0"),
        ((0, 0, 0), DOWN, 1.01, r"closure must be in \[0, 1\], got 1.01"),
        ((0, 0, 0), DOWN, -0.01, "closure"),
        ((0, 0, 0), DOWN, np.nan, "closure"),
    ],
)
def test_a_bad_target_is_refused(
    position: tuple, quat: tuple, closure: float, message: str
) -> None:
    with pytest.raises(KinematicsError, match=message):
        EndEffectorTarget(Side.LEFT, np.array(position), np.array(quat), closure)


def test_a_target_is_a_transform_and_back() -> None:
    target = EndEffectorTarget(Side.LEFT, np.array([1.0, 2.0, 3.0]), np.array(DOWN), 1.0)
    same = EndEffectorTarget.from_transform(Side.LEFT, target.T_world_ee, 1.0)
    np.testing.assert_array_equal(same.position, target.position)
    assert abs(same.quat_wxyz @ target.quat_wxyz) == pytest.approx(1.0, abs=1e-12), "up to sign"


points = st.tuples(*[st.floats(-2.0, 2.0)] * 3).map(np.array)
yaws = st.floats(-np.pi, np.pi)


def _yawed(yaw: float, where: np.ndarray) -> Workspace:
    return Workspace(pose(where, (np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2))))


@given(points, yaws, points)
def test_clamping_ends_in_the_box_and_stays(p: np.ndarray, yaw: float, base: np.ndarray) -> None:
    workspace = _yawed(yaw, base)
    inside = workspace.clamp(p)
    local = workspace.T_world_base.inv().apply(inside)
    assert np.all(local >= workspace.lower - 1e-12)  # rounding of two turns
    assert np.all(local <= workspace.upper + 1e-12)
    np.testing.assert_array_equal(workspace.clamp(inside), inside, "twice is once, to the bit")


@given(yaws, points, st.tuples(*[st.floats(0.0, 1.0)] * 3).map(np.array))
def test_a_point_inside_is_left_alone(yaw: float, base: np.ndarray, share: np.ndarray) -> None:
    workspace = _yawed(yaw, base)
    local = workspace.lower + (0.01 + 0.98 * share) * (workspace.upper - workspace.lower)
    p = workspace.T_world_base.apply(local)
    clamped = workspace.clamp(p)
    np.testing.assert_array_equal(clamped, p)
    assert clamped is not p


def test_clamping_with_the_base_turned_by_hand_written_numbers() -> None:
    """Base at (0, 0.3, 0) facing left: its x is world y, its y is world -x."""
    workspace = _yawed(np.pi / 2, np.array([0.0, 0.3, 0.0]))
    # Ahead of it by 2 m, at height -1: x ends at 0.80 of base, z at 0.01.
    np.testing.assert_allclose(
        workspace.clamp(np.array([0.0, 2.3, -1.0])), [0, 1.1, 0.01], atol=1e-12
    )
    # Its right is world +x: y ends at -0.5 of base.
    np.testing.assert_allclose(
        workspace.clamp(np.array([3.0, 0.8, 0.2])), [0.5, 0.8, 0.2], atol=1e-12
    )


@given(points, yaws, points)
def test_a_box_grown_to_hold_a_point_holds_it(p: np.ndarray, yaw: float, base: np.ndarray) -> None:
    workspace = _yawed(yaw, base)
    grown = workspace.including(p)
    np.testing.assert_array_equal(grown.clamp(p), p)
    np.testing.assert_array_equal(grown.clamp(workspace.clamp(p)), workspace.clamp(p))
    assert (grown is workspace) == np.array_equal(workspace.clamp(p), p)


def test_an_empty_workspace_is_refused() -> None:
    with pytest.raises(KinematicsError, match=r"workspace lower .* must be below upper"):
        Workspace(lower=np.array([0.2, 0.5, 0.01]))
    with pytest.raises(KinematicsError, match="workspace upper must be finite"):
        Workspace(upper=np.array([0.2, np.nan, 0.01]))


@pytest.mark.parametrize(
    "field", ["linear", "angular", "linear_acceleration", "angular_acceleration"]
)
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_a_bad_speed_limit_is_refused(field: str, value: float) -> None:
    with pytest.raises(KinematicsError, match=f"speed limit {field}"):
        SpeedLimits(**{field: value})


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(IKConfig)])
def test_a_bad_weight_is_refused(field: str) -> None:
    with pytest.raises(KinematicsError, match=f"IKConfig.{field}"):
        IKConfig(**{field: -1.0})
    with pytest.raises(KinematicsError, match=f"IKConfig.{field}"):
        IKConfig(**{field: np.nan})


@pytest.mark.parametrize("field", ["damping", "nullspace_damping"])
def test_a_weight_that_keeps_the_problem_solvable_must_be_positive(field: str) -> None:
    with pytest.raises(KinematicsError, match="must be > 0"):
        IKConfig(**{field: 0.0})


def test_sides() -> None:
    assert list(Side) == [Side.RIGHT, Side.LEFT], "robot0 is right"
    assert [side.prefix for side in Side] == ["right/", "left/"]
    assert [side.other for side in Side] == [Side.LEFT, Side.RIGHT]


def test_a_waypoint_says_how_close() -> None:
    target = EndEffectorTarget(Side.RIGHT, np.zeros(3), quat_wxyz(pose((0, 0, 0))), 0.0)
    assert Waypoint(target).tolerance_m == 0.01
