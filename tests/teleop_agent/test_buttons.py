"""Presses, holds, and what they mean."""

from collections.abc import Callable

import pytest

from kinematics import Side
from teleop_agent.buttons import ButtonConfig, ButtonPanel, EpisodeEvent
from teleop_agent.errors import TeleopError
from teleop_agent.frame import Button, Controller, OperatorFrame, TrackedPose

MS = 1_000_000


class Fingers:
    """Feed a panel at 90 Hz."""

    def __init__(self) -> None:
        self.panel, self.t_ns = ButtonPanel(), 0
        self.buttons = dict.fromkeys(Side, Button.NONE)
        self.trigger = dict.fromkeys(Side, 0.0)
        self.grip = dict.fromkeys(Side, 0.0)
        self.readable = dict.fromkeys(Side, True)
        self.run(100)

    def controller(self, side: Side) -> Controller:
        if not self.readable[side]:
            return Controller()
        return Controller(
            TrackedPose(),  # buttons count whether or not the controller is tracked
            True,
            self.trigger[side],
            self.grip[side],
            (0.0, 0.0),
            self.buttons[side],
        )

    def run(self, ms: float, gap_ms: float = 0.0) -> list[EpisodeEvent]:
        events = []
        self.t_ns += round(gap_ms * MS)
        for _ in range(max(1, round(ms / 11.111))):
            self.t_ns += 11_111_111
            controllers = {side: self.controller(side) for side in Side}
            frame = OperatorFrame(0, self.t_ns, self.t_ns, TrackedPose(), controllers)
            events += self.panel.take(self.t_ns, frame)
        return events

    def press(self, side: Side, button: Button, ms: float) -> list[EpisodeEvent]:
        self.buttons[side] = button
        events = self.run(ms)
        self.buttons[side] = Button.NONE
        return events + self.run(100)


@pytest.mark.parametrize(
    ("side", "button", "ms", "events"),
    [
        (Side.RIGHT, Button.PRIMARY, 100, ["re-reference"]),
        (Side.RIGHT, Button.PRIMARY, 2000, ["re-reference"]),
        (Side.RIGHT, Button.SECONDARY, 11, ["good"]),
        (Side.RIGHT, Button.SECONDARY, 750, ["good"]),
        (Side.RIGHT, Button.SECONDARY, 850, ["keep failure"]),
        (Side.RIGHT, Button.SECONDARY, 3000, ["keep failure"]),
        (Side.LEFT, Button.PRIMARY, 100, ["discard"]),
        (Side.LEFT, Button.PRIMARY, 1000, ["delete last"]),
        (Side.LEFT, Button.SECONDARY, 100, ["reset"]),
        (Side.LEFT, Button.SECONDARY, 1000, ["rewind", "rewind end"]),
        (Side.RIGHT, Button.STICK, 100, []),
        (Side.LEFT, Button.STICK, 1000, []),
    ],
)
def test_the_table(side, button, ms, events) -> None:
    fingers = Fingers()
    assert fingers.press(side, button, ms) == events
    assert fingers.press(side, button, ms) == events


def test_a_hold_fires_while_still_held() -> None:
    fingers = Fingers()
    fingers.buttons[Side.RIGHT] = Button.SECONDARY
    assert fingers.run(780) == []
    assert fingers.run(50) == [EpisodeEvent.KEEP_FAILURE]


def test_a_bounce_is_no_release() -> None:
    fingers = Fingers()
    fingers.buttons[Side.RIGHT] = Button.SECONDARY
    assert fingers.run(400) == []
    fingers.buttons[Side.RIGHT] = Button.NONE
    assert fingers.run(22) == []
    assert fingers.press(Side.RIGHT, Button.SECONDARY, 500) == [EpisodeEvent.KEEP_FAILURE]


def lose_input(fingers: Fingers) -> None:
    fingers.readable[Side.RIGHT] = False
    assert fingers.run(200) == []
    fingers.readable[Side.RIGHT] = True


def lose_frames(fingers: Fingers) -> None:
    assert fingers.run(11, gap_ms=300) == []


