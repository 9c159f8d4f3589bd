"""The whole chain from frames to actions, against hand-written numbers."""

import dataclasses
import json

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from kinematics import Side
from kinematics.frames import rotation
from teleop_agent.clutch import ClutchConfig
from teleop_agent.config import TeleopConfig
from teleop_agent.errors import TeleopError
from teleop_agent.frame import Button
from teleop_agent.limits import Clamp
from teleop_agent.reasons import HandState, Reason

RIGHT, LEFT = Side.RIGHT, Side.LEFT
every_filter = pytest.mark.parametrize("name", ["kalman", "one_euro", "exponential"])


def turned(before: np.ndarray, after: np.ndarray) -> Rotation:
    return rotation(after) * rotation(before).inv()


def test_two_arms_follow_their_own_hands(session) -> None:
    s = session(sides=(RIGHT, LEFT))
    s.engage(RIGHT)
    s.engage(LEFT)
    s.glide(0.5, (0.0, 0.10, 0.0), LEFT)
    assert np.allclose(s.target(LEFT).position, (0.5, 0.0, 0.36), atol=1e-6)
    assert np.allclose(s.target(RIGHT).position, (0.5, 0.0, 0.30), atol=1e-9)
    s.left.grip = 0.0
    step = s.glide(0.5, (0.10, 0.0, 0.0), RIGHT)
    assert step.engaged and not step.hands[LEFT].engaged
    assert np.allclose(s.target(RIGHT).position, (0.5, -0.06, 0.30), atol=1e-6)


@pytest.mark.parametrize("hz", [20, 60, 200])
@pytest.mark.parametrize("device_hz", [72.0, 90.0])
@every_filter
def test_any_rates_and_filters_end_in_the_same_place(session, hz, device_hz, name) -> None:
    s = session(TeleopConfig(filter=name), device_hz=device_hz, control_hz=hz)
    s.engage()
    s.glide(0.8, (0.08, -0.05, -0.10))
    s.run(1.5)  # One-Euro needs it: 1 Hz at rest
    assert np.allclose(s.target().position, (0.56, -0.048, 0.27), atol=2e-5)


def test_nothing_before_the_first_release(session) -> None:
    s = session()
    s.right.grip = 1.0
    step = s.glide(0.5, (0.0, 0.0, -0.2))
    assert not step.engaged
    assert step.hands[RIGHT].state is HandState.HELD
    assert np.array_equal(s.target().position, s.env.start)


def test_states_of_a_hand(session) -> None:
    s = session()
    s.silent = True
    hand = s.run(0.1).hands[RIGHT]
    assert (hand.state, hand.reason) == (HandState.HELD, Reason.NO_SAMPLE)
    assert hand.filtered_position is None and hand.age_ns is None
    s.silent = False
    hand = s.run(0.1).hands[RIGHT]
    assert (hand.state, hand.reason) == (HandState.READY, None)
    s.right.grip = 0.5  # within the hysteresis
    assert s.run(0.1).hands[RIGHT].state is HandState.READY
    s.right.grip = 0.61
    assert s.run(0.1).hands[RIGHT].state is HandState.ENGAGED
    s.right.grip = 0.41
    assert s.run(0.1).hands[RIGHT].state is HandState.ENGAGED
    s.right.grip = 0.39
    assert s.run(0.1).hands[RIGHT].state is HandState.READY
    s.right.grip = 1.0
    s.run(0.1)
    s.policy.reset()
    assert s.run(0.1).hands[RIGHT].state is HandState.RELEASED
    assert s.policy.facing.yaw == 0.0


def test_ten_engagements_of_a_still_hand_do_not_drift(session) -> None:
    s = session(start=(0.43, 0.1, 0.25))
    for _ in range(10):
        s.engage()
        s.right.grip = 0.0
        s.run(0.1)
    assert np.allclose(s.target().position, (0.43, 0.1, 0.25), atol=1e-9)
    assert turned((0, 1, 0, 0), s.target().quat_wxyz).magnitude() < 1e-9


