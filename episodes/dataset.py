"""Windows of demonstrations for training: random access by row, with history and action chunks."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

import h5py
import numpy as np
import numpy.typing as npt

from . import schema
from .errors import EpisodesError, FileFormatError
from .hdf5 import dataset_at, group_at
from .reader import Episode, open_run

Array = npt.NDArray[Any]
Sample = dict[str, Any]
Which = Literal["success", "all"]


@dataclass(frozen=True, slots=True)
class DatasetConfig:
    """Say what a sample holds."""

    obs_keys: tuple[str, ...] | None = None
    """Observations to read; None takes all that every episode has."""
    history: int = 1
    """Observations a sample, the newest last; before the first row that one is repeated."""
    horizon: int = 1
    """Actions a sample, from the newest observation's on; past the last row that one is repeated
    and ``is_pad`` says so."""
    action_path: str = schema.ACTIONS
    """Dataset of the actions under an episode: ``actions``, or one of ``action_dict/...``."""

    def __post_init__(self) -> None:
        for name in ("history", "horizon"):
            if getattr(self, name) < 1:
                raise EpisodesError(f"{name} must be at least 1, is {getattr(self, name)}")


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Hold what normalisation asks for, over the rows of all episodes; float64, one an entry."""

    mean: Array
    std: Array
    """Population standard deviation."""
    minimum: Array
    maximum: Array

    def normalise(self, values: Array, floor: float = 1e-6) -> Array:
        """Return values of mean 0 and standard deviation 1; entries that never change become 0.

        ``floor`` is the standard deviation below which an entry counts as constant.
        """
        return np.where(self.std > floor, (values - self.mean) / np.maximum(self.std, floor), 0.0)


class DemonstrationDataset(Sequence[Sample]):
    """Give every row of many episodes as a training sample.

    ``dataset[i]`` is a dict: ``obs`` by key, each (history, ...); ``actions`` (horizon, A) float64;
    ``is_pad`` (horizon,) bool; ``episode`` and ``row``, of the newest observation. A slice gives
    a list of them. PyTorch's ``DataLoader`` takes it as it is (a map-style dataset is whatever has
    a length and items), in worker processes started by fork or spawn: every process opens files
    of its own.

    Rows of numbers are read once an episode and kept in memory, as they are small; pictures are
    read row by row.
    """

    def __init__(self, episodes: Sequence[Episode], config: DatasetConfig | None = None) -> None:
        """Take episodes in their order; EpisodesError when there is none, or keys are missing."""
        if not episodes:
            raise EpisodesError("there are no episodes to read; which='all' takes failures, too")
        self.config = config or DatasetConfig()
        self.episodes = tuple(episodes)
        self.obs_keys = _keys(self.episodes, self.config.obs_keys)
        self._ends = np.cumsum([episode.n_rows for episode in self.episodes])
        self._files: dict[tuple[int, Path], h5py.File] = {}
        self._kept: dict[tuple[int, str], Array] = {}

    def __len__(self) -> int:
        return int(self._ends[-1])

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number, row = self.locate(index)
        config, n_rows = self.config, self.episodes[number].n_rows
        past = np.maximum(np.arange(row - config.history + 1, row + 1), 0)
        ahead = np.arange(row, row + config.horizon)
        return {
            "obs": {key: self._rows(number, f"{schema.OBS}/{key}", past) for key in self.obs_keys},
            "actions": self._rows(number, config.action_path, np.minimum(ahead, n_rows - 1)),
            "is_pad": ahead >= n_rows,
            "episode": number,
            "row": row,
        }

    def locate(self, index: int) -> tuple[int, int]:
        """Return which episode and which of its rows a sample's newest observation is."""
        position = int(index)
        if position < 0:
            position += len(self)
        if not 0 <= position < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        number = int(np.searchsorted(self._ends, position, side="right"))
        return number, position - int(self._ends[number]) + self.episodes[number].n_rows

    def statistics(self) -> dict[str, Statistics]:
        """Return ``actions`` and every observation that is not a picture, over all rows."""
        numbers = range(len(self.episodes))
        paths = {key: f"{schema.OBS}/{key}" for key in self.obs_keys}
        paths["actions"] = self.config.action_path
        return {
            key: _statistics([self._whole(number, path) for number in numbers])
            for key, path in paths.items()
            if not _is_picture(self._dataset(0, path))
        }

    def close(self) -> None:
        """Close this process's files; what is read later opens them again."""
        here = os.getpid()
        for key in [key for key in self._files if key[0] == here]:
            self._files.pop(key).close()

    def __enter__(self) -> "DemonstrationDataset":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """Leave files and rows out: a process that gets a copy reads its own."""
        return {**self.__dict__, "_files": {}, "_kept": {}}

    def _rows(self, number: int, path: str, rows: Array) -> Array:
        """Return some rows, given in rising order, some of them maybe more than once."""
        dataset = self._dataset(number, path)
        if not _is_picture(dataset):
            return self._whole(number, path)[rows]
        first, last = int(rows[0]), int(rows[-1])
        return np.asarray(dataset[first : last + 1])[rows - first]

    def _whole(self, number: int, path: str) -> Array:
        key = (number, path)
        if key not in self._kept:
            self._kept[key] = np.asarray(self._dataset(number, path)[()])
        return self._kept[key]

    def _dataset(self, number: int, path: str) -> h5py.Dataset:
        episode = self.episodes[number]
        key = (os.getpid(), episode.path)  # a handle that was forked along is never used
        if key not in self._files:
            self._make_room(key[0])
            try:
                self._files[key] = h5py.File(episode.path, "r")
            except OSError as error:
                raise FileFormatError(f"{episode.path} cannot be opened: {error}") from error
        demo = group_at(self._files[key], f"{schema.DATA}/{episode.name}")
        dataset = dataset_at(demo, path)
        if not dataset.ndim or len(dataset) != episode.n_rows:
            raise FileFormatError(
                f"{episode}/{path} has shape {dataset.shape}; it must have num_samples = "
                f"{episode.n_rows} rows"
            )
        return dataset

    def _make_room(self, here: int) -> None:
        own = [key for key in self._files if key[0] == here]
        if len(own) >= _MOST_OPEN:
            self._files.pop(own[0]).close()


