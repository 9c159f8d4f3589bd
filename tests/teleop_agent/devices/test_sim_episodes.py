"""The simulated operator at the real environments, run as demonstrations are recorded."""

import itertools
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from kinematics import Side
from session.loop import EpisodeEnd, Listener, Row, Session, SessionConfig
from teleop_agent.clock import VirtualClock
from teleop_agent.devices.sim import SimConfig, SimDevice
from teleop_agent.devices.sim.body import BodyConfig
from teleop_agent.devices.sim.faults import FaultConfig, FaultKind
from teleop_agent.devices.sim.intent import MindConfig
from teleop_agent.policy import TeleopPolicy


class Log(Listener):
    """Keep what a session tells."""

    def __init__(self, happen: Callable[[], None]) -> None:
        self.rows: list[Row] = []
        self._happen = happen

    def started(self, seed: int) -> None:
        self.rows.clear()

    def row(self, row: Row) -> None:
        self.rows.append(row)
        self._happen()

    def holds(self) -> int:
        """Return how often an engaged hand came to be held."""
        pairs = itertools.pairwise(row.policy.hands for row in self.rows)
        return sum(
            hand.engaged and after[side].reason is not None
            for before, after in pairs
            for side, hand in before.items()
        )


def run(
    task: str,
    seeds: list[int],
    config: SimConfig | None = None,
    auto_success: bool = True,
    happen: Callable[[Any], None] = lambda env: None,
    **options: Any,
) -> tuple[list[EpisodeEnd], Log]:
    """Run one operator through episodes of these seeds; ``happen`` after every control step."""
    env_id = "PicoDualPanda-v0" if task in ("lift_tray", "handover") else "PicoPanda-v0"
    made = gym.make(f"envs:{env_id}", task=task, terminate_on_success=False, **options)
    env: Any = made.unwrapped
    log = Log(lambda: happen(env))
    settings = SessionConfig(auto_success=auto_success, waiting_limit_s=20.0)
    with SimDevice(seeds[0], config) as device:
        session = Session(env, device, TeleopPolicy(env), VirtualClock(), log, settings)
        ends = [session.run_episode(seed) for seed in seeds]
    made.close()
    return ends, log


@pytest.mark.parametrize("degrees", [0, 90, 180])
def test_it_picks_facing_any_way(degrees: int) -> None:
    config = SimConfig(body=BodyConfig(facing=np.deg2rad(degrees)))
    ends, log = run("pick", [degrees], config)
    assert ends[0].success
    assert 4.0 < len(log.rows) / 50 < 20.0  # seconds, as a person


@pytest.mark.parametrize("seed", [1, 12])
def test_it_picks_after_a_dropout(seed: int) -> None:
    faults = FaultConfig(each_episode=FaultKind.DROPOUT)
    ends, log = run("pick", [seed], SimConfig(faults=faults))
    assert ends[0].success
    assert log.holds() == 1
    engagements = {row.policy.hands["right"].engaged for row in log.rows}
    assert engagements == {True, False}


def test_it_picks_with_wrong_beliefs() -> None:
    mind = MindConfig(scale_error=-0.1, facing_error=-0.16)
    ends, _ = run("pick", [3], SimConfig(mind=mind))
    assert ends[0].success


def test_it_picks_again_and_again_and_ends_with_b() -> None:
    ends, _ = run("pick", [4, 5], auto_success=False)
    assert [(end.success, end.reason) for end in ends] == [(True, "button")] * 2


def test_it_begins_anew_when_the_cube_is_gone() -> None:
    lost = []

    def lose(env: Any) -> None:
        cube = env.data.joint("task/cube_joint")
        if not lost and cube.qpos[2] > 0.05:
            lost.append(len(lost))
            cube.qpos[:3], cube.qvel[:] = (0.5, 0.2, 0.02), 0.0

    ends, log = run("pick", [10], happen=lose)
    assert lost
    assert ends[0].success
    closures = [row.policy.hands["right"].target.closure for row in log.rows]
    assert sum(a < 0.5 <= b for a, b in itertools.pairwise(closures)) == 2


@pytest.mark.parametrize("control", ["ee_delta", "ee_pose", "joint"])
def test_it_reaches_in_every_control_mode(control: str) -> None:
    ends, _ = run("reach", [6], control=control)
    assert all(end.success for end in ends)


@pytest.mark.parametrize("control_hz", [20, 100])
def test_it_reaches_at_other_rates(control_hz: int) -> None:
    ends, _ = run("reach", [9], control_hz=control_hz)
    assert ends[0].success


def test_both_hands_lift_a_tray_level() -> None:
    tilts = []

    def measure(env: Any) -> None:
        up = env.data.body("task/tray").xmat[8]
        tilts.append(np.rad2deg(np.arccos(min(up, 1.0))))

    ends, log = run("lift_tray", [1], happen=measure)
    assert ends[0].success
    assert max(tilts) < 10.0
    heights = [[row.policy.hands[side].target.position[2] for side in Side] for row in log.rows]
    rising = np.diff(heights, axis=0)[-150:] > 2e-4  # 1 cm/s
    assert rising.all(axis=1).sum() > 10  # control steps in which both hands rise


def test_a_hand_that_is_lost_while_the_other_holds_comes_back() -> None:
    faults = FaultConfig(each_episode=FaultKind.DROPOUT, window_s=(6.0, 12.0))
    ends, log = run("handover", [2], SimConfig(faults=faults))
    assert ends[0].success
    assert log.holds() == 1
