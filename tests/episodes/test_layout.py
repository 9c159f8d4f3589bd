"""The layout is documented, fits trainers, and its folder shadows nothing."""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from sample import record_run

from episodes import schema
from episodes.docs import markdown

ROOT = Path(__file__).parents[2]


def test_page_is_generated_from_the_schema() -> None:
    page = ROOT / "docs" / "dataset.md"
    fix = "run: python -m episodes schema --out docs/dataset.md"
    assert page.read_text(encoding="utf-8") == markdown(), fix


def test_every_length_of_the_schema_is_explained() -> None:
    letters = {
        length.lstrip("0123456789")[0] if not length.endswith("n") else length[0]
        for field in schema.FIELDS
        for length in field.shape
        if isinstance(length, str)
    }
    assert {letter for letter in letters if letter.isalpha()} <= schema.LENGTHS.keys()
    paths = [field.path for field in schema.FIELDS]
    assert len(set(paths)) == len(paths)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_run(tmp_path_factory.mktemp("run"), n_episodes=3, n_rows=50)


@pytest.mark.parametrize("name", ["dataset.hdf5", "episodes/demo_000001.hdf5"])
def test_files_are_what_robomimic_reads(run: Path, name: str) -> None:
    """Everything that its SequenceDataset, training script and tools were found to ask for."""
    with h5py.File(run / name, "r", swmr=True, libver="latest") as file:
        data = file["data"]
        demos = list(data)
        assert all(int(demo[5:]) >= 0 for demo in demos), "names parse as int(name[5:])"
        env_args = json.loads(data.attrs["env_args"])
        assert env_args["type"] == 2 and env_args.keys() == {"env_name", "type", "env_kwargs"}
        assert data.attrs["total"] == sum(data[d].attrs["num_samples"] for d in demos)
        for demo in demos:
            length = data[demo].attrs["num_samples"]
            actions = data[demo]["actions"]
            assert actions.shape[0] == length and np.abs(actions[()]).max() <= 1.0
            assert data[demo]["states"].shape[0] == length
            assert data[demo]["rewards"].shape == data[demo]["dones"].shape == (length,)
            for key, item in data[demo]["obs"].items():
                assert isinstance(item, h5py.Dataset), f"obs/{key} must be flat"
                assert item.shape[0] == length
        for mask in file["mask"].values():
            assert mask.dtype.kind == "S"
            assert {item.decode() for item in mask[()]} <= set(demos)
        success = {item.decode() for item in file["mask/success"][()]}
        assert success == {demo for demo in demos if data[demo].attrs["success"]}


def test_an_episodes_file_holds_one_demo_named_like_itself(run: Path) -> None:
    for path in (run / "episodes").iterdir():
        with h5py.File(path) as file:
            assert list(file["data"]) == [path.stem]
            assert list(file) == ["data", "mask"]


def test_every_stored_dataset_is_in_the_schema(run: Path) -> None:
    known = {
        field.path.format(side="right", robot=0, device=device)
        for field in schema.FIELDS
        for device in ("head", "right", "left")
    }
    with h5py.File(run / "episodes" / "demo_000000.hdf5") as file:
        found: list[str] = []
        file["data/demo_000000"].visititems(
            lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None
        )
        names = {attr.name for attr in schema.ATTRS} | {schema.COMPLETE}
        assert set(file["data/demo_000000"].attrs) == names
    beside = [name for name in found if name not in known]
    assert {name.split("/")[0] for name in beside} == {"obs", "obs_final"}


@pytest.mark.parametrize("folder", ["datasets", "models"])
def test_data_folders_hold_no_python(folder: str) -> None:
    assert not any((ROOT / folder).rglob("*.py"))


def test_our_folder_does_not_shadow_the_package_datasets() -> None:
    code = "import datasets; print(getattr(datasets, '__file__', None))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    try:
        importlib.metadata.version("datasets")
    except importlib.metadata.PackageNotFoundError:
        assert done.stdout.strip() in ("None", "")
    else:
        assert "site-packages" in done.stdout


def test_package_imports_no_other_room() -> None:
    code = (
        "import sys, episodes, episodes.commands\n"
        "print([n for n in sys.modules if n.split('.')[0] in ('envs', 'teleop_agent', 'collect')])"
        "\nprint('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n")[:2] == ["[]", "False"], done.stderr
