"""What goes into the recorder comes out of the file, bit for bit."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from sample import (
    make_env,
    make_info,
    make_rows,
    open_run,
    raw_of,
    record_into,
    record_run,
)

from episodes import (
    CompiledModel,
    EpisodeResult,
    Outcome,
    Recorder,
    RecordError,
    Run,
    RunError,
    RunSpec,
    StepRecord,
    WriteError,
    schema,
    writer,
)
from episodes.columns import places
from episodes.fields import Scope
from episodes.reader import open_episode
from episodes.reader import open_run as read_run
from kinematics import Side


def names_in(folder: Path) -> list[str]:
    """Return all files beside the episodes but the journals, which follow other rules."""
    names = sorted(path.name for path in (folder / "episodes").iterdir())
    return [name for name in names if not name.endswith(schema.JOURNAL_SUFFIX)]


def run_python(code: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


def test_every_row_field_round_trips(tmp_path: Path) -> None:
    with Recorder(open_run(tmp_path)) as recorder:
        rows, _ = record_into(recorder, n_rows=30)
    episode = open_episode(tmp_path / "episodes" / "demo_000000.hdf5")
    for field in schema.FIELDS:
        for place in places(field, [Side.RIGHT]):
            if field.scope is Scope.ROW:
                want = [field.source(row) for row in rows]
            elif field.scope in (Scope.ARM, Scope.ARMS):
                want = [field.source(row.hands[Side.RIGHT]) for row in rows]
            else:
                continue
            got = episode.array(place.path)
            if field.codes:
                want = [getattr(make_info(make_env()), field.codes).index(word) for word in want]
            if field.quat is None:
                assert got.tobytes() == np.array(want, field.dtype).tobytes(), place.path
            else:
                np.testing.assert_array_equal(np.abs(got), np.abs(np.array(want, float)))
    for key, array in episode.observations().items():
        assert array.tobytes() == np.stack([row.observation[key] for row in rows]).tobytes()
        assert array.dtype == np.float32


def test_raw_frames_round_trip_valid_or_not(tmp_path: Path) -> None:
    record_run(tmp_path)
    episode = open_episode(tmp_path / "episodes" / "demo_000000.hdf5")
    frames = [raw_of(seq) for seq in range(4)]
    assert episode.array("operator_raw/seq").tolist() == [0, 1, 2, 3]
    for name in ("head", "right", "left"):
        want = [f.head if name == "head" else f.controllers[Side(name)] for f in frames]
        got = episode.array(f"operator_raw/{name}/matrix")
        assert got.tobytes() == np.stack([d.matrix for d in want]).tobytes()
        for flag in ("connected", "valid", "tracked"):
            expected = [getattr(d, flag) for d in want]
            assert episode.array(f"operator_raw/{name}/{flag}").tolist() == expected
    assert episode.array("operator_raw/right/thumbstick").tolist() == [[0.1, -0.2]] * 4
    assert episode.array("operator_raw/right/buttons").tolist() == [5] * 4


def test_attributes_say_what_was_recorded(tmp_path: Path) -> None:
    record_run(tmp_path)
    episode = open_episode(tmp_path / "episodes" / "demo_000000.hdf5")
    attrs = episode.attrs
    assert attrs["seed"] == 0 and type(attrs["seed"]) is int
    assert attrs["task"] == "push" and attrs["success"] is True and attrs["outcome"] == "success"
    assert attrs["num_samples"] == 60 and attrs["complete"] == 1 and attrs["n_clipped"] == 1
    actions = episode.dataset_attrs("actions")
    assert actions["names"] == ["x", "gripper"] and actions["scale_m"] == 0.006
    assert actions["gripper_sign"] == "-1 open, +1 closed"
    assert episode.dataset_attrs("obs/robot0_gripper_qpos")["unit"] == "m"
    assert episode.dataset_attrs("obs/object")["names"][3] == "qw"
    assert episode.dataset_attrs("operator/right_guard_state")["codes"] == ["ok", "hold"]
    assert episode.dataset_attrs("control/robot0_clamps")["flags"] == ["workspace", "speed"]
    for path in episode.paths():
        assert {"unit", "description"} <= episode.dataset_attrs(path).keys(), path
        if "quat" in path or path.endswith("_pose"):
            assert episode.dataset_attrs(path)["quat_order"] == "wxyz", path


def test_observation_is_the_one_before_its_action(tmp_path: Path) -> None:
    """The scripted gripper action says the step's number; the opening seen lags by one step."""
    record_run(tmp_path, n_rows=20)
    episode = open_episode(tmp_path / "episodes" / "demo_000000.hdf5")
    closure = (episode.array("actions")[:, 1] + 1) / 2
    opening = episode.observations()["robot0_gripper_qpos"][:, 0]
    assert opening[0] == np.float32(0.08)
    np.testing.assert_allclose(opening[1:], 0.08 * (1 - closure[:-1]), atol=1e-7)  # float32
    assert len(opening) == len(closure) == 20
    qpos = episode.array("states")[:, 1]
    joint = episode.observations()["robot0_joint_pos"][:, 0]
    np.testing.assert_array_equal(joint, qpos.astype(np.float32))
    final = episode.array("obs_final/robot0_gripper_qpos")[0]
    assert final == pytest.approx(0.08 * (1 - closure[-1]), abs=1e-7)