def test_a_quick_release_and_squeeze_between_two_steps_is_a_new_engagement(session) -> None:
    s = session(control_hz=20)
    s.engage()
    s.glide(0.5, (0.0, 0.0, -0.10))
    before = s.target().position
    frames = [s.frame(s.device_ns + 11_000_000)]
    s.right.grip = 0.0
    frames.append(s.frame(s.device_ns + 22_000_000))
    s.right.grip = 1.0
    s.right.position += [0.02, 0.0, 0.0]
    frames.append(s.frame(s.device_ns + 33_000_000))
    step = s.tick(frames)
    assert step.engaged
    assert np.array_equal(step.hands[RIGHT].target.position, before)


def test_releasing_stops(session) -> None:
    s = session()
    s.engage()
    start, begin = s.right.position.copy(), s.device_ns * 1e-9
    s.move = lambda t: setattr(s.right, "position", start - [0.0, 0.0, t - begin])
    s.run(0.2)
    s.right.grip = 0.0
    s.tick()
    s.tick()
    stopped = s.target().position
    s.run(0.3)
    assert np.array_equal(s.target().position, stopped)
    assert np.array_equal(s.env.actions[-1][:6], np.zeros(6))


def test_fine_mode_is_a_fifth_and_switching_moves_nothing(session) -> None:
    s = session()
    s.engage()
    s.glide(0.5, (0.0, 0.0, -0.10))
    before = s.target()
    s.right.buttons = Button.STICK
    step = s.run(0.1)
    assert step.hands[RIGHT].fine and step.hands[RIGHT].ratio.move == pytest.approx(0.12)
    assert np.allclose(s.target().position, before.position, atol=1e-8)
    s.glide(0.5, (0.0, 0.0, -0.10))
    assert np.allclose(s.target().position - before.position, (0.012, 0.0, 0.0), atol=1e-6)
    s.rotate(0.5, Rotation.from_rotvec([0.0, 0.3, 0.0]))
    turn = turned(before.quat_wxyz, s.target().quat_wxyz).as_rotvec()
    assert np.allclose(turn, [0.0, 0.0, 0.3], atol=1e-5)  # turns are 1:1 in fine mode too
    s.right.buttons = Button.NONE
    s.run(0.1)
    assert np.allclose(s.target().position - before.position, (0.012, 0.0, 0.0), atol=1e-6)
    s.glide(0.5, (0.0, 0.0, -0.10))
    assert np.allclose(s.target().position - before.position, (0.072, 0.0, 0.0), atol=1e-6)


@pytest.mark.parametrize("axis", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)])
def test_a_grip_offset_takes_the_lever_out_of_turns(session, axis) -> None:
    # The device's origin lies 10 cm ahead of the hand's centre and is tilted by 30 degrees.
    offset, tilt = np.array([0.0, 0.0, 0.1]), (np.cos(np.pi / 12), np.sin(np.pi / 12), 0.0, 0.0)
    clutch = ClutchConfig(grip_position=tuple(offset), grip_quat_wxyz=tilt)
    s = session(TeleopConfig(clutch=clutch))
    grip = s.right.position + s.right.turn.apply(offset)
    start, begin = s.right.turn, s.now_ns * 1e-9 + 0.3

    def turn_about_the_grip(t: float) -> None:
        angle = np.deg2rad(60.0) * min(max(t - begin, 0.0), 1.0)
        s.right.turn = Rotation.from_rotvec(angle * np.array(axis)) * start
        s.right.position = grip - s.right.turn.apply(offset)

    s.move = turn_about_the_grip
    s.engage()
    s.run(2.0)
    assert np.allclose(s.target().position, s.env.start, atol=1e-6)
    turn = turned((0, 1, 0, 0), s.target().quat_wxyz)
    assert np.rad2deg(turn.magnitude()) == pytest.approx(60.0, abs=1e-3)


