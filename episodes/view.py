"""Show an episode in the window of its environment, with the frames that its rows hold."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

import numpy as np

from kinematics import Side

from . import schema
from .arrays import Array
from .environment import edit_as_recorded, make_env
from .errors import ReplayError
from .reader import Episode
from .replay import require_model
from .symptoms import chain_of, marks
from .symptoms.chain import Chain, Stage
from .symptoms.turns import conjugated, product, quats_of


class Window(Protocol):
    """What is needed of an environment with ``render_mode="human"`` beside a replay's."""

    @property
    def window_open(self) -> bool:
        """Whether the window stands."""
        ...

    def mark(self, marks: Mapping[str, Array], message: str = "") -> None:
        """Draw frames, poses (7,) by name, from the next ``render`` on."""
        ...


def view(
    episode: Episode,
    speed: float = 1.0,
    render_mode: str = "human",
    seen: Callable[[int, Any], None] = lambda row, picture: None,
) -> int:
    """Show the stored states, ``speed`` times as fast as they were; return how many rows.

    Ends with the last row, or when the window is closed. With ``render_mode="rgb_array"`` nothing
    waits, and ``seen`` gets every row's picture (H, W, 3). ReplayError when the environment cannot
    be had here, or is not the one that recorded the episode.
    """
    if not speed > 0.0:
        raise ReplayError(f"speed must be > 0, got {speed}")
    env = make_env(episode, render_mode)
    try:
        if not hasattr(env, "mark"):
            raise ReplayError(f"{episode}: its environment {env} draws no frames: it lacks mark()")
        require_model(episode, "view", env)
        edit_as_recorded(episode, env)
        window, frames, says = cast(Window, env), frames_of(episode), _says(episode)
        period, next_s = 1.0 / (float(episode.attrs["control_hz"]) * speed), time.monotonic()
        for row, state in enumerate(episode.array(schema.STATES)):
            env.restore(state)
            window.mark({name: poses[row] for name, poses in frames.items()}, says(row))
            seen(row, env.render())
            if render_mode == "human":
                if not window.window_open:
                    return row + 1
                next_s += period
                time.sleep(max(0.0, next_s - time.monotonic()))
        return episode.n_rows
    finally:
        env.close()


def frames_of(episode: Episode) -> dict[str, Array]:
    """Return what to draw, poses (T, 7) in world by name; NaN where there is none.

    Of each arm the hand as the clutch maps it (while engaged, from where the tool was commanded
    then), the command that was accepted in the row, and the tool as the row saw it.
    """
    found: dict[str, Array] = {}
    for robot, side in enumerate(episode.sides):
        chain = chain_of(episode, side)
        told = chain.poses[Stage.ACCEPTED]
        found[f"{side} hand"] = mapped_hand(chain)
        found[f"{side} target"] = np.hstack([told.position, told.quat])
        observed = episode.observations()
        keys = [f"robot{robot}_eef_pos", f"robot{robot}_eef_quat"]
        if all(key in observed for key in keys):
            found[f"{side} tool"] = np.hstack([observed[key].astype(float) for key in keys])
    return found


def mapped_hand(chain: Chain) -> Array:
    """Return where the hand asks the tool to be (T, 7), limits aside; NaN while not engaged."""
    hand, told = chain.poses[Stage.HAND], chain.poses[Stage.ACCEPTED]
    turn = product(quats_of(hand.R_world), hand.quat)
    out = np.full((chain.n_rows, 7), np.nan)
    goes_on = chain.rows_of(Stage.HAND)
    for row in np.flatnonzero(chain.engaged & hand.known).tolist():
        if not goes_on[row] or np.isnan(out[row - 1]).any():
            out[row] = [*told.position[row], *told.quat[row]]
            continue
        moved = chain.scale[row] * (hand.position[row] - hand.position[row - 1])
        turned = product(turn[row], conjugated(turn[row - 1]))
        out[row, :3] = out[row - 1, :3] + moved
        out[row, 3:] = product(turned, out[row - 1, 3:])
    return out


def _says(episode: Episode) -> Callable[[int], str]:
    """Return what to write over a row's picture."""
    clock = episode.array(schema.T_SIM)
    engaged = {side: chain_of(episode, side).engaged for side in episode.sides}
    found = {side: marks(episode, side) for side in episode.sides}

    def words(side: Side, row: int) -> str:
        shown = [name for name, rows in found[side].items() if rows[row]]
        state = "engaged" if engaged[side][row] else "released"
        return ", ".join([f"{side} {state}", *(name.upper() for name in shown)])

    def says(row: int) -> str:
        head = f"{episode.name} row {row} of {episode.n_rows}, {clock[row] - clock[0]:.2f} s"
        return "\n".join([head, *(words(side, row) for side in episode.sides)])

    return says
