"""Two hands: each with its own clutch, fine mode, gripper and guard, all by one code."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from kinematics import Side
from kinematics.frames import rotation
from teleop_agent.config import TeleopConfig
from teleop_agent.frame import Button
from teleop_agent.reasons import HandState

RIGHT, LEFT = Side.RIGHT, Side.LEFT
both = pytest.mark.parametrize("side", [RIGHT, LEFT])
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

MIRROR_TRACKING = np.diag([-1.0, 1.0, 1.0])
"""An operator's left and right: tracking's x."""
MIRROR_WORLD = np.diag([1.0, -1.0, 1.0])
"""And world's y."""

LOSSES = {
    "lost": {"tracked": False},
    "invalid": {"valid": False},
    "away": {"connected": False},
    "blocked": {"input_valid": False},
    "zero": {"matrix": np.zeros((3, 4))},
    "nan": {"matrix": np.full((3, 4), np.nan)},
    "default": {"matrix": np.eye(4)[:3]},
}
SOUND = {"tracked": True, "valid": True, "connected": True, "input_valid": True, "matrix": None}
acts = st.sampled_from(["go", "squeeze", "open", "pull", "fine", "flick", "leap", *LOSSES])


@dataclass(frozen=True)
class Act:
    """What one hand does in a few control steps."""

    name: str
    ticks: int
    step_m: np.ndarray
    step_rotvec: np.ndarray
    amount: float

    def begin(self, hand) -> None:
        for name, value in (SOUND | LOSSES.get(self.name, {})).items():
            setattr(hand, name, value)
        hand.buttons = Button.STICK if self.name == "fine" else Button.NONE
        hand.stick = (0.0, 1.0 if self.amount > 0.5 else -1.0) if self.name == "flick" else (0, 0)
        if self.name in ("squeeze", "open"):
            hand.grip = float(self.name == "squeeze")
        elif self.name == "pull":
            hand.trigger = self.amount
        elif self.name == "leap":
            hand.position = hand.position + 30.0 * self.step_m

    def go_on(self, hand) -> None:
        hand.position = hand.position + self.step_m
        hand.turn = Rotation.from_rotvec(self.step_rotvec) * hand.turn

    def mirrored(self) -> "Act":
        """Return what the other hand does in a mirror; a turn's axis is mirrored backwards."""
        return Act(
            self.name,
            self.ticks,
            MIRROR_TRACKING @ self.step_m,
            -(MIRROR_TRACKING @ self.step_rotvec),
            self.amount,
        )


@st.composite
def parts(draw, min_size: int = 5, max_size: int = 12) -> list[Act]:
    """Draw what one hand does: engaged soon, then anything."""
    names = ["open", "squeeze", *draw(st.lists(acts, min_size=min_size, max_size=max_size))]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return [
        Act(
            name,
            int(rng.integers(2, 6)),
            rng.normal(0.0, 0.01, 3),
            rng.normal(0.0, 0.02, 3),
            float(rng.uniform()),
        )
        for name in names
    ]


def perform(s, part: dict[Side, list[Act]]):
    """Do both hands' acts side by side; return each arm's chain, tick by tick."""
    todo = {
        side: [(act, n) for act in mine for n in range(act.ticks)] for side, mine in part.items()
    }
    steps = []
    for tick in range(max(map(len, todo.values()))):
        for side, beats in todo.items():
            if tick < len(beats):
                act, n = beats[tick]
                if n == 0:
                    act.begin(s.hands[side])
                act.go_on(s.hands[side])
        steps.append(s.tick().hands)
    return steps


def chain(steps, side: Side) -> list[tuple[object, ...]]:
    """Return what became of one arm's hand, comparable to the bit."""
    return [
        (
            hand.state,
            hand.reason,
            hand.ratio,
            hand.fine,
            hand.clamps,
            hand.target.position.tobytes(),
            hand.target.quat_wxyz.tobytes(),
            hand.target.closure,
            hand.trigger,
            hand.grip,
        )
        for hand in (hands[side] for hands in steps)
    ]


def hands_of(session, config: TeleopConfig | None = None):
    return session(config, sides=(RIGHT, LEFT))


