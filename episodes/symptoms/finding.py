"""What a symptom, a finding and a verdict are."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kinematics import Side


class Symptom(StrEnum):
    """Name the classic faults of teleoperation that can be read from recorded rows."""

    MIRRORED = "mirrored axis"
    SWAPPED = "axis swap"
    QUATERNION = "quaternion order"
    LAG = "lag"
    TRAILING = "trailing"
    JUMP = "jump"
    FROZEN = "frozen stretch"
    STICKING = "limit sticking"


class Verdict(StrEnum):
    """Say what came of looking for a symptom; the later, the worse."""

    NONE = "none"
    UNKNOWN = "cannot tell"
    """There was not enough motion, or too little was recorded."""
    HELD = "held"
    """The stream had it, and the guard held the arm: the rows are sound."""
    FOUND = "FOUND"


class Place(NamedTuple):
    """Name a stretch of rows."""

    episode: int
    """Its number."""
    row: int
    """The first."""
    end: int
    """One more than the last."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Say what was found of one symptom, at one arm."""

    symptom: Symptom
    side: Side
    verdict: Verdict
    evidence: str
    """The figures behind the verdict, in words."""
    places: tuple[Place, ...] = ()
    """Where; empty where all of the motion shows it."""
    figures: dict[str, float] = field(default_factory=dict)
    """The same figures by name; units are in the names."""

    @property
    def advice(self) -> str:
        """What to look at next; empty unless something was found."""
        return ADVICE[self.symptom] if self.verdict in (Verdict.FOUND, Verdict.HELD) else ""


ADVICE = {
    Symptom.MIRRORED: "an axis table with a minus too many or too few: compare "
    "operator/*_T_world_tracking and the device's axes with docs/conventions.md",
    Symptom.SWAPPED: "two axes were exchanged between the frames named: compare their tables with "
    "docs/conventions.md, position and rotation each",
    Symptom.QUATERNION: "a quaternion was taken in another order, or inverted: files and MuJoCo "
    "have w, x, y, z; scipy and many runtimes x, y, z, w",
    Symptom.LAG: "look at timing/* and operator/*_t_recv_ns for the stage that waits: a queue that "
    "is not drained, a heavy filter, a slow link",
    Symptom.TRAILING: "servo gains too soft, or no velocity feed-forward: the tool is behind in "
    "proportion to speed",
    Symptom.JUMP: "look at these rows in `replay --view`, and at operator/*_guard_reason before "
    "them: a lost pose that came back elsewhere, or a clutch that did not take a new anchor",
    Symptom.FROZEN: "tracking or a reader stood still while the hand moved: light, the cameras' "
    "view of the controller, the link; drop these rows from training",
    Symptom.STICKING: "the limit clips the target but does not slide the clutch's anchor: motion "
    "back from a wall, or along it, must count at once",
}
