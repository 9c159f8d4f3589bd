"""Turn an episode's rows into the columns of a file, as the schema's tables say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinematics import Side

from . import schema
from .draft import Draft
from .fields import Field, Scope
from .observations import observation_attrs
from .records import EpisodeInfo, RawDevice, RawFrame

CONTROLLERS = tuple(side.value for side in Side)
DEVICES = {Scope.DEVICE: ("head", *CONTROLLERS), Scope.CONTROLLER: CONTROLLERS}


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Hold one dataset to be: its path under the demo group, its array and its attributes."""

    path: str
    array: npt.NDArray
    attrs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Name one concrete dataset of a field."""

    path: str
    field: Field
    key: str = ""
    """Side or device that it belongs to."""


def places(field: Field, sides: Sequence[Side]) -> list[Place]:
    """Return the datasets that a field becomes for these arms."""
    if field.scope is Scope.ARM:
        return [
            Place(field.path.format(robot=i, side=side.value), field, side.value)
            for i, side in enumerate(sides)
        ]
    if field.scope in DEVICES:
        names = DEVICES[field.scope]
        return [Place(field.path.format(device=name), field, name) for name in names]
    return [Place(field.path, field)]


def columns(draft: Draft) -> list[Column]:
    """Return every dataset of an ended episode; times strictly as recorded."""
    found: list[Column] = []
    for field in schema.FIELDS:
        for place in places(field, draft.info.sides):
            array = _stack(place, draft)
            found.append(Column(place.path, array, _attrs(place, draft.info)))
    return [*found, *_observations(draft)]


def attributes(draft: Draft) -> dict[str, Any]:
    """Return every attribute of the demo group but the last, ``complete``."""
    return {attr.name: attr.kind(attr.source(draft)) for attr in schema.ATTRS}


def sign_continuous(quats: npt.NDArray) -> npt.NDArray:
    """Return wxyz quaternions (T, 4) with signs chosen so that neighbours have dot >= 0.

    Rows with NaN are left as they are and bridged.
    """
    known = np.isfinite(quats).all(axis=1)
    rows = quats[known]
    if len(rows) < 2:
        return quats
    flips = np.where(np.einsum("ij,ij->i", rows[1:], rows[:-1]) < 0.0, -1.0, 1.0)
    signs = np.concatenate([[1.0], np.cumprod(flips)])
    out = quats.copy()
    out[known] = rows * signs[:, None]
    return out


def _stack(place: Place, draft: Draft) -> npt.NDArray:
    field, info = place.field, draft.info
    match field.scope:
        case Scope.ROW:
            return _array(field, [field.source(row) for row in draft.rows], info)
        case Scope.ARM:
            side = Side(place.key)
            return _array(field, [field.source(row.hands[side]) for row in draft.rows], info)
        case Scope.ARMS:
            arms = [[field.source(row.hands[side]) for row in draft.rows] for side in info.sides]
            return np.concatenate([_array(field, arm, info) for arm in arms], axis=1)
        case Scope.RAW:
            return _array(field, [field.source(frame) for frame in draft.raw], info)
        case Scope.DEVICE | Scope.CONTROLLER:
            devices = [_device(frame, place.key) for frame in draft.raw]
            return _array(field, [field.source(device) for device in devices], info)
        case Scope.END:
            return np.asarray(field.source(draft), dtype=field.dtype)


def _array(field: Field, rows: list[Any], info: EpisodeInfo) -> npt.NDArray:
    if field.codes:
        words = getattr(info, field.codes)
        rows = [words.index(word) for word in rows]
    if not rows:
        fixed = tuple(length for length in field.shape[1:] if isinstance(length, int))
        return np.zeros((0, *fixed), dtype=field.dtype)
    array = np.asarray(rows, dtype=field.dtype)
    if field.quat is not None:
        at = slice(field.quat, field.quat + 4)
        array[:, at] = sign_continuous(array[:, at])
    return array


def _device(frame: RawFrame, name: str) -> RawDevice:
    return frame.head if name == "head" else frame.controllers[Side(name)]


def _attrs(place: Place, info: EpisodeInfo) -> dict[str, Any]:
    field = place.field
    meaning = field.meaning.replace("{side}", place.key)
    attrs: dict[str, Any] = {"unit": field.unit, "description": meaning, **field.attrs}
    names = getattr(info, field.names) if isinstance(field.names, str) else field.names
    if names:
        prefixed = [f"{side.value}_{name}" for side in info.sides for name in names]
        attrs["names"] = prefixed if field.scope is Scope.ARMS else list(names)
    if field.quat is not None:
        attrs["quat_order"] = "wxyz"
    if field.codes:
        attrs["codes"] = list(getattr(info, field.codes))
    if field.flags:
        flags: Mapping[str, int] = getattr(info, field.flags)
        attrs["flags"] = list(flags)
        attrs["bits"] = np.array(list(flags.values()), dtype=np.int64)
    if field.path == schema.ACTIONS:
        attrs |= {"gripper_sign": "-1 open, +1 closed", **info.action_attrs}
    if field.path in (schema.STATES, schema.STATE_FINAL):
        attrs["names"] = list(info.state_components)
        attrs["sizes"] = np.array(list(info.state_components.values()), dtype=np.int64)
    return attrs


def _observations(draft: Draft) -> list[Column]:
    found: list[Column] = []
    final = draft.result.observation_final
    for key, first in draft.rows[0].observation.items():
        attrs = observation_attrs(key, draft.info)
        array = np.stack([row.observation[key] for row in draft.rows]).astype(first.dtype)
        found.append(Column(f"{schema.OBS}/{key}", array, attrs))
        if final is not None:
            found.append(Column(f"{schema.OBS_FINAL}/{key}", np.asarray(final[key]), attrs))
    return found
