"""Check an episode against the schema, and a run against its files; the first fault comes first."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import schema
from .columns import Place, places
from .errors import EpisodesError
from .fields import Order
from .reader import Episode
from .storage import content_hash

NORM_TOLERANCE = 1e-5
"""Of a quaternion's length; observations are float32."""
CLOCK_TOLERANCE = 1e-6
"""s between a row's simulated time and its number times the step's length; adding up 1/600 s
for an hour errs by less."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Say where a file breaks its promise, and how."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def verify_episode(episode: Episode) -> list[Fault]:
    """Return all faults of an episode's file, empty when it is as the schema says."""
    with episode.held():
        return _verify(episode)


def _verify(episode: Episode) -> list[Fault]:
    faults = list(_attributes(episode))
    if faults:
        return faults  # what the rows should look like is not known
    lengths = {"T": episode.n_rows, "S": int(episode.attrs["n_substeps"])}
    stored: dict[str, npt.NDArray[Any]] = {}
    hashes: dict[str, Any] = {}
    for field in schema.FIELDS:
        for place in places(field, episode.sides):
            faults.extend(_dataset(episode, place, lengths, stored, hashes))
    if faults:
        return faults  # relations between datasets of wrong shapes mean nothing
    faults = [*_relations(episode, stored), *_observations(episode)]
    return faults or [*_hashes(episode, stored, hashes)]


def _attributes(episode: Episode) -> Iterator[Fault]:
    where = str(episode)
    if episode.attrs.get(schema.COMPLETE) != 1:
        yield Fault(where, f"attribute {schema.COMPLETE} is not 1: it was never finished")
        return
    version = episode.attrs.get("schema_version")
    if version != schema.SCHEMA_VERSION:
        yield Fault(where, f"schema_version is {version}, this reads {schema.SCHEMA_VERSION}")
        return
    for attr in schema.ATTRS:
        value = episode.attrs.get(attr.name)
        number = attr.kind is float and isinstance(value, int)
        if type(value) is not attr.kind and not number:
            yield Fault(where, f"attribute {attr.name} must be {attr.kind.__name__}, is {value!r}")
    if isinstance(episode.attrs.get("num_samples"), int) and episode.attrs["num_samples"] < 1:
        yield Fault(where, "it has no rows")
    try:
        _ = episode.sides
    except EpisodesError as error:
        yield Fault(where, str(error))


def _dataset(
    episode: Episode,
    place: Place,
    lengths: dict[str, int],
    stored: dict[str, npt.NDArray[Any]],
    hashes: dict[str, Any],
) -> Iterator[Fault]:
    """Check a dataset; its content and the hash that it should have are kept by path."""
    where, field = f"{episode}/{place.path}", place.field
    try:
        array, attrs = episode.array(place.path), episode.dataset_attrs(place.path)
    except EpisodesError as error:
        yield Fault(where, str(error))
        return
    stored[place.path], hashes[place.path] = array, attrs.get(schema.SHA256)
    if array.dtype != np.dtype(field.dtype):
        yield Fault(where, f"is {array.dtype}, must be {np.dtype(field.dtype)}")
        return
    if not _fits(array.shape, field.shape, lengths, len(episode.sides)):
        known = {name: lengths[name] for name in sorted(lengths)}
        yield Fault(where, f"has shape {array.shape}, must be {field.shape} with {known}")
        return
    if not {"unit", "description"} <= attrs.keys():
        yield Fault(where, "lacks the attribute unit or description")
    if field.quat is not None and attrs.get("quat_order") != "wxyz":
        yield Fault(where, f"quat_order is {attrs.get('quat_order')!r}, must be 'wxyz'")
    yield from _content(where, place, array)


def _content(where: str, place: Place, array: npt.NDArray[Any]) -> Iterator[Fault]:
    field = place.field
    if field.finite and array.dtype.kind == "f" and not np.isfinite(array).all():
        index = np.argwhere(~np.isfinite(array))[0].tolist()
        yield Fault(where, f"is not finite at {index}")
        return
    if field.order is not Order.FREE:
        steps = np.diff(array)
        wrong = np.flatnonzero(steps <= 0 if field.order is Order.STRICT else steps < 0)
        if len(wrong):
            row = int(wrong[0]) + 1
            yield Fault(where, f"row {row} is {array[row]} after {array[row - 1]}")
    if field.quat is not None:
        for start in range(field.quat, array.shape[1] - field.quat, 4):
            yield from _quaternions(where, array[:, start : start + 4], continuous=True)