def test_a_step_tells_its_whole_causal_chain(session) -> None:
    s = session()
    s.engage()
    s.right.trigger = 0.25
    step = s.glide(0.5, (0.0, 0.0, -0.10))
    hand = step.hands[RIGHT]
    assert step.frame.seq == s.seq
    assert hand.t_device_ns == step.frame.t_device_ns
    assert hand.t_recv_ns == step.frame.t_recv_ns
    assert hand.age_ns == s.now_ns - step.frame.t_device_ns
    assert (hand.grip, hand.trigger) == (1.0, 0.25)
    assert np.allclose(hand.filtered_position, s.right.position, atol=1e-9)
    assert np.allclose(rotation(hand.filtered_quat_wxyz).as_matrix(), s.right.turn.as_matrix())
    assert np.allclose(hand.T_world_tracking[:3, :3], [[0, 0, -1], [-1, 0, 0], [0, 1, 0]])
    assert np.allclose(hand.target.position, s.target().position, atol=1e-8)
    assert hand.target.closure == 0.25
    assert step.action.dtype == np.float32
    assert np.array_equal(s.env.actions[-1], step.action)


# Facing


def test_a_turned_operator_presses_a_and_forward_is_forward(session) -> None:
    s = session()
    s.engage()
    s.head.turn = Rotation.from_euler("YX", [90, -40], degrees=True)  # left, head bowed
    s.right.buttons = Button.PRIMARY
    step = s.run(0.1)
    assert s.events == ["re-reference"]
    assert step.hands[RIGHT].state is HandState.RELEASED
    s.right.buttons = Button.NONE
    s.glide(0.3, (0.0, 0.1, 0.0))
    assert np.allclose(s.target().position, s.env.start, atol=1e-12)  # until a new squeeze
    s.engage()
    s.glide(1.0, (-0.10, 0.05, 0.0))
    assert np.allclose(s.target().position - s.env.start, (0.06, 0.0, 0.03), atol=1e-6)


def test_a_is_refused_while_the_headset_is_lost(session) -> None:
    s = session()
    s.engage()
    s.head.tracked = False
    s.head.turn = Rotation.from_rotvec([0.0, 1.0, 0.0])
    s.right.buttons = Button.PRIMARY
    step = s.tick()
    step = step if step.events else s.tick()
    assert step.events == ("re-reference refused",)
    assert "tracking lost" in step.notices[0]
    assert not step.engaged
    assert s.policy.facing.yaw == 0.0


def test_a_is_refused_while_the_headset_is_off_unless_nobody_needs_it(session) -> None:
    for needed, answer in ((True, "re-reference refused"), (False, "re-reference")):
        s = session(TeleopConfig(require_headset=needed), head_yaw=1.0)
        s.headset_worn = False
        s.run(0.1)
        s.right.buttons = Button.PRIMARY
        s.run(0.1)
        assert s.events == [answer]
        assert (s.policy.facing.yaw is None) is needed


def test_who_looks_at_a_screen_may_take_the_headset_off(session) -> None:
    s = session(TeleopConfig(require_headset=False))
    s.headset_worn = False
    s.engage()
    s.glide(0.5, (0.0, 0.1, 0.0))
    assert np.allclose(s.target().position - s.env.start, (0.0, 0.0, 0.06), atol=1e-6)


def test_without_a_headset_pose_the_first_engagement_is_refused(session) -> None:
    s = session()
    s.head.valid = False
    s.right.grip = 0.0
    s.run(0.1)
    s.right.grip = 1.0
    hand = s.run(0.1).hands[RIGHT]
    assert (hand.state, hand.reason) == (HandState.HELD, Reason.NO_FACING)
    s.head.valid = True
    assert not s.run(0.2).engaged  # a squeeze refused is spent
    s.engage()
    s.head.valid = False  # and now it is not needed any more
    s.right.grip = 0.0
    s.run(0.1)
    s.engage()


