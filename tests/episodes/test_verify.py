"""A good file has no fault; each way to spoil one is found and pointed at."""

import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from sample import record_run

from episodes import EpisodesError, FileFormatError
from episodes.verify_run import leftovers, verify

Spoil = Callable[[h5py.Group], object]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_run(tmp_path_factory.mktemp("run"), n_episodes=2, n_rows=20)


@pytest.fixture
def run(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "copy"))


def replace(demo: h5py.Group, path: str, array: np.ndarray) -> None:
    attrs = dict(demo[path].attrs)
    del demo[path]
    demo[path] = array
    for name, value in attrs.items():
        demo[path].attrs[name] = value


def put(path: str, index: object, value: object) -> Spoil:
    return lambda demo: demo[path].__setitem__(index, value)


SPOILS: dict[str, tuple[Spoil, str]] = {
    "never finished": (lambda d: d.attrs.__delitem__("complete"), "never finished"),
    "other schema": (lambda d: d.attrs.__setitem__("schema_version", 9), "schema_version is 9"),
    "no attribute": (lambda d: d.attrs.__delitem__("task"), "attribute task must be str"),
    "no rows": (lambda d: d.attrs.__setitem__("num_samples", 0), "no rows"),
    "wrong rows": (lambda d: d.attrs.__setitem__("num_samples", 19), "actions: has shape"),
    "sides": (lambda d: d.attrs.__setitem__("sides", '["up"]'), "sides"),
    "missing": (lambda d: d.__delitem__("rewards"), "rewards is missing"),
    "dtype": (lambda d: replace(d, "sim/ctrl", d["sim/ctrl"][()].astype("f4")), "must be float64"),
    "one row short": (lambda d: replace(d, "rewards", d["rewards"][1:]), "rewards: has shape"),
    "no unit": (lambda d: d["actions"].attrs.__delitem__("unit"), "actions: lacks"),
    "quat order": (
        lambda d: d["operator/head_pose"].attrs.__setitem__("quat_order", "xyzw"),
        "head_pose: quat_order is 'xyzw'",
    ),
    "nan": (put("states", (3, 2), np.nan), "states: is not finite at [3, 2]"),
    "time falls": (put("timing/t_obs_ns", 7, 0), "t_obs_ns: row 7"),
    "time stands": (
        lambda d: d["timing/t_obs_ns"].__setitem__(7, d["timing/t_obs_ns"][6]),
        "t_obs_ns: row 7",
    ),
    "simulated time": (put("timing/t_sim", 5, 0.101), "t_sim: row 5"),
    "beyond": (put("actions", (4, 0), 1.5), "actions: [4, 0] is 1.5"),
    "dones": (put("dones", 2, 1), "dones"),
    "norm": (put("operator/right_pose", (9, 3), 2.0), "right_pose: quaternion of row 9"),
    "sign": (
        lambda d: d["action_dict/abs_quat"].__setitem__(9, -d["action_dict/abs_quat"][9]),
        "abs_quat: quaternion changes its sign in row 9",
    ),
    "observed norm": (put("obs/robot0_eef_quat", (2, 1), 0.5), "eef_quat: quaternion of row 2"),
    "observed nan": (put("obs/object", (1, 0), np.nan), "obs/object: is not finite at [1, 0]"),
    "observed rows": (
        lambda d: replace(d, "obs/object", d["obs/object"][1:]),
        "obs/object: has 19 rows",
    ),
    "observed columns": (
        lambda d: replace(d, "obs/robot0_eef_pos", d["obs/robot0_eef_pos"][:, :2]),
        "eef_pos: has shape",
    ),
    "one bit": (put("rewards", 3, 0.25), "rewards: is not what was written"),
    "one observed bit": (put("obs/object", (3, 1), 0.25), "obs/object: is not what was written"),
    "no obs": (lambda d: d.__delitem__("obs"), "obs is missing"),
}


def test_a_recorded_run_has_no_fault(good: Path) -> None:
    assert verify(good) == []
    assert verify(good / "dataset.hdf5") == []
    assert verify(good / "episodes" / "demo_000001.hdf5") == []
    assert leftovers(good) == []


@pytest.mark.parametrize("name", list(SPOILS))
def test_each_fault_is_pointed_at(run: Path, name: str) -> None:
    spoil, words = SPOILS[name]
    path = run / "episodes" / "demo_000001.hdf5"
    with h5py.File(path, "r+") as file:
        spoil(file["data/demo_000001"])
    faults = verify(path)
    assert faults, "not found"
    assert words in str(faults[0])
    assert "demo_000001" in faults[0].where
    assert any(words in str(fault) for fault in verify(run))


def test_broken_files_are_faults_of_a_run_and_errors_of_their_own(run: Path) -> None:
    path = run / "episodes" / "demo_000000.hdf5"
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(FileFormatError, match="not a readable HDF5 file"):
        verify(path)
    assert "not a readable HDF5 file" in str(verify(run)[0])
    with pytest.raises(EpisodesError, match="does not exist"):
        verify(run / "nothing")
    (run / "empty").mkdir()
    with pytest.raises(EpisodesError, match="holds no episodes"):
        verify(run / "empty")


def test_masters_faults_are_found(run: Path) -> None:
    master = run / "dataset.hdf5"
    with h5py.File(master, "r+") as file:
        file["data"].attrs["total"] = 7
        file["data/demo_000002"] = h5py.ExternalLink("/tmp/x.hdf5", "/data/demo_000002")
        file["data/demo_000003"] = h5py.ExternalLink("episodes/demo_000003.hdf5", "/data/x")
        file.create_group("data/demo_000004")
        del file["mask/failure"]
        file["mask/failure"] = np.array([b"demo_000009"])
        del file["data/demo_000000"]
    text = "\n".join(map(str, verify(run)))
    for words in (
        "demo_000000: is not linked",
        "outside episodes/",
        "episodes/demo_000003.hdf5, which is not there",
        "demo_000004: is not a link",
        "names ['demo_000009']",
        "total is 7",
    ):
        assert words in text
    master.unlink()
    assert "dataset.hdf5: is missing" in str(verify(run)[0])


def test_missing_and_damaged_models_are_found(run: Path) -> None:
    (model,) = (run / "models").iterdir()
    model.write_bytes(model.read_bytes()[:-1])
    assert "damaged" in str(verify(run)[0])
    model.unlink()
    assert "is missing" in str(verify(run)[0])


def test_leftovers_are_told_but_no_fault(run: Path) -> None:
    stale = run / "episodes" / "demo_000007.hdf5.partial"
    stale.write_bytes(b"")
    assert verify(run) == [] and leftovers(run) == [stale]
