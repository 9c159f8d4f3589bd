"""Go back along an episode's rows, and on from there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kinematics.frames import Array
from teleop_agent.frame import OperatorFrame

Observation = Mapping[str, npt.NDArray[np.float32]]

SILENCE_NS = 250_000_000
"""Without a frame for so long nobody knows what the buttons do."""


class Restorable(Protocol):
    """What rewinding needs of an environment."""

    def integration_state(self) -> Array:
        """Return the simulation's whole state (D,)."""
        ...

    def restore(self, state: Array, memory: Array | None = None) -> None:
        """Go to a state (D,), the controllers to their ``memory`` (C,)."""
        ...

    def controller_memory(self) -> Array:
        """Return what the arms' controllers remember (C,)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """Hold where a row began, and what the episode had come to by then."""

    state: Array
    """(D,)"""
    memory: Array
    """(C,)"""
    observation: Observation
    held: int = 0
    """Rows for which the task had been solved."""
    success: bool = False
    late: bool = False
    """Whether the row's own tick was late."""


@dataclass(frozen=True, slots=True, eq=False)
class Rejected:
    """Say what a rewind took away: all rows from ``first`` on."""

    first: int
    """Rows that are kept, of which the next one follows."""
    state: Array
    """(D,) after the last row that was taken away."""
    observation: Observation
    """And what was seen there."""
    success: bool
    late: int
    """Late ticks in those rows."""


class Rewind:
    """Remember one episode's rows and go back along them."""

    def __init__(self, env: Restorable, rows_a_tick: float) -> None:
        self._env, self._speed = env, rows_a_tick
        self._trail: list[Moment] = []
        self._cursor = 0.0
        self._latest: Moment | None = None
        """Where the rewind began, while it is under way."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._trail)

    def take(self, moment: Moment) -> None:
        """Remember one more row."""
        self._trail.append(moment)

    def begin(self, observation: Observation, success: bool) -> None:
        """Set out from where the episode stands."""
        state, memory = self._env.integration_state(), self._env.controller_memory()
        self._latest = Moment(state, memory, observation, success=success)
        self._cursor = float(len(self._trail))

    def scrub(self, newest: OperatorFrame | None, now_ns: int) -> None:
        """Show the state some rows back; stand still while nobody can tell what is held."""
        if newest is None or now_ns - newest.t_recv_ns > SILENCE_NS:
            return
        self._cursor = max(0.0, self._cursor - self._speed)
        self._show(self._trail[int(self._cursor)])

    def end(self) -> tuple[Moment, Rejected] | None:
        """Take the rows after the cursor away; return where to go on and what was taken, if any."""
        first, latest = int(self._cursor), self._latest
        assert latest is not None, "end() without begin()"
        self._latest = None
        taken = self._trail[first:]
        if not taken:
            return None
        del self._trail[first:]
        self._show(taken[0])
        late = sum(moment.late for moment in taken)
        return taken[0], Rejected(first, latest.state, latest.observation, latest.success, late)

    def call_off(self) -> None:
        """Return to where the rewind began, if one is under way."""
        if self._latest is not None:
            self._show(self._latest)
            self._latest = None

    def _show(self, moment: Moment) -> None:
        self._env.restore(moment.state, moment.memory)