def test_a_configured_facing_needs_no_headset(session) -> None:
    s = session(TeleopConfig(facing_yaw=np.pi / 2))
    s.head.connected = False
    s.engage()
    s.glide(1.0, (-0.10, 0.0, 0.0))
    assert np.allclose(s.target().position - s.env.start, (0.06, 0.0, 0.0), atol=1e-6)


# Limits


def test_after_pushing_two_metres_past_reach_the_way_back_is_immediate(session) -> None:
    s = session()
    s.engage()
    s.glide(3.0, (0.0, 0.0, -2.0))
    # 1e-4: the filter swings out of a 2 m stroke by so much, and back, which counts.
    assert s.target().position[0] == pytest.approx(0.8, abs=1e-4)
    s.glide(0.5, (0.0, 0.0, 0.02))
    assert s.target().position[0] == pytest.approx(0.8 - 0.012, abs=1e-4)  # all of the 2 cm


def test_a_hand_faster_than_the_arm_is_followed_at_full_speed(session) -> None:
    s = session(start=(0.5, -0.4, 0.3))
    s.engage()
    seen = Clamp.NONE
    start, begin = s.right.position.copy(), s.device_ns * 1e-9

    def move(t: float) -> None:
        s.right.position = start - [2.5 * min(max(t - begin, 0.0), 0.4), 0.0, 0.0]

    s.move = move
    for _ in range(40):
        seen |= s.tick().hands[RIGHT].clamps
    assert Clamp.SPEED in seen and Clamp.ACCELERATION in seen
    speeds = np.array([np.linalg.norm(a[:3]) for a in s.env.actions])
    assert speeds.max() == pytest.approx(1.0, abs=1e-6)
    assert np.abs(np.diff(speeds)).max() <= 13.0 * 0.02 + 1e-6  # of v_max
    assert np.allclose(s.env.actions[-1][:6], 0.0, atol=1e-4)


