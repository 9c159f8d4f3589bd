"""Compare replayed states with stored ones, bit for bit."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .arrays import Array
from .reader import Episode


@dataclass(frozen=True, slots=True)
class Divergence:
    """Say where two state vectors first differ."""

    row: int
    """The row whose stored state is not met; T for the state after the last row."""
    component: str
    """Such as ``qpos[3]``."""
    error: float
    """Largest absolute difference in that row [the component's unit]."""

    def __str__(self) -> str:
        return f"row {self.row}, {self.component}, largest error {self.error:.3g}"


def first_difference(
    row: int, stored: Array, got: Array, components: dict[str, int]
) -> Divergence | None:
    """Return where ``got`` differs from ``stored`` (D,) in any bit, or None."""
    differs = stored.view(np.uint64) != got.view(np.uint64)
    if not differs.any():
        return None
    index = int(np.argmax(differs))
    error = largest_difference(stored, got)
    for name, size in components.items():
        if index < size:
            return Divergence(row, f"{name}[{index}]", error)
        index -= size
    return Divergence(row, "beyond the known components", error)


def largest_difference(stored: Array, got: Array) -> float:
    """Return the largest absolute difference; infinite when any number is not finite."""
    if not (np.isfinite(stored).all() and np.isfinite(got).all()):
        return float("inf")
    return float(np.max(np.abs(stored - got), initial=0.0))


class Comparison:
    """Gather what a replay meets, row by row."""

    def __init__(self, episode: Episode) -> None:
        self.divergence: Divergence | None = None
        self.max_position_error = 0.0
        self.notes: list[str] = []
        self.intact = True
        self._components = episode.state_components
        names = list(self._components)
        start = sum(self._components[name] for name in names[: names.index("qpos")])
        self._qpos = slice(start, start + self._components["qpos"])

    def written(self, episode: Episode, *paths: str) -> None:
        """Check that the datasets of a replay are what was written, bit for bit.

        Physics may swallow a wrong bit: a ctrl below the resolution of the force it makes.
        """
        for path in paths:
            if not episode.intact(path):
                self.notes.append(f"{path} is not what was written")
                self.intact = False

    def state(self, row: int, stored: Array, got: Array) -> None:
        """Take the stored and the replayed state (D,) before ``row``."""
        error = largest_difference(stored[self._qpos], got[self._qpos])
        self.max_position_error = max(self.max_position_error, error)
        if self.divergence is None:
            self.divergence = first_difference(row, stored, got, self._components)

    def success(self, stored: npt.NDArray[np.bool_], got: list[bool]) -> bool:
        """Say whether the task judged every row as it did then."""
        wrong = np.flatnonzero(stored != np.array(got, dtype=bool))
        if len(wrong):
            row = int(wrong[0])
            self.notes.append(f"success of row {row} was {bool(stored[row])}, now {got[row]}")
        return not len(wrong)
