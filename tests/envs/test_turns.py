"""Every way in which the code turns points and rotations, against MuJoCo's and scipy's.

The heart of it is the turn-invariance test: turn a floating base anyhow, and what is fixed to a
body must not move in the body's frame. It takes the three mistakes that such code is prone to.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, permutations, product

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from envs.scene import Mount, compose_arm
from envs.tasks import moves, two_arm
from envs.tasks.things import Fixture, FreeObject, yaw_quat
from kinematics import EndEffectorTarget, Side, Workspace
from kinematics.frames import (
    R_CAMERA_OPENCV,
    R_WORLD_TRACKING,
    Array,
    axes_table,
    pose,
    quat_wxyz,
    rotation,
)
from teleop_agent import turns

EXACT = 1e-12  # products of numbers near 1: rounding is 1e-16 each
FEW = settings(max_examples=30, deadline=None)

quats = (
    st.tuples(*[st.floats(-1.0, 1.0)] * 4)
    .map(np.array)
    .filter(lambda q: np.linalg.norm(q) > 0.1)
    .map(lambda q: q / np.linalg.norm(q))
)
points = st.tuples(*[st.floats(-2.0, 2.0)] * 3).map(np.array)


def matrix_of(quat: Array) -> Array:
    """Return MuJoCo's matrix (3, 3) of a wxyz."""
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, quat)
    return matrix.reshape(3, 3)


def angle_of(turn: Array) -> float:
    """Return the angle [rad] of a rotation matrix by scipy."""
    return float(Rotation.from_matrix(turn).magnitude())


# --- a floating base, turned ---

FIXED = np.array([0.11, -0.07, 0.23])
"""m; of a point in its body's frame, no two entries alike."""
FLOATING = """
<mujoco><worldbody>
  <body name="base"><freejoint/><geom type="box" size=".1 .1 .1"/>
    <site name="on_base" pos="0.11 -0.07 0.23"/></body>
  <body name="still" mocap="true"><geom type="box" size=".1 .1 .1"/>
    <site name="on_still" pos="0.11 -0.07 0.23"/></body>
</worldbody></mujoco>
"""


@dataclass
class Floating:
    """A free and a mocap body at one pose, each with the same point on it."""

    def __post_init__(self) -> None:
        self.model = mujoco.MjModel.from_xml_string(FLOATING)
        self.data = mujoco.MjData(self.model)
        self.free = FreeObject(self.model, "base")
        self.still = Fixture(self.model, "still")

    def turn(self, position: Array, quat: Array) -> None:
        """Put both there."""
        data = self.data
        data.qpos[:3] = data.mocap_pos[0] = position
        data.qpos[3:] = data.mocap_quat[0] = quat
        mujoco.mj_kinematics(self.model, data)

    @property
    def seen(self) -> Array:
        """The point (3,) in world [m], by MuJoCo's kinematics."""
        return self.data.site("on_base").xpos


Local = Callable[[Floating, Array], Array]


def _workspace(world: Floating, point: Array) -> Array:
    return Workspace(world.free.pose(world.data)).to_base(point)


def _axes(world: Floating, point: Array) -> Array:
    offset = point - world.free.position(world.data)
    return np.array([two_arm.axis_of(world.data, world.free, axis) @ offset for axis in range(3)])


def _carried(world: Floating, point: Array) -> Array:
    """A tool at the point goes where its object goes: from here to the origin, unturned."""
    tool = EndEffectorTarget(Side.RIGHT, point, world.free.quat(world.data), 0.0)
    home = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    goal = two_arm.carry(tool, two_arm.pose_of(world.data, world.free), home, 0.01, 0.1).target
    assert moves.turn_between(goal.quat_wxyz, home[3:]) < 1e-7
    return goal.position


OURS: dict[str, Local] = {
    "pose": lambda world, point: world.free.pose(world.data).inv().apply(point),
    "pose of a fixture": lambda world, point: world.still.pose(world.data).inv().apply(point),
    "fixture": lambda world, point: world.still.local(world.data, point),
    "workspace": _workspace,
    "axes": _axes,
    "carry": _carried,
    "turn_matrix": lambda world, point: (
        turns.turn_matrix(world.free.quat(world.data)).T @ (point - world.free.position(world.data))
    ),
}


def _mutant(world: Floating, point: Array, way: str) -> Array:
    quat = world.free.quat(world.data).copy()
    if way == "the scalar last":
        quat = quat[[1, 2, 3, 0]]
    turn, offset = matrix_of(quat), point - world.free.position(world.data)
    if way == "subtracted only":
        return offset
    return turn @ offset if way == "transposed" else turn.T @ offset


MUTANTS = ("subtracted only", "transposed", "the scalar last")


