"""What the hands feel, and when."""

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinematics import Side
from teleop_agent.config import TeleopConfig
from teleop_agent.errors import TeleopError
from teleop_agent.haptics import MEANINGS, PATTERNS, Cue, Haptics, table

HZ = 50


def felt(cue: Cue, hz: int = HZ) -> list[float]:
    return [amplitude for seconds, amplitude in PATTERNS[cue] for _ in range(round(seconds * hz))]


def feel(haptics: Haptics, ticks: int = 100) -> dict[Side, list[float]]:
    """Return what both hands feel with nothing new happening; silence at the end left out."""
    rows = [haptics.tick([]) for _ in range(ticks)]
    found = {side: [row[side] for row in rows] for side in Side}
    for amplitudes in found.values():
        while amplitudes and amplitudes[-1] == 0.0:
            amplitudes.pop()
    return found


@pytest.mark.parametrize("hz", [20, 50, 200])
@pytest.mark.parametrize("cue", Cue)
def test_each_cue_is_felt_as_it_is_written(cue: Cue, hz: int) -> None:
    """At every rate, whole, and in both hands."""
    haptics = Haptics(hz)
    haptics.play(cue)
    hands = feel(haptics, 4 * hz)
    assert hands[Side.RIGHT] == hands[Side.LEFT]
    total = sum(seconds for seconds, _ in PATTERNS[cue])
    assert abs(len(hands[Side.RIGHT]) / hz - total) <= 0.5 * len(PATTERNS[cue]) / hz + 1e-9
    if hz == HZ:
        assert hands[Side.RIGHT] == felt(cue)


def test_cues_can_be_told_apart() -> None:
    """By their number of pieces, or by half as long again, or half as strong again."""
    for one, two in itertools.combinations(set(Cue) - {Cue.LIMIT, Cue.RELEASED}, 2):
        if len(PATTERNS[one]) == len(PATTERNS[two]):
            ratios = [
                np.sum(PATTERNS[one], axis=0)[k] / np.sum(PATTERNS[two], axis=0)[k] for k in (0, 1)
            ]
            assert max(*ratios, *(1.0 / ratio for ratio in ratios)) >= 1.5, (one, two)
    assert set(MEANINGS) == set(PATTERNS) == set(Cue)
    assert all(0.0 <= a <= 1.0 and s > 0.0 for p in PATTERNS.values() for s, a in p)


def test_the_more_urgent_one_is_felt() -> None:
    haptics = Haptics(HZ)
    haptics.play(Cue.HELD, [Side.RIGHT])
    haptics.play(Cue.SAVED)
    hands = feel(haptics)
    assert hands == {Side.RIGHT: felt(Cue.HELD), Side.LEFT: felt(Cue.SAVED)}
    haptics.play(Cue.LIMIT)
    haptics.play(Cue.DISCARDED)
    assert feel(haptics)[Side.RIGHT] == felt(Cue.DISCARDED)


@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0])
def test_strength(strength: float) -> None:
    haptics = Haptics(HZ, strength)
    haptics.play(Cue.HELD)
    assert max(haptics.tick([]).values()) == strength


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan")])
def test_strengths_that_cannot_be(strength: float) -> None:
    with pytest.raises(TeleopError, match=r"\[0, 1\]"):
        Haptics(HZ, strength)


def follow(session: Any, haptics: Haptics, seconds: float) -> list[Mapping[Side, float]]:
    """Run the session and return what is felt."""
    return [haptics.tick(session.run(1.0 / HZ).hands.values()) for _ in range(round(seconds * HZ))]


def strongest(rows: list[Mapping[Side, float]], side: Side = Side.RIGHT) -> float:
    return max(row[side] for row in rows)


def test_a_hand_feels_its_own_arm(session: Callable[..., Any]) -> None:
    """Engaged, released, tracking lost; the other hand feels nothing of it."""
    s, haptics = session(sides=tuple(Side)), Haptics(HZ)
    assert strongest(follow(s, haptics, 0.5)) == 0.0  # a start is no event
    s.right.grip = 1.0
    rows = follow(s, haptics, 0.5)
    assert strongest(rows) == PATTERNS[Cue.ENGAGED][0][1]
    s.right.grip = 0.0
    assert strongest(follow(s, haptics, 0.5)) == PATTERNS[Cue.RELEASED][0][1]
    s.right.grip = 1.0
    follow(s, haptics, 0.5)
    s.right.tracked = False
    lost = follow(s, haptics, 0.5)
    assert [row[Side.RIGHT] for row in lost if row[Side.RIGHT]] == felt(Cue.HELD)
    assert strongest(follow(s, haptics, 1.0)) == 0.0  # told once
    assert all(row[Side.LEFT] == 0.0 for row in [*rows, *lost])


def test_swapped_hands_feel_the_arms_they_move(session: Callable[..., Any]) -> None:
    s = session(TeleopConfig(swap_hands=True), sides=(Side.RIGHT,))
    haptics = Haptics(HZ)
    follow(s, haptics, 0.5)
    s.left.grip = 1.0
    rows = follow(s, haptics, 0.5)
    assert strongest(rows, Side.LEFT) > 0.0
    assert strongest(rows, Side.RIGHT) == 0.0


def test_a_wall_is_felt_again_and_again(session: Callable[..., Any]) -> None:
    """As long as the hand pushes against it, and not after it has come back."""
    s, haptics = session(), Haptics(HZ)
    follow(s, haptics, 0.5)
    s.right.grip = 1.0
    follow(s, haptics, 0.5)
    start = s.right.position.copy()

    def push(t_s: float) -> None:
        s.right.position = s.right.position - np.array([0.0, 0.0, 0.003])  # forward

    s.move = push
    rows = follow(s, haptics, 4.0)
    limit = PATTERNS[Cue.LIMIT][0][1]
    starts = [
        k for k in range(1, len(rows)) if rows[k][Side.RIGHT] == limit > rows[k - 1][Side.RIGHT]
    ]
    assert len(starts) >= 4
    assert {b - a for a, b in itertools.pairwise(starts)} == {15}  # 0.3 s
    s.move = None
    s.right.position = start
    follow(s, haptics, 1.0)
    assert strongest(follow(s, haptics, 1.0)) == 0.0


def test_the_page_has_the_language() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "operating.md"
    assert page.read_text(encoding="utf-8").endswith(table()), "paste teleop_agent.haptics.table()"
