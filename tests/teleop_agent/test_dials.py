"""The thumb sticks: what a flick is, what it changes, and that it never moves an arm."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from kinematics import Side
from kinematics.frames import rotation
from teleop_agent.clutch import ClutchConfig, Lock
from teleop_agent.config import TeleopConfig
from teleop_agent.dials import DialConfig, Dials, Flick, FlickDetector
from teleop_agent.errors import TeleopError
from teleop_agent.frame import Button

RIGHT, LEFT = Side.RIGHT, Side.LEFT
UP, DOWN, TO_RIGHT, TO_LEFT = (0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0)


def turned(before: np.ndarray, after: np.ndarray) -> Rotation:
    return rotation(after) * rotation(before).inv()


def test_a_flick_counts_once_and_only_from_the_centre() -> None:
    stick = FlickDetector(DialConfig())
    assert stick.update(UP) is None, "held since before anybody looked"
    assert stick.update((0.2, 0.2)) is None
    assert stick.update((0.1, 0.69)) is None
    assert stick.update((0.1, 0.71)) is Flick.UP
    assert stick.update(UP) is None
    assert stick.update((0.0, 0.31)) is None
    assert stick.update(DOWN) is None, "not let go in between"
    assert stick.update((0.0, 0.0)) is None
    assert stick.update(DOWN) is Flick.DOWN


@pytest.mark.parametrize(
    ("stick", "flick"),
    [
        ((0.9, 0.3), Flick.RIGHT),
        ((-0.9, -0.3), Flick.LEFT),
        ((0.3, -0.9), Flick.DOWN),
        ((0.7, 0.7), None),
        ((0.9, 0.5), None),
        ((float("nan"), 0.9), None),
        ((0.0, float("nan")), None),
    ],
)
def test_a_diagonal_means_nothing(stick, flick) -> None:
    detector = FlickDetector(DialConfig())
    detector.update((0.0, 0.0))
    assert detector.update(stick) is flick


def test_what_could_not_be_read_is_no_flick() -> None:
    dials = Dials(DialConfig(), ClutchConfig())
    assert dials.take((0.0, 0.0), False) is None
    dials.lose()
    assert dials.take(UP, False) is None


def turn_dials(dials: Dials, *sticks: tuple[float, float], fine: bool = False) -> list[str | None]:
    said = []
    for stick in sticks:
        dials.take((0.0, 0.0), fine)
        said.append(dials.take(stick, fine))
    return said


def test_up_and_down_change_what_the_hand_is_doing() -> None:
    dials = Dials(DialConfig(), ClutchConfig(scale=0.6, fine=0.2))
    assert turn_dials(dials, UP) == ["scale 0.75"]
    assert dials.ratio(False) == (0.75, 1.0, Lock.FREE)
    assert turn_dials(dials, UP, fine=True) == ["fine scale 0.188"]
    assert dials.ratio(True).move == pytest.approx(0.75 * 0.25)
    assert turn_dials(dials, TO_RIGHT, TO_RIGHT) == ["move only", "turn only"]
    assert turn_dials(dials, DOWN) == ["rotation scale 0.80"]
    assert dials.ratio(False) == (0.75, 0.8, Lock.TURN)
    assert turn_dials(dials, TO_LEFT, TO_LEFT, TO_LEFT) == ["move only", "free", "tool axis"]


@given(
    flicks=st.lists(st.sampled_from([UP, DOWN, TO_RIGHT, TO_LEFT]), max_size=60), fine=st.booleans()
)
def test_no_flick_leaves_the_ranges(flicks, fine) -> None:
    dials = Dials(DialConfig(), ClutchConfig(scale=0.6, fine=0.5))
    turn_dials(dials, *flicks, fine=fine)
    ratio = dials.ratio(False)
    assert 0.15 <= ratio.move <= 2.4
    assert 0.25 <= ratio.turn <= 4.0
    assert 0.125 * 0.15 <= dials.ratio(True).move <= ratio.move


def test_up_and_down_again_is_what_it_was() -> None:
    dials = Dials(DialConfig(), ClutchConfig(scale=0.6))
    turn_dials(dials, UP, UP, UP, DOWN, DOWN, DOWN)
    assert dials.ratio(False).move == 0.6


@pytest.mark.parametrize("stick", [UP, DOWN, TO_RIGHT, TO_LEFT])
@pytest.mark.parametrize("fine", [False, True])
def test_turning_a_dial_moves_no_engaged_arm(session, stick, fine) -> None:
    s = session()
    s.engage()
    s.right.buttons = Button.STICK if fine else Button.NONE
    s.glide(0.5, (0.05, 0.02, -0.08))
    s.rotate(0.5, Rotation.from_rotvec([0.3, 0.2, -0.4]))
    before = s.target()
    for _ in range(3):
        s.flick(stick)
    assert np.allclose(s.target().position, before.position, atol=1e-6)
    assert turned(before.quat_wxyz, s.target().quat_wxyz).magnitude() < 1e-6


def test_a_new_scale_holds_from_there_and_over_a_reset(session) -> None:
    s = session()
    s.engage()
    s.flick(UP)
    assert s.flick(UP).notices == ()
    s.policy.reset()
    s.env.reset()
    s.engage()
    s.glide(0.5, (0.0, 0.10, 0.0))
    assert np.allclose(s.target().position, (0.5, 0.0, 0.3 + 0.6 * 1.25**2 * 0.1), atol=1e-6)


def test_each_hand_has_its_own_dials_and_says_so(session) -> None:
    s = session(sides=(RIGHT, LEFT))
    s.run(0.1)
    s.left.stick = DOWN
    said = [notice for _ in range(4) for notice in s.tick().notices]
    assert said == ["left arm: scale 0.48"]
    assert s.last.hands[LEFT].ratio.move == pytest.approx(0.48)
    assert s.last.hands[RIGHT].ratio.move == 0.6


def lock(s, wanted: Lock) -> None:
    while s.last.hands[RIGHT].ratio.lock is not wanted:
        s.flick(TO_RIGHT)


def test_a_knob_is_turned_about_the_tools_axis_by_more_than_a_turn_of_the_log(session) -> None:
    # 270 degrees of the hand about the vertical, in one engagement, with the hand wandering.
    s = session()
    s.engage()
    lock(s, Lock.TOOL_AXIS)
    before, seen = s.target(), 0.0
    for _ in range(3):
        quat = s.target().quat_wxyz
        s.glide(0.4, (0.05, 0.0, 0.03))
        s.rotate(1.5, Rotation.from_rotvec([0.0, np.pi / 2, 0.0]))
        seen += turned(quat, s.target().quat_wxyz).as_rotvec()[2]
    assert seen == pytest.approx(1.5 * np.pi, abs=1e-4)
    assert np.allclose(s.target().position, before.position, atol=1e-6)
    s.glide(0.5, (0.0, -0.10, 0.0))  # down, which is along the tool
    assert np.allclose(s.target().position - before.position, (0.0, 0.0, -0.06), atol=1e-5)


def test_a_scaled_rotation_goes_on_past_half_a_turn(session) -> None:
    s = session()
    s.engage()
    lock(s, Lock.TURN)
    s.flick(DOWN)
    seen = 0.0
    for _ in range(4):
        quat = s.target().quat_wxyz
        s.rotate(1.0, Rotation.from_rotvec([0.0, 1.0, 0.0]))
        seen += turned(quat, s.target().quat_wxyz).as_rotvec()[2]
    assert seen == pytest.approx(0.8 * 4.0, abs=1e-4)


def test_swapped_hands_move_the_other_arm(session) -> None:
    s = session(TeleopConfig(swap_hands=True), sides=(RIGHT, LEFT))
    s.left.grip = 0.0
    s.run(0.1)
    s.left.grip = s.left.trigger = 1.0
    step = s.run(0.06)
    assert step.hands[RIGHT].engaged and not step.hands[LEFT].engaged
    assert step.hands[RIGHT].controller is LEFT
    s.glide(0.5, (0.0, 0.10, 0.0), LEFT)
    assert np.allclose(s.target(RIGHT).position, (0.5, 0.0, 0.36), atol=1e-6)
    assert np.array_equal(s.target(LEFT).position, s.env.start)


def test_a_single_arm_takes_either_hand(session) -> None:
    s = session(TeleopConfig(swap_hands=True))
    s.right.grip = 1.0
    s.run(0.2)
    assert not s.last.engaged
    s.left.grip = 1.0
    assert s.run(0.2).engaged


@pytest.mark.parametrize(
    "settings", [{"centred": 0.8}, {"flicked": 1.0}, {"step": 1.0}, {"span": 0.5}, {"turn_span": 0}]
)
def test_config_is_checked(settings) -> None:
    with pytest.raises(TeleopError, match=r"must (be|rise)"):
        dataclasses.replace(DialConfig(), **settings)
