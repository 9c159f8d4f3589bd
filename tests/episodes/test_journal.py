"""What a crash leaves becomes episodes again: nothing recorded is lost."""

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample import make_env, make_info, make_rows, open_run, raw_of, record_into, record_run

from episodes import (
    CompiledModel,
    EpisodeResult,
    FileFormatError,
    Outcome,
    Recorder,
    StepRecord,
    WriteError,
    journal,
    left_by_crashes,
    repair,
    writer,
)
from episodes.commands import main
from episodes.journal import Journal, journals, read_journal
from episodes.reader import open_run as read_run
from episodes.replay import Mode, replay
from episodes.verify_run import leftovers, verify

ENV = make_env()
MODEL = CompiledModel.of(ENV.model)
ROWS, LAST = make_rows(ENV, n_rows=40)


def result_of(rows: list[StepRecord], **changes: Any) -> EpisodeResult:
    """Return an end at the state of the last row, as a rewind has it."""
    values = {"success": False, "outcome": Outcome.FAILURE, "state_final": rows[-1].state}
    return EpisodeResult(**{**values, "observation_final": rows[-1].observation, **changes})


def left_behind(folder: Path, attempt: str = "crashed") -> Path:
    """Leave the journal of an episode with two rewinds, cut off in the middle of the third go."""
    open_run(folder)
    made = Journal(folder, make_info(ENV, attempt_id=attempt), MODEL)
    made.raw([raw_of(0), raw_of(1)])
    for row in ROWS[:20]:
        made.row(row)
    made.rewind(12, result_of(ROWS[:20]))
    for row in ROWS[20:30]:
        made.row(row)
    made.rewind(12, result_of(ROWS[:30]))
    for row in ROWS[30:]:
        made.row(row)
    made.close()
    assert made.error is None
    return made.path


def age(folder: Path) -> None:
    """Let some time go by since the recorders died."""
    for path in folder.rglob("*.journal"):
        os.utime(path, (0.0, 0.0))


def test_a_finished_episode_leaves_no_journal(tmp_path: Path) -> None:
    with Recorder(open_run(tmp_path)) as recorder:
        recorder.start(make_info(ENV), MODEL)
        recorder.append(ROWS[0])
        recorder.discard()
        _, save = record_into(recorder)
        save.wait(30)
        recorder.start(make_info(ENV), MODEL)  # closed without a row
    assert journals(tmp_path) == []
    assert repair.repair(tmp_path) == []


def test_what_was_recorded_comes_back_bit_for_bit(tmp_path: Path) -> None:
    path = left_behind(tmp_path)
    episode, *branches = read_journal(path)
    assert [len(draft.rows) for draft in (episode, *branches)] == [21, 8, 10]
    assert [draft.info.branch_row for draft in (episode, *branches)] == [-1, 12, 12]
    kept = [*ROWS[:12], *ROWS[30:39]]  # what came of the last row is not known
    for row, want in zip(episode.rows, kept, strict=True):
        assert pickle.dumps(row) == pickle.dumps(want)
    assert [frame.seq for frame in episode.raw] == [0, 1]
    end = episode.result
    assert (end.outcome, end.interrupted, end.reason) == (Outcome.FAILURE, True, "crash")
    assert end.state_final.tobytes() == ROWS[39].state.tobytes()


def test_repair_makes_episodes_once(tmp_path: Path) -> None:
    record_run(tmp_path / "run é", n_episodes=1, n_rows=6)
    path = left_behind(tmp_path / "run é")
    (fresh,) = repair.repair(tmp_path)
    assert fresh.kept and "is being written" in fresh.note
    age(tmp_path)
    content = path.read_bytes()
    (done,) = repair.repair(tmp_path)
    assert [Path(file).name for file in done.episodes] == [f"demo_00000{n}.hdf5" for n in (1, 2, 3)]
    assert done.rows == 39
    assert not path.exists()
    run = read_run(tmp_path / "run é" / "dataset.hdf5")
    assert [e.n_rows for e in run] == [6, 21, 8, 10]
    assert [bool(e.attrs["interrupted"]) for e in run] == [False, True, False, False]
    rewound_times = "t_sim"  # the rows were not simulated anew
    assert [fault for fault in verify(tmp_path / "run é") if rewound_times not in fault.where] == []
    path.write_bytes(content)  # the program died between saving and removing it
    age(tmp_path)
    (again,) = repair.repair(tmp_path)
    assert (again.episodes, again.note) == ((), "its episodes are in the run already")
    assert len(read_run(tmp_path / "run é")) == 4
    assert repair.repair(tmp_path) == []


