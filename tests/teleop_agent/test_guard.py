"""What a pose must be to move a robot."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from teleop_agent.errors import TeleopError
from teleop_agent.frame import TrackedPose
from teleop_agent.guard import GuardConfig, PoseGuard, Sample
from teleop_agent.reasons import Reason

PERIOD = 11_111_111
TURN = Rotation.from_rotvec([0.3, -0.2, 0.5]).as_matrix()


def tracked(matrix: np.ndarray, **flags: bool | str) -> TrackedPose:
    return TrackedPose(
        **({"connected": True, "valid": True, "tracked": True} | flags), matrix=matrix
    )


def at(x: float = 0.0, turn: np.ndarray = TURN) -> TrackedPose:
    return tracked(np.column_stack([turn, [x, 1.0, -0.3]]))


class Stream:
    """Feed a guard at 90 Hz."""

    def __init__(self) -> None:
        self.guard, self.t_ns = PoseGuard(), 0

    def send(
        self, pose: TrackedPose, engaged: bool = True, periods: float = 1.0
    ) -> Sample | Reason:
        self.t_ns += round(periods * PERIOD)
        return self.guard.take(pose, self.t_ns, engaged)

    def settle(self, n: int = 20) -> "Stream":
        for k in range(n):
            self.send(at(1e-5 * k))
        assert self.guard.settled
        return self


def broken(change: str) -> np.ndarray:
    matrix = np.column_stack([TURN, [0.0, 1.0, -0.3]])
    if change == "nan":
        matrix[1, 2] = np.nan
    elif change == "inf":
        matrix[0, 3] = np.inf
    elif change == "mirrored":
        matrix[:, 0] *= -1.0
    elif change == "scaled":
        matrix[:, :3] *= 1.2
    elif change == "one column":
        matrix[:, 1] *= 1.2
    elif change == "sheared":
        matrix[:, 1] += 0.1 * matrix[:, 0]
    elif change == "no rotation":
        matrix[:, :3] = 0.0
    elif change == "zero":
        matrix[:] = 0.0
    elif change == "identity":
        matrix = np.eye(4)[:3]
    return matrix


@pytest.mark.parametrize(
    ("pose", "reason"),
    [
        (tracked(broken("")), None),
        (tracked(broken(""), connected=False), Reason.DISCONNECTED),
        (tracked(broken(""), valid=False), Reason.INVALID),
        (tracked(broken(""), tracked=False), Reason.UNTRACKED),
        (tracked(broken("nan")), Reason.NON_FINITE),
        (tracked(broken("inf")), Reason.NON_FINITE),
        (tracked(broken("zero")), Reason.ZERO),
        (tracked(broken("identity")), Reason.IDENTITY),
        (tracked(broken("mirrored")), Reason.MIRRORED),
        (tracked(broken("scaled")), Reason.NOT_RIGID),
        (tracked(broken("one column")), Reason.NOT_RIGID),
        (tracked(broken("sheared")), Reason.NOT_RIGID),
        (tracked(broken("no rotation")), Reason.NOT_RIGID),
    ],
)
def test_each_fault_has_its_reason(pose, reason) -> None:
    stream = Stream().settle()
    verdict = stream.send(pose)
    if reason is None:
        assert isinstance(verdict, Sample)
    else:
        assert verdict is reason
        assert not stream.guard.settled


def test_a_nearly_rigid_matrix_is_made_rigid() -> None:
    stream = Stream().settle()
    loose = np.column_stack([1.004 * TURN.astype(np.float32), [0.0, 1.0, -0.3]])
    verdict = stream.send(tracked(loose))
    assert isinstance(verdict, Sample)
    assert np.abs(verdict.turn.T @ verdict.turn - np.eye(3)).max() < 1e-12
    assert np.abs(verdict.turn - TURN).max() < 1e-7  # float32 rounding


@pytest.mark.parametrize("fault", ["zero", "nan", "mirrored"])
def test_a_stream_settles_again_after_a_fault(fault) -> None:
    stream = Stream().settle()
    stream.send(tracked(broken(fault)))
    verdicts = [stream.send(at(5.0 + 1e-4 * k)) for k in range(4)]
    assert verdicts[:2] == [Reason.SETTLING, Reason.SETTLING]
    assert all(isinstance(v, Sample) for v in verdicts[2:])


@pytest.mark.parametrize("metres, jumps", [(0.045, False), (0.055, True), (0.4, True)])
def test_jump_gate_at_90_hz(metres, jumps) -> None:
    verdict = Stream().settle().send(at(metres))
    assert (verdict is Reason.JUMP) == jumps


@pytest.mark.parametrize("degrees, jumps", [(33.0, False), (37.0, True), (180.0, True)])
def test_turn_gate_at_90_hz(degrees, jumps) -> None:
    turn = Rotation.from_rotvec(np.deg2rad(degrees) * np.array([0.0, 0.6, 0.8])).as_matrix() @ TURN
    assert (Stream().settle().send(at(0.0, turn)) is Reason.JUMP) == jumps


@pytest.mark.parametrize("periods", [3.0, 5.0, 20.0])
def test_a_gap_opens_the_gate_by_three_periods_at_most(periods) -> None:
    assert isinstance(Stream().settle().send(at(0.145), periods=periods), Sample)
    assert Stream().settle().send(at(0.155), periods=periods) is Reason.JUMP


def test_after_a_jump_the_stream_is_accepted_where_it_is() -> None:
    stream = Stream().settle()
    assert stream.send(at(0.4)) is Reason.JUMP
    assert stream.send(at(0.401)) is Reason.SETTLING
    assert isinstance(stream.send(at(0.402)), Sample)


def test_another_serial_in_the_same_hand_is_a_loss() -> None:
    stream = Stream()
    for serial in ("", "one"):
        verdicts = [
            stream.send(tracked(at(1e-5 * k).matrix, serial=serial), engaged=False)
            for k in range(10)
        ]
        assert Reason.OTHER_DEVICE not in verdicts
    assert stream.send(tracked(at().matrix, serial="two")) is Reason.OTHER_DEVICE
    assert stream.send(tracked(at(1e-5).matrix, serial="two")) is Reason.SETTLING


def test_flicker_between_two_places_is_never_believed() -> None:
    stream = Stream().settle()
    assert {stream.send(at(0.4 * (k % 2 == 0))) for k in range(50)} == {Reason.JUMP}


def test_a_gap_longer_than_the_age_limit_is_a_loss() -> None:
    stream = Stream().settle()
    assert stream.send(at(0.001), periods=23.0) is Reason.STALE
    assert stream.send(at(0.002)) is Reason.SETTLING


def test_a_repeated_pose_freezes_only_while_engaged() -> None:
    stream = Stream().settle()
    verdicts = [stream.send(at(0.01), engaged=False) for _ in range(60)]
    assert Reason.FROZEN not in verdicts
    verdicts = [stream.send(at(0.01), engaged=True) for _ in range(60)]
    first = verdicts.index(Reason.FROZEN)
    assert 0.24 < (first + 1) * PERIOD * 1e-9 < 0.27  # s; 250 ms and one sample
    assert set(verdicts[first:]) == {Reason.FROZEN}
    assert stream.send(at(0.011)) is Reason.SETTLING  # a new chain begins


def test_a_position_that_stands_still_while_the_turn_goes_on_is_frozen() -> None:
    stream = Stream().settle()
    turns = [Rotation.from_rotvec([0.0, 0.01 * k, 0.0]).as_matrix() @ TURN for k in range(60)]
    assert Reason.FROZEN not in [stream.send(at(0.01, turn), engaged=False) for turn in turns]
    verdicts = [stream.send(at(0.01, turn)) for turn in reversed(turns)]
    first = verdicts.index(Reason.FROZEN)
    assert 0.24 < (first + 1) * PERIOD * 1e-9 < 0.27  # s, as for a pose that is frozen whole
    assert set(verdicts[first:]) == {Reason.FROZEN}
    assert stream.send(at(0.011)) is Reason.SETTLING


def test_a_frozen_pose_that_leaps_on_is_a_jump() -> None:
    stream = Stream().settle()
    for _ in range(60):
        stream.send(at(0.01))
    assert stream.send(at(0.41)) is Reason.JUMP


def test_a_pose_read_twice_between_measurements_is_skipped() -> None:
    guard, verdicts = PoseGuard(), []
    for k in range(500):  # polled at 250 Hz, measured at 90 Hz
        measured = int(k * 4_000_000 / PERIOD)
        verdicts.append(guard.take(at(1e-4 * measured), k * 4_000_000, True))
    steps = [v.position[0] for v in verdicts if isinstance(v, Sample)]
    assert np.diff(steps) == pytest.approx(1e-4, abs=1e-12)
    assert {v for v in verdicts[10:] if isinstance(v, Reason)} == {Reason.REPEAT}


def test_a_still_pose_is_a_measurement_once_it_cannot_be_a_second_reading() -> None:
    stream = Stream().settle()
    stream.send(at(0.01))
    verdicts = [stream.send(at(0.01)) for _ in range(10)]
    assert verdicts[0] is Reason.REPEAT
    assert all(isinstance(v, Sample) for v in verdicts[1:])


@pytest.mark.parametrize("hz", [72, 90, 120])
def test_the_period_is_learned_whatever_single_gaps_do(hz) -> None:
    guard, t_ns = PoseGuard(), 0
    for k in range(100):
        t_ns += round(1e9 / hz) * (8 if k % 10 == 0 else 1)
        guard.take(at(1e-4 * k), t_ns, True)
    assert guard.period_ns == pytest.approx(1e9 / hz, rel=1e-6)


@given(st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), min_size=12, max_size=12))
def test_any_matrix_gets_a_verdict(numbers) -> None:
    verdict = Stream().settle().send(tracked(np.array(numbers).reshape(3, 4)))
    assert isinstance(verdict, Sample | Reason)


def test_config_is_checked() -> None:
    with pytest.raises(TeleopError, match="settle_samples must be at least 1, got 0"):
        GuardConfig(settle_samples=0)
    with pytest.raises(TeleopError, match="jump gates must be > 0"):
        GuardConfig(max_speed=0.0)
