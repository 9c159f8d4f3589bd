"""Take arrays in: copied, typed, read-only, of the shape they claim; and find runs in flags."""

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from .errors import RecordError

Array = npt.NDArray[np.float64]


def is_finite(array: npt.NDArray) -> bool:
    """Say whether no entry is NaN or infinite; quick, since rows are checked as they come."""
    flat = array.ravel()
    # squares neither cancel nor warn; only a sum that overflows needs the longer look
    return math.isfinite(flat.dot(flat)) or bool(np.isfinite(array).all())


def _matches(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(
        want is None or want == have for want, have in zip(wanted, shape, strict=True)
    )


def taken(value: npt.ArrayLike, shape: tuple[int | None, ...], name: str) -> Array:
    """Copy ``value`` into a read-only float64 array of ``shape`` (None: any length there)."""
    array = np.array(value, dtype=np.float64)
    if array.shape != shape and not _matches(array.shape, shape):
        raise RecordError(f"{name} must have shape {shape}, got {array.shape}")
    array.flags.writeable = False
    return array


def taken_finite(value: npt.ArrayLike, shape: tuple[int | None, ...], name: str) -> Array:
    """Copy as ``taken`` does and refuse NaN and infinity, naming the first index."""
    array = taken(value, shape, name)
    if not is_finite(array):
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise RecordError(f"{name}{list(index)} is {array[index]}; it must be finite")
    return array


def taken_observation(observation: Mapping[str, npt.NDArray], name: str) -> dict[str, npt.NDArray]:
    """Copy a flat observation, dtypes kept; refuse nesting and non-finite numbers."""
    copied: dict[str, npt.NDArray] = {}
    for key, value in observation.items():
        if "/" in key or not isinstance(value, np.ndarray):
            raise RecordError(f"{name}[{key!r}] must be one flat numpy array, got {type(value)}")
        array = value.copy()
        if array.dtype.kind == "f" and not is_finite(array):
            raise RecordError(f"{name}[{key!r}] is not finite: {array.tolist()}")
        array.flags.writeable = False
        copied[key] = array
    return copied


def runs(on: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the half-open ranges in which ``on`` (T,) holds."""
    edges = np.diff(np.concatenate([[0], on.astype(np.int8), [0]]))
    starts, ends = np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist()
    return list(zip(starts, ends, strict=True))
