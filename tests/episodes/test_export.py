"""Exports hold every row, bit for bit, and overwrite nothing unasked."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample import record_run

from episodes import ExportError, schema
from episodes.columns import places
from episodes.commands import main
from episodes.export import FORMATS, export
from episodes.reader import Episode, open_run

N_ROWS = 12


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_run(tmp_path_factory.mktemp("run"), n_episodes=2, n_rows=N_ROWS)


@pytest.fixture(scope="module")
def table(run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return the first episode's columns, by their names without the unit."""
    (path, _) = export(open_run(run), tmp_path_factory.mktemp("out"))
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert len(set(header)) == len(header)
    assert all(name.endswith("]") and " [" in name for name in header)
    assert len(rows) == N_ROWS and {len(row) for row in rows} == {len(header)}
    names = [name.rpartition(" [")[0] for name in header]
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def row_paths(episode: Episode) -> list[str]:
    """Return all datasets of one row a control step."""
    fields = [field for field in schema.FIELDS if field.shape[0] == "T"]
    named = [place.path for field in fields for place in places(field, episode.sides)]
    return named + [f"obs/{key}" for key in episode.observations()]


def of_dataset(table: dict[str, list[str]], path: str, others: list[str]) -> list[list[str]]:
    """Return a dataset's columns in their order."""
    longer = [other for other in others if other != path and other.startswith(path + "_")]
    return [
        values
        for name, values in table.items()
        if name == path
        or (name.startswith(path + "_") and not any(name.startswith(o) for o in longer))
    ]


def test_every_number_of_every_row_comes_back_bit_for_bit(
    run: Path, table: dict[str, list[str]]
) -> None:
    episode, kinds = open_run(run)[0], set[str]()
    paths = row_paths(episode)
    for path in paths:
        stored, attrs = episode.array(path), episode.dataset_attrs(path)
        if "codes" in attrs or "flags" in attrs:
            continue
        kinds.add(stored.dtype.kind)
        columns = of_dataset(table, path, paths)
        read: Any = int if stored.dtype.kind in "iub" else float
        back = np.array([[read(text) for text in values] for values in columns]).T
        same = back.astype(stored.dtype).reshape(stored.shape)
        np.testing.assert_array_equal(same, stored, err_msg=path)
        assert same.tobytes() == stored.tobytes() or not np.isfinite(stored).all(), path
    assert kinds == {"f", "i", "u", "b"}
    assert table["row"] == [str(n) for n in range(N_ROWS)]
    assert math.isnan(float(table["operator/right_pose_x"][0]))


def test_words_and_bits_are_spelled_out(run: Path, table: dict[str, list[str]]) -> None:
    assert table["operator/right_guard_state"][:3] == ["hold", "hold", "ok"]
    assert table["operator/right_guard_reason"][1:3] == ["stale", "none"]
    speed = [int(n % 7 == 0) for n in range(N_ROWS)]
    assert table["control/robot0_clamps_speed"] == [str(on) for on in speed]
    assert set(table["control/robot0_clamps_workspace"]) == {"0"}
    assert table["operator/right_buttons_secondary"][5] == "1"
    assert table["timing/overrun"][4] == "1"


def test_columns_say_what_they_are(run: Path, tmp_path: Path) -> None:
    (path, _) = export(open_run(run), tmp_path)
    header = path.read_text(encoding="utf-8").splitlines()[0]
    for name in (
        "control/robot0_accepted_pos_x [m]",
        "action_dict/abs_pos_right_z [m]",
        "operator/right_pose_y [m]",
        "operator/right_pose_qw [1]",
        "control/robot0_ik_rotation_error [rad]",
        "control/robot0_clamps_speed [bool]",
        "operator/right_guard_reason [word]",
        "timing/t_apply_ns [ns]",
        "sim/ctrl_11_right/slide [actuator]",
        "operator/right_T_world_tracking_0_3 [",
        "obs/robot0_eef_quat_w [1]",
    ):
        assert name in header, name


def test_nothing_is_overwritten_unasked(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "é ü" / "csv"
    assert main(["export", str(run), "--out", str(out), "--format", "csv"]) == 0
    files = sorted(out.iterdir())
    assert [path.name for path in files] == ["demo_000000.csv", "demo_000001.csv"]
    out_text = capsys.readouterr().out
    assert all(path.name in out_text for path in files)
    before = files[0].read_bytes()
    assert before.count(b"\r\n") == N_ROWS + 1 == before.count(b"\n")  # the same on every system
    files[0].write_text("mine", encoding="utf-8")
    files[1].unlink()
    assert main(["export", str(run), "--out", str(out)]) == 3
    assert "exists already" in capsys.readouterr().err
    assert files[0].read_text(encoding="utf-8") == "mine"
    assert sorted(out.iterdir()) == files[:1], "nothing else was begun"
    assert main(["export", str(run), "--out", str(out), "--overwrite"]) == 0
    assert files[0].read_bytes() == before
    assert sorted(out.iterdir()) == files


def test_what_cannot_be_is_said(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="there are: csv, npz"):
        export(open_run(run), tmp_path, "parquet")
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="cannot be written"):
        export(open_run(run), tmp_path / "file" / "below")
    assert set(FORMATS) == {"csv", "npz"}


def test_npz_holds_every_dataset_bit_for_bit_without_pickle(run: Path, tmp_path: Path) -> None:
    paths = export(open_run(run), tmp_path, "npz")
    assert [path.name for path in paths] == ["demo_000000.npz", "demo_000001.npz"]
    for path, episode in zip(paths, open_run(run), strict=True):
        with np.load(path, allow_pickle=False) as stored:
            assert set(stored) == {*episode.paths(), "attrs"}
            for name in episode.paths():
                wanted = episode.array(name)
                if wanted.dtype.kind != "O":
                    assert stored[name].dtype == wanted.dtype
                    assert stored[name].tobytes() == wanted.tobytes(), name
                else:
                    assert stored[name].tolist() == wanted.tolist(), name
            attrs = json.loads(str(stored["attrs"]))
        assert attrs["num_samples"] == N_ROWS
        assert attrs["seed"] == episode.seed
        assert set(attrs) == set(episode.attrs)


def test_a_failed_export_leaves_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(episode: Episode, path: Path) -> None:
        path.write_text("half")
        raise OSError("no space left")

    monkeypatch.setitem(FORMATS, "csv", type(FORMATS["csv"])(".csv", broken))
    with pytest.raises(ExportError, match="no space left"):
        export(open_run(run), tmp_path)
    assert list(tmp_path.iterdir()) == []
