"""Faulty streams in the middle of a clutched motion: held, counted, and mended."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from kinematics import Side
from teleop_agent.buttons import EpisodeEvent
from teleop_agent.config import TeleopConfig
from teleop_agent.frame import Button
from teleop_agent.policy import PolicyStep
from teleop_agent.reasons import HandState, Reason

RIGHT = Side.RIGHT


def good_matrix(hand) -> np.ndarray:
    return np.column_stack([hand.turn.as_matrix(), hand.position])


def send(change: Callable[[np.ndarray], np.ndarray]):
    """Return a fault that sends a changed matrix, flagged valid."""

    def fault(s, on: bool) -> None:
        s.right.matrix = change(good_matrix(s.right)) if on else None

    return fault


def flag(name: str):
    """Return a fault that takes a flag away."""

    def fault(s, on: bool) -> None:
        setattr(s.right, name, not on)

    return fault


def silence(s, on: bool) -> None:
    s.silent = on


def freeze(s, on: bool) -> None:
    s.right.alive = not on
    s.right.matrix = good_matrix(s.right) if on else None


def dashboard(s, on: bool) -> None:
    s.right.input_valid = not on


def leap(s, on: bool) -> None:
    if on:
        s.right.position = s.right.position + np.array([0.0, 0.4, 0.0])


def take_off(s, on: bool) -> None:
    s.headset_worn = not on


def recentre(s, on: bool) -> None:
    if on:
        s.recentre(0.0, (0.0, 0.0, -0.3))


def recentre_told(s, on: bool) -> None:
    """The runtime's word alone: no pose moves."""
    s.space += on


def other_controller(s, on: bool) -> None:
    s.right.serial = "another" if on else "R"


def half_freeze(s, on: bool) -> None:
    """The position stands still, the turn goes on, as of a controller out of sight."""
    if on:
        here, turn = s.right.position.copy(), s.right.turn

        def move(t: float) -> None:
            spin = Rotation.from_rotvec([0.0, 0.1 * np.sin(5.0 * t), 0.0]) * turn
            s.right.matrix = np.column_stack([spin.as_matrix(), here])

        s.move = move
    else:
        s.move = s.right.matrix = None