def _wander(local: Local) -> float:
    """Return the most by which a body's point moves in its frame over turns of the base [m]."""
    world, rng = Floating(), np.random.default_rng(0)
    worst = 0.0
    for quat in rng.normal(size=(20, 4)):
        world.turn(rng.uniform(-1.0, 1.0, 3), quat / np.linalg.norm(quat))
        worst = max(worst, np.abs(local(world, world.seen) - FIXED).max())
    return worst


@pytest.mark.parametrize("name", OURS)
def test_what_is_fixed_to_a_body_does_not_move_in_its_frame(name: str) -> None:
    assert _wander(OURS[name]) < 1e-9  # m


@pytest.mark.parametrize("way", MUTANTS)
def test_the_turns_show_what_is_wrong(way: str) -> None:
    """Each mistake by decimetres; done right, the same code passes."""
    assert _wander(lambda world, point: _mutant(world, point, way)) > 0.1
    assert _wander(lambda world, point: _mutant(world, point, "right")) < 1e-9


@FEW
@given(points, quats)
def test_and_back_to_the_world(position: Array, quat: Array) -> None:
    world = Floating()
    world.turn(position, quat)
    for found in (
        world.still.world(world.data, FIXED),
        two_arm.point_of(world.data, world.free, FIXED),
        Workspace(world.free.pose(world.data)).to_world(FIXED),
        world.free.pose(world.data).apply(FIXED),
    ):
        np.testing.assert_allclose(found, world.seen, atol=1e-11)


def test_an_arm_on_a_turned_base_is_the_same_arm() -> None:
    """Its tool does not move in the base's frame, nor do its workspace's corners."""
    rng, upright = np.random.default_rng(1), compose_arm(Side.RIGHT, Mount())
    data = mujoco.MjData(upright)
    postures = rng.uniform(*upright.jnt_range.T, (5, upright.nq))
    for quat in rng.normal(size=(5, 4)):
        T_world_base = pose(rng.uniform(-1.0, 1.0, 3), quat / np.linalg.norm(quat))
        base = Workspace(T_world_base)
        turned = compose_arm(Side.RIGHT, Mount(T_world_base=T_world_base))
        own = mujoco.MjData(turned)
        for posture in postures:
            data.qpos[:] = own.qpos[:] = posture
            mujoco.mj_kinematics(upright, data)
            mujoco.mj_kinematics(turned, own)
            found, expected = own.site("right/hand/ee"), data.site("right/hand/ee")
            np.testing.assert_allclose(base.to_base(found.xpos), expected.xpos, atol=1e-9)
            turn = T_world_base.rotation.as_matrix().T @ found.xmat.reshape(3, 3)
            np.testing.assert_allclose(turn, expected.xmat.reshape(3, 3), atol=1e-9)
        for corner in product(*zip(base.lower, base.upper, strict=True)):
            outside = base.to_world(np.array(corner) + 0.1 * np.sign(corner - base.lower - 0.01))
            np.testing.assert_allclose(
                base.clamp(outside), base.to_world(np.array(corner)), atol=1e-9
            )


# --- quaternions ---


@FEW
@given(quats, quats, points)
def test_quaternions_are_mujocos_and_scipys(one: Array, two: Array, vector: Array) -> None:
    """Of every function of ours that takes or gives one; quaternions are compared as matrices."""
    a, b = matrix_of(one), matrix_of(two)
    scipys = Rotation.from_quat(one, scalar_first=True)
    np.testing.assert_allclose(rotation(one).as_matrix(), a, atol=EXACT)
    np.testing.assert_allclose(scipys.as_matrix(), a, atol=EXACT)
    np.testing.assert_allclose(turns.turn_matrix(one), a, atol=EXACT)
    for quat in (quat_wxyz(scipys), quat_wxyz(pose(vector, one)), turns.turn_quat(a)):
        np.testing.assert_allclose(matrix_of(quat), a, atol=1e-9)
        assert quat[0] >= 0.0
    target = EndEffectorTarget(Side.RIGHT, vector, one, 0.0)
    np.testing.assert_allclose(target.T_world_ee.as_matrix()[:3, :3], a, atol=EXACT)
    again = EndEffectorTarget.from_transform(Side.RIGHT, target.T_world_ee, 0.0)
    np.testing.assert_allclose(matrix_of(again.quat_wxyz), a, atol=EXACT)
    between = angle_of(a.T @ b)
    assert moves.turn_between(one, two) == pytest.approx(between, abs=1e-7)
    np.testing.assert_allclose(turns.renormalised(a * (1.0 + 1e-9)), a, atol=1e-8)
    np.testing.assert_allclose(turns.nearest_rotation(1.3 * a), a, atol=1e-9)