def test_every_torn_end_gives_what_came_before_it(tmp_path: Path) -> None:
    path = left_behind(tmp_path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    rows = []
    for size in sorted(rng.integers(0, len(content), 60)):
        path.write_bytes(content[:size])
        try:
            rows.append(sum(len(draft.rows) for draft in read_journal(path)))
        except FileFormatError as error:
            assert "cut off" in str(error) or "instead of" in str(error)
            rows.append(0)
    assert rows == sorted(rows)
    assert rows[-1] >= 37
    for at in rng.integers(len(content) // 2, len(content), 30):
        torn = bytearray(content)
        torn[at] ^= 0x40
        path.write_bytes(torn)
        assert sum(len(draft.rows) for draft in read_journal(path)) < 39


@pytest.mark.parametrize(
    "entry",
    [
        ("info", os.system),
        ("info", subprocess.Popen),
        ("info", np.load),
        ("info", pickle.loads),
        ("info", print),
    ],
    ids=lambda entry: entry[1].__name__,
)
def test_a_journal_from_elsewhere_can_do_nothing(tmp_path: Path, entry: tuple[Any, ...]) -> None:
    path = tmp_path / "evil.journal"
    payload = pickle.dumps(entry)
    frame = journal._FRAME.pack(len(payload), journal.zlib.crc32(payload))
    path.write_bytes(journal._magic() + frame + payload)
    with pytest.raises(FileFormatError, match="does not belong"):
        read_journal(path)


def test_dotted_names_lead_nowhere(tmp_path: Path) -> None:
    """From an allowed module to whatever it has imported."""
    path = tmp_path / "evil.journal"
    payload = b"\x80\x04\x8c\x10episodes.records\x8c\njson.loads\x93."
    frame = journal._FRAME.pack(len(payload), journal.zlib.crc32(payload))
    path.write_bytes(journal._magic() + frame + payload)
    with pytest.raises(FileFormatError, match=r"json\.loads does not belong"):
        read_journal(path)


@pytest.mark.parametrize("content", [b"", b"x", b"picopanda journal, schema 0\n", bytes(500)])
def test_what_is_no_journal_is_left_alone(tmp_path: Path, content: bytes) -> None:
    open_run(tmp_path)
    path = tmp_path / "episodes" / "odd.journal"
    path.write_bytes(content)
    age(tmp_path)
    (one,) = repair.repair(tmp_path)
    assert one.kept and "instead of" in one.note
    assert path.read_bytes() == content
    assert main(["repair", str(tmp_path)]) == 1
    assert main(["repair", str(tmp_path / "nothing")]) == 3


def test_without_its_model_a_journal_is_kept(tmp_path: Path) -> None:
    path = left_behind(tmp_path)
    (model,) = (tmp_path / "models").iterdir()
    model.unlink()
    age(tmp_path)
    (one,) = repair.repair(tmp_path)
    assert one.kept and f"{model} is missing" in one.note
    assert path.exists()


def test_leftovers_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    record_run(run, n_episodes=1, n_rows=6)
    path = left_behind(run)
    assert leftovers(run) == [path]
    assert left_by_crashes(tmp_path) == []  # it may still be running
    for command in ("info", "verify"):
        assert main([command, str(run)]) == 0
        assert "python -m episodes repair" in capsys.readouterr().out
    age(tmp_path)
    assert path in left_by_crashes(tmp_path)
    assert main(["repair", str(run)]) == 0
    assert "39 rows in" in capsys.readouterr().out
    assert main(["repair", str(run)]) == 0
    assert "no crash" in capsys.readouterr().out


def test_a_failed_save_and_a_running_episode_stay_in_journals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    recorder = Recorder(open_run(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(writer, "write_file", full)
        _, save = record_into(recorder, 0, 5)
        with pytest.raises(WriteError, match=r"in .*\.journal.*episodes repair"):
            save.wait(30)
        recorder.start(make_info(ENV, attempt_id="running"), MODEL)
        recorder.append(ROWS[0])
        recorder.append(ROWS[1])
        with pytest.raises(WriteError):
            recorder.close()
    age(tmp_path)
    done = repair.repair(tmp_path)
    assert sorted(one.rows for one in done) == [1, 5]
    episodes = read_run(tmp_path)
    assert {(e.n_rows, bool(e.attrs["interrupted"])) for e in episodes} == {(5, False), (1, True)}


def test_a_journal_that_cannot_be_written_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with Recorder(open_run(tmp_path)) as recorder:
        monkeypatch.setattr(journal.os, "fsync", full)
        with pytest.raises(WriteError, match=r"journal .* cannot be written.*No space"):
            recorder.start(make_info(ENV), MODEL)
            for row in ROWS:
                time.sleep(0.05)
                recorder.append(row)
        monkeypatch.undo()
        rows = recorder.n_rows
        for row in ROWS[rows:]:
            recorder.append(row)  # the row that raised was taken, too
        save = recorder.finish(result_of(ROWS, success=True, outcome=Outcome.SUCCESS))
        assert save is not None
        save.wait(30)
    assert read_run(tmp_path)[0].n_rows == 40
    assert journals(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("delay_s", [0.05, 0.35])
def test_kill_loses_next_to_nothing(
    tmp_path: Path, subprocess_env: dict[str, str], delay_s: float
) -> None:
    """What the program said it had recorded is there, and it replays."""
    code = f"""
import sys, time
from pathlib import Path
from sample import *
env = make_env()
rows, _ = make_rows(env, n_rows=400)
recorder = Recorder(open_run(Path({str(tmp_path)!r})))
recorder.start(make_info(env), CompiledModel.of(env.model))
for n, row in enumerate(rows):
    recorder.append(row)
    print(n, flush=True)
    time.sleep(0.002)
"""
    program = subprocess.Popen(
        [sys.executable, "-c", code], env=subprocess_env, stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    program.stdout.readline()
    time.sleep(delay_s)
    program.send_signal(signal.SIGKILL)
    with program.stdout as out:
        said = out.read().splitlines()
    assert program.wait() == -signal.SIGKILL
    age(tmp_path)
    (done,) = repair.repair(tmp_path)
    assert done.rows >= int(said[-1]) - 10  # on its way to the other thread
    (episode,) = read_run(tmp_path)
    assert episode.attrs["end_reason"] == "crash"
    assert verify(tmp_path) == []
    assert replay(episode, Mode.CTRL).ok