def test_stored_quaternions_are_continuous_and_the_observed_untouched(tmp_path: Path) -> None:
    record_run(tmp_path)
    episode = open_episode(tmp_path / "episodes" / "demo_000000.hdf5")
    quats = episode.array("operator/right_pose")[2:, 3:]
    assert np.all(np.sum(quats[1:] * quats[:-1], axis=1) > 0)
    assert np.isnan(episode.array("operator/right_pose")[:2]).all()


def test_records_share_no_memory_with_the_simulator() -> None:
    env = make_env()
    rows, _ = make_rows(env, n_rows=3)
    state = rows[0].state.copy()
    env.data.qpos[:] = 99.0
    np.testing.assert_array_equal(rows[0].state, state)
    assert not rows[0].observation["object"].flags.writeable
    assert len({row.state.tobytes() for row in rows}) == 3


def test_twelve_episodes_stay_in_numeric_order_and_numbering_goes_on(tmp_path: Path) -> None:
    record_run(tmp_path, n_episodes=12, n_rows=4)
    assert [e.number for e in read_run(tmp_path)] == list(range(12))
    assert [e.seed for e in read_run(tmp_path / "dataset.hdf5")] == list(range(12))
    before = {path: path.read_bytes() for path in open_run(tmp_path).episode_files()}
    record_run(tmp_path, n_episodes=1, n_rows=4)
    assert [e.number for e in read_run(tmp_path)] == list(range(13))
    assert all(path.read_bytes() == content for path, content in before.items())
    (tmp_path / "episodes" / "demo_000011.hdf5").unlink()
    record_run(tmp_path, n_episodes=1, n_rows=4)
    assert [e.number for e in read_run(tmp_path / "dataset.hdf5")] == [*range(11), 12, 13]


def test_discarded_and_empty_episodes_leave_nothing(tmp_path: Path) -> None:
    env = make_env()
    info, model = make_info(env), CompiledModel.of(env.model)
    end = EpisodeResult(success=False, outcome=Outcome.FAILURE, state_final=np.zeros(52))
    with Recorder(open_run(tmp_path)) as recorder:
        record_into(recorder, 0, 4)
        recorder.start(info, model)
        recorder.append(make_rows(env, n_rows=1)[0][0])
        recorder.discard()
        recorder.start(info, model)
        assert recorder.finish(end) is None
        record_into(recorder, 1, 4)
        recorder.start(info, model)  # closed in the middle of an episode
    assert names_in(tmp_path) == ["demo_000000.hdf5", "demo_000001.hdf5"]
    with h5py.File(tmp_path / "dataset.hdf5") as file:
        assert file["data"].attrs["total"] == 8
        assert list(file["data"]) == ["demo_000000", "demo_000001"]


