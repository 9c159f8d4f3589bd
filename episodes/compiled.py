"""The compiled model as bytes, stored once by its hash, and the parts of its state vector."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

from . import schema
from .disk import replacing
from .errors import FileFormatError


@dataclass(frozen=True, slots=True)
class CompiledModel:
    """Hold a model as ``mj_saveModel`` writes it."""

    sha256: str
    data: bytes

    @classmethod
    def of(cls, model: mujoco.MjModel) -> "CompiledModel":
        """Serialise ``model``; the same model gives the same bytes."""
        buffer = np.empty(mujoco.mj_sizeModel(model), dtype=np.uint8)
        mujoco.mj_saveModel(model, None, buffer)
        data = buffer.tobytes()
        return cls(hashlib.sha256(data).hexdigest(), data)

    def path_in(self, run_folder: Path) -> Path:
        """Return where a run keeps this model."""
        return model_path(run_folder, self.sha256)

    def store(self, run_folder: Path) -> None:
        """Write the model into the run's folder unless it is there, whole or not at all."""
        path = self.path_in(run_folder)
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            partial.write_bytes(self.data)


def model_path(run_folder: Path, sha256: str) -> Path:
    """Return where a run keeps the model of this hash."""
    return run_folder / schema.MODELS_DIR / f"{sha256}.mjb"


def read_model(path: Path) -> bytes:
    """Return a stored model's bytes after checking that they have the hash in its name."""
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != path.stem:
        raise FileFormatError(f"{path} is damaged: its content does not have the hash in its name")
    return data


def load_model(path: Path) -> mujoco.MjModel:
    """Load a stored model, checked; FileFormatError when another MuJoCo compiled it."""
    data = read_model(path)
    try:
        # From memory: MuJoCo's own file calls do not take every path on every system.
        return mujoco.MjModel.from_binary_path("model.mjb", {"model.mjb": data})
    except ValueError as error:
        raise FileFormatError(
            f"{path} was compiled by another MuJoCo than {mujoco.__version__}: {error}"
        ) from error


def state_components(model: mujoco.MjModel) -> dict[str, int]:
    """Return name and size of each part of ``mjSTATE_INTEGRATION``, in the vector's order."""
    parts: dict[str, int] = {}
    every = int(mujoco.mjtState.mjSTATE_INTEGRATION)
    for bit in range(int(mujoco.mjtState.mjNSTATE)):
        if every & (1 << bit):
            name = mujoco.mjtState(1 << bit).name.removeprefix("mjSTATE_").lower()
            size = mujoco.mj_stateSize(model, 1 << bit)
            if size:
                parts[name] = size
    return parts
