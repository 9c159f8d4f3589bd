"""The simulated operator at the real environments, run as demonstrations are recorded."""

import itertools
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from session.loop import EpisodeEnd, Listener, Row, Session, SessionConfig
from teleop_agent.clock import VirtualClock
from teleop_agent.devices.sim import SimConfig, SimDevice
from teleop_agent.devices.sim.body import BodyConfig
from teleop_agent.devices.sim.faults import FaultConfig, FaultKind
from teleop_agent.devices.sim.mind import MindConfig
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
        hands = [hand for row in self.rows for hand in row.policy.hands.values()]
        pairs = itertools.pairwise(hands)
        return sum(before.engaged and after.reason is not None for before, after in pairs)


def run(
    task: str,
    seeds: list[int],
    config: SimConfig | None = None,
    auto_success: bool = True,
    happen: Callable[[Any], None] = lambda env: None,
    **options: Any,
) -> tuple[list[EpisodeEnd], Log]:
    """Run one operator through episodes of these seeds; ``happen`` after every control step."""
    made = gym.make("envs:PicoPanda-v0", task=task, terminate_on_success=False, **options)
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
