"""Typed look-ups in HDF5 files, whose errors say which file lacks what."""

from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from .errors import FileFormatError


def group_at(parent: h5py.Group, path: str) -> h5py.Group:
    """Return a group, or raise FileFormatError."""
    found = _at(parent, path)
    if not isinstance(found, h5py.Group):
        raise FileFormatError(f"{_where(parent)}/{path} is not a group")
    return found


def dataset_at(parent: h5py.Group, path: str) -> h5py.Dataset:
    """Return a dataset, or raise FileFormatError."""
    found = _at(parent, path)
    if not isinstance(found, h5py.Dataset):
        raise FileFormatError(f"{_where(parent)}/{path} is not a dataset")
    return found


def array_at(parent: h5py.Group, path: str) -> npt.NDArray[Any]:
    """Return a dataset's whole content, or raise FileFormatError."""
    try:
        return np.asarray(dataset_at(parent, path)[()])
    except OSError as error:
        raise FileFormatError(f"{_where(parent)}/{path} cannot be read: {error}") from error


def attrs_of(item: h5py.Group | h5py.Dataset) -> dict[str, Any]:
    """Return all attributes as plain values: str, int, float, bool or arrays."""
    try:
        return {str(key): _plain(item.attrs[key]) for key in item.attrs}
    except (OSError, TypeError) as error:
        raise FileFormatError(f"attributes of {_where(item)} cannot be read: {error}") from error


def attr(attrs: Mapping[str, Any], name: str, kind: type, where: object) -> Any:
    """Return one attribute of a kind, or raise FileFormatError."""
    value = attrs.get(name)
    if kind is float and isinstance(value, int):
        value = float(value)
    if type(value) is not kind:
        raise FileFormatError(f"{where}: attribute {name} must be {kind.__name__}, is {value!r}")
    return value


def set_attrs(item: h5py.Group | h5py.Dataset, attrs: Mapping[str, Any]) -> None:
    """Write attributes; lists of words become variable-length strings."""
    for key, value in attrs.items():
        words = isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value)
        if words and value:
            item.attrs.create(key, value, dtype=h5py.string_dtype())
        else:
            item.attrs[key] = value


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return [item.decode() if isinstance(item, bytes) else str(item) for item in value.flat]
    return value


def _at(parent: h5py.Group, path: str) -> object:
    try:
        return parent[path]
    except (KeyError, OSError) as error:
        raise FileFormatError(f"{_where(parent)}/{path} is missing or broken: {error}") from error


def _where(item: h5py.Group | h5py.Dataset) -> str:
    return f"{item.file.filename}:{item.name}".rstrip("/")
