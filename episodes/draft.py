"""An episode in memory, before it is a file."""

import dataclasses
from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np

from .errors import RecordError
from .observations import observation_attrs
from .quality import Quality, measure
from .records import EpisodeInfo, EpisodeResult, RawFrame, StepRecord
from .timing import Lateness


@dataclass(slots=True, eq=False)
class Draft:
    """Gather the rows of the running episode; every row is checked against the first."""

    info: EpisodeInfo
    rows: list[StepRecord] = field(default_factory=list)
    raw: list[RawFrame] = field(default_factory=list)
    _result: EpisodeResult | None = None
    _quality: Quality | None = None

    @property
    def quality(self) -> Quality:
        """Return how well it was done; once asked for, rows must not change."""
        if self._quality is None:
            self._quality = measure(self)
        return self._quality

    @property
    def lateness(self) -> Lateness:
        """Return how late its steps were."""
        rows = self.rows
        return Lateness.of(
            np.array([row.t_due_ns for row in rows]),
            np.array([row.t_obs_ns for row in rows]),
            rows[-1].t_step_end_ns,
            self.info.control_hz,
        )

    @property
    def result(self) -> EpisodeResult:
        """Return how the episode ended; RecordError while it has not."""
        if self._result is None:
            raise RecordError("the episode has not ended; give finish() its result first")
        return self._result

    def append(self, row: StepRecord) -> None:
        """Take one row; RecordError, and no row taken, when it does not fit the episode."""
        self._check_sizes(row)
        self._check_hands(row)
        if self.rows:
            self._check_like_first(row)
        else:
            for key in row.observation:
                observation_attrs(key, self.info)
        self.rows.append(row)

    def cut(self, first: int) -> "Draft":
        """Take the rows from ``first`` on, and the raw frames of their time, into a branch."""
        if not 0 <= first < len(self.rows):
            raise RecordError(f"cannot cut at row {first} of {len(self.rows)}")
        start_ns = self.rows[first - 1].t_obs_ns if first else 0  # a row holds what came before it
        split = bisect_right(self.raw, start_ns, key=lambda frame: frame.t_recv_ns) if first else 0
        branch = Draft(
            dataclasses.replace(self.info, branch_row=first), self.rows[first:], self.raw[split:]
        )
        del self.rows[first:], self.raw[split:]
        return branch

    def end(self, result: EpisodeResult) -> None:
        """Take the result; RecordError when its state does not fit the rows."""
        if self.rows and result.state_final.shape != self.rows[0].state.shape:
            raise RecordError(
                f"state_final has {result.state_final.shape[0]} numbers, "
                f"the rows' states {self.rows[0].state.shape[0]}"
            )
        final, first = result.observation_final, self.rows[0].observation if self.rows else {}
        if final is not None and set(final) != set(first):
            raise RecordError(f"observation_final has {sorted(final)}, the rows {sorted(first)}")
        self._result = result

    def _check_sizes(self, row: StepRecord) -> None:
        info = self.info
        expected = {
            "action": ((len(info.action_names),), row.action.shape),
            "state": ((sum(info.state_components.values()),), row.state.shape),
            "ctrl": ((info.n_substeps, len(info.ctrl_names)), row.ctrl.shape),
        }
        for name, (want, have) in expected.items():
            if want != have:
                raise RecordError(f"{name} of row {len(self.rows)} is {have}, the info says {want}")

    def _check_hands(self, row: StepRecord) -> None:
        info = self.info
        if set(row.hands) != set(info.sides):
            raise RecordError(f"hands are {sorted(row.hands)}, the info says {sorted(info.sides)}")
        for side, hand in row.hands.items():
            for value, valid in (
                (hand.lock, info.locks),
                (hand.guard_state, info.guard_states),
                (hand.guard_reason, info.guard_reasons),
            ):
                if value not in valid:
                    raise RecordError(f"word {value!r} of {side} is none of {valid}")

    def _check_like_first(self, row: StepRecord) -> None:
        first, last, at = self.rows[0], self.rows[-1], len(self.rows)
        if row.observation.keys() != first.observation.keys():
            raise RecordError(
                f"row {at} observes {sorted(row.observation)}, "
                f"the first row {sorted(first.observation)}"
            )
        for key, value in row.observation.items():
            want = first.observation[key]
            if value.shape != want.shape or value.dtype != want.dtype:
                raise RecordError(
                    f"observation {key!r} of row {at} is {value.dtype}{value.shape}, "
                    f"the first row's {want.dtype}{want.shape}"
                )
        for side, hand in row.hands.items():
            if hand.joint_target.shape != first.hands[side].joint_target.shape:
                raise RecordError(f"joint_target of {side} changed its length in row {at}")
        if row.controller_memory.shape != first.controller_memory.shape:
            raise RecordError(f"controller_memory changed its length in row {at}")
        if row.t_obs_ns <= last.t_obs_ns:
            raise RecordError(
                f"t_obs_ns of row {at} is {row.t_obs_ns}, not after {last.t_obs_ns} of the row "
                "before; take all times from one monotonic clock"
            )