def _quaternions(where: str, quats: npt.NDArray[Any], continuous: bool) -> Iterator[Fault]:
    """Check (T, 4); rows of NaN stand for "there was none"."""
    known = np.flatnonzero(np.isfinite(quats).all(axis=1))
    rows = quats[known].astype(np.float64)
    wrong = np.flatnonzero(np.abs(np.linalg.norm(rows, axis=1) - 1.0) > NORM_TOLERANCE)
    if len(wrong):
        row = int(known[wrong[0]])
        yield Fault(where, f"quaternion of row {row} is {quats[row].tolist()}, not of length 1")
    if continuous:
        flips = np.flatnonzero(np.einsum("ij,ij->i", rows[1:], rows[:-1]) < 0.0)
        if len(flips):
            yield Fault(where, f"quaternion changes its sign in row {int(known[flips[0] + 1])}")


def _fits(
    shape: tuple[int, ...], wanted: tuple[str | int, ...], lengths: dict[str, int], n_arms: int
) -> bool:
    """Compare a shape with the schema's; letters met for the first time are bound."""
    if len(shape) != len(wanted):
        return False
    for have, want in zip(shape, wanted, strict=True):
        if isinstance(want, int):
            fits = have == want
        elif want.endswith("n") and want[:-1].isdigit():
            fits = have == int(want[:-1]) * n_arms
        elif want.endswith("n"):
            fits = have % n_arms == 0
        else:
            fits = have == lengths.setdefault(want, have)
        if not fits:
            return False
    return True


def _relations(episode: Episode, stored: dict[str, npt.NDArray[Any]]) -> Iterator[Fault]:
    actions, dones, times = stored[schema.ACTIONS], stored["dones"], stored[schema.T_SIM]
    outside = np.argwhere(np.abs(actions) > 1.0)
    if len(outside):
        at = outside[0].tolist()
        yield Fault(f"{episode}/{schema.ACTIONS}", f"{at} is {actions[tuple(at)]}, beyond [-1, 1]")
    if dones[-1] != 1 or dones[:-1].any():
        yield Fault(f"{episode}/dones", "must be 1 on the last row and 0 on all others")
    step = int(episode.attrs["n_substeps"]) * float(episode.attrs["physics_dt"])
    drift = np.abs(times - times[0] - step * np.arange(len(times)))
    if drift.max() > CLOCK_TOLERANCE:
        row = int(np.argmax(drift > CLOCK_TOLERANCE))
        yield Fault(f"{episode}/{schema.T_SIM}", f"row {row} is {drift[row]:.3g} s off its step")
    try:
        _ = episode.edits
    except EpisodesError as error:
        yield Fault(f"{episode}/{schema.EDIT_VALUE}", str(error))
    components = episode.state_components
    if sum(components.values()) != stored[schema.STATES].shape[1]:
        yield Fault(f"{episode}/{schema.STATES}", f"attribute sizes {components} do not add up")
    elif next(iter(components)) == "time" and (stored[schema.STATES][:, 0] != times).any():
        row = int(np.argmax(stored[schema.STATES][:, 0] != times))
        yield Fault(f"{episode}/{schema.T_SIM}", f"row {row} is not the time of its state")


def _hashes(
    episode: Episode, stored: dict[str, npt.NDArray[Any]], hashes: dict[str, Any]
) -> Iterator[Fault]:
    for path in episode.paths():
        read = path in stored
        if not (content_hash(stored[path]) == hashes[path] if read else episode.intact(path)):
            what = "is not what was written: its bytes do not have the hash in attribute sha256"
            yield Fault(f"{episode}/{path}", what)


def _observations(episode: Episode) -> Iterator[Fault]:
    try:
        observations = episode.observations()
    except EpisodesError as error:
        yield Fault(f"{episode}/{schema.OBS}", str(error))
        return
    for key, array in observations.items():
        where = f"{episode}/{schema.OBS}/{key}"
        known = schema.observation_field(key)
        if len(array) != episode.n_rows:
            yield Fault(where, f"has {len(array)} rows, must have {episode.n_rows}")
        elif array.dtype.kind == "f" and not np.isfinite(array).all():
            yield Fault(where, f"is not finite at {np.argwhere(~np.isfinite(array))[0].tolist()}")
        elif not {"unit", "description"} <= episode.dataset_attrs(f"{schema.OBS}/{key}").keys():
            yield Fault(where, "lacks the attribute unit or description")
        elif known is not None and known.columns and array.shape[1:] != (known.columns,):
            yield Fault(where, f"has shape {array.shape}, must have {known.columns} columns")
        elif known is not None and known.quat:
            yield from _quaternions(where, array, continuous=False)
    if not observations:
        yield Fault(f"{episode}/{schema.OBS}", "is empty")
