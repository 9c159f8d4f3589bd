"""How well an episode was done: figures that tell a clean demonstration from a laboured one.

They follow from the commanded tool poses, which hold what the operator did and not what the arm's
servos made of it, and from the guard's and the clock's own records.
"""

import dataclasses
import json
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kinematics import Side
from kinematics.frames import Array

if TYPE_CHECKING:
    from .draft import Draft

STILL_M_S = 0.005
STILL_RAD_S = 0.02
"""A commanded tool slower than both stands: a hand at rest trembles by less after the filter."""
GRIPPED = 0.5
"""Closure at which a path is cut: before it is the way to an object, after it the way with it."""
SHORT_M = 0.01
"""A shorter path says nothing of efficiency."""


@dataclass(frozen=True, slots=True)
class Quality:
    """Hold the figures of an episode; shares are of its rows."""

    duration_s: float
    path_m: float
    """Way of the commanded tools, all arms."""
    efficiency: float
    """Straight distances between grasps and releases over ``path_m``; 1 is the shortest way."""
    jerk: float
    """Root mean square of the commanded tools' third derivative [m/s3]."""
    idle: float
    """Share in which no arm and no gripper was commanded to move."""
    clamped: float
    """Share in which a limit held a target back."""
    late: float
    """Share of ticks that missed their deadline."""
    losses: int
    """Times that a fault of the stream held an engaged arm."""
    clutches: int
    """Engagements, the first one included."""
    clearance_m: float = math.nan
    """Smallest distance that any arm's links came to [m]; NaN where it was not measured."""

    def json(self) -> str:
        """Return the figures as JSON."""
        return json.dumps(dataclasses.asdict(self))

    def doubts(self) -> list[str]:
        """Return in words what speaks for doing it again; empty for a good one."""
        found: list[str] = []
        if self.losses:
            found.append(f"the stream failed {self.losses} x")
        for share, most, what in (
            (self.idle, MOST_IDLE, "idle"),
            (self.clamped, MOST_CLAMPED, "at a limit"),
            (self.late, MOST_LATE, "late"),
        ):
            if share > most:
                found.append(f"{100 * share:.0f} % {what}")
        if self.clearance_m < LEAST_CLEARANCE_M:
            found.append(f"links {max(1000 * self.clearance_m, 0.0):.0f} mm apart")
        if self.efficiency < LEAST_EFFICIENCY:
            found.append(f"a way {1 / max(self.efficiency, 0.01):.0f} times as long as need be")
        return found


MOST_IDLE = 0.3
"""Pauses teach a policy to stand still; people pause for a tenth to a fifth."""
MOST_CLAMPED = 0.2
"""The target was elsewhere than the hand for a fifth of the time."""
MOST_LATE = 0.01
"""More than one tick in a hundred: time was stretched."""
LEAST_CLEARANCE_M = 0.002
"""The smallest distance that the limit keeps is 5 mm, less what the servos trail by: nearer, links
were pushed against each other, or driven there joint by joint."""
LEAST_EFFICIENCY = 0.3
"""Round an obstacle and back it is 0.5; less is searching."""


def measure(draft: "Draft") -> Quality:
    """Return the figures of an episode with rows."""
    rows, hz, sides = draft.rows, draft.info.control_hz, draft.info.sides
    paths = {side: np.array([row.hands[side].accepted_position for row in rows]) for side in sides}
    length, straight, jerks, moves = 0.0, 0.0, list[Array](), np.zeros(len(rows), dtype=bool)
    for side, path in paths.items():
        closure = np.array([row.hands[side].closure for row in rows])
        quats = np.array([row.hands[side].accepted_quat for row in rows])
        steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
        length += float(steps.sum())
        straight += _straight(path, closure)
        moves[1:] |= (steps > STILL_M_S / hz) | (_turns(quats) > STILL_RAD_S / hz)
        moves[1:] |= np.diff(closure) != 0.0
        jerks.append(np.diff(path, n=3, axis=0) * float(hz) ** 3)
    jerk = np.concatenate(jerks)
    return Quality(
        duration_s=len(rows) / hz,
        path_m=length,
        efficiency=straight / length if length > SHORT_M else 1.0,
        jerk=float(np.sqrt((jerk**2).sum(axis=1).mean())) if len(jerk) else 0.0,
        idle=float(1.0 - moves[1:].mean()) if len(rows) > 1 else 1.0,
        clamped=float(np.mean([any(hand.clamps for hand in row.hands.values()) for row in rows])),
        late=float(np.mean([row.late for row in rows])),
        losses=sum(_losses(draft, side) for side in sides),
        clutches=sum(_rises(draft, side) for side in sides),
        clearance_m=min(hand.clearance for row in rows for hand in row.hands.values()),
    )


def _straight(path: Array, closure: Array) -> float:
    """Return the sum of straight distances (T, 3) between the rows in which a gripper turns."""
    turns = np.flatnonzero(np.diff((closure > GRIPPED).astype(int))) + 1
    corners = path[[0, *turns.tolist(), len(path) - 1]]
    return float(np.linalg.norm(np.diff(corners, axis=0), axis=1).sum())


def _turns(quats: Array) -> npt.NDArray[np.float64]:
    """Return the angles [rad] between neighbours of wxyz (T, 4), by the chord: exact near zero."""
    near = np.minimum(
        np.linalg.norm(quats[1:] - quats[:-1], axis=1),
        np.linalg.norm(quats[1:] + quats[:-1], axis=1),
    )
    return 4.0 * np.arcsin(np.minimum(near / 2.0, 1.0))


def _rises(draft: "Draft", side: Side) -> int:
    engaged = np.array([False, *(row.hands[side].engaged for row in draft.rows)])
    return int((engaged[1:] & ~engaged[:-1]).sum())


def _losses(draft: "Draft", side: Side) -> int:
    """Count the rows in which an engaged hand came to be held for a reason."""
    none, hands = draft.info.guard_reasons[0], [row.hands[side] for row in draft.rows]
    return sum(
        before.engaged and not after.engaged and after.guard_reason != none
        for before, after in pairwise(hands)
    )
