"""The way of one hand through an episode as a chain of poses, row by row."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from kinematics import Side

from .finding import Place

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Stage(StrEnum):
    """Name the places at which a file knows the pose, in their order."""

    RAW = "operator_raw/{side}/matrix"
    SAMPLE = "operator/{side}_pose"
    HAND = "operator/{side}_filtered_pose"
    TARGET = "action_dict/abs_*"
    ACCEPTED = "control/robot*_accepted_*"
    TOOL = "obs/robot*_eef_*"

    def of(self, side: Side) -> str:
        """Return where in the file a side's poses are."""
        return self.value.replace("{side}", side.value)


@dataclass(frozen=True, slots=True, eq=False)
class Poses:
    """Hold one stage's poses; NaN where there is none."""

    position: Floats
    """(T, 3) [m] in world."""
    quat: Floats
    """(T, 4) as stored, in the frame that it is stored in."""
    R_world: Floats
    """(T, 3, 3) rotation of that frame in world."""
    time: Floats
    """(T,) [s]: when the pose was measured, or the tick that it belongs to."""

    @property
    def known(self) -> Flags:
        """Rows that have a pose, (T,)."""
        return np.isfinite(self.position.sum(axis=1) + self.quat.sum(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Hold what symptoms are read from: one arm's rows, of one episode or of several."""

    poses: dict[Stage, Poses]
    joined: Flags
    """(T,) the row follows the one before it: same episode, no pause, rewind or recentring."""
    engaged: Flags
    free: Flags
    """(T,) no limit took a direction away."""
    walled: Flags
    """(T,) the workspace or the arm's reach did, and no other one."""
    boxed: Flags
    """(T,) of these, the workspace, which is convex."""
    slowed: Flags
    """(T,) the limits of speed or acceleration shortened the step."""
    scale: Floats
    turn_scale: Floats
    moves: Flags
    """(T,) the hand's motion moves the tool, in all directions."""
    turns: Flags
    """(T,) the hand's rotation turns the tool, about all axes."""
    period: Floats
    """(T,) [s] of a control step."""
    filter_lag: Floats
    """(T,) [s] that the hand's filter is set to."""
    max_step: Floats
    """(T, 2) [m, rad] that a command may go in a control step; NaN where the file does not say."""
    origin: npt.NDArray[np.int64]
    """(T, 2) number of the episode, and of the row in it."""
    reason: npt.NDArray[np.str_]
    """(T,) why the guard held the arm; empty where it did not."""

    @property
    def n_rows(self) -> int:
        """Rows T."""
        return len(self.engaged)

    def place(self, begin: int, end: int | None = None) -> Place:
        """Return which rows of which episode ``begin`` up to ``end`` are; one if not given."""
        episode, row = self.origin[begin].tolist()
        return Place(episode, row, row + (1 if end is None else end - begin))

    def rows_of(self, stage: Stage) -> Flags:
        """Return where an engaged hand's step into a row (T,) can be judged at a stage."""
        known, steady = self.poses[stage].known, self.joined & self.engaged
        return steady & np.roll(self.engaged, 1) & known & np.roll(known, 1)


def joined(chains: Sequence[Chain]) -> Chain:
    """Return the rows of several episodes as one chain, in which none follows another."""

    def rows(name: str) -> Any:
        return np.concatenate([getattr(chain, name) for chain in chains])

    poses: dict[Stage, Poses] = {}
    shifts = _shifts(chains)
    for stage in Stage:
        parts = [chain.poses[stage] for chain in chains]
        times = [part.time + shift for part, shift in zip(parts, shifts, strict=True)]
        poses[stage] = Poses(
            position=np.concatenate([part.position for part in parts]),
            quat=np.concatenate([part.quat for part in parts]),
            R_world=np.concatenate([part.R_world for part in parts]),
            time=np.concatenate(times),
        )
    names = (entry.name for entry in fields(Chain) if entry.name != "poses")
    return Chain(poses=poses, **{name: rows(name) for name in names})


def _shifts(chains: Sequence[Chain]) -> list[float]:
    """Return what to add to each chain's times [s] so that they rise over all of them."""
    offset, found = 0.0, list[float]()
    for chain in chains:
        time = chain.poses[Stage.HAND].time
        found.append(offset - float(time[0]))
        offset += float(time[-1] - time[0]) + BETWEEN_S
    return found


BETWEEN_S = 10.0
"""Put between the times of two episodes, so that no lag that is looked for reaches across."""