def column(scale: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda m: m * np.array([1.0, scale, 1.0, 1.0])


FAULTS = {
    "zero": (send(np.zeros_like), Reason.ZERO),
    "identity": (send(lambda m: np.eye(4)[:3]), Reason.IDENTITY),
    "nan": (send(lambda m: m * np.nan), Reason.NON_FINITE),
    "mirrored": (send(column(-1.0)), Reason.MIRRORED),
    "scaled": (send(column(1.2)), Reason.NOT_RIGID),
    "disconnected": (flag("connected"), Reason.DISCONNECTED),
    "invalid": (flag("valid"), Reason.INVALID),
    "untracked": (flag("tracked"), Reason.UNTRACKED),
    "silence": (silence, Reason.STALE),
    "freeze": (freeze, Reason.FROZEN),
    "dashboard": (dashboard, Reason.INPUT_INVALID),
    "jump": (leap, Reason.JUMP),
    "half freeze": (half_freeze, Reason.FROZEN),
    "headset off": (take_off, Reason.HEADSET_OFF),
    "recentred": (recentre, Reason.RECENTRED),
    "recentred, told": (recentre_told, Reason.RECENTRED),
    "another controller": (other_controller, Reason.OTHER_DEVICE),
}
OF_BOTH_HANDS = (silence, take_off, recentre, recentre_told)
NOT_AT_ONCE = {"silence", "freeze", "half freeze", "another controller"}
"""Faults that one sample does not show, or that are another fault when they end."""
every_fault = pytest.mark.parametrize(("fault", "reason"), FAULTS.values(), ids=FAULTS.keys())


def engaged_and_gripping(session, **options):
    """Return a session with the clutch engaged, an object gripped, 5 cm into a motion."""
    s = session(**options)
    s.engage()
    s.right.trigger = 1.0
    s.run(0.1)
    s.glide(0.5, (0.0, 0.0, -0.08))
    assert s.last.hands[RIGHT].engaged
    assert s.target().closure == 1.0
    return s


@every_fault
def test_a_fault_holds_the_arm_and_the_grip_and_is_counted(session, fault, reason) -> None:
    s = engaged_and_gripping(session)
    before = s.target()
    fault(s, True)
    step = s.run(0.5)
    hand = step.hands[RIGHT]
    assert (hand.state, hand.reason) == (HandState.HELD, reason)
    assert s.policy.counts[RIGHT][reason] > 0
    # 1e-6: what the filter still had to come of the motion when the fault began.
    assert np.allclose(s.target().position, before.position, atol=1e-6)
    assert np.array_equal(step.action[:6], np.zeros(6))
    assert s.target().closure == 1.0
    # It mends 30 cm away, or where it leapt to: nothing moves although the grip is squeezed.
    s.right.position = s.right.position + np.array([0.0, 0.3, 0.0]) * (fault is not leap)
    fault(s, False)
    s.glide(0.5, (0.05, 0.0, 0.0))
    assert s.last.hands[RIGHT].state is HandState.HELD
    assert np.allclose(s.target().position, before.position, atol=1e-6)
    assert s.target().closure == 1.0
    # A release and a squeeze: the arm follows again, from where it is.
    s.engage()
    assert np.allclose(s.target().position, before.position, atol=1e-6)
    assert s.target().closure == 1.0
    s.glide(0.5, (0.0, 0.10, 0.0))
    assert np.allclose(s.target().position - before.position, (0.0, 0.0, 0.06), atol=1e-5)
    s.right.trigger = 0.0
    s.run(0.1)
    assert s.target().closure == 0.0


@every_fault
def test_the_other_hand_is_not_held(session, fault, reason) -> None:
    s = session(sides=(Side.RIGHT, Side.LEFT))
    s.engage(Side.RIGHT)
    s.engage(Side.LEFT)
    fault(s, True)
    step = s.run(0.5)
    assert not step.hands[RIGHT].engaged
    if fault not in OF_BOTH_HANDS:
        assert step.hands[Side.LEFT].engaged
        assert reason not in s.policy.counts[Side.LEFT]


@pytest.mark.parametrize("name", sorted(FAULTS.keys() - NOT_AT_ONCE))
def test_a_single_bad_sample_is_enough(session, name) -> None:
    fault, reason = FAULTS[name]
    s = engaged_and_gripping(session)
    before = s.target()
    fault(s, True)
    s.tick([s.frame(s.device_ns)])
    s.device_ns += s.device_period_ns
    fault(s, False)
    s.glide(0.5, (0.0, 0.0, -0.05))
    assert s.policy.counts[RIGHT][reason] == 1
    assert np.allclose(s.target().position, before.position, atol=1e-6)
    s.engage()


def test_buttons_hidden_by_the_dashboard_are_no_release(session) -> None:
    s = engaged_and_gripping(session)
    before = s.target()
    s.right.input_valid = False
    s.glide(1.0, (0.1, 0.0, 0.0))  # poses go on
    s.right.input_valid = True  # and the buttons come back pressed
    step = s.glide(0.5, (0.1, 0.0, 0.0))
    assert not step.engaged
    assert np.allclose(s.target().position, before.position, atol=1e-6)
    assert s.target().closure == 1.0


def test_a_trigger_let_go_during_a_loss_does_not_drop_the_object(session) -> None:
    s = engaged_and_gripping(session)
    s.right.tracked = False
    s.run(0.3)
    s.right.trigger = 0.0
    s.run(0.3)
    s.right.tracked = True
    s.run(0.3)
    s.engage()
    s.glide(0.5, (0.0, 0.05, 0.0))
    assert s.target().closure == 1.0  # engaging alone does not open it
    for pull, closure in [(0.5, 1.0), (1.0, 1.0), (0.6, 0.6), (0.0, 0.0)]:
        s.right.trigger = pull
        s.run(0.1)
        assert s.target().closure == pytest.approx(closure, abs=1e-6)


def test_a_lost_controller_keeps_its_reason_while_it_is_lost(session) -> None:
    s = engaged_and_gripping(session)
    s.right.connected = s.right.input_valid = False
    for _ in range(100):
        assert s.tick().hands[RIGHT].reason in (None, Reason.DISCONNECTED)
    assert Reason.STALE not in s.policy.counts[RIGHT]
    s.silent = True
    s.run(0.5)
    assert s.last.hands[RIGHT].reason is Reason.STALE
    assert s.policy.counts[RIGHT][Reason.STALE] == 1


def test_a_stream_that_flickers_never_engages(session) -> None:
    s = session()
    there = s.right.position.copy()
    flip = [0]

    def move(t: float) -> None:
        flip[0] += 1
        s.right.position = there + np.array([0.0, 0.4 * (flip[0] % 2), 0.0])

    s.move = move
    for _ in range(5):
        s.right.grip = 0.0
        s.run(0.1)
        s.right.grip = 1.0
        assert not s.run(0.1).engaged


# Clocks


def test_odd_stamps_are_counted_and_the_hand_stays_engaged(session) -> None:
    s = engaged_and_gripping(session)
    before = s.target()
    now = s.device_ns
    s.device_ns += 4 * s.device_period_ns
    hour = 3_600_000_000_000
    frames = [s.frame(now), s.frame(now), s.frame(now - 50_000_000)]
    s.shift_ns = hour
    frames.append(s.frame(now + s.device_period_ns))
    s.shift_ns = 0
    frames.append(s.frame(now + 2 * s.device_period_ns))
    s.tick(frames)
    step = s.run(0.2)
    assert step.engaged
    counts = s.policy.counts[RIGHT]
    assert counts[Reason.DUPLICATE_STAMP] == 1
    assert counts[Reason.OLD_STAMP] == 1
    assert counts[Reason.FUTURE_STAMP] == 1
    assert np.allclose(s.target().position, before.position, atol=1e-6)


def test_a_count_that_begins_anew_means_nothing(session) -> None:
    s = engaged_and_gripping(session)
    before = s.target()
    s.seq = 0
    s.glide(0.5, (0.0, 0.1, 0.0))
    assert s.last.engaged
    assert np.allclose(s.target().position - before.position, (0.0, 0.0, 0.06), atol=1e-5)


def test_one_wrong_matrix_after_another_and_the_stream_goes_on(session) -> None:
    s = session()
    for name in ("mirrored", "scaled", "zero", "nan", "identity"):
        fault, reason = FAULTS[name]
        s.engage()
        before = s.target()
        s.glide(0.5, (0.0, 0.02, 0.0))
        assert np.allclose(s.target().position - before.position, (0.0, 0.0, 0.012), atol=1e-5)
        assert reason not in s.policy.counts[RIGHT]
        fault(s, True)
        s.run(0.1)
        assert s.policy.counts[RIGHT][reason] == 9  # every sample of 0.1 s
        fault(s, False)


@pytest.mark.parametrize("shift_s", [-11, -3600, 3600])
def test_control_is_back_within_a_second_of_a_restarted_clock(session, shift_s) -> None:
    s = engaged_and_gripping(session)
    before = s.target()
    s.shift_ns = shift_s * 1_000_000_000
    s.right.grip = 0.0
    s.run(0.4)
    assert s.policy.counts[RIGHT][Reason.CLOCK_RESTART] == 1
    s.right.grip = 1.0
    assert s.run(0.1).engaged  # 0.5 s after the restart
    assert np.allclose(s.target().position, before.position, atol=1e-6)
    s.glide(0.3, (0.0, 0.1, 0.0))
    assert s.target().position[2] - before.position[2] == pytest.approx(0.06, abs=1e-5)


def test_a_sender_that_only_repeats_itself_goes_stale(session) -> None:
    s = engaged_and_gripping(session)
    frame = s.frame(s.device_ns)
    for _ in range(30):
        step = s.tick([frame])
    assert step.hands[RIGHT].reason is Reason.STALE
    assert s.policy.counts[RIGHT][Reason.DUPLICATE_STAMP] >= 29


def stall(s, seconds: float, *, reclutch: bool = False, listens: bool = True) -> PolicyStep:
    """Let the loop stand still while the hand rises and lets go; return the step after it.

    ``reclutch``: the grip is opened and squeezed meanwhile; ``listens``: the reader goes on.
    """
    count = round(seconds * 90)
    backlog = []
    for k in range(count):
        s.right.position[1] += 1e-3
        s.right.trigger = 0.0
        if reclutch:
            s.right.grip = float(k > count // 2)
        backlog.append(s.frame(s.device_ns + k * s.device_period_ns))
    s.device_ns += count * s.device_period_ns
    s.now_ns = s.device_ns
    return s.tick(backlog if listens else [])


def test_a_short_backlog_is_taken_in_order(session) -> None:
    s = engaged_and_gripping(session)
    step = stall(s, 0.2)
    assert step.engaged  # its newest sample is fresh and none jumped
    assert np.linalg.norm(step.action[:3]) <= 1.0 + 1e-6
    assert step.notices == ()


@pytest.mark.parametrize("listens", [True, False])
@pytest.mark.parametrize("reclutch", [True, False])
@pytest.mark.parametrize("seconds", [0.3, 1.1, 5.0])
def test_nothing_that_a_stalled_loop_missed_moves_the_arm(
    session, seconds, reclutch, listens
) -> None:
    """The operator saw a picture that stood still: neither arm nor gripper catches up."""
    s = engaged_and_gripping(session)
    before = s.target()
    step = stall(s, seconds, reclutch=reclutch, listens=listens)
    assert step.hands[RIGHT].reason is Reason.STALLED
    assert f"{seconds:.1f} s" in step.notices[0]
    for _ in range(50):  # the grip still squeezed
        assert np.array_equal(step.action[:6], np.zeros(6))
        assert step.hands[RIGHT].state is HandState.HELD
        step = s.tick()
    assert np.array_equal(s.target().position, before.position)
    assert s.target().closure == before.closure == 1.0
    assert s.policy.counts[RIGHT][Reason.STALLED] == 1
    s.engage()
    s.glide(0.3, (0.0, 0.1, 0.0))
    assert s.target().position[2] - before.position[2] == pytest.approx(0.06, abs=1e-5)


def test_a_button_pressed_in_a_stall_counts(session) -> None:
    s = engaged_and_gripping(session)
    s.right.buttons = Button.SECONDARY
    backlog = [s.frame(s.device_ns + k * s.device_period_ns) for k in range(20)]
    s.right.buttons = Button.NONE
    backlog += [s.frame(s.device_ns + k * s.device_period_ns) for k in range(20, 40)]
    s.device_ns += 40 * s.device_period_ns
    s.now_ns = s.device_ns
    assert EpisodeEvent.GOOD in s.tick(backlog).events


def test_the_time_between_two_episodes_is_no_stall(session) -> None:
    s = engaged_and_gripping(session)
    s.now_ns = s.device_ns = s.now_ns + 10_000_000_000
    s.policy.reset()
    step = s.tick()
    assert step.hands[RIGHT].reason is not Reason.STALLED
    assert step.notices == ()


# Anything


relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@settings(relaxed, max_examples=40)
@given(
    position=st.tuples(*[st.floats(-3.0, 3.0)] * 3),
    turn=st.tuples(*[st.floats(-3.0, 3.0)] * 3),
    start=st.tuples(st.floats(0.1, 0.9), st.floats(-0.6, 0.6), st.floats(0.0, 0.9)),
    facing=st.floats(-3.0, 3.0),
)
def test_engaging_moves_nothing(session, position, turn, start, facing) -> None:
    s = session(TeleopConfig(facing_yaw=facing), start=start)
    s.right.turn = Rotation.from_rotvec(turn)
    s.right.position = np.array(position) + np.array([0.0, 4.0, 0.0])  # never the default pose
    s.run(0.1)
    s.right.grip = 1.0
    commanded = s.target()
    for _ in range(4):
        if (step := s.tick()).engaged:
            break
    assert step.engaged
    target = step.hands[RIGHT].target
    assert np.abs(target.position - commanded.position).max() <= 1e-9
    assert np.abs(target.quat_wxyz - commanded.quat_wxyz).max() <= 1e-9


MATRICES = ("zero", "nan", "identity", "mirrored")
FLAGS = {"lost": "tracked", "invalid": "valid", "blocked": "input_valid"}
OTHERS = ("go", "leap", "grip", "open", "silent", "frozen", "stamp", "head", "stick", "a", "turn")
ops = st.sampled_from((*OTHERS, *MATRICES, *FLAGS, "trigger"))


def disturb(s, op: str, rng: np.random.Generator) -> None:
    """Undo the last disturbance of the session's stream and begin another."""
    hand = s.right
    hand.matrix = None
    hand.tracked = hand.valid = hand.input_valid = hand.alive = s.head.valid = True
    s.silent, s.shift_ns, hand.buttons = False, 0, Button.NONE
    if op in MATRICES:
        FAULTS[op][0](s, True)
    elif op in FLAGS:
        setattr(hand, FLAGS[op], False)
    elif op == "leap":
        hand.position = rng.uniform(-3.0, 3.0, 3)
    elif op == "turn":
        hand.turn = Rotation.from_rotvec(rng.normal(0.0, 1.0, 3)) * hand.turn
    elif op in ("grip", "open"):
        hand.grip = float(op == "grip")
    elif op == "trigger":
        hand.trigger = rng.uniform()
    elif op == "silent":
        s.silent = True
    elif op == "frozen":
        freeze(s, True)
    elif op == "stamp":
        s.shift_ns = int(rng.integers(-(10**10), 10**10))
    elif op == "head":
        s.head.valid = False
    elif op in ("stick", "a"):
        hand.buttons = Button.STICK if op == "stick" else Button.PRIMARY


@settings(relaxed, max_examples=60)
@given(
    script=st.lists(ops, min_size=5, max_size=60),
    seed=st.integers(0, 2**32 - 1),
    hz=st.sampled_from([20, 50, 200]),
    name=st.sampled_from(["kalman", "one_euro", "exponential"]),
)
def test_whatever_comes_in_no_target_leaps(session, script, seed, hz, name) -> None:
    rng = np.random.default_rng(seed)
    s = session(TeleopConfig(filter=name), control_hz=hz)
    s.engage()
    limit = 1.0 / hz * (1 + 1e-6)
    for op in script:
        disturb(s, op, rng)
        step_m = rng.normal(0.0, 0.02, 3)
        for _ in range(int(rng.integers(1, 4))):
            s.right.position = s.right.position + step_m
            before = s.target().position
            step = s.tick()  # the stand-in environment refuses actions beyond full speed
            assert np.isfinite(step.action).all()
            assert np.linalg.norm(s.target().position - before) <= limit
            if not step.engaged:
                assert np.array_equal(s.target().position, before)