@FEW
@given(points)
def test_rotation_vectors_are_scipys(rotvec: Array) -> None:
    """And theirs is the shortest way back; at half a turn its sign is anyone's."""
    turn = Rotation.from_rotvec(rotvec)
    np.testing.assert_allclose(turns.turn_exp(rotvec), turn.as_matrix(), atol=EXACT)
    shortest = turns.turn_log(turns.turn_exp(rotvec))
    assert np.linalg.norm(shortest) <= np.pi + 1e-9
    np.testing.assert_allclose(turns.turn_exp(shortest), turn.as_matrix(), atol=1e-7)
    if np.linalg.norm(rotvec) < 3.1:
        np.testing.assert_allclose(shortest, rotvec, atol=1e-7)


@FEW
@given(st.floats(-3.0, 3.0), st.floats(-np.pi, np.pi), quats, points)
def test_tools_that_point_down(yaw: float, near: float, quat: Array, at: Array) -> None:
    """Each way to write one: z down, x or the fingers' axis (y) where it is asked for."""
    heading = np.array([np.cos(yaw), np.sin(yaw), 0.0])
    np.testing.assert_allclose(matrix_of(np.array(yaw_quat(yaw)))[:, 0], heading, atol=EXACT)
    tool = EndEffectorTarget(Side.RIGHT, at, quat, 0.0)
    down = matrix_of(moves.tool_down(tool, [yaw], np.pi))
    np.testing.assert_allclose(down[:, 0], heading, atol=1e-9)
    np.testing.assert_allclose(down[:, 2], [0.0, 0.0, -1.0], atol=1e-9)
    grasp = matrix_of(two_arm.across(heading, near))
    assert abs(grasp[:, 1] @ heading) == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(grasp[:, 2], [0.0, 0.0, -1.0], atol=1e-9)
    turned = np.arctan2(grasp[1, 0], grasp[0, 0]) - near
    assert abs(moves.wrap(turned)) <= np.pi / 2 + 1e-9, "the nearer of two"
    own = Rotation.from_quat(quat, scalar_first=True).apply([1.0, 0.0, 0.0])
    yaws = [yaw + quarter * np.pi / 2 for quarter in range(4)]
    chosen = yaws[moves.best_yaw(tool, yaws, np.pi)]
    if np.hypot(*own[:2]) > 1e-6:  # else it has no yaw
        off = moves.wrap(chosen - np.arctan2(own[1], own[0]))
        assert abs(off) <= np.pi / 4 + 1e-9


@FEW
@given(quats)
def test_flat_axes_are_the_flattest(quat: Array) -> None:
    yaws = moves.flat_axes(quat)
    flat = max((matrix_of(quat)[:2].T), key=lambda axis: np.hypot(*axis))
    assert moves.wrap(yaws[0] - np.arctan2(flat[1], flat[0])) == pytest.approx(0.0, abs=1e-9)
    assert np.allclose([b - a for a, b in pairwise(yaws)], np.pi / 2)


# --- axis tables and component permutations ---


def _signed_permutations() -> Iterator[Array]:
    for order, signs in product(permutations(range(3)), product((1.0, -1.0), repeat=3)):
        yield np.diag(signs)[:, list(order)]


def test_tables_of_axes_are_rotations_and_permutations_of_components_are_not_taken() -> None:
    """Of the 48 ways to swap and flip components, half mirror; a table can be none of those."""
    mirrors = 0
    for swap in _signed_permutations():
        table = axes_table(swap[0], swap[1])
        assert np.linalg.det(table) == pytest.approx(1.0)
        if np.linalg.det(swap) < 0.0:
            mirrors += 1
            np.testing.assert_array_equal(table[2], -swap[2])
        else:
            np.testing.assert_array_equal(table, swap)
    assert mirrors == 24
    for table in (R_WORLD_TRACKING, R_CAMERA_OPENCV):
        assert np.linalg.det(table) == pytest.approx(1.0)


@FEW
@given(quats)
def test_a_table_turns_what_a_permutation_of_a_quaternion_turns(quat: Array) -> None:
    """Axes change on both sides of a matrix, and alike in a quaternion's vector part alone.

    The scalar stays first: a table never mixes it in, and a mirror would need its sign.
    """
    for swap in _signed_permutations():
        if np.linalg.det(swap) < 0.0:
            continue
        moved = np.array([quat[0], *(swap @ quat[1:])])
        expected = swap @ matrix_of(quat) @ swap.T
        np.testing.assert_allclose(matrix_of(moved), expected, atol=1e-12)
        np.testing.assert_allclose(
            (
                Rotation.from_matrix(swap) * rotation(quat) * Rotation.from_matrix(swap).inv()
            ).as_matrix(),
            expected,
            atol=1e-12,
        )
