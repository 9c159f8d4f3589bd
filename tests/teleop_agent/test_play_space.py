"""A play space that is moved under head and hands, and bodies that only move."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from kinematics import Side
from teleop_agent.config import TeleopConfig
from teleop_agent.errors import TeleopError
from teleop_agent.play_space import PlaySpaceConfig
from teleop_agent.reasons import HandState, Reason

RIGHT, LEFT = Side.RIGHT, Side.LEFT
RECENTRINGS = {
    "far": (0.0, (0.5, 0.0, -1.0)),
    "near": (0.0, (0.03, 0.0, 0.0)),  # less than a hand may move between two samples
    "turned": (np.deg2rad(90.0), (0.0, 0.0, 0.0)),
    "turned a little": (np.deg2rad(8.0), (0.0, 0.0, 0.0)),
    "about the head": (1.0, (0.1, -0.2, 0.3)),
}
every_recentring = pytest.mark.parametrize(
    ("yaw", "shift"), RECENTRINGS.values(), ids=RECENTRINGS.keys()
)


def engaged(session, **options):
    s = session(sides=(RIGHT, LEFT), **options)
    s.engage(RIGHT)
    s.engage(LEFT)
    s.glide(0.3, (0.0, 0.05, 0.0))
    return s


@every_recentring
def test_a_recentring_without_a_word_holds_both_arms_and_moves_neither(session, yaw, shift) -> None:
    s = engaged(session)
    before = {side: s.target(side) for side in (RIGHT, LEFT)}
    s.recentre(yaw, shift)
    step = s.run(0.3)
    for side, commanded in before.items():
        assert (step.hands[side].state, step.hands[side].reason) == (
            HandState.HELD,
            Reason.RECENTRED,
        )
        assert np.allclose(s.target(side).position, commanded.position, atol=1e-6)


@every_recentring
@pytest.mark.parametrize("told", [True, False])
def test_forward_is_forward_again_after_the_next_squeeze(session, yaw, shift, told) -> None:
    s = engaged(session)
    s.recentre(yaw, shift)
    s.space += told
    s.run(0.2)
    before = s.target().position
    s.engage()
    assert np.allclose(s.target().position, before, atol=1e-9)
    s.glide(1.0, (0.0, 0.0, -0.10))  # ahead, in the operator's own frame
    assert np.allclose(s.target().position - before, (0.06, 0.0, 0.0), atol=1e-6)


def test_the_operator_is_told_what_to_do(session) -> None:
    s = engaged(session)
    s.recentre(0.5, (0.0, 0.0, 0.0))
    notices = [words for _ in range(5) for words in s.tick().notices]
    assert notices == ["play space recentred: look ahead, open the grip, then squeeze"]


def test_a_configured_facing_stays(session) -> None:
    s = session(TeleopConfig(facing_yaw=0.7))
    s.engage()
    s.space += 1
    s.run(0.1)
    assert s.policy.facing.yaw == 0.7


def test_devices_that_are_moved_one_after_another(session) -> None:
    s = engaged(session)
    before, shift = s.target().position, np.array([0.0, 0.0, -0.3])
    s.right.position = s.right.position + shift  # the driver publishes it first
    s.run(0.02)
    s.head.position = s.head.position + shift
    step = s.run(0.02)
    assert step.hands[LEFT].reason is Reason.RECENTRED
    assert step.hands[RIGHT].reason is Reason.RECENTRED
    assert np.allclose(s.target().position, before, atol=1e-6)


@pytest.mark.parametrize("device_hz", [30.0, 72.0, 90.0])
def test_a_body_that_walks_leans_and_turns_moves_no_space(session, device_hz) -> None:
    s = engaged(session, device_hz=device_hz)
    start = {part: part.position.copy() for part in (s.head, s.right, s.left)}
    turns = {part: part.turn for part in start}
    begin = s.device_ns * 1e-9

    def move(t: float) -> None:
        yaw = Rotation.from_rotvec([0.0, 0.8 * np.sin(4.0 * (t - begin)), 0.0])  # 3.2 rad/s
        stride = np.array([0.25 * np.sin(6.0 * (t - begin)), 0.0, 0.0])  # 1.5 m/s
        for part, position in start.items():
            part.position = yaw.apply(position) + stride
            part.turn = yaw * turns[part]

    s.move = move
    for _ in range(150):
        step = s.tick()
    assert step.hands[RIGHT].engaged and step.hands[LEFT].engaged
    assert Reason.RECENTRED not in s.policy.counts[RIGHT]


def test_a_head_that_jerks_alone_moves_no_space(session) -> None:
    s = engaged(session)
    s.head.turn = Rotation.from_rotvec([0.0, 0.5, 0.0])
    s.head.position = s.head.position + np.array([0.1, 0.0, 0.0])
    assert s.run(0.2).hands[RIGHT].engaged


def test_config_is_checked() -> None:
    with pytest.raises(TeleopError, match="speeds of the play space must be > 0, got"):
        PlaySpaceConfig(max_speed=0.0)
