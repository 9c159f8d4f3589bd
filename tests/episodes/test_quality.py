"""The figures of an episode, against ways whose figures are known."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from episodes.quality import LEAST_EFFICIENCY, MOST_IDLE, Quality, measure
from kinematics import Side

HZ = 50
RIGHT, LEFT = Side.RIGHT, Side.LEFT


def hand(position: Any, **more: Any) -> SimpleNamespace:
    values = {"closure": 0.0, "engaged": True, "clamps": 0, "guard_reason": ""}
    values |= {"clearance": 0.09} | more
    quat = values.pop("quat", (0.0, 1.0, 0.0, 0.0))
    return SimpleNamespace(accepted_position=np.array(position), accepted_quat=quat, **values)


def figures(*arms: list[SimpleNamespace], late: tuple[int, ...] = ()) -> Quality:
    """Return the figures of an episode in which each arm did this."""
    sides = (RIGHT, LEFT)[: len(arms)]
    rows = [
        SimpleNamespace(hands=dict(zip(sides, hands, strict=True)), late=k in late)
        for k, hands in enumerate(zip(*arms, strict=True))
    ]
    info = SimpleNamespace(control_hz=HZ, sides=sides, guard_reasons=("", "tracking lost"))
    return measure(SimpleNamespace(rows=rows, info=info))  # type: ignore[arg-type]


def along(*points: tuple[float, float, float], rows: int = 50) -> np.ndarray:
    """Return a way (T, 3) through points at even speed."""
    share = np.linspace(0.0, len(points) - 1.0, rows)
    return np.stack(
        [np.interp(share, range(len(points)), [p[axis] for p in points]) for axis in range(3)], 1
    )


def test_a_straight_way_is_the_shortest() -> None:
    quality = figures([hand(p) for p in along((0.3, 0, 0.2), (0.6, 0, 0.2))])
    assert (quality.duration_s, quality.clutches, quality.losses) == (1.0, 1, 0)
    assert quality.path_m == pytest.approx(0.3)
    assert quality.efficiency == pytest.approx(1.0)
    assert (quality.idle, quality.clamped, quality.late) == (0.0, 0.0, 0.0)
    assert quality.jerk < 1e-6
    assert quality.doubts() == []


def test_the_way_is_cut_where_a_gripper_turns() -> None:
    path = along((0.3, 0, 0.2), (0.6, 0, 0.2), (0.3, 0, 0.2), rows=51)
    there_and_back = figures([hand(p) for p in path])
    assert there_and_back.efficiency == pytest.approx(0.0, abs=1e-9)
    assert any("times as long" in doubt for doubt in there_and_back.doubts())
    fetched = figures([hand(p, closure=float(k >= 25)) for k, p in enumerate(path)])
    assert fetched.efficiency == pytest.approx(1.0, abs=0.05)


def test_idling_means_that_nothing_is_commanded() -> None:
    still = [hand((0.3, 0.0, 0.2)) for _ in range(50)]
    quality = figures(still)
    assert (quality.idle, quality.efficiency, quality.path_m) == (1.0, 1.0, 0.0)
    assert quality.doubts() == ["100 % idle"]
    shaking = [hand((0.3, 0.0, 0.2 + 5e-5 * (k % 2))) for k in range(50)]
    assert figures(shaking).idle == 1.0
    closing = [hand((0.3, 0.0, 0.2), closure=k / 49) for k in range(50)]
    assert figures(closing).idle == 0.0
    angles = np.linspace(0.0, 0.5, 50)
    turning = [hand((0.3, 0.0, 0.2), quat=(0.0, np.cos(a), np.sin(a), 0.0)) for a in angles]
    assert figures(turning).idle == 0.0
    flipped = [hand((0.3, 0.0, 0.2), quat=(0.0, (-1.0) ** k, 0.0, 0.0)) for k in range(50)]
    assert figures(flipped).idle == 1.0, "a quaternion and its negative are one rotation"
    moving = [hand(p) for p in along((0.3, 0, 0.2), (0.6, 0, 0.2))]
    assert figures(still, moving).idle == 0.0
    assert 0.0 < MOST_IDLE < 1.0 > LEAST_EFFICIENCY > 0.0


def test_faults_are_counted_and_letting_go_is_none() -> None:
    path = along((0.3, 0, 0.2), (0.6, 0, 0.2), rows=60)
    hands = [hand(p, engaged=k not in (20, 21, 40), clamps=k < 15) for k, p in enumerate(path)]
    hands[40].guard_reason = "tracking lost"
    quality = figures(hands, late=(3, 4, 5))
    assert (quality.losses, quality.clutches) == (1, 3)
    assert quality.clamped == pytest.approx(0.25)
    assert quality.late == pytest.approx(0.05)
    assert [doubt.split(" %")[0] for doubt in quality.doubts()] == [
        "the stream failed 1 x",
        "25",
        "5",
    ]


def test_jerk_is_the_third_derivative() -> None:
    t = np.arange(100) / HZ
    path = np.stack([0.3 + 0.1 * t**3, 0 * t, 0 * t], 1)
    assert figures([hand(p) for p in path]).jerk == pytest.approx(0.6)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_short_episodes_have_figures_too(rows: int) -> None:
    quality = figures([hand(p) for p in along((0.3, 0, 0.2), (0.6, 0, 0.2), rows=50)[:rows]])
    assert all(np.isfinite(value) for value in vars_of(quality))


def vars_of(quality: Quality) -> list[float]:
    return [getattr(quality, name) for name in Quality.__slots__]


def test_links_that_nearly_touched_are_a_doubt() -> None:
    path = along((0.3, 0, 0.2), (0.6, 0, 0.2))
    near = figures([hand(p, clearance=0.05 - 0.001 * k) for k, p in enumerate(path)])
    assert near.clearance_m == pytest.approx(0.001)
    assert near.doubts() == ["links 1 mm apart"]
    assert figures([hand(p, clearance=float("nan")) for p in path]).doubts() == []
