"""What goes wrong with a controller's tracking, on purpose."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from kinematics import Side
from kinematics.frames import Array

from ...errors import TeleopError
from ...frame import TrackedPose
from .stroke import SECOND_NS


class FaultKind(StrEnum):
    """Name what happens to the poses; buttons go on."""

    DROPOUT = "dropout"
    """The runtime says that the pose is not valid."""
    JUMP = "jump"
    """The poses are somewhere else."""
    FROZEN = "frozen"
    """The last pose is repeated as if it were new."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Spoil one controller's poses for a while."""

    kind: FaultKind
    start_s: float
    """Since the device's first sample."""
    duration_s: float
    side: Side = Side.RIGHT

    def __post_init__(self) -> None:
        if not (self.start_s >= 0.0 and 0.0 < self.duration_s < math.inf):
            raise TeleopError(f"a fault starts at >= 0 s and lasts > 0 s, got {self}")


@dataclass(frozen=True, slots=True)
class FaultConfig:
    """Choose the faults; none by default."""

    planned: tuple[Fault, ...] = ()
    """At given times."""
    each_episode: FaultKind | None = None
    """Once in every episode, to a hand that holds its arm."""
    duration_s: float = 0.3
    """Of that one: a hand out of the cameras' sight for a moment."""
    window_s: tuple[float, float] = (0.1, 4.0)
    """It begins after the hand has held its arm for so long, drawn uniformly; a pick holds it for
    5 s or more."""
    jump_m: float = 0.4
    """How far poses jump: as after a hand was re-found in the wrong place."""

    def __post_init__(self) -> None:
        first, last = self.window_s
        if not (0.0 <= first <= last < math.inf and self.duration_s > 0.0):
            raise TeleopError(f"fault window must rise from >= 0 s, duration be > 0 s, got {self}")


class FaultInjector:
    """Spoil poses by plan, and once in an episode if so configured."""

    def __init__(self, config: FaultConfig, rng: np.random.Generator) -> None:
        self._config, self._rng = config, rng
        self._planned = list(config.planned)
        self._last: dict[Side, Array] = {}
        self._jumps: dict[Fault, Array] = {}
        self._left_ns = 0

    def begin_episode(self) -> None:
        """Draw when the episode's fault comes."""
        self._left_ns = round(self._rng.uniform(*self._config.window_s) * SECOND_NS)

    def work(self, since_start_ns: int, holding: Sequence[Side], period_ns: int) -> None:
        """Take note that in this sample these hands hold their arms: the fault comes closer."""
        before, self._left_ns = self._left_ns, self._left_ns - period_ns
        if self._config.each_episode is not None and self._left_ns <= 0 < before:
            self._planned.append(
                Fault(
                    self._config.each_episode,
                    since_start_ns / SECOND_NS,
                    self._config.duration_s,
                    holding[int(self._rng.integers(len(holding)))],
                )
            )

    def apply(self, since_start_ns: int, side: Side, pose: TrackedPose) -> TrackedPose:
        """Return the pose as published."""
        t_s = since_start_ns / SECOND_NS
        for fault in self._planned:
            if fault.side is side and fault.start_s <= t_s < fault.start_s + fault.duration_s:
                pose = self._spoil(fault, pose)
        self._last[side] = pose.matrix
        return pose

    def _spoil(self, fault: Fault, pose: TrackedPose) -> TrackedPose:
        if fault.kind is FaultKind.DROPOUT:
            return replace(pose, valid=False, tracked=False)
        if fault.kind is FaultKind.FROZEN:
            return replace(pose, matrix=self._last.get(fault.side, pose.matrix))
        if fault not in self._jumps:
            way = self._rng.standard_normal(3)
            self._jumps[fault] = way * (self._config.jump_m / np.sqrt(np.sum(way * way)))
        matrix = pose.matrix.copy()
        matrix[:, 3] = (matrix[:, 3] + self._jumps[fault]).astype(np.float32)
        return replace(pose, matrix=matrix)
