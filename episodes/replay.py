"""Replay an episode against its own file: its states, its ctrl, or its actions.

``state`` shows the stored states and is always valid. ``ctrl`` re-simulates from the first state
with what the actuators got, and every state must come out with the same bits. ``action`` resets
with the stored seed, or begins a branch at its first state, and steps the stored actions: positions
within ACTION_TOLERANCE and the same success. ``ctrl`` and ``action`` need the recording's MuJoCo
version and model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import mujoco
import numpy as np

from . import schema
from .arrays import Array
from .compare import Comparison, Divergence
from .environment import ReplayEnv, StateHolder, edit_as_recorded, make_env, stored_model
from .errors import EpisodesError, ReplayError
from .reader import Episode
from .tool import ToolCheck

ACTION_TOLERANCE = 1e-6
"""m or rad, on joint positions; IK in another process may differ in the last bits."""


class Mode(StrEnum):
    """Name the ways to replay."""

    STATE = "state"
    CTRL = "ctrl"
    ACTION = "action"


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """Say how a replay went."""

    episode: str
    mode: Mode
    rows: int
    ok: bool
    divergence: Divergence | None
    """The first row that differs in any bit; in ``action`` mode that alone is no failure."""
    max_position_error: float
    """m or rad, over joint positions of all rows."""
    success_stored: bool
    success_replayed: bool | None
    """None where nothing was re-simulated."""
    notes: tuple[str, ...] = ()


def replay(episode: Episode, mode: Mode = Mode.CTRL, env: ReplayEnv | None = None) -> ReplayReport:
    """Replay an episode; ReplayError when this mode cannot be had here, and which one can.

    Without ``env`` the environment is rebuilt from the file and closed again.
    """
    if episode.n_rows < 1:
        raise ReplayError(f"{episode} has no rows")
    if mode is Mode.STATE:
        return _replay_state(episode, env)
    _require_version(episode, mode)
    made = make_env(episode) if env is None else env
    try:
        require_model(episode, mode, made)
        states = np.concatenate(
            [episode.array(schema.STATES), episode.array(schema.STATE_FINAL)[None]]
        )
        if mode is Mode.CTRL:
            return _replay_ctrl(episode, made, states)
        return _replay_action(episode, made, states)
    finally:
        if env is None:
            made.close()


def _replay_ctrl(episode: Episode, env: ReplayEnv, states: Array) -> ReplayReport:
    ctrl = episode.array(schema.CTRL)
    if ctrl.shape[1] != env.n_substeps:
        raise ReplayError(
            f"{episode} has {ctrl.shape[1]} physics steps a row, the environment {env.n_substeps}"
        )
    edit_as_recorded(episode, env)
    env.restore(states[0])
    compared, flags = Comparison(episode), list[bool]()
    compared.written(episode, schema.CTRL, schema.STATES, schema.STATE_FINAL, schema.SUCCESS)
    compared.state(0, states[0], env.integration_state())
    for row in range(len(ctrl)):
        info = env.apply_ctrl(ctrl[row])
        flags.append(bool(info["success"]))
        compared.state(row + 1, states[row + 1], env.integration_state())
    same = compared.success(episode.array(schema.SUCCESS), flags)
    return _report(episode, Mode.CTRL, compared, same and compared.divergence is None, flags)


def _replay_action(episode: Episode, env: ReplayEnv, states: Array) -> ReplayReport:
    actions = episode.array(schema.ACTIONS).astype(np.float32)
    env.reset(seed=episode.seed)
    if (drawn := getattr(env, "edits", None)) is not None and drawn != episode.edits:
        raise ReplayError(
            f"{episode} has {len(episode.edits)} edits of its model, and its environment now draws "
            "others from the same seed: use --mode ctrl, which takes the stored ones"
        )
    if episode.attrs.get("branch_row", -1) >= 0:  # it begins in the middle of another
        env.restore(states[0], episode.array(schema.CONTROLLER_STATE)[0])
    compared, flags = Comparison(episode), list[bool]()
    compared.written(episode, schema.ACTIONS, schema.STATES, schema.STATE_FINAL, schema.SUCCESS)
    compared.state(0, states[0], env.integration_state())
    for row, action in enumerate(actions):
        info = env.step(action)[-1]
        flags.append(bool(info["success"]))
        compared.state(row + 1, states[row + 1], env.integration_state())
    compared.success(episode.array(schema.SUCCESS), flags)
    ok = compared.max_position_error <= ACTION_TOLERANCE and flags[-1] == _last_success(episode)
    return _report(episode, Mode.ACTION, compared, ok, flags)


def _replay_state(episode: Episode, env: ReplayEnv | None) -> ReplayReport:
    holder, notes = _state_holder(episode, env)
    try:
        edit_as_recorded(episode, holder)
        compared = Comparison(episode)
        compared.notes.extend(notes)
        compared.written(episode, schema.STATES)
        states, observed = episode.array(schema.STATES), ToolCheck(episode, holder)
        ok = True
        for row, state in enumerate(states):
            holder.restore(state)
            compared.state(row, state, holder.integration_state())
            if not np.isfinite(holder.data.xpos).all():
                compared.notes.append(f"body positions of row {row} are not finite")
                ok = False
                break
            ok = observed.fits(row, compared.notes) and ok
        return _report(episode, Mode.STATE, compared, ok and compared.divergence is None, None)
    finally:
        if env is None:
            holder.close()


def _state_holder(episode: Episode, env: ReplayEnv | None) -> tuple[StateHolder, list[str]]:
    """Return the first that can show the states: the environment, or the stored model."""
    reasons: list[str] = []
    attempts: tuple[Callable[[], StateHolder], ...] = (
        lambda: env or _same_env(episode),
        lambda: stored_model(episode),
    )
    for attempt in attempts:
        try:
            holder = attempt()
        except EpisodesError as error:
            reasons.append(str(error))
            continue
        if len(holder.integration_state()) == sum(episode.state_components.values()):
            return holder, reasons
        reasons.append(f"{episode}: the model at hand has another state")
    raise ReplayError("; ".join(reasons))


def _same_env(episode: Episode) -> ReplayEnv:
    made = make_env(episode)
    try:
        require_model(episode, Mode.STATE, made)
    except ReplayError:
        made.close()
        raise
    return made


def _require_version(episode: Episode, mode: Mode) -> None:
    if episode.mujoco_version != mujoco.__version__:
        raise ReplayError(
            f"{episode} was recorded with MuJoCo {episode.mujoco_version}, here is "
            f"{mujoco.__version__}: {mode} would drift; install that version "
            f'("mujoco=={episode.mujoco_version}") or use --mode state'
        )


def require_model(episode: Episode, mode: str, env: ReplayEnv) -> None:
    """Raise ReplayError unless the environment's model is the one that was recorded."""
    if env.model_sha256 != episode.model_sha256:
        raise ReplayError(
            f"{episode} was recorded on model {episode.model_sha256[:12]}, its environment now "
            f"builds {env.model_sha256[:12]}: {mode} would drift; check out the version that "
            "recorded it, or use --mode state, which takes the stored model"
        )


def _last_success(episode: Episode) -> bool:
    return bool(episode.array(schema.SUCCESS)[-1])


def _report(
    episode: Episode, mode: Mode, compared: Comparison, ok: bool, flags: list[bool] | None
) -> ReplayReport:
    return ReplayReport(
        episode=str(episode),
        mode=mode,
        rows=episode.n_rows,
        ok=ok and compared.intact,
        divergence=compared.divergence,
        max_position_error=compared.max_position_error,
        success_stored=_last_success(episode),
        success_replayed=flags[-1] if flags else None,
        notes=tuple(compared.notes),
    )
