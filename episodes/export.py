"""Write episodes in other formats, one file an episode; ``FORMATS`` has them all."""

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .disk import replacing
from .errors import ExportError
from .flat import flat_columns
from .reader import Episode


@dataclass(frozen=True, slots=True)
class Format:
    """Say how an episode is written."""

    suffix: str
    write: Callable[[Episode, Path], None]
    """Write an episode into a file that is not there yet."""


def write_csv(episode: Episode, path: Path) -> None:
    """Write one line a control step under a line of headers, UTF-8, as RFC 4180 has it.

    Numbers are Python's repr: read back with ``float``, they are the same bits; NaN is ``nan``.
    """
    columns = flat_columns(episode)
    # newline="": the line ends are the csv module's on every system.
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([column.header for column in columns])
        writer.writerows(zip(*(column.values for column in columns), strict=True))


def write_npz(episode: Episode, path: Path) -> None:
    """Write every dataset under its path, and the attributes as a JSON text named ``attrs``.

    NumPy alone reads it, without pickle. What HDF5 keeps as words becomes NumPy's bytes.
    """
    with episode.held():
        arrays = {name: _plain(episode.array(name)) for name in episode.paths()}
    attrs = json.dumps(dict(episode.attrs), default=_as_json, ensure_ascii=False)
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, attrs=np.array(attrs), **arrays)


def _plain(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array that needs no pickle, without h5py's notes on its type."""
    return array.astype("S" if array.dtype.kind == "O" else array.dtype.str)


def _as_json(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no place in JSON")


FORMATS: dict[str, Format] = {
    "csv": Format(".csv", write_csv),
    "npz": Format(".npz", write_npz),
}
"""By the name that ``--format`` takes."""


def export(
    episodes: Sequence[Episode], folder: Path, name: str = "csv", overwrite: bool = False
) -> list[Path]:
    """Write every episode into ``folder`` in a format of ``FORMATS``; return the files.

    ExportError, before anything is written, when a file is there already and must not be
    overwritten; and when the folder cannot be written.
    """
    if name not in FORMATS:
        raise ExportError(f"unknown format {name!r}; there are: {', '.join(FORMATS)}")
    chosen = FORMATS[name]
    targets = {folder / f"{episode.name}{chosen.suffix}": episode for episode in episodes}
    there = [path for path in targets if path.exists()]
    if there and not overwrite:
        raise ExportError(
            f"{there[0]} exists already ({len(there)} of {len(targets)} files do); choose another "
            "folder, or overwrite them: --overwrite"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, episode in targets.items():
            with replacing(path) as partial:
                chosen.write(episode, partial)
    except OSError as error:
        raise ExportError(
            f"{folder} cannot be written: {error}; choose another folder or mend its rights"
        ) from error
    return list(targets)
