"""``python -m teleop_agent latency``: what it finds is what happened; no figure is asserted."""

import json

import numpy as np
import pytest

from kinematics import Side
from teleop_agent.clock import VirtualClock
from teleop_agent.commands import main
from teleop_agent.devices.leaping_hand import LEAP_M, LeapingHand, LeapingSource
from teleop_agent.errors import TeleopError
from teleop_agent.frame import OperatorFrame, TrackedPose
from teleop_agent.latency import Tick, report
from teleop_agent.policy import PolicyStep

MS = 1_000_000
STAGES = (
    "sample to receive",
    "receive to tick",
    "tick behind its deadline",
    "filter and mapping",
    "action",
    "IK and servo",
    "physics and observation",
    "sample to ctrl",
)


def tick(k: int, ctrl: tuple[float, float], tool: float, engaged: bool = True) -> Tick:
    """Return a tick at 20 k ms that begins 1 ms late, with a sample of 7 ms before it."""
    now = 20 * k * MS + 1 * MS
    frame = OperatorFrame(k, now - 7 * MS, now - 4 * MS, TrackedPose(), {})
    policy = PolicyStep(np.zeros(7, np.float32), engaged, {}, (), (), frame, now + 2 * MS)
    return Tick(
        frames=[frame] if k % 2 else [],
        policy=policy,
        due_ns=20 * k * MS,
        now_ns=now,
        policy_ns=now + 3 * MS,
        physics_ns=now + 5 * MS,
        done_ns=now + 9 * MS,
        first_ctrl=np.array([ctrl[0]]),
        last_ctrl=np.array([ctrl[1]]),
        tool=np.array([0.0, 0.0, tool]),
    )


def test_stages_and_answers_are_those_of_the_instants() -> None:
    # The hand leaps at 50 ms; tick 4 is the first to know, the tool gets half of it on the way of
    # tick 5, which ends at 121 ms; it comes back at 210 ms.
    tools = [0.0, 0.0, 0.0, 0.0, 0.002, 0.008, 0.010, 0.010, 0.010, 0.010, 0.010, 0.010]
    ctrls = [(0.0, 0.0)] * 4 + [(0.01, 0.1)] + [(0.2, 0.2)] * 7
    ticks = [tick(k, ctrl, tool) for k, (ctrl, tool) in enumerate(zip(ctrls, tools, strict=True))]
    found = report(ticks, [50 * MS, 210 * MS, 900 * MS], 50)
    assert (found.n_ticks, found.late) == (12, 0.0)
    p50 = {name: round(spread.p50, 6) for name, spread in (found.stages | found.answers).items()}
    assert p50 == dict(
        zip(
            (*STAGES, "hand to ctrl", "hand to tool, half the way"),
            (3.0, 4.0, 1.0, 2.0, 1.0, 2.0, 4.0, 12.0, 86.0 - 50.0, 111.0 - 50.0),
            strict=True,
        )
    )
    assert found.stages["receive to tick"].n == 6, "ticks without a sample have no age"
    assert found.answers["hand to ctrl"].n == 1, "the last leaps lie beyond the run"


def test_without_leaps_or_engagement_there_are_no_answers() -> None:
    ticks = [tick(k, (0.1 * k, 0.1 * k), 0.01 * (k > 4), engaged=False) for k in range(12)]
    for leaps in ([], [50 * MS, 210 * MS]):
        found = report(ticks, leaps, 50)
        assert not found.answers
        assert "no answers of ctrl and tool" in str(found)
    with pytest.raises(TeleopError, match="nothing was measured"):
        report([], [], 50)


def test_the_hand_leaps_when_it_says() -> None:
    clock = VirtualClock()
    source = LeapingSource(clock, 0, [1010 * MS, 1020 * MS])
    heights, grips = [], []
    for now in (100, 1005, 1010, 1015, 1020, 1025):
        clock.sleep_until(now * MS)
        controller = source.poll().controllers[Side.RIGHT]
        heights.append(controller.pose.matrix[1, 3] - 1.1)
        grips.append(controller.grip)
    assert np.round(np.array(heights) / LEAP_M, 6).tolist() == [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    assert grips == [0.0] + 5 * [1.0]
    with LeapingHand(200) as hand:
        assert np.diff(hand.leaps_ns).min() > 0.4e9


def test_the_command_measures_in_real_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["latency", "--seconds", "3", "--control-hz", "50", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["control_hz"] == 50
    assert found["ticks"] == 150
    assert 0.0 <= found["late"] <= 1.0
    assert tuple(found["stages_ms"]) == STAGES
    assert found["stages_ms"]["physics and observation"]["n"] == 150
    for spread in (found["stages_ms"] | found["answers_ms"]).values():
        assert 0.0 <= spread["p50"] <= spread["p95"] <= spread["p99"]


def test_the_command_says_what_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["latency", "--seconds", "1"]) == 2
    assert "--seconds must be within 2" in capsys.readouterr().err
    assert main(["latency", "--device", "simm"]) == 2
    assert main(["latency", "--device", "leap", "--device-hz", "7"]) == 2
