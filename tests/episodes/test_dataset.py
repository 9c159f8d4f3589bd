"""Training samples hold the rows that were recorded, at their place, in every process."""

import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample import open_run as new_run
from sample import record_into, record_run

from episodes import DatasetConfig, DemonstrationDataset, EpisodesError, Recorder, open_dataset
from episodes.errors import FileFormatError
from episodes.reader import open_run

ROWS = (12, 30, 7)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("läuft hier")
    with Recorder(new_run(folder)) as recorder:
        for seed, n_rows in enumerate(ROWS):
            record_into(recorder, seed, n_rows)
    return folder


@pytest.fixture(scope="module")
def rows(run: Path) -> list[dict[str, np.ndarray]]:
    """Return what plain reading finds, by episode."""
    return [
        {**episode.observations(), "actions": episode.array("actions")} for episode in open_run(run)
    ]


def test_every_row_is_a_sample(run: Path) -> None:
    data = open_dataset(run, which="all")
    assert len(data) == sum(ROWS)
    seen = [(sample["episode"], sample["row"]) for sample in data]
    assert seen == [(n, row) for n, rows in enumerate(ROWS) for row in range(rows)]
    assert data[-1]["row"] == ROWS[-1] - 1
    assert [sample["row"] for sample in data[10:14]] == [10, 11, 0, 1]
    for wrong in (len(data), -len(data) - 1):
        with pytest.raises(IndexError, match=str(len(data))):
            data[wrong]


@given(index=st.integers(0, sum(ROWS) - 1), history=st.integers(1, 40), horizon=st.integers(1, 40))
def test_windows_are_those_rows_and_the_ends_are_repeated(
    run: Path, rows: list[dict[str, np.ndarray]], index: int, history: int, horizon: int
) -> None:
    with open_dataset(run, which="all", history=history, horizon=horizon) as data:
        sample = data[index]
    number, row = sample["episode"], sample["row"]
    past = np.maximum(np.arange(row - history + 1, row + 1), 0)
    assert set(sample["obs"]) == set(rows[number]) - {"actions"}
    for key, values in sample["obs"].items():
        np.testing.assert_array_equal(values, rows[number][key][past])
    ahead = np.arange(row, row + horizon)
    wanted = rows[number]["actions"][np.minimum(ahead, ROWS[number] - 1)]
    np.testing.assert_array_equal(sample["actions"], wanted)
    np.testing.assert_array_equal(sample["is_pad"], ahead >= ROWS[number])


def test_an_action_answers_the_newest_observation(run: Path) -> None:
    """Not one row off: the slider's second action entry counts the rows."""
    data = open_dataset(run, which="all", obs_keys=["robot0_eef_pos"], history=3, horizon=2)
    sample = data[ROWS[0] + 5]
    assert list(sample["obs"]) == ["robot0_eef_pos"]
    counted = (sample["actions"][:, 1] + 1) / 2 * ROWS[1]
    np.testing.assert_allclose(counted, [5, 6], atol=1e-5)  # float32 at recording


def test_a_sample_is_the_readers_own(run: Path) -> None:
    data = open_dataset(run, which="all")
    kept = data[3]["actions"].copy()
    data[3]["actions"][:] = 7.0
    np.testing.assert_array_equal(data[3]["actions"], kept)