def test_calls_out_of_order_are_refused(tmp_path: Path) -> None:
    env = make_env()
    info, model = make_info(env), CompiledModel.of(env.model)
    recorder = Recorder(open_run(tmp_path))
    with pytest.raises(RecordError, match="start"):
        recorder.append(make_rows(env, n_rows=1)[0][0])
    recorder.start(info, model)
    with pytest.raises(RecordError, match="running"):
        recorder.start(info, model)
    recorder.close()
    recorder.close()
    with pytest.raises(RecordError, match="closed"):
        recorder.start(info, model)


def changed(row: StepRecord, **changes: object) -> StepRecord:
    values = {name: getattr(row, name) for name in StepRecord.__dataclass_fields__}
    return StepRecord(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"action": [0.0]}, "action"),
        ({"state": np.zeros(3)}, "state"),
        ({"ctrl": np.zeros((2, 1))}, "ctrl"),
        ({"hands": {}}, "hands"),
        ({"t_obs_ns": 5}, "t_obs_ns"),
        ({"observation": {"object": np.zeros(7)}}, "observes"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_cost_nothing(
    tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    env = make_env()
    rows, _ = make_rows(env, n_rows=2)
    with Recorder(open_run(tmp_path)) as recorder:
        recorder.start(make_info(env), CompiledModel.of(env.model))
        recorder.append(rows[0])
        with pytest.raises(RecordError, match=words):
            recorder.append(changed(rows[1], **changes))
        assert recorder.n_rows == 1


@pytest.mark.parametrize(
    "changes",
    [{"action": [np.nan, 0]}, {"action": [1.5, 0]}, {"reward": np.inf}, {"state": [np.nan] * 52}],
)
def test_numbers_that_mean_nothing_are_refused_at_once(changes: dict[str, object]) -> None:
    row = make_rows(make_env(), n_rows=1)[0][0]
    with pytest.raises(RecordError):
        changed(row, **changes)


def test_unknown_observation_must_explain_itself(tmp_path: Path) -> None:
    env = make_env()
    row = make_rows(env, n_rows=1)[0][0]
    row = changed(row, observation={**row.observation, "smell": np.zeros(1)})
    with Recorder(open_run(tmp_path)) as recorder:
        recorder.start(make_info(env), CompiledModel.of(env.model))
        with pytest.raises(RecordError, match=r"smell.*unit"):
            recorder.append(row)


@pytest.mark.parametrize(
    ("changes", "word"), [({"task": "stack"}, "task"), ({"control_hz": 25}, "control_hz")]
)
def test_another_kind_of_episode_is_refused(
    tmp_path: Path, changes: dict[str, object], word: str
) -> None:
    record_run(tmp_path, n_rows=4)
    other = make_info(make_env(), **changes)
    with pytest.raises(RunError, match=word):
        Run.open(tmp_path, RunSpec.of(other))
    (tmp_path / "run.json").unlink()  # the last episode says it, too
    with pytest.raises(RunError, match=word):
        Run.open(tmp_path, RunSpec.of(other))
    with Recorder(open_run(tmp_path)) as recorder, pytest.raises(RunError, match=word):
        recorder.start(other, CompiledModel.of(make_env().model))


def test_another_environment_or_schema_is_refused(tmp_path: Path) -> None:
    record_run(tmp_path, n_rows=4)
    env = make_env()
    text = make_info(env).env_spec_json
    heavier = RunSpec("push", 50, text.replace('"mass": 0.1', '"mass": 0.2'))
    with pytest.raises(RunError, match=r"argument mass is 0\.1 in the folder, 0\.2 now"):
        Run.open(tmp_path, heavier)
    with pytest.raises(RunError, match="schema_version"):
        Run.open(tmp_path, RunSpec("push", 50, text, schema_version=99))
    seen = text.replace('"mass": 0.1', '"mass": 0.1, "render_mode": "human"')
    assert Run.open(tmp_path, RunSpec("push", 50, seen)).next_number() == 1


def test_partial_files_are_reported_left_and_their_numbers_not_reused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record_run(tmp_path, n_rows=4)
    stale = tmp_path / "episodes" / "demo_000001.hdf5.partial"
    stale.write_bytes(b"half")
    record_run(tmp_path, n_rows=4)
    assert str(stale) in caplog.text
    assert stale.read_bytes() == b"half"
    assert [e.number for e in read_run(tmp_path)] == [0, 2]


def test_two_recorders_on_one_folder_share_the_numbers(tmp_path: Path) -> None:
    with Recorder(open_run(tmp_path)) as one, Recorder(open_run(tmp_path)) as two:
        for seed in range(4):
            record_into(one, seed, 4)
            record_into(two, 10 + seed, 4)
    seeds = {e.seed for e in read_run(tmp_path)}
    assert seeds == {*range(4), *range(10, 14)}


def test_full_disk_keeps_the_episode_for_another_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, *_: object) -> None:
        path.write_bytes(b"x")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    env = make_env()
    info, model = make_info(env, 2), CompiledModel.of(env.model)
    with Recorder(open_run(tmp_path)) as recorder:
        record_into(recorder, 0, 4)[1].wait(30)
        with monkeypatch.context() as patch:
            patch.setattr(writer, "write_file", full)
            rows, told = record_into(recorder, 1, 4)
            with pytest.raises(WriteError, match=r"4 rows.*No space left.*in memory"):
                told.wait(30)
            recorder.start(info, model)  # that error was told already
            recorder.discard()
            _, untold = record_into(recorder, 2, 4)
            while not untold.ended:
                pass
        with pytest.raises(WriteError, match="No space left"):
            recorder.start(info, model)
        recorder.append(rows[0])  # told once; the new episode runs
        recorder.discard()
        assert names_in(tmp_path) == ["demo_000000.hdf5"]
        paths = [save.wait(30).name for save in recorder.retry()]
        assert paths == ["demo_000001.hdf5", "demo_000002.hdf5"]
        assert recorder.failed == ()
    assert [e.seed for e in read_run(tmp_path)] == [0, 1, 2]


def test_close_says_what_was_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    recorder = Recorder(open_run(tmp_path))
    monkeypatch.setattr(writer, "write_file", full)
    record_into(recorder, 0, 4)
    with pytest.raises(WriteError, match="was not saved"):
        recorder.close()
    assert names_in(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
def test_real_write_errors_reach_the_main_thread(
    tmp_path: Path, subprocess_env: dict[str, str]
) -> None:
    """A file size limit makes the system refuse; lifting it lets the retry succeed."""
    code = f"""
import resource, signal, sys
from pathlib import Path
from sample import *
from episodes import WriteError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = Path({str(tmp_path)!r})
with Recorder(open_run(folder)) as recorder:
    record_into(recorder, 0, 10)[1].wait(60)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, hard))
    told, start = [], Recorder._raise_error
    def noted(self):
        try: start(self)
        except WriteError as error: told.append(error)
    Recorder._raise_error = noted
    record_into(recorder, 1, 400)
    while not recorder.failed: pass
    recorder.discard()
    for error in told: print("told:", error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    print(recorder.retry()[0].wait(60).name)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=subprocess_env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "told: an episode of 400 rows was not saved" in done.stdout
    assert "demo_000001.hdf5" in done.stdout
    assert [e.seed for e in read_run(tmp_path)] == [0, 1]


@pytest.mark.parametrize("moment", ["write_file", "check_file", "replace_durably", "rebuild"])
def test_kill_while_saving_loses_nothing_finished(
    tmp_path: Path, subprocess_env: dict[str, str], moment: str
) -> None:
    record_run(tmp_path, n_episodes=2, n_rows=6)
    before = {path.name: path.read_bytes() for path in open_run(tmp_path).episode_files()}
    code = f"""
import os, signal
from pathlib import Path
from sample import *
from episodes import master, writer
owner, name = (master.Master, "rebuild") if {moment!r} == "rebuild" else (writer, {moment!r})
real = getattr(owner, name)
def killed(*args):
    if name == "write_file":
        real(*args)
        with args[0].open("r+b") as file: file.truncate(2000)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(owner, name, killed)
record_run(Path({str(tmp_path)!r}), 1, 50)
"""
    done = run_python(code, subprocess_env)
    assert done.returncode != 0
    for name, content in before.items():
        assert (tmp_path / "episodes" / name).read_bytes() == content
    record_run(tmp_path, n_episodes=1, n_rows=6)
    numbers = [e.number for e in read_run(tmp_path / "dataset.hdf5")]
    assert numbers == ([0, 1, 2, 3] if moment == "rebuild" else [0, 1, 3])


def test_a_folder_that_cannot_be_written_is_refused_before_recording(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    with pytest.raises(RunError, match=r"cannot be written.*choose another folder"):
        open_run(in_the_way / "run")


def test_odd_paths_and_moved_folders(tmp_path: Path) -> None:
    folder = record_run(tmp_path / "user test é 目录" / "run 1", n_rows=4)
    moved = tmp_path / "moved é"
    folder.rename(moved)
    (episode,) = read_run(moved / "dataset.hdf5")
    assert episode.path.resolve() == (moved / "episodes" / "demo_000000.hdf5").resolve()
    assert episode.model_file.exists()
    for path in episode.paths():
        assert str(tmp_path) not in str(episode.dataset_attrs(path))
    assert str(tmp_path) not in str(dict(episode.attrs))


def test_two_arms(tmp_path: Path) -> None:
    env = make_env()
    rows, _ = make_rows(env, n_rows=3)
    with Recorder(open_run(tmp_path)) as recorder:
        recorder.start(make_info(env, sides=(Side.RIGHT, Side.LEFT)), CompiledModel.of(env.model))
        for row in rows:
            hand = row.hands[Side.RIGHT]
            recorder.append(changed(row, hands={Side.LEFT: hand, Side.RIGHT: hand}))
        recorder.finish(
            EpisodeResult(
                success=False, outcome=Outcome.FAILURE, state_final=env.integration_state()
            )
        )
    episode = open_episode(tmp_path / "episodes" / "demo_000000.hdf5")
    assert episode.sides == (Side.RIGHT, Side.LEFT)
    assert episode.array("action_dict/abs_pos").shape == (3, 6)
    assert episode.dataset_attrs("action_dict/abs_pos")["names"][3] == "left_x"
    assert episode.array("operator/left_pose").shape == (3, 7)
    assert episode.array("control/robot1_accepted_pos").shape == (3, 3)


def test_a_broken_episode_is_left_out_of_the_master_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record_run(tmp_path, n_episodes=2, n_rows=4)
    broken = tmp_path / "episodes" / "demo_000000.hdf5"
    broken.write_bytes(broken.read_bytes()[:2000])
    record_run(tmp_path, n_rows=4)
    assert str(broken) in caplog.text and broken.stat().st_size == 2000
    assert [e.number for e in read_run(tmp_path / "dataset.hdf5")] == [1, 2]


def test_a_run_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    record_run(tmp_path, n_rows=4)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(RunError, match=r"run\.json is damaged.*remove it"):
        open_run(tmp_path)
    (tmp_path / "run.json").unlink()
    assert open_run(tmp_path).next_number() == 1
    assert (tmp_path / "run.json").exists()
