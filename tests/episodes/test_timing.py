"""What an episode's file says of its time."""

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from sample import record_run

from episodes import schema
from episodes.reader import open_run
from episodes.timing import Lateness, stages, timing_table

MS = 1_000_000


def lateness(*delays_ms: float, last_ms: float = 1.0) -> Lateness:
    """Return the figures of steps at 50 Hz that began so late, and a last one that took so long."""
    due = 20 * MS * np.arange(len(delays_ms))
    begun = due + (np.array(delays_ms) * MS).astype(np.int64)
    return Lateness.of(due, begun, int(begun[-1] + last_ms * MS), 50)


def test_on_time() -> None:
    assert lateness(0.0, 0.1, 0.0) == Lateness(0.0, MS // 10, 0, 0)


def test_half_a_period_is_late() -> None:
    assert lateness(10.0, 10.1, 0.0, 20.0).late_share == 0.5


def test_what_was_made_up_for_is_not_lost() -> None:
    assert lateness(0.0, 100.0, 0.0) == Lateness(1 / 3, 100 * MS, 0, 0)


def test_what_was_not_is_lost_and_a_quarter_of_a_second_is_a_stall() -> None:
    assert lateness(0.0, 120.0, 0.0, 251.0) == Lateness(0.5, 251 * MS, 371 * MS, 1)


def test_the_last_step_counts_though_no_other_finds_out() -> None:
    assert lateness(0.0, 0.0, last_ms=1020.0) == Lateness(0.0, 1000 * MS, 1000 * MS, 1)
    assert lateness(0.0, 400.0, last_ms=1.0) == Lateness(0.5, 400 * MS, 400 * MS, 1)  # once
    assert lateness(0.0, 0.0, last_ms=20.0) == Lateness(0.0, 0, 0, 0)


def test_stages_follow_the_pose(tmp_path: Path) -> None:
    (episode,) = open_run(record_run(tmp_path, n_rows=40))
    found = {stage.name: stage for stage in stages(episode)}
    assert found["right pose: measured to received"].percentiles == pytest.approx((6.0,) * 3)
    assert found["right pose: measured to applied"].longest == pytest.approx(15.0003)
    assert found["guard, filter, limits"].percentiles == pytest.approx((150e-6,) * 3)
    due = found["step: due to started"]
    assert (due.percentiles, due.longest) == ((0.0, 0.0, 20.0), 20.0)
    whole = [found[name].percentiles[0] for name in list(found)[4:-1]]
    assert sum(whole) == pytest.approx(found["step: started to over"].percentiles[0])


def test_an_episode_without_an_engaged_step_has_no_ages(tmp_path: Path) -> None:
    (episode,) = open_run(record_run(tmp_path, n_rows=3))
    assert not any("pose" in stage.name for stage in stages(episode))


def test_the_table_says_what_was_late(tmp_path: Path) -> None:
    (episode,) = open_run(record_run(tmp_path, n_rows=40))
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(timing_table(episode))
    text = " ".join(console.export_text().split())
    for words in ("p50", "p95", "p99", "1 of 40 steps late (2.5 %), at most 20.0 ms"):
        assert words in text
    assert "0.00 s lost in delays, 0 stalls; no real-time priority" in text


def test_every_instant_is_in_the_schema() -> None:
    paths = {field.path for field in schema.FIELDS}
    instants = ("t_due", "t_obs", "t_filter", "t_target", "t_policy", "t_apply", "t_physics")
    assert {f"timing/{name}_ns" for name in instants} <= paths
