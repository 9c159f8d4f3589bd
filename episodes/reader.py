"""Read episodes back: one file, a run's folder or its master, always in numeric order."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy.typing as npt

from kinematics import Side
from kinematics.edits import EditError, ModelEdits

from . import schema
from .errors import EpisodesError, FileFormatError
from .hdf5 import array_at, attr, attrs_of, group_at
from .master import episode_files
from .quality import Quality
from .storage import content_hash


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """Look at one stored episode; arrays are read when asked for, nothing stays open.

    Where much is read, ``with episode.held():`` saves opening the file anew each time.
    """

    path: Path
    """The file that holds the rows (not the master that may have led to it)."""
    name: str
    """``demo_000012``"""
    attrs: Mapping[str, Any]
    """Attributes of the demo group, as plain values."""

    @property
    def number(self) -> int:
        """The episode's number."""
        return schema.demo_number(self.name) or 0

    @property
    def n_rows(self) -> int:
        """Rows T."""
        return self._attr("num_samples", int)

    @property
    def task(self) -> str:
        """The task's name."""
        return self._attr("task", str)

    @property
    def seed(self) -> int:
        """The seed of the reset."""
        return self._attr("seed", int)

    @property
    def success(self) -> bool:
        """The task's own word at the end."""
        return self._attr("success", bool)

    @property
    def quality(self) -> Quality:
        """How well it was done."""
        text = self._attr("quality", str)
        try:
            return Quality(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise FileFormatError(f"{self}: attribute quality is {text!r}: {error}") from error

    @property
    def env_spec_json(self) -> str:
        """Gymnasium's EnvSpec as JSON."""
        return self._attr("env_spec", str)

    @property
    def model_sha256(self) -> str:
        """SHA-256 of the compiled model."""
        return self._attr("model_sha256", str)

    @property
    def edits(self) -> ModelEdits:
        """What this episode changed in the model; FileFormatError when they were tampered with."""
        names, indices, values = map(
            self.array, (schema.EDIT_FIELD, schema.EDIT_INDEX, schema.EDIT_VALUE)
        )
        try:
            edits = ModelEdits(tuple(name.decode() for name in names.tolist()), indices, values)
        except (EditError, UnicodeDecodeError) as error:
            raise FileFormatError(f"{self}: sim/edit_*: {error}") from error
        if edits.sha256 != self._attr("edits_sha256", str):
            raise FileFormatError(
                f"{self}: sim/edit_* are not what was recorded: their hash is not edits_sha256"
            )
        return edits

    @property
    def mujoco_version(self) -> str:
        """MuJoCo's version at recording."""
        return self._attr("mujoco_version", str)

    @property
    def sides(self) -> tuple[Side, ...]:
        """The arms: side of robot0, robot1."""
        text = self._attr("sides", str)
        try:
            return tuple(Side(word) for word in json.loads(text))
        except (ValueError, TypeError) as error:
            raise FileFormatError(
                f"{self}: attribute sides must be a JSON list of {[*map(str, Side)]}, is {text!r}"
            ) from error

    @property
    def state_components(self) -> dict[str, int]:
        """Name and size of the parts of a state, in order."""
        attrs = self.dataset_attrs(schema.STATES)
        return dict(zip(attrs["names"], (int(size) for size in attrs["sizes"]), strict=True))

    @property
    def model_file(self) -> Path:
        """Where the compiled model is stored, whether it is there or not."""
        folder = self.path.parent
        if folder.name == schema.EPISODES_DIR:
            folder = folder.parent
        return folder / schema.MODELS_DIR / f"{self.model_sha256}.mjb"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep the file open meanwhile."""
        with _open(self.path):
            yield

    def array(self, path: str) -> npt.NDArray[Any]:
        """Return a whole dataset by its path under the demo group, such as ``sim/ctrl``."""
        with _open(self.path) as file:
            return array_at(self._group(file), path)

    def intact(self, path: str) -> bool:
        """Say whether a dataset is, bit for bit, what was written."""
        return self.dataset_attrs(path).get(schema.SHA256) == content_hash(self.array(path))

    def dataset_attrs(self, path: str) -> dict[str, Any]:
        """Return a dataset's attributes."""
        with _open(self.path) as file:
            return attrs_of(_item(self._group(file), path))

    def observation_keys(self) -> tuple[str, ...]:
        """Return the names of the observations."""
        with _open(self.path) as file:
            return tuple(map(str, group_at(self._group(file), schema.OBS)))

    def observations(self) -> dict[str, npt.NDArray[Any]]:
        """Return the observations, (T, ...) by key; row t was seen before action t."""
        with _open(self.path) as file:
            group = group_at(self._group(file), schema.OBS)
            return {str(key): array_at(group, str(key)) for key in group}

    def paths(self) -> list[str]:
        """Return the paths of all datasets."""
        found: list[str] = []
        with _open(self.path) as file:
            self._group(file).visititems(
                lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None
            )
        return found

    def __str__(self) -> str:
        return f"{self.path}:{self.name}"

    def _group(self, file: h5py.File) -> h5py.Group:
        return group_at(file, f"{schema.DATA}/{self.name}")

    def _attr(self, name: str, kind: type) -> Any:
        return attr(self.attrs, name, kind, self)


def open_run(path: Path | str) -> list[Episode]:
    """Return the episodes of an episode's file, a master file or a run's folder, by number."""
    path = Path(path)
    if path.is_dir():
        files = episode_files(path) or _master_of(path)
        if not files:
            raise EpisodesError(
                f"{path} holds no episodes; give a run's folder (with {schema.EPISODES_DIR}/) "
                f"or a *{schema.SUFFIX} file"
            )
        return sorted((e for file in files for e in _episodes(file)), key=lambda e: e.number)
    if not path.exists():
        raise EpisodesError(f"{path} does not exist; give an episode's file or a run's folder")
    return _episodes(path)


def open_episode(path: Path | str) -> Episode:
    """Return the one episode of a file."""
    found = open_run(path)
    if len(found) != 1:
        raise EpisodesError(f"{path} holds {len(found)} episodes; give the file of one")
    return found[0]


def _master_of(folder: Path) -> list[Path]:
    master = folder / schema.MASTER
    return [master] if master.exists() else []


def _episodes(path: Path) -> list[Episode]:
    with _open(path) as file:
        data = group_at(file, schema.DATA)
        names = [name for name in map(str, data) if schema.demo_number(name) is not None]
        found: list[Episode] = []
        for name in sorted(names, key=lambda name: schema.demo_number(name) or 0):
            demo = group_at(data, name)
            found.append(Episode(Path(demo.file.filename), name, attrs_of(demo)))
    return found


def _open(path: Path) -> h5py.File:
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise FileFormatError(f"{path} is not a readable HDF5 file: {error}") from error


def _item(group: h5py.Group, path: str) -> h5py.Group | h5py.Dataset:
    item = group.get(path)
    if not isinstance(item, (h5py.Group, h5py.Dataset)):
        raise FileFormatError(f"{group.file.filename}:{group.name}/{path} is missing")
    return item