_MOST_OPEN = 64
"""Files open at once, a process; systems allow a few hundred."""
_PICTURE_DIMS = 4
"""Rows of height x width x channels."""


def open_dataset(
    path: Path | str, which: Which = "success", **options: Any
) -> DemonstrationDataset:
    """Open a run's folder, its master or one episode's file for training.

    ``which="success"`` takes what ``/mask/success`` has: kept as a success and not interrupted.
    ``options`` are those of ``DatasetConfig``. Raises EpisodesError.
    """
    if which not in ("success", "all"):
        raise EpisodesError(f"which must be 'success' or 'all', is {which!r}")
    found = open_run(path)
    chosen = [episode for episode in found if which == "all" or _succeeded(episode)]
    if not chosen:
        raise EpisodesError(
            f"{path}: none of {len(found)} episodes is a success; which='all' takes them, too"
        )
    if isinstance(options.get("obs_keys"), list):
        options["obs_keys"] = tuple(options["obs_keys"])
    try:
        config = DatasetConfig(**options)
    except TypeError as error:
        known = ", ".join(DatasetConfig.__slots__)
        raise EpisodesError(f"{error}; the options are: {known}") from error
    return DemonstrationDataset(chosen, config)


def _succeeded(episode: Episode) -> bool:
    attrs = episode.attrs
    return attrs.get("outcome") == "success" and not attrs.get("interrupted")


def _keys(episodes: Sequence[Episode], wanted: Sequence[str] | None) -> tuple[str, ...]:
    """Return the observations to read, in the first episode's order; those wanted must be there."""
    common: Mapping[str, None] = dict.fromkeys(episodes[0].observation_keys())
    for episode in episodes[1:]:
        has = set(episode.observation_keys())
        common = {key: None for key in common if key in has}
    if wanted is None:
        return tuple(common)
    if missing := [key for key in wanted if key not in common]:
        raise EpisodesError(
            f"not every episode has the observations {missing}; they share {list(common)}"
        )
    return tuple(wanted)


def _is_picture(dataset: h5py.Dataset) -> bool:
    return dataset.ndim >= _PICTURE_DIMS


def _statistics(parts: Sequence[Array]) -> Statistics:
    """Return the statistics of rows in float64, in two passes: no loss by cancellation."""
    rows = sum(len(part) for part in parts)

    def wide() -> Iterator[Array]:
        for part in parts:
            yield part.astype(np.float64)

    mean = sum(part.sum(axis=0) for part in wide()) / rows
    variance = sum(((part - mean) ** 2).sum(axis=0) for part in wide()) / rows
    return Statistics(
        np.asarray(mean),
        np.sqrt(variance),
        np.min([part.min(axis=0) for part in wide()], axis=0),
        np.max([part.max(axis=0) for part in wide()], axis=0),
    )