@both
@settings(relaxed, max_examples=5)
@given(mine=parts(), others=parts())
def test_a_hand_does_the_same_whatever_the_other_does(session, side, mine, others) -> None:
    # Both triggers with open grips ask for a pause, which is about both hands: the other pulls
    # none.
    others = [act for act in others if act.name != "pull"]
    idle = [Act("go", 1, np.zeros(3), np.zeros(3), 0.0)]
    alone, together = hands_of(session), hands_of(session)
    expected = chain(perform(alone, {side: mine, side.other: idle}), side)
    found = chain(perform(together, {side: mine, side.other: others}), side)
    assert found[: len(expected)] == expected


@settings(relaxed, max_examples=5)
@given(right=parts(), left=parts())
def test_swapped_hands_give_the_same_numbers_to_the_other_arm(session, right, left) -> None:
    part = {RIGHT: right, LEFT: left}
    straight = perform(hands_of(session), part)
    crossed = perform(hands_of(session, TeleopConfig(swap_hands=True)), part)
    for side in (RIGHT, LEFT):
        assert chain(crossed, side.other) == chain(straight, side)
        assert all(hands[side].controller is side.other for hands in crossed)


@settings(relaxed, max_examples=10)
@given(part=parts())
def test_a_mirrored_hand_moves_the_other_arm_in_a_mirror(session, part) -> None:
    s, mirror = hands_of(session), hands_of(session)
    turn = MIRROR_TRACKING @ s.right.turn.as_matrix() @ MIRROR_TRACKING
    mirror.left.turn = Rotation.from_matrix(turn)
    right = perform(s, {RIGHT: part})
    left = perform(mirror, {LEFT: [act.mirrored() for act in part]})
    for here, there in zip(right, left, strict=True):
        hand, image = here[RIGHT], there[LEFT]
        assert (image.state, image.reason) == (hand.state, hand.reason)
        assert (image.ratio, image.fine, image.clamps) == (hand.ratio, hand.fine, hand.clamps)
        assert image.target.closure == hand.target.closure
        np.testing.assert_allclose(
            image.target.position, MIRROR_WORLD @ hand.target.position, atol=1e-7
        )
        matrix = rotation(hand.target.quat_wxyz).as_matrix()
        np.testing.assert_allclose(
            rotation(image.target.quat_wxyz).as_matrix(),
            MIRROR_WORLD @ matrix @ MIRROR_WORLD,
            atol=1e-6,  # float32 actions, and a hand whose jitter has no mirror
        )


@settings(relaxed, max_examples=10)
@given(right=parts(max_size=20), left=parts(max_size=20))
def test_a_loss_disengages_until_the_grip_was_seen_open(session, right, left) -> None:
    s = hands_of(session)
    part = {RIGHT: right, LEFT: left}
    doing = {side: [act for act in acts for _ in range(act.ticks)] for side, acts in part.items()}
    may, grip = dict.fromkeys(part, False), dict.fromkeys(part, 0.0)
    for tick, hands in enumerate(perform(s, part)):
        for side, acts_ in doing.items():
            name = acts_[min(tick, len(acts_) - 1)].name
            if name in LOSSES:
                may[side] = False
                assert hands[side].state is HandState.HELD
                assert hands[side].reason is not None
                continue
            if name in ("open", "squeeze"):
                grip[side] = float(name == "squeeze")
            may[side] |= grip[side] == 0.0
            assert may[side] or not hands[side].engaged


@settings(relaxed, max_examples=2)
@given(seed=st.integers(0, 2**32 - 1), way=st.integers(0, 5))
def test_twenty_new_engagements_stay_in_the_workspace_and_move_nothing(session, seed, way) -> None:
    rng = np.random.default_rng(seed)
    s = session()
    box = s.env.workspace(RIGHT)  # whose base stands at world's origin
    push = np.zeros(3)
    push[way // 2] = 0.5 if way % 2 else -0.5
    for _ in range(20):  # every stroke goes to the same side; the hand comes back in between
        before, start = s.target(), s.right.position
        s.engage()
        np.testing.assert_allclose(s.target().position, before.position, atol=1e-9)
        np.testing.assert_allclose(s.target().quat_wxyz, before.quat_wxyz, atol=1e-9)
        by, spin = push + rng.normal(0.0, 0.1, 3), Rotation.from_rotvec(rng.normal(0.0, 0.03, 3))
        for _ in range(15):
            s.right.position = s.right.position + by / 15
            s.right.turn = spin * s.right.turn
            s.tick()
            assert np.all(s.target().position >= box.lower - 1e-7)  # m: float32 actions
            assert np.all(s.target().position <= box.upper + 1e-7)
        s.right.grip = 0.0
        s.run(0.06)
        s.right.position = start
