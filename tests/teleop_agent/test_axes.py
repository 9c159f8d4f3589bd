"""Directions of moves and turns, in numbers written by hand."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from kinematics import Side
from kinematics.frames import rotation
from teleop_agent.limits import Clamp

RIGHT = Side.RIGHT

# The operator's facing [degrees left of -z], what the controller does in tracking, and what the
# tool, which points down, does in world. The scale is 0.6.
MOVES = [
    (0, (0.10, 0.0, 0.0), (0.0, -0.06, 0.0)),
    (0, (0.0, 0.10, 0.0), (0.0, 0.0, 0.06)),
    (0, (0.0, 0.0, 0.10), (-0.06, 0.0, 0.0)),
    (90, (0.10, 0.0, 0.0), (-0.06, 0.0, 0.0)),
    (90, (0.0, 0.10, 0.0), (0.0, 0.0, 0.06)),
    (90, (0.0, 0.0, 0.10), (0.0, 0.06, 0.0)),
    (180, (0.10, 0.0, 0.0), (0.0, 0.06, 0.0)),
    (180, (0.0, 0.10, 0.0), (0.0, 0.0, 0.06)),
    (180, (0.0, 0.0, 0.10), (0.06, 0.0, 0.0)),
]
# Turns by 30 degrees about tracking's axes; the tool's turn about world's axes [degrees]; where
# the tool's z, first (0, 0, -1), points afterwards.
TURNS = [
    (0, (30, 0, 0), (0, -30, 0), (0.5, 0.0, -0.8660254)),
    (0, (0, 30, 0), (0, 0, 30), (0.0, 0.0, -1.0)),
    (0, (0, 0, 30), (-30, 0, 0), (0.0, -0.5, -0.8660254)),
    (90, (30, 0, 0), (-30, 0, 0), (0.0, -0.5, -0.8660254)),
    (90, (0, 30, 0), (0, 0, 30), (0.0, 0.0, -1.0)),
    (90, (0, 0, 30), (0, 30, 0), (-0.5, 0.0, -0.8660254)),
    (180, (30, 0, 0), (0, 30, 0), (-0.5, 0.0, -0.8660254)),
    (180, (0, 30, 0), (0, 0, 30), (0.0, 0.0, -1.0)),
    (180, (0, 0, 30), (30, 0, 0), (0.0, 0.5, -0.8660254)),
]


def turned(before: np.ndarray, after: np.ndarray) -> Rotation:
    return rotation(after) * rotation(before).inv()


@pytest.mark.parametrize(("facing", "by", "moved"), MOVES)
def test_moves_of_the_hand(session, facing, by, moved) -> None:
    s = session(head_yaw=np.deg2rad(facing))
    s.engage()
    before = s.target()
    step = s.glide(1.0, by)
    # 1e-6: the tail of the filter, and float32 actions.
    assert np.allclose(s.target().position - before.position, moved, atol=1e-6)
    assert turned(before.quat_wxyz, s.target().quat_wxyz).magnitude() < 1e-6
    assert step.hands[RIGHT].clamps is Clamp.NONE


@pytest.mark.parametrize(("facing", "by", "expected", "tool_z"), TURNS)
def test_turns_of_the_hand(session, facing, by, expected, tool_z) -> None:
    s = session(head_yaw=np.deg2rad(facing))
    s.engage()
    before = s.target()
    s.rotate(1.0, Rotation.from_rotvec(by, degrees=True))
    turn = turned(before.quat_wxyz, s.target().quat_wxyz).as_rotvec(degrees=True)
    assert np.allclose(turn, expected, atol=1e-3)  # degrees
    assert np.allclose(rotation(s.target().quat_wxyz).apply([0, 0, 1]), tool_z, atol=1e-5)
    assert np.allclose(s.target().position, before.position, atol=1e-6)


@pytest.mark.parametrize(
    ("axis", "world_axis"), [((1, -1, 0), (0, -1, -1)), ((1, 2, -3), (3, -1, 2))]
)
def test_half_turns_about_slanted_axes(session, axis, world_axis) -> None:
    s = session()
    s.engage()
    before = rotation(s.target().quat_wxyz)
    s.rotate(3.0, Rotation.from_rotvec(np.pi * np.array(axis) / np.linalg.norm(axis)))
    half = Rotation.from_rotvec(np.pi * np.array(world_axis) / np.linalg.norm(world_axis))
    off = rotation(s.target().quat_wxyz) * (half * before).inv()
    assert np.rad2deg(off.magnitude()) < 0.01


def test_turning_only_the_head_moves_nothing(session) -> None:
    s = session()
    s.engage()
    s.glide(0.5, (0.03, 0.0, -0.05))
    before = s.target()
    for yaw in np.linspace(0.0, np.pi / 4, 30):
        s.head.turn = Rotation.from_euler("YX", [yaw, -0.3])
        s.head.position = np.array([0.3 * yaw, 1.6, 0.0])
        s.run(0.02)
    assert np.allclose(s.target().position, before.position, atol=1e-9)
    s.glide(0.5, (0.0, 0.0, -0.10))  # and forward is still what it was
    assert np.allclose(s.target().position - before.position, (0.06, 0.0, 0.0), atol=1e-6)
