"""The trigger's grip, and that no fault opens it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teleop_agent.errors import TeleopError
from teleop_agent.gripper import GripperConfig, TriggerGrip


def grip_at(closure: float) -> TriggerGrip:
    grip = TriggerGrip()
    grip.reset(closure)
    return grip


@given(st.lists(st.floats(0.0, 1.0), min_size=1))
def test_it_follows_the_trigger_as_it_is(pulls) -> None:
    grip = grip_at(0.0)
    grip.follow(0.0)
    for pull in pulls:
        grip.follow(pull)
        assert grip.closure == pull


def test_a_held_grip_waits_until_the_trigger_has_come_to_it() -> None:
    grip = grip_at(0.0)
    for pull in (0.0, 0.5, 1.0):
        grip.follow(pull)
    grip.hold()
    for pull in (0.0, 0.0, 0.4, 0.9, 0.2):
        grip.follow(pull)
        assert grip.closure == 1.0
        assert not grip.following
    grip.follow(0.96)
    assert grip.following
    grip.follow(0.1)
    assert grip.closure == 0.1


def test_a_quick_trigger_that_passes_the_held_closure_takes_over() -> None:
    grip = grip_at(0.5)
    grip.follow(0.1)
    assert grip.closure == 0.5
    grip.follow(0.9)
    assert grip.closure == 0.9


def test_a_trigger_already_there_keeps_it() -> None:
    grip = grip_at(1.0)
    grip.follow(1.0)
    assert grip.following


def test_an_open_gripper_does_not_snap_shut_after_a_reset() -> None:
    grip = grip_at(0.0)
    for pull in (1.0, 1.0, 0.5):
        grip.follow(pull)
        assert grip.closure == 0.0
    grip.follow(0.0)
    grip.follow(0.7)
    assert grip.closure == 0.7


def test_odd_values() -> None:
    grip = grip_at(0.0)
    for pull, closure in [(0.0, 0.0), (0.4, 0.4), (float("nan"), 0.4), (1.7, 1.0), (-0.2, 0.0)]:
        grip.follow(pull)
        assert grip.closure == closure


def test_config_is_checked() -> None:
    with pytest.raises(TeleopError, match="meet must be within"):
        GripperConfig(meet=0.0)


@pytest.mark.parametrize("closure", [0.0, 0.4, 1.0])
def test_a_pull_that_meant_something_else_never_moves_the_grip(closure) -> None:
    grip = grip_at(closure)
    grip.follow(closure)
    grip.hold(release_first=True)
    for pull in (1.0, 1.0, 0.7, 0.3, 0.06):  # the end of that pull
        grip.follow(pull)
        assert grip.closure == closure
    grip.hold()  # a fault meanwhile does not make the rest of it count
    grip.follow(0.5)
    assert grip.closure == closure
    for pull in (0.0, closure):
        grip.follow(pull)
    assert grip.following
    grip.follow(0.8)
    assert grip.closure == 0.8
