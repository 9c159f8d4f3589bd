"""The program with the simulated operator and with traces, as a process of its own."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from program import Program, episodes_command
from stream import simulated

from episodes.reader import Episode, open_run
from kinematics import Side
from session.loop import Verdict
from teleop_agent.devices.trace_file import TraceWriter

Collect = Callable[..., Program]
Refused = Callable[..., tuple[int, str]]

CAUSES = ("actions", "states", "sim/ctrl", "operator/right_pose", "operator_raw/right/matrix")


def sim(out: Path, *more: object, task: str = "reach") -> tuple[object, ...]:
    return ("--task", task, "--device", "sim", "--no-viewer", "--out", out, *more)


def same_bits(one: Episode, two: Episode) -> bool:
    return all(one.array(path).tobytes() == two.array(path).tobytes() for path in CAUSES)


@pytest.mark.parametrize("drawn", [(), ("visual", "dynamics")])
def test_one_pick_is_recorded_and_comes_out_again(
    collect: Collect, out: Path, drawn: tuple[str, ...]
) -> None:
    options = ("--randomize", *drawn) if drawn else ()
    program = collect(*sim(out, "--episodes", 1, "--seed", 3, *options, task="pick"))
    program.ends_with(0)
    assert not program.err
    (episode,) = open_run(out)
    assert (episode.success, episode.attrs["outcome"], episode.seed) == (True, "success", 3)
    assert episode.attrs["end_reason"] == "task"
    assert bool(episode.edits) == bool(drawn)
    assert json.loads(episode.env_spec_json)["kwargs"].get("randomize", []) == list(drawn)
    assert str(episode.path) in program.out
    assert "kept 1 episodes, 1 successes" in program.out
    for mode in ("ctrl", "action", "state"):
        assert episodes_command("replay", episode.path, "--mode", mode) == 0
    assert episodes_command("verify", out) == 0


def test_with_swapped_hands_the_left_one_moves_a_single_arm(collect: Collect, out: Path) -> None:
    collect(*sim(out, "--episodes", 1, "--seed", 4, "--swap-hands")).ends_with(0)
    (episode,) = open_run(out)
    assert episode.success
    grip = {side: episode.array(f"operator_raw/{side}/grip").max() for side in Side}
    assert grip[Side.LEFT] > 0.6
    assert grip[Side.RIGHT] < 0.4
    poses = episode.array("operator/right_pose")[:, :3]
    raw = episode.array("operator_raw/left/matrix")[:, :, 3]
    assert all((raw == pose).all(axis=1).any() for pose in poses)


def test_a_run_goes_on_where_it_ended(collect: Collect, out: Path) -> None:
    collect(*sim(out, "--episodes", 2, "--seed", 5)).ends_with(0)
    before = {path: path.read_bytes() for path in (out / "episodes").iterdir()}
    collect(*sim(out, "--episodes", 1, "--seed", 5)).ends_with(0)
    found = open_run(out)
    assert [episode.number for episode in found] == [0, 1, 2]
    assert all(path.read_bytes() == content for path, content in before.items())
    assert [episode.number for episode in open_run(out / "dataset.hdf5")] == [0, 1, 2]
    assert same_bits(found[0], found[2])  # the same seed, in another process
    assert not same_bits(found[0], found[1])
    other = collect(*sim(out, "--episodes", 1, task="pick"))
    other.ends_with(1)
    assert "takes no such episodes" in other.err
    assert "'reach' in the folder, 'pick' now" in other.err
    slower = collect(*sim(out, "--episodes", 1, "--control-hz", 25))
    slower.ends_with(1)
    assert "control_hz is 50 in the folder, 25 now" in slower.err
    assert len(open_run(out)) == 3


def test_two_arms_are_recorded_and_come_out_again(
    collect: Collect, out: Path, tmp_path: Path
) -> None:
    """With the environment of the task's two arms; a hand for each side in every row."""
    trace = tmp_path / "trace.jsonl"
    record_sim(trace, seed=4)
    program = collect(
        *("--task", "lift_tray", "--device", f"trace:{trace}", "--no-viewer", "--seed", 4),
        *("--episodes", 1, "--out", out),
    )
    program.ends_with(0)
    (episode,) = open_run(out)
    rows = len(episode.array("actions"))
    assert episode.array("actions").shape == (rows, 14)
    assert episode.array("sim/ctrl").shape[2] == 16
    for index, side in enumerate(("right", "left")):
        assert episode.array(f"obs/robot{index}_eef_pos").shape == (rows, 3)
        assert episode.array(f"operator/{side}_pose").shape == (rows, 7)
    for mode in ("ctrl", "action", "state"):
        assert episodes_command("replay", episode.path, "--mode", mode) == 0
    assert episodes_command("verify", out) == 0