def test_statistics_are_over_all_rows(run: Path) -> None:
    found = open_dataset(run, which="all", horizon=5, history=3).statistics()
    actions = np.concatenate([e.array("actions") for e in open_run(run)])
    np.testing.assert_allclose(found["actions"].mean, actions.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(found["actions"].std, actions.std(axis=0), atol=1e-12)
    np.testing.assert_array_equal(found["actions"].minimum, actions.min(axis=0))
    np.testing.assert_array_equal(found["actions"].maximum, actions.max(axis=0))
    normal = found["actions"].normalise(actions)
    np.testing.assert_allclose(normal.mean(axis=0), 0.0, atol=1e-9)
    assert np.all(normal[:, 0] == 0.0), "the slider's first entry never changes"


def test_only_successes_unless_asked(tmp_path: Path) -> None:
    """60 rows push the cube over the line, 12 do not."""
    with Recorder(new_run(tmp_path)) as recorder:
        record_into(recorder, 0, 12)
        record_into(recorder, 1, 60)
    assert [e.success for e in open_run(tmp_path)] == [False, True]
    assert len(open_dataset(tmp_path)) == 60
    assert len(open_dataset(tmp_path, which="all")) == 72
    with h5py.File(tmp_path / "dataset.hdf5") as file:
        assert file["mask/success"][()].tolist() == [b"demo_000001"]  # type: ignore[index]


def picture_run(tmp_path: Path) -> Path:
    """Return a run with a picture an observation whose pixels say the row."""
    record_run(tmp_path, n_episodes=1, n_rows=9)
    episode = open_run(tmp_path)[0]
    pictures = np.arange(9, dtype=np.uint8)[:, None, None, None] * np.ones((4, 6, 3), np.uint8)
    with h5py.File(episode.path, "r+") as file:
        file[f"data/{episode.name}/obs"].create_dataset(  # type: ignore[union-attr]
            "front_image", data=pictures, chunks=(1, 4, 6, 3)
        )
    return tmp_path


def test_pictures_are_read_row_by_row(tmp_path: Path) -> None:
    data = open_dataset(picture_run(tmp_path), which="all", history=4)
    shown = data[2]["obs"]["front_image"]
    assert shown.shape == (4, 4, 6, 3)
    assert shown[:, 0, 0, 0].tolist() == [0, 0, 1, 2]
    assert "front_image" not in data.statistics()


def sums(data: DemonstrationDataset, indices: list[int]) -> list[float]:
    """Return a number a sample."""
    return [float(sum(v.sum() for v in data[i]["obs"].values())) for i in indices]


def _serve(data: DemonstrationDataset, indices: list[int], pipe: Any) -> None:
    pipe.send(sums(data, indices))
    pipe.close()


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_worker_processes_read_the_same(tmp_path: Path, method: str) -> None:
    """Also with files open before: HDF5 handles do not survive a fork."""
    data = open_dataset(picture_run(tmp_path), which="all")
    indices = list(range(len(data)))
    wanted = sums(data, indices)
    context = multiprocessing.get_context(method)
    workers = []
    for part in (indices[::2], indices[1::2]):
        here, there = context.Pipe(duplex=False)
        worker = context.Process(target=_serve, args=(data, part, there))
        worker.start()
        there.close()
        workers.append((worker, here, part))
    for worker, here, part in workers:
        assert here.recv() == [wanted[i] for i in part]
        worker.join(30)
        assert worker.exitcode == 0
    assert sums(data, indices) == wanted


def test_a_copy_carries_no_rows(run: Path) -> None:
    data = open_dataset(run, which="all")
    before = len(pickle.dumps(data))
    sums(data, [0, 20, 40])
    assert len(pickle.dumps(data)) == before
    data.close()
    data.close()
    assert len(sums(data, [0])) == 1, "closing is no end"


def test_many_files_do_not_use_up_the_handles(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episodes.dataset._MOST_OPEN", 2)
    data = open_dataset(run, which="all")
    for i in (0, 20, 44, 1, 21, 45):
        assert data[i]["row"] == data.locate(i)[1]
    assert len(data._files) <= 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"history": 0}, "history must be at least 1"),
        ({"horizon": -1}, "horizon must be at least 1"),
        ({"obs_keys": ["nothing"]}, "nothing.*they share.*robot0_eef_pos"),
        ({"which": "good"}, "'success' or 'all'"),
        ({"chunk": 3}, "chunk.*the options are: obs_keys, history, horizon"),
    ],
)
def test_what_cannot_be_is_told(run: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(EpisodesError, match=says):
        open_dataset(run, **{"which": "all", **options})


def test_no_success_and_no_episode_are_told(run: Path, tmp_path: Path) -> None:
    with Recorder(new_run(tmp_path / "short")) as recorder:
        record_into(recorder, 0, 12)
    with pytest.raises(EpisodesError, match="none of 1 episodes is a success; which='all'"):
        open_dataset(tmp_path / "short")
    with pytest.raises(EpisodesError, match="does not exist"):
        open_dataset(tmp_path / "nowhere")
    with pytest.raises(EpisodesError, match="no episodes"):
        DemonstrationDataset([], DatasetConfig())


def test_missing_or_short_rows_are_told(tmp_path: Path) -> None:
    record_run(tmp_path, n_episodes=1, n_rows=9)
    data = open_dataset(tmp_path, which="all", action_path="action_dict/nothing")
    with pytest.raises(FileFormatError, match="action_dict/nothing is missing"):
        data[0]
    data.close()
    episode = open_run(tmp_path)[0]
    with h5py.File(episode.path, "r+") as file:
        demo = file[f"data/{episode.name}"]
        del demo["actions"]  # type: ignore[attr-defined]
        demo.create_dataset("actions", data=np.zeros((4, 2)))  # type: ignore[union-attr]
    with pytest.raises(FileFormatError, match=r"shape \(4, 2\); it must have num_samples = 9"):
        open_dataset(tmp_path, which="all")[0]