@every_filter
@pytest.mark.parametrize("hz", [50, 200])
def test_a_dead_stop_of_the_hand_ends_at_rest(session, hz, name) -> None:
    s = session(TeleopConfig(filter=name), start=(0.3, 0.0, 0.3), control_hz=hz)
    s.engage()
    start, begin = s.right.position.copy(), s.device_ns * 1e-9

    def move(t: float) -> None:
        s.right.position = start - [0.0, 0.0, 1.0 * min(max(t - begin, 0.0), 0.5)]

    s.move = move
    path = []
    for _ in range(round(2.0 * hz)):
        s.tick()
        path.append(s.target().position[0])
    velocity = np.diff(path) * hz
    assert np.abs(velocity[-hz // 4 :]).max() < 2e-3  # m/s
    assert max(path) - path[-1] < 5e-3  # m past the place of rest, from 0.6 m/s
    assert np.count_nonzero(np.diff(np.sign(velocity[np.abs(velocity) > 5e-3]))) <= 1


def test_a_trembling_hand_at_rest_does_not_creep(session) -> None:
    s = session()
    rng = np.random.default_rng(5)
    rest = s.right.position.copy()

    def move(t: float) -> None:
        tremor = 0.5e-3 * np.sin(2 * np.pi * 10 * t + np.arange(3))
        s.right.position = rest + tremor + rng.normal(0.0, 0.5e-3, 3)

    s.move = move
    s.engage()
    places = []
    for _ in range(20 * 50):
        assert s.tick().hands[RIGHT].clamps is Clamp.NONE
        places.append(s.target().position)
    early, late = np.mean(places[:500], axis=0), np.mean(places[500:], axis=0)
    assert np.linalg.norm(late - early) < 1e-4  # m
    assert np.std(places, axis=0).max() < 0.4e-3


def test_what_the_environment_refuses_is_not_wound_up(session) -> None:
    s = session()
    s.env.leash = lambda position: np.minimum(position, [0.52, 1.0, 1.0])  # a wall of its own
    s.engage()
    seen = Clamp.NONE
    start, begin = s.right.position.copy(), s.device_ns * 1e-9
    s.move = lambda t: setattr(
        s.right, "position", start - [0, 0, 0.3 * min(max(t - begin, 0.0), 1.0)]
    )
    for _ in range(75):
        seen |= s.tick().hands[RIGHT].clamps
    assert Clamp.LEASH in seen
    s.move = None
    s.glide(0.5, (0.0, 0.0, 0.02))
    assert s.target().position[0] == pytest.approx(0.52 - 0.012, abs=1.1e-3)  # the tolerance


def test_small_residues_of_the_environment_do_not_eat_the_motion(session) -> None:
    # A joint mode reaches a target to a few um and makes up for it in the next step.
    s = session()
    rng = np.random.default_rng(6)
    s.env.leash = lambda position: position + rng.normal(0.0, 1e-5, 3)
    s.engage()
    for by in (-0.1, 0.1) * 4:
        s.glide(0.5, (0.0, 0.0, by))
    assert np.allclose(s.target().position, s.env.start, atol=1e-4)


# Gripper and buttons


def test_the_trigger_works_without_the_clutch_and_is_not_filtered(session) -> None:
    s = session()
    s.run(0.1)
    for pull in (0.0, 0.3, 1.0, 0.45, 0.0):
        s.right.trigger = pull
        s.run(0.04)
        assert s.target().closure == pytest.approx(pull, abs=1e-6)


def test_a_reset_holds_the_gripper_until_the_trigger_meets_it(session) -> None:
    s = session()
    s.engage()
    s.right.trigger = 1.0
    s.run(0.1)
    assert s.target().closure == 1.0
    s.env.reset()
    s.policy.reset()
    s.run(0.1)
    assert s.target().closure == 0.0
    s.engage()
    assert s.target().closure == 0.0
    s.right.trigger = 0.0
    s.run(0.1)
    s.right.trigger = 0.8
    s.run(0.1)
    assert s.target().closure == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize("holding", [True, False])
def test_a_pause_and_going_on_never_move_the_gripper(session, holding) -> None:
    s = session()
    s.engage()
    s.right.trigger = 1.0 if holding else 0.0
    s.run(0.1)
    closure = s.target().closure
    s.right.grip = 0.0
    for _ in range(2):  # pause, go on
        s.left.trigger = s.right.trigger = 1.0
        s.run(1.2)
        s.policy.reset()
        assert s.target().closure == closure
        s.left.trigger = s.right.trigger = 0.0
        s.run(0.2)
        assert s.target().closure == closure
    assert s.events == ["pause", "pause"]
    s.engage()
    s.right.trigger = closure
    s.run(0.1)
    s.right.trigger = 0.5
    s.run(0.1)
    assert s.target().closure == pytest.approx(0.5, abs=1e-6)


def test_buttons_of_the_left_controller_work_for_one_right_arm(session) -> None:
    s = session()
    s.run(0.1)
    for button in (Button.PRIMARY, Button.SECONDARY):
        s.left.buttons = button
        s.run(0.1)
        s.left.buttons = Button.NONE
        s.run(0.1)
    assert s.events == ["discard", "reset"]


# Configuration


def test_config_is_json() -> None:
    text = json.dumps(dataclasses.asdict(TeleopConfig(filter="one_euro", facing_yaw=0.5)))
    assert json.loads(text)["clutch"]["scale"] == 0.6


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"filter": "median"}, "'median'; choose kalman, one_euro or exponential"),
        ({"facing_yaw": float("nan")}, "facing_yaw must be finite, got nan"),
        ({"accepted_tolerance": 0.0}, "accepted_tolerance must be within"),
    ],
)
def test_config_is_checked(settings, words) -> None:
    with pytest.raises(TeleopError, match=words):
        TeleopConfig(**settings)
