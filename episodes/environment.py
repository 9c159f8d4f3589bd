"""The environment of an episode, rebuilt from its file, as a replay sees it."""

from typing import Any, Protocol, cast

import gymnasium as gym
import mujoco
import numpy as np
import numpy.typing as npt
from gymnasium.envs.registration import EnvSpec

from kinematics.edits import ModelEditor, ModelEdits

from .arrays import Array
from .compiled import load_model
from .errors import ReplayError
from .reader import Episode


class StateHolder(Protocol):
    """What can show a stored state: an environment, or the stored model alone."""

    @property
    def model(self) -> mujoco.MjModel:
        """The compiled model."""
        ...

    @property
    def data(self) -> mujoco.MjData:
        """The simulation."""
        ...

    def restore(self, state: Array, memory: Array | None = None) -> None:
        """Set ``mjSTATE_INTEGRATION`` (D,) and derived quantities; the controllers at rest there,
        or to their ``memory`` (C,)."""
        ...

    def integration_state(self) -> Array:
        """Return ``mjSTATE_INTEGRATION`` (D,)."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


class ReplayEnv(StateHolder, Protocol):
    """What a replay needs of ``env.unwrapped``; nothing else crosses."""

    @property
    def model_sha256(self) -> str:
        """SHA-256 of the compiled model's ``mj_saveModel`` bytes."""
        ...

    @property
    def n_substeps(self) -> int:
        """Physics steps of a control step."""
        ...

    def apply_ctrl(self, ctrl: Array) -> dict[str, Any]:
        """Run one control step from recorded ctrl (n_substeps, nu); return ``info``."""
        ...

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset as Gymnasium does."""
        ...

    def step(self, action: npt.NDArray[np.float32]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step as Gymnasium does."""
        ...

    def render(self) -> Any:
        """Return a picture (H, W, 3) uint8 when made with ``render_mode="rgb_array"``."""
        ...


class StoredModel:
    """Show states on the model that is stored beside the episode, without an environment."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self.model = model
        self.data = mujoco.MjData(model)
        self._editor = ModelEditor(model)

    def edit(self, edits: ModelEdits) -> None:
        """Make it the model of the episode with these edits."""
        self._editor.apply(edits)

    def restore(self, state: Array, memory: Array | None = None) -> None:
        """Set the state and what follows from it; there are no controllers to remember."""
        mujoco.mj_setState(self.model, self.data, state, _INTEGRATION)
        mujoco.mj_forward(self.model, self.data)

    def integration_state(self) -> Array:
        """Return ``mjSTATE_INTEGRATION`` (D,)."""
        state = np.empty(mujoco.mj_stateSize(self.model, _INTEGRATION))
        mujoco.mj_getState(self.model, self.data, state, _INTEGRATION)
        return state

    def close(self) -> None:
        """Do nothing; environments have it."""


_INTEGRATION = int(mujoco.mjtState.mjSTATE_INTEGRATION)


def stored_model(episode: Episode) -> StoredModel:
    """Load the compiled model that the episode names; ReplayError when it is not there."""
    path = episode.model_file
    if not path.exists():
        raise ReplayError(f"{episode}: its model {path} is missing; copy the run's models/ folder")
    return StoredModel(load_model(path))


def edit_as_recorded(episode: Episode, holder: StateHolder) -> None:
    """Give the model the episode's edits; ReplayError when that cannot be."""
    edits, edit = episode.edits, getattr(holder, "edit", None)
    if edit is None and edits:
        raise ReplayError(
            f"{episode} was recorded on an edited model ({len(edits)} numbers), but {holder} has "
            "no edit(): use the environment that recorded it, or --mode state"
        )
    if edit is not None:
        try:
            edit(edits)
        except ValueError as error:
            raise ReplayError(f"{episode}: its edits do not fit the model: {error}") from error


def make_env(episode: Episode, render_mode: str | None = None) -> ReplayEnv:
    """Rebuild the episode's environment from the spec in its file, with this ``render_mode``."""
    try:
        spec = EnvSpec.from_json(episode.env_spec_json)
        made = gym.make(spec, render_mode=render_mode, disable_env_checker=True)
    except (ImportError, AttributeError, TypeError, ValueError, gym.error.Error) as error:
        raise ReplayError(
            f"{episode}: its environment cannot be made ({error!r}); install the package that "
            "registers it, or replay with --mode state, which needs only the stored model"
        ) from error
    env = made.unwrapped
    needed = ("restore", "integration_state", "apply_ctrl", "model_sha256", "n_substeps")
    missing = [name for name in needed if not hasattr(env, name)]
    if missing:
        made.close()
        raise ReplayError(f"{episode}: its environment {env} cannot replay: it lacks {missing}")
    return cast(ReplayEnv, env)
