"""How the time of a control step went: its stages, late steps and stalls."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from rich.table import Table

from . import schema

if TYPE_CHECKING:
    from .reader import Episode

MADE_UP_PERIODS = 5
"""Up to so many periods of delay the control loop makes up for by steps in quick succession: an
arm that rushes for 0.1 s at 50 Hz. A longer delay is lost to the simulation."""
STALL_NS = 250_000_000
"""The guard's limit: after it the hand's place is unknown, and the arms are held."""
PERCENTILES = (50, 95, 99)

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lateness:
    """Say how late the steps of an episode began."""

    late_share: float
    """Of the steps, those that began more than half a period after they were due."""
    max_ns: int
    lost_ns: int
    """Real time in which the simulation stood still."""
    stalls: int
    """Delays after which the arms were held."""

    @classmethod
    def of(cls, due_ns: Times, begun_ns: Times, ended_ns: int, control_hz: int) -> "Lateness":
        """Take the instants [ns] of all steps (T,) and of the end of the last one."""
        period = 1e9 / control_hz
        behind = begun_ns - due_ns
        anew = behind[-1] > MADE_UP_PERIODS * period
        after = ended_ns - (begun_ns if anew else due_ns)[-1] - period  # of a step that never came
        delays = np.append(behind, max(0, int(after)))
        return cls(
            late_share=float(np.mean(2 * behind > period)),
            max_ns=int(delays.max()),
            lost_ns=int(delays[delays > MADE_UP_PERIODS * period].sum()),
            stalls=int(np.sum(delays > STALL_NS)),
        )


@dataclass(frozen=True, slots=True)
class Stage:
    """Hold how long a part of all steps took [ms]."""

    name: str
    percentiles: tuple[float, ...]
    """At ``PERCENTILES``."""
    longest: float


def stages(episode: "Episode") -> list[Stage]:
    """Return how long every stage took, in the order in which a pose goes through them.

    The ages of poses are those of engaged steps: only they move an arm.
    """
    at = {path: episode.array(path) for path in _INSTANTS}
    found: list[Stage | None] = []
    for side in episode.sides:
        engaged = episode.array(f"operator/{side}_clutch")
        device = episode.array(f"operator/{side}_t_device_ns")[engaged]
        received = episode.array(f"operator/{side}_t_recv_ns")[engaged]
        found += [
            _stage(f"{side} pose: measured to received", received - device),
            _stage(f"{side} pose: received to step", at[schema.T_OBS][engaged] - received),
            _stage(f"{side} pose: measured to applied", at[schema.T_APPLY][engaged] - device),
        ]
    parts = [_stage(name, at[end] - at[start]) for name, start, end in _STAGES]
    return [stage for stage in (*found, *parts) if stage is not None]


_STAGES = (
    ("step: due to started", schema.T_DUE, schema.T_OBS),
    ("guard, filter, limits", schema.T_OBS, schema.T_TARGET),
    ("targets to action", schema.T_TARGET, schema.T_POLICY),
    ("states kept", schema.T_POLICY, schema.T_APPLY),
    ("action to ctrl", schema.T_APPLY, schema.T_PHYSICS),
    ("physics and observation", schema.T_PHYSICS, schema.T_END),
    ("step: started to over", schema.T_OBS, schema.T_END),
)
"""Name, instant of beginning, instant of end. The inverse kinematics is in "action to ctrl", in the
control mode joint in "targets to action"."""
_INSTANTS = tuple(dict.fromkeys(path for _, *ends in _STAGES for path in ends))


def _stage(name: str, durations_ns: Times) -> Stage | None:
    """Return the stage; None when no step had it."""
    if not len(durations_ns):
        return None
    ms = durations_ns * 1e-6
    points = np.percentile(ms, PERCENTILES, method="higher")  # one that occurred, never flattered
    return Stage(name, tuple(map(float, points)), float(ms.max()))


def timing_table(episode: "Episode") -> Table:
    """Return the stages as a table, late steps and stalls in words below."""
    table = Table(title=f"{episode.name}: time [ms]", caption=timing_words(episode))
    table.add_column("stage", no_wrap=True)
    for column in (*(f"p{p}" for p in PERCENTILES), "max"):
        table.add_column(column, justify="right")
    for stage in stages(episode):
        cells = (*stage.percentiles, stage.longest)
        table.add_row(stage.name, *(f"{value:.3f}" for value in cells))
    return table


def timing_words(episode: "Episode") -> str:
    """Return what the attributes say of lateness."""
    attrs = episode.attrs
    words = [
        f"{attrs['late_ticks']} of {episode.n_rows} steps late "
        f"({100 * float(attrs['late_share']):.1f} %), "
        f"at most {int(attrs['lateness_max_ns']) * 1e-6:.1f} ms",
        f"{int(attrs['lost_ns']) * 1e-9:.2f} s lost in delays, {attrs['stalls']} stalls",
        f"{'' if attrs['realtime_priority'] else 'no '}real-time priority",
    ]
    return "; ".join(words)
