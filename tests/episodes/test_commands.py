"""The command line: exit codes, JSON, and clear words for what is wrong."""

import json
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image
from sample import record_run

from episodes.commands import main
from episodes.environment import ReplayEnv
from episodes.reader import open_episode
from episodes.report import met_at_engagement, pictures_of, report

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_run(tmp_path_factory.mktemp("run"), n_episodes=2, n_rows=40)


def test_info_counts(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(run), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["episodes"] == 2 and said["rows"] == 80 and said["seconds"] == 1.6
    assert said["operators"] == {"op-1": 2}
    assert [row["seed"] for row in said["list"]] == [0, 1]
    assert main(["info", str(run)]) == 0
    assert "demo_000001" in capsys.readouterr().out


def test_the_package_runs_as_a_program(run: Path, tmp_path: Path) -> None:
    """Its exit code is the command's."""
    for path, code in ((run, 0), (tmp_path, 3)):
        command = [sys.executable, "-m", "episodes", "verify", str(path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_verify_says_no_faults(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(run)]) == 0
    assert "no faults" in capsys.readouterr().out
    assert main(["verify", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"ok": True, "faults": [], "leftovers": []}


def test_verify_fails_on_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = record_run(tmp_path, n_rows=4)
    with h5py.File(run / "episodes" / "demo_000000.hdf5", "r+") as file:
        file["data/demo_000000/actions"][1, 0] = 3.0
    assert main(["verify", str(run)]) == 1
    assert "fault: " in capsys.readouterr().out


def test_replay_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = record_run(tmp_path, n_rows=6)
    assert main(["replay", str(run)]) == 0
    assert "same" in capsys.readouterr().out
    with h5py.File(run / "episodes" / "demo_000000.hdf5", "r+") as file:
        file["data/demo_000000"].attrs["mujoco_version"] = "1.2.3"
    assert main(["replay", str(run)]) == 4
    assert "refused" in capsys.readouterr().out
    assert main(["replay", str(run), "--mode", "state"]) == 0
    assert main(["replay", str(run / "no.hdf5")]) == 3
    assert "does not exist" in capsys.readouterr().err


def test_usage_errors_exit_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["replay", "x", "--mode", "sideways"])
    assert ended.value.code == 2


def test_schema_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    printed = capsys.readouterr().out
    assert main(["schema", "--out", str(tmp_path / "x.md")]) == 0
    assert (tmp_path / "x.md").read_text(encoding="utf-8") == printed


def test_report_draws_paths_and_pictures(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "é" / "picture.png"
    path = run / "episodes" / "demo_000001.hdf5"
    assert main(["report", str(path), "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    with Image.open(out) as image:
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3)
    for colour in ((31, 119, 180), (255, 127, 14), (230, 50, 50)):  # tool, target, the cube
        near = np.abs(pixels.astype(int) - colour).max(axis=1) <= 8
        assert near.sum() > 100, colour
    assert main(["report", str(run), "--out", str(tmp_path / "all")]) == 0
    assert sorted(p.name for p in (tmp_path / "all").iterdir()) == [
        "demo_000000.png",
        "demo_000001.png",
    ]


def test_pictures_are_of_their_rows(run: Path) -> None:
    pictures, remarks = pictures_of(open_episode(run / "episodes" / "demo_000000.hdf5"))
    assert remarks == [] and [row for row, _ in pictures] == [0, 7, 15, 23, 31, 39]
    hands = [
        np.argwhere((picture == (50, 80, 230)).all(axis=2))[:, 1].mean() for _, picture in pictures
    ]
    assert hands == sorted(hands) and hands[-1] > hands[0] + 50


def test_report_without_opengl_still_draws(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import slider_env

    def broken(self: ReplayEnv) -> None:
        raise RuntimeError("no OpenGL here")

    monkeypatch.setattr(slider_env.SliderEnv, "render", broken)
    out = tmp_path / "x.png"
    remarks = report(open_episode(run / "episodes" / "demo_000000.hdf5"), out)
    assert "no OpenGL here" in remarks[0] and out.stat().st_size > 10_000


def test_report_without_matplotlib_names_the_extra(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["report", str(run / "episodes" / "demo_000000.hdf5")]) == 3
    assert '".[plot]"' in capsys.readouterr().err


def test_hand_meets_the_target_at_first_engagement() -> None:
    hand = np.array([[np.nan] * 3, [1.0, 0, 0], [2.0, 0, 0]])
    target = np.array([[0.0, 0, 0], [0.5, 0, 0], [0.5, 0, 0]])
    shifted = met_at_engagement(hand, target, np.array([True, True, True]))
    np.testing.assert_allclose(shifted[1:], [[0.5, 0, 0], [1.5, 0, 0]])
    np.testing.assert_array_equal(met_at_engagement(hand, target, np.zeros(3, bool)), hand)