def test_a_bar_is_handed_over_by_the_simulated_operator(collect: Collect, out: Path) -> None:
    collect(*sim(out, "--episodes", 1, "--seed", 6, task="handover")).ends_with(0)
    (episode,) = open_run(out)
    assert (episode.attrs["outcome"], episode.attrs["end_reason"]) == ("success", "task")
    for side in Side:
        assert episode.array(f"operator/{side}_clutch").any()
    assert episodes_command("replay", episode.path) == 0


@pytest.mark.parametrize(("control", "control_hz"), [("ee_pose", 100), ("joint", 20)])
def test_other_modes_and_rates(collect: Collect, out: Path, control: str, control_hz: int) -> None:
    options = ("--control", control, "--control-hz", control_hz, "--operator", "P-7", "-n", 1)
    collect(*sim(out, *options, "--seed", 0)).ends_with(0)
    (episode,) = open_run(out)
    assert (episode.seed, episode.attrs["operator_id"]) == (0, "P-7")
    assert (episode.attrs["control_mode"], episode.attrs["control_hz"]) == (control, control_hz)
    assert episodes_command("replay", episode.path) == 0


def test_without_a_seed_one_is_drawn_and_stored(collect: Collect, tmp_path: Path) -> None:
    seeds = []
    for name in ("one", "two"):
        collect(*sim(tmp_path / name, "--episodes", 1)).ends_with(0)
        seeds.append(open_run(tmp_path / name)[0].seed)
    assert seeds[0] != seeds[1]


def record_sim(path: Path, seed: int) -> None:
    """Record what the simulated operator publishes in one episode."""
    end, frames = simulated("reach", seed)
    assert end.verdict is Verdict.SUCCESS
    with TraceWriter(path, "sim") as writer:
        for frame in frames:
            writer.write(frame)


