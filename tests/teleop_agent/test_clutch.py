"""The clutch's arithmetic and its settings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from teleop_agent.clutch import Clutch, ClutchConfig, GripOffset, Lock, Ratio
from teleop_agent.errors import TeleopError

vectors = st.tuples(*[st.floats(-2.0, 2.0)] * 3).map(np.array)
turns = st.tuples(*[st.floats(-3.0, 3.0)] * 3).map(lambda v: Rotation.from_rotvec(v).as_matrix())
poses = st.tuples(vectors, turns)
FREE = Ratio(0.6, 1.0, Lock.FREE)
ratios = st.builds(Ratio, st.floats(0.01, 5.0), st.floats(0.25, 4.0), st.sampled_from(Lock))


@given(hand=poses, tool=poses, ratio=ratios)
def test_at_the_anchor_the_hand_means_the_tool_pose(hand, tool, ratio) -> None:
    clutch = Clutch()
    clutch.anchor(*hand, *tool, ratio)
    position, turn = clutch.target(*hand)
    assert np.array_equal(position, tool[0])
    assert np.abs(turn - tool[1]).max() < 1e-14


@given(hand=poses, tool=poses, move=vectors, turn=turns, scale=st.floats(0.01, 5.0))
def test_motion_since_the_anchor_is_scaled_and_turns_are_not(hand, tool, move, turn, scale) -> None:
    clutch = Clutch()
    clutch.anchor(*hand, *tool, Ratio(scale, 1.0, Lock.FREE))
    position, turned = clutch.target(hand[0] + move, turn @ hand[1])
    assert np.allclose(position, tool[0] + scale * move, atol=1e-13)
    assert np.allclose(turned, turn @ tool[1], atol=1e-13)  # about world's axes, whatever the tool


@given(hand=poses, tool=poses, there=poses, slid=poses, move=vectors)
def test_sliding_keeps_what_the_hand_does_next(hand, tool, there, slid, move) -> None:
    clutch = Clutch()
    clutch.anchor(*hand, *tool, FREE)
    clutch.anchor(*there, *slid, FREE)
    position, turned = clutch.target(there[0] + move, there[1])
    assert np.allclose(position, slid[0] + 0.6 * move, atol=1e-13)
    assert np.allclose(turned, slid[1], atol=1e-13)


small_turns = st.tuples(*[st.floats(-1.0, 1.0)] * 3).map(np.array)


@given(hand=poses, tool=poses, move=vectors, spin=small_turns, ratio=ratios)
def test_a_lock_takes_its_part_of_the_motion_away(hand, tool, move, spin, ratio) -> None:
    clutch = Clutch()
    clutch.anchor(*hand, *tool, ratio)
    turn = Rotation.from_rotvec(spin)
    position, turned = clutch.target(hand[0] + move, turn.as_matrix() @ hand[1])
    by = position - tool[0]
    spun = Rotation.from_matrix(turned @ tool[1].T).as_rotvec()
    axis = tool[1][:, 2]
    expected = {
        Lock.FREE: (ratio.move * move, spin),
        Lock.MOVE: (ratio.move * move, 0.0 * spin),
        Lock.TURN: (0.0 * move, spin),
        Lock.TOOL_AXIS: (ratio.move * (axis @ move) * axis, (axis @ spin) * axis),
    }[ratio.lock]
    assert np.allclose(by, expected[0], atol=1e-12)
    wanted = Rotation.from_rotvec(ratio.turn * expected[1])
    assert (wanted.inv() * Rotation.from_rotvec(spun)).magnitude() < 1e-7


def test_grip_offset() -> None:
    # 10 cm ahead (-z) of a device that is turned a quarter to the left: 10 cm along -x.
    config = ClutchConfig(
        grip_position=(0.0, 0.0, -0.1),
        grip_quat_wxyz=(np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0),
    )
    left = Rotation.from_rotvec([0.0, np.pi / 2, 0.0])
    position, turn = GripOffset(config).apply(np.array([1.0, 2.0, 3.0]), left.as_matrix())
    assert np.allclose(position, [0.9, 2.0, 3.0], atol=1e-15)
    expected = left * Rotation.from_rotvec([np.pi / 2, 0.0, 0.0])
    assert np.allclose(turn, expected.as_matrix(), atol=1e-15)
    position, turn = GripOffset(ClutchConfig()).apply(np.ones(3), left.as_matrix())
    assert np.array_equal(position, np.ones(3))
    assert np.array_equal(turn, left.as_matrix())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"squeeze": 0.3}, "release 0.4, squeeze 0.3"),
        ({"scale": 0.0}, "scale must be within"),
        ({"fine": 2.0}, "fine within"),
        ({"grip_quat_wxyz": (0.0, 0.0, 0.0, 0.0)}, "grip offset is no pose"),
    ],
)
def test_config_is_checked(settings, words) -> None:
    with pytest.raises(TeleopError, match=words):
        ClutchConfig(**settings)