def reset(fingers: Fingers) -> None:
    fingers.panel.reset()


@pytest.mark.parametrize("loss", [lose_input, lose_frames, reset])
def test_a_press_under_way_at_a_loss_is_forgotten(loss: Callable[[Fingers], None]) -> None:
    fingers = Fingers()
    fingers.buttons[Side.RIGHT] = Button.SECONDARY
    fingers.run(300)
    loss(fingers)
    assert fingers.run(1500) == []  # held on: no hold
    fingers.buttons[Side.RIGHT] = Button.NONE
    assert fingers.run(100) == []  # and let go: no press
    assert fingers.press(Side.RIGHT, Button.SECONDARY, 100) == [EpisodeEvent.GOOD]


@pytest.mark.parametrize("loss", ["input", "frames", "reset"])
def test_a_hold_under_way_ends_with_a_loss(loss: str) -> None:
    fingers = Fingers()
    fingers.buttons[Side.LEFT] = Button.SECONDARY
    assert fingers.run(1000) == [EpisodeEvent.REWIND]
    if loss == "input":
        fingers.readable[Side.LEFT] = False
        events = fingers.run(200)
        fingers.readable[Side.LEFT] = True
    else:
        events = fingers.run(11, gap_ms=300) if loss == "frames" else fingers.panel.reset()
    assert events == [EpisodeEvent.REWIND_END]
    assert fingers.run(1500) == []
    fingers.buttons[Side.LEFT] = Button.NONE
    assert fingers.run(100) == []


def test_a_button_down_at_the_start_does_not_count() -> None:
    fingers = Fingers()
    fingers.panel = ButtonPanel()
    assert fingers.press(Side.LEFT, Button.PRIMARY, 100) == []
    assert fingers.press(Side.LEFT, Button.PRIMARY, 100) == [EpisodeEvent.DISCARD]


def test_the_left_buttons_work_while_the_right_controller_is_away() -> None:
    fingers = Fingers()
    fingers.readable[Side.RIGHT] = False
    assert fingers.press(Side.LEFT, Button.SECONDARY, 100) == [EpisodeEvent.RESET]


def test_both_triggers_for_a_second_pause_once() -> None:
    fingers = Fingers()
    fingers.trigger = dict.fromkeys(Side, 1.0)
    assert fingers.run(980) == []
    assert fingers.run(2000) == [EpisodeEvent.PAUSE]
    fingers.trigger[Side.LEFT] = 0.0
    assert fingers.run(100) == []
    fingers.trigger[Side.LEFT] = 1.0
    assert fingers.run(1100) == [EpisodeEvent.PAUSE]


@pytest.mark.parametrize("side", Side)
def test_no_pause_with_a_grip_squeezed_or_one_trigger_alone(side) -> None:
    fingers = Fingers()
    fingers.trigger = dict.fromkeys(Side, 1.0)
    fingers.grip[side] = 1.0
    assert fingers.run(2000) == []
    fingers.grip[side], fingers.trigger[side] = 0.0, 0.0
    assert fingers.run(2000) == []


@pytest.mark.parametrize("last", Side)
def test_a_new_grip_of_two_hands_that_hold_something_is_no_pause(last: Side) -> None:
    fingers = Fingers()
    fingers.grip = dict.fromkeys(Side, 1.0)
    fingers.trigger = dict.fromkeys(Side, 1.0)
    assert fingers.run(500) == []
    fingers.grip[last.other] = 0.0
    assert fingers.run(1500) == []
    fingers.grip[last] = 0.0
    assert fingers.run(2900) == []
    assert fingers.run(200) == [EpisodeEvent.PAUSE]  # 3 s is too long for a new grip
    fingers.trigger[last] = 0.0
    assert fingers.run(100) == []
    fingers.trigger[last] = 1.0
    assert fingers.run(1100) == [EpisodeEvent.PAUSE]


def test_config_is_checked() -> None:
    with pytest.raises(TeleopError, match="bounce_ns must be within"):
        ButtonConfig(bounce_ns=10**9)