def test_a_trace_gives_the_same_episode_each_time(
    collect: Collect, out: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "tracé 1.jsonl"
    record_sim(trace, seed=4)
    options = ("--task", "reach", "--no-viewer", "--seed", 4, "--episodes", 1)
    for _ in range(2):
        program = collect("--device", f"trace:{trace}", *options, "--out", out)
        program.ends_with(0)
    one, two = open_run(out)
    assert one.success
    assert two.success
    assert one.attrs["device"] == "trace"
    assert same_bits(one, two)
    times = [e.array("timing/t_obs_ns") for e in (one, two)]
    np.testing.assert_array_equal(times[0], times[1])


def test_a_trace_that_ends_first_keeps_what_there_is(
    collect: Collect, out: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.jsonl"
    record_sim(trace, seed=4)
    program = collect(
        *("--task", "reach", "--device", f"trace:{trace}", "--no-viewer", "--seed", 4),
        *("--episodes", 3, "--out", out),
    )
    program.ends_with(0)
    assert "is over after" in program.out
    assert len(open_run(out)) == 1
    dropped = collect(
        *("--task", "reach", "--device", f"trace:{trace}", "--no-viewer", "--seed", 4),
        *("--time-limit", 1, "--drop-failures", "--out", tmp_path / "dropped"),
    )
    dropped.ends_with(1)
    assert "episode discarded: 1.0 s, time limit" in dropped.out
    nothing = tmp_path / "short.jsonl"
    nothing.write_bytes(b"\n".join(trace.read_bytes().split(b"\n")[:20]) + b"\n")
    program = collect(
        *("--task", "reach", "--device", f"trace:{nothing}", "--no-viewer"),
        *("--episodes", 1, "--out", tmp_path / "none"),
    )
    program.ends_with(1)


def test_the_simulated_operator_gives_up(collect: Collect, out: Path) -> None:
    program = collect(*sim(out, "--episodes", 2, "--time-limit", 1, "--seed", 1, task="pick"))
    program.ends_with(4)
    assert "gave up after 5 tries" in program.out
    assert program.out.count("episode discarded") == 5
    assert not list((out / "episodes").iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to send to another")
def test_ctrl_c_keeps_the_finished_episodes(collect: Collect, out: Path) -> None:
    program = collect(*sim(out, "--episodes", 1000, "--seed", 1))
    program.wait_for("episode 2:")
    program.interrupt()
    program.ends_with(130)
    found = open_run(out)
    assert len(found) >= 2
    assert episodes_command("verify", out) == 0
    assert not list((out / "episodes").glob("*.partial"))
    assert [e.number for e in found] == list(range(len(found)))


def test_a_killed_program_loses_the_running_episode_only(collect: Collect, out: Path) -> None:
    program = collect(*sim(out, "--episodes", 1000, "--seed", 1))
    program.wait_for("episode 2:")
    program.kill()
    before = {path: path.read_bytes() for path in (out / "episodes").glob("demo_*.hdf5")}
    assert len(before) >= 2
    collect(*sim(out, "--episodes", 1, "--seed", 1)).ends_with(0)
    assert all(path.read_bytes() == content for path, content in before.items())
    found = open_run(out)
    assert len(found) == len(before) + 1
    assert same_bits(found[0], found[-1])


def test_a_full_disk_costs_no_finished_episode(collect: Collect, out: Path) -> None:
    resource = pytest.importorskip("resource")
    collect(*sim(out, "--episodes", 1, "--seed", 5)).ends_with(0)
    (first,) = open_run(out)
    size = first.path.stat().st_size

    def little_room() -> None:  # for less than a second of the next one
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 30, size // 30))

    program = collect(*sim(out, "--episodes", 3, "--seed", 6), before=little_room)
    program.ends_with(1)
    assert "cannot be written" in program.err  # the journal, which comes before the episode's file
    assert "File too large" in program.err
    assert "Traceback" not in program.err
    (still,) = open_run(out)
    assert still.path.stat().st_size == size
    assert episodes_command("verify", out) == 0
    assert not list((out / "episodes").glob("*.partial"))
    collect(*sim(out, "--episodes", 1, "--seed", 6)).ends_with(0)
    assert [e.number for e in open_run(out)] == [0, 1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--task", "juggle"), ("juggle", "pick", "reach", "lift_tray")),
        (("--device", "mouse"), ("mouse", "openvr", "sim", "trace:FILE")),
        (("--control", "torque"), ("torque", "ee_delta", "joint")),
        (("--control-hz", "33"), ("33", "50")),
        (("--filter", "median"), ("median", "kalman")),
        (("--scale", "0"), ("scale", "0")),
        (("--scale", "nan"), ("scale", "nan")),
        (("--episodes", "0"), ("episodes", "0")),
        (("--seed", "-1"), ("seed", "-1")),
        (("--time-limit", "0"), ("time_limit", "0")),
        (("--frobnicate",), ("frobnicate",)),
        (("--device", "trace:"), ("trace:FILE",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_wrong_option_is_explained(
    refused: Refused, out: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    code, complaint = refused(*sim(out), *options)
    assert code == 2
    for word in words:
        assert word in complaint
    assert not out.exists()


def test_a_missing_trace_is_an_error(refused: Refused, out: Path) -> None:
    code, complaint = refused("--device", "trace:nowhere.jsonl", "--no-viewer", "--out", out)
    assert code == 1
    assert "cannot read trace nowhere.jsonl" in complaint
    assert not out.exists()


def test_a_folder_that_cannot_be_written_is_an_error(collect: Collect, tmp_path: Path) -> None:
    in_the_way = tmp_path / "a file"
    in_the_way.write_text("")
    program = collect(*sim(in_the_way, "--episodes", 1))
    program.ends_with(1)
    assert "cannot be written" in program.err
    assert "Traceback" not in program.err


def test_help_names_every_option_and_device(collect: Collect) -> None:
    program = collect("--help")
    program.ends_with(0)
    for word in (
        "--task",
        "--device",
        "--control-hz",
        "--no-viewer",
        "trace:FILE",
        "python collect.py",
    ):
        assert word in program.out


def test_without_a_viewer_no_gl_is_needed(collect: Collect, out: Path) -> None:
    env = {"MUJOCO_GL": "disable", "DISPLAY": ""}
    collect(*sim(out, "--episodes", 1), env=env).ends_with(0)
