"""What a dataset, an observation or an attribute of the layout is; the tables are in schema."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Scope(Enum):
    """Say of what a dataset holds one row."""

    ROW = "control step"
    ARM = "control step, one dataset an arm"
    ARMS = "control step, arms side by side in the order of `sides`"
    RAW = "device sample"
    DEVICE = "device sample, one dataset a device"
    CONTROLLER = "device sample, one dataset a controller"
    END = "episode"


class Order(Enum):
    """Say how a dataset of times must run."""

    FREE = "free"
    WEAK = "never falls"
    STRICT = "always rises"


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """Describe one dataset under ``/data/demo_N``."""

    path: str
    """May hold ``{robot}`` and ``{side}`` (scope ARM) or ``{device}`` (DEVICE, CONTROLLER)."""
    scope: Scope
    shape: tuple[str | int, ...]
    """Letters are lengths, see ``schema.LENGTHS``."""
    dtype: str
    unit: str
    meaning: str
    source: Callable[[Any], Any]
    """From the record of the scope to one row."""
    quat: int | None = None
    """First column of a wxyz quaternion in one row of the source."""
    names: str | tuple[str, ...] = ()
    """Names of the columns, or the ``EpisodeInfo`` attribute that has them."""
    codes: str = ""
    """The ``EpisodeInfo`` attribute with the words that the stored numbers stand for."""
    flags: str = ""
    """The ``EpisodeInfo`` attribute with the bits that the stored numbers are made of."""
    finite: bool = True
    """NaN never occurs."""
    order: Order = Order.FREE
    attrs: Mapping[str, str] = field(default_factory=dict)
    """More attributes of the dataset."""


@dataclass(frozen=True, slots=True)
class ObservationField:
    """Describe one known key of ``obs``; ``{robot}`` is 0 or 1."""

    key: str
    columns: int | None
    """None: as many as there are."""
    unit: str
    meaning: str
    names: tuple[str, ...] = ()
    quat: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class AttrField:
    """Describe one attribute of ``/data/demo_N``."""

    name: str
    kind: type
    meaning: str
    source: Callable[[Any], Any]
    """From the ``Draft`` to the value."""
