"""The classic faults of teleoperation, found in what was recorded, with the evidence.

Every look is a pure function of an episode's arrays. Too little motion gives "cannot tell", never
an alarm.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kinematics import Side

from ..reader import Episode
from .axes import axes_findings
from .chain import Chain, Stage, joined
from .delays import lag_finding, trailing_finding
from .finding import Finding, Symptom, Verdict
from .links import Link
from .reading import chain_of
from .sticking import sticking_finding
from .stretches import frozen_finding, jump_finding
from .words import advice, table

__all__ = [
    "Finding",
    "Symptom",
    "Verdict",
    "advice",
    "chain_of",
    "marks",
    "symptoms",
    "symptoms_of",
    "table",
]


def symptoms(episodes: Sequence[Episode]) -> list[Finding]:
    """Return a finding for every symptom and arm, over all rows of the episodes.

    What one of them shows is found even where the others drown it.
    """
    sides = sorted({side for episode in episodes for side in episode.sides}, reverse=True)
    found: list[Finding] = []
    for side in sides:
        chains = [chain_of(episode, side) for episode in episodes if side in episode.sides]
        over_all = symptoms_of(joined(chains), side)
        if len(chains) > 1:
            for chain in chains:
                over_all = [*map(_worse, over_all, symptoms_of(chain, side))]
        found.extend(over_all)
    return found


def symptoms_of(chain: Chain, side: Side) -> list[Finding]:
    """Return a finding for every symptom of one arm's rows, in the order of ``Symptom``."""
    links = [link for pair in pairwise(Stage) if (link := Link(chain, *pair)).has_both]
    period = float(chain.period.max(initial=0.0))
    return [
        *axes_findings(chain, links, side),
        lag_finding(chain, links, side, period),
        trailing_finding(chain, side, period),
        jump_finding(chain, side),
        frozen_finding(chain, side),
        sticking_finding(chain, side),
    ]


def marks(episode: Episode, side: Side) -> dict[str, npt.NDArray[np.bool_]]:
    """Return where an episode shows a symptom (T,), by its name; not those at no one row."""
    found: dict[str, npt.NDArray[np.bool_]] = {}
    for finding in symptoms_of(chain_of(episode, side), side):
        for place in finding.places:
            rows = found.setdefault(str(finding.symptom), np.zeros(episode.n_rows, dtype=bool))
            rows[place.row : place.end] = True
    return found


def _worse(over_all: Finding, alone: Finding) -> Finding:
    """Return what all rows show, but where one episode shows more."""
    severity = list(Verdict)
    if alone.verdict is Verdict.UNKNOWN or over_all.places:
        return over_all
    if severity.index(alone.verdict) <= severity.index(over_all.verdict):
        return over_all
    return alone
