"""What one episode changes in a compiled model, as numbers that can be stored and put back.

Everything that differs from the base model is among them, also what MuJoCo derives from what was
chosen (``mj_setConst``): base model plus edits is the edited model, bit for bit.
"""

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import mujoco
import numpy as np
import numpy.typing as npt

from .errors import KinematicsError

FIELDS = (
    *("actuator_biasprm", "actuator_gainprm"),
    *("body_inertia", "body_invweight0", "body_ipos", "body_mass", "body_subtreemass"),
    *("bvh_aabb", "geom_aabb", "geom_rbound", "geom_size"),
    *("cam_fovy", "cam_mat0", "cam_pos", "cam_pos0", "cam_poscom0", "cam_quat"),
    *("dof_M0", "dof_invweight0", "dof_length"),
    *("geom_friction", "geom_pos", "geom_quat", "geom_rgba"),
    *("light_diffuse", "light_dir", "light_dir0", "light_pos", "light_pos0", "light_poscom0"),
    *("mat_rgba", "tendon_invweight0"),
    *("vis.headlight.ambient", "vis.headlight.diffuse"),
)
"""Arrays of a model that an edit may change, by their paths from ``MjModel``: no sizes, addresses
or types, with which a wrong number would end the process."""


class EditError(KinematicsError, ValueError):
    """Report edits that are damaged or do not fit a model."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelEdits:
    """Hold the numbers that differ from a base model; equal when they have the same hash."""

    fields: tuple[str, ...] = ()
    """(E,) each one of ``FIELDS``."""
    indices: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """(E,) of the number in the field's array, counted in C order."""
    values: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """(E,) in the field's own unit; float32 fields lose nothing."""

    def __post_init__(self) -> None:
        indices, values = np.array(self.indices, np.int64), np.array(self.values, np.float64)
        if not indices.shape == values.shape == (len(self.fields),):
            raise EditError(
                f"edits need as many fields, indices and values, got {len(self.fields)}, "
                f"{indices.shape} and {values.shape}"
            )
        unknown = sorted(set(self.fields) - set(FIELDS))
        if unknown:
            raise EditError(f"edits name {unknown}; what may be edited is {list(FIELDS)}")
        if not np.isfinite(values).all():
            at = int(np.flatnonzero(~np.isfinite(values))[0])
            raise EditError(f"edit {at} of {self.fields[at]} is {values[at]}; it must be finite")
        for name, array in (("indices", indices), ("values", values)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelEdits) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of names (one a line, UTF-8), indices (int64) and values (float64)."""
        names = "".join(f"{name}\n" for name in self.fields).encode()
        parts = (names, self.indices.astype("<i8").tobytes(), self.values.astype("<f8").tobytes())
        return hashlib.sha256(b"".join(parts)).hexdigest()

    def __getstate__(self) -> tuple[tuple[str, ...], bytes, bytes]:
        return self.fields, self.indices.tobytes(), self.values.tobytes()

    def __setstate__(self, state: tuple[tuple[str, ...], bytes, bytes]) -> None:
        put, (fields, indices, values) = object.__setattr__, state
        put(self, "fields", fields)
        put(self, "indices", np.frombuffer(indices, np.int64))
        put(self, "values", np.frombuffer(values, np.float64))


class ModelEditor:
    """Put edits into one model, and take them out again, without rounding."""

    def __init__(self, model: mujoco.MjModel) -> None:
        """Remember ``model`` as it stands: the base."""
        self.model = model
        self._arrays = {name: _array(model, name) for name in FIELDS}
        self._base = {name: array.copy() for name, array in self._arrays.items()}

    def reset(self) -> None:
        """Make it the base model again."""
        for name, array in self._arrays.items():
            array[...] = self._base[name]

    def apply(self, edits: ModelEdits) -> None:
        """Make it the base model with ``edits``; EditError, and no change, if they do not fit."""
        for name, index in zip(edits.fields, edits.indices.tolist(), strict=True):
            size = self._arrays[name].size
            if not 0 <= index < size:
                raise EditError(f"an edit is of {name}[{index}], the model has {size} of them")
        self.reset()
        numbers = zip(edits.fields, edits.indices.tolist(), edits.values.tolist(), strict=True)
        for name, index, value in numbers:
            self._arrays[name].flat[index] = value

    @contextlib.contextmanager
    def base(self) -> Iterator[None]:
        """Let it be the base model for a while."""
        edits = self.edits()
        self.reset()
        try:
            yield
        finally:
            self.apply(edits)

    def edits(self) -> ModelEdits:
        """Return how the model differs from the base now."""
        fields, indices, values = list[str](), list[int](), list[float]()
        for name, array in self._arrays.items():
            found = np.flatnonzero(_bits(array) != _bits(self._base[name]))
            fields += [name] * len(found)
            indices += found.tolist()
            values += array.flat[found].tolist()
        return ModelEdits(tuple(fields), np.array(indices, np.int64), np.array(values))


def _array(model: mujoco.MjModel, path: str) -> npt.NDArray[np.floating]:
    """Return a field of the model, a view."""
    found = model
    for name in path.split("."):
        found = getattr(found, name)
    return found  # pyright: ignore[reportReturnType]


def _bits(array: npt.NDArray[np.floating]) -> npt.NDArray[np.unsignedinteger]:
    """Return the numbers' bits, flat: 0 and -0 differ."""
    return np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}")
