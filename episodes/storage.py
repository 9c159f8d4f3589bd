"""Write one episode as one HDF5 file, and read it back to see that it is all there.

Files are built in memory and written in one go: when HDF5 itself meets a full disk, it cannot
close the file, and the process may die of it later, with all that was still to be saved.
"""

import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from . import schema
from .columns import Column
from .errors import FileFormatError
from .hdf5 import array_at, attrs_of, dataset_at, group_at, set_attrs

CHUNK_BYTES = 64 * 1024
"""About one chunk; small enough for single rows, large enough to compress."""
COMPRESS_ABOVE = 4 * 1024
"""Bytes; below, compression costs more than it saves."""


@contextmanager
def new_file(path: Path) -> Iterator[h5py.File]:
    """Yield an HDF5 file in memory, written to ``path`` when the block succeeds.

    FileExistsError when there is one already; any other error leaves what was written.
    """
    name = f"in memory {uuid.uuid4().hex}"  # HDF5 opens a name once a process, even here
    with h5py.File(name, "w", driver="core", backing_store=False) as file:
        yield file
        file.flush()
        image: bytes = file.id.get_file_image()
    with path.open("xb") as out:
        out.write(image)


def write_file(path: Path, name: str, attrs: Mapping[str, Any], columns: Sequence[Column]) -> None:
    """Write ``/data/<name>`` and what belongs to it into a new file; FileExistsError if there."""
    with new_file(path) as file:
        data = file.create_group(schema.DATA)
        demo = data.create_group(name)
        for column in columns:
            dataset = demo.create_dataset(column.path, data=column.array, **_storage(column.array))
            set_attrs(dataset, {**column.attrs, schema.SHA256: content_hash(column.array)})
        set_attrs(demo, attrs)
        write_collection(file, {name: attrs})
        demo.attrs[schema.COMPLETE] = 1


def write_collection(file: h5py.File, demos: Mapping[str, Mapping[str, Any]]) -> None:
    """Write what a trainer asks of a file: attributes of ``/data`` and the masks."""
    data = group_at(file, schema.DATA)
    newest = list(demos.values())[-1] if demos else {}
    data.attrs["total"] = sum(int(attrs["num_samples"]) for attrs in demos.values())
    data.attrs["env_args"] = newest.get("env_args", "{}")
    data.attrs["quat_order"] = "wxyz"
    data.attrs["schema_version"] = schema.SCHEMA_VERSION
    for mask in schema.MASKS:
        members = [name for name, attrs in demos.items() if _in_mask(mask, attrs)]
        width = max([len(name) for name in members], default=1)
        file.create_dataset(f"{schema.MASK}/{mask}", data=np.array(members, dtype=f"S{width}"))


def check_file(path: Path, name: str, attrs: Mapping[str, Any], columns: Sequence[Column]) -> None:
    """Reopen a file and compare it with what was to be written, bit for bit."""
    try:
        with h5py.File(path, "r") as file:
            demo = group_at(file, f"{schema.DATA}/{name}")
            stored = attrs_of(demo)
            if stored.get(schema.COMPLETE) != 1:
                raise FileFormatError(f"{path} was not written to its end")
            if stored["num_samples"] != attrs["num_samples"]:
                raise FileFormatError(f"{path} has a wrong num_samples")
            for column in columns:
                _check_column(demo, column)
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read back: {error}") from error


def content_hash(array: npt.NDArray) -> str:
    """Return the SHA-256 of an array's bytes in C order, as stored with every dataset."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _in_mask(mask: str, attrs: Mapping[str, Any]) -> bool:
    """Say whether an episode is in a mask; interrupted ones are never in ``success``."""
    if mask == "interrupted":
        return bool(attrs["interrupted"])
    return attrs["outcome"] == mask and not (mask == "success" and attrs["interrupted"])


def _check_column(demo: h5py.Group, column: Column) -> None:
    want, dataset = column.array, dataset_at(demo, column.path)
    where = f"{demo.file.filename}:{dataset.name}"
    if dataset.shape != want.shape or dataset.dtype != want.dtype:
        raise FileFormatError(
            f"{where} reads back as {dataset.dtype}{dataset.shape}, "
            f"written was {want.dtype}{want.shape}"
        )
    if array_at(demo, column.path).tobytes() != want.tobytes():
        raise FileFormatError(f"{where} reads back other numbers than were written")


def _storage(array: npt.NDArray) -> dict[str, Any]:
    if array.nbytes < COMPRESS_ABOVE or array.ndim == 0:
        return {}
    row = max(1, array.nbytes // array.shape[0])
    rows = min(array.shape[0], max(1, CHUNK_BYTES // row))
    return {
        "chunks": (rows, *array.shape[1:]),
        "compression": "gzip",
        "compression_opts": 1,  # level 4 saves 5 % more and takes three times as long
        "shuffle": True,
    }
