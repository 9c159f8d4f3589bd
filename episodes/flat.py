"""An episode's rows as one flat table: a column a number, named and with its unit."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import schema
from .columns import places
from .reader import Episode


@dataclass(frozen=True, slots=True, eq=False)
class FlatColumn:
    """Hold one column."""

    name: str
    """Path of the dataset and, where it has several columns, the name of this one."""
    unit: str
    values: Sequence[Any]
    """(T,) plain numbers, or the words that codes stand for."""

    @property
    def header(self) -> str:
        """Name and unit: ``control/robot0_accepted_pos_x [m]``."""
        return f"{self.name} [{self.unit}]"


def flat_columns(episode: Episode) -> list[FlatColumn]:
    """Return every dataset that holds a row a control step, in the schema's order, then obs.

    Bits become a column each, 0 or 1; codes become their words; everything else is exactly what is
    stored. FileFormatError for a dataset of another length.
    """
    there = set(episode.paths())
    found = [FlatColumn("row", "1", range(episode.n_rows))]
    for path in _row_paths(episode, there):
        found.extend(_flat(path, episode.array(path), episode.dataset_attrs(path)))
    return found


def _row_paths(episode: Episode, there: set[str]) -> Iterator[str]:
    for field in schema.FIELDS:
        if field.shape[0] == "T":
            paths = (place.path for place in places(field, episode.sides))
            yield from (path for path in paths if path in there)
    yield from sorted(path for path in there if path.startswith(f"{schema.OBS}/"))


def _flat(path: str, array: npt.NDArray[Any], attrs: Mapping[str, Any]) -> Iterator[FlatColumn]:
    unit = str(attrs.get("unit", "1"))
    if "flags" in attrs:
        for name, bit in zip(attrs["flags"], attrs["bits"], strict=True):
            on = (array & array.dtype.type(bit)) != 0
            yield FlatColumn(f"{path}_{name}", "bool", on.astype(int).tolist())
        return
    if "codes" in attrs:
        yield FlatColumn(path, "word", [attrs["codes"][code] for code in array.tolist()])
        return
    if array.dtype == np.bool_:
        array = array.astype(np.int64)
    if array.ndim == 1:
        yield FlatColumn(path, unit, array.tolist())
        return
    columns = array.reshape(len(array), -1)
    for n, name in enumerate(_names(array.shape[1:], attrs)):
        yield FlatColumn(f"{path}_{name}", _unit(unit, name), columns[:, n].tolist())


def _names(shape: tuple[int, ...], attrs: Mapping[str, Any]) -> Iterator[str]:
    """Yield a name for every number of a row of this shape, in C order."""
    last = [str(name) for name in attrs.get("names", ())]
    if "sizes" in attrs:  # names of parts that are several numbers each
        sizes = (int(size) for size in attrs["sizes"])
        last = [f"{part}_{k}" for part, n in zip(last, sizes, strict=True) for k in range(n)]
    if len(last) != shape[-1]:
        last = [str(n) for n in range(shape[-1])]
    outer = itertools.product(*(range(length) for length in shape[:-1]))
    yield from ("_".join([*map(str, index), name]) for index in outer for name in last)


def _unit(unit: str, name: str) -> str:
    """Return the unit of one column of a pose, whose dataset has that of both parts."""
    if unit == POSE_UNIT and name in schema.POSE:
        return POSE_UNIT.split(", ")[0 if name in schema.XYZ else 1]
    return unit


POSE_UNIT = "m, 1"
"""Unit of positions and quaternions side by side."""
