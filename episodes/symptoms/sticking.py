"""Limits that stick: what they take although they may not."""

import numpy as np

from kinematics import Side

from ..arrays import runs
from .chain import Chain, Flags, Floats, Stage
from .finding import Finding, Place, Symptom, Verdict

STUCK_M = 0.02
"""m of the hand's scaled motion, back from a limit or along it, that did not count."""
BRAKED_M = 0.05
"""The same where speed or acceleration was limited too: from 1 m/s at 13 m/s2 a target needs 38 mm
to turn round."""
DEAD = 0.2
"""Less of the hand's motion than this is not following."""
CHUNK, MOST_CHUNKS, CHUNK_M = 5, 60, 0.002
"""Rows, and m, that tell in which direction a limit takes; and how many are looked at."""
TOUCHING_S = 0.1
"""s between two touches of one wall: a hand that pushes pauses."""
_ALL, _LEVEL, _PLUMB = np.ones(3), np.array([1.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0])
_BOX_PARTS = (_ALL, _LEVEL, _PLUMB)
"""A workspace stands upright, so what it takes can be judged level and plumb apart."""
BEYOND_M = 0.06
"""m; farther than a target brakes before a wall (38 mm from 1 m/s at 13 m/s2), and some."""


def sticking_finding(chain: Chain, side: Side) -> Finding:
    """Return stretches at a limit in which motion away from it, or along it, did not count.

    What a limit takes of the hand's motion points out of what it bounds, whatever its shape: never
    against what it has just taken. And beyond a convex one, no command has ever been.
    """
    told, hand = chain.poses[Stage.ACCEPTED].position, chain.poses[Stage.HAND].position
    asked, done = np.zeros((chain.n_rows, 3)), np.zeros((chain.n_rows, 3))
    asked[1:] = chain.scale[1:, None] * np.diff(hand, axis=0)
    done[1:] = np.diff(told, axis=0)
    rows = chain.rows_of(Stage.ACCEPTED) & chain.rows_of(Stage.HAND) & chain.moves & chain.walled
    rows &= chain.scale == np.roll(chain.scale, 1)
    places, worst, n = list[Place](), 0.0, 0
    for begin, end in runs(_bridged(rows, chain)):
        n += 1
        at = slice(begin, end)
        on = rows[at]
        parts = _BOX_PARTS if chain.boxed[at][on].all() else (_ALL,)
        for part in parts:
            pushed, went = asked[at] * part * on[:, None], done[at] * part * on[:, None]
            lost = _lost_back(pushed, went, chain.slowed[at])
            if part is not _ALL:
                lost = max(lost, _lost_along(pushed, went, chain.slowed[at], told * part, at))
            if lost > 0.0:
                places.append(chain.place(begin, end))
                worst = max(worst, lost)
                break
    if places:
        words = f"{1e3 * worst:.0f} mm of the hand's motion away from a wall or along it was lost"
        return Finding(Symptom.STICKING, side, Verdict.FOUND, words, tuple(places))
    if not n:
        return Finding(Symptom.STICKING, side, Verdict.UNKNOWN, "no wall was touched")
    return Finding(Symptom.STICKING, side, Verdict.NONE, f"slid along walls {n} x")


def _lost_back(asked: Floats, done: Floats, slowed: Flags) -> float:
    """Return the motion [m] against what a limit took elsewhere, and lost as well; 0 if little."""
    most = 0.0
    for way in _ways(asked - done):
        forth, back = _dead(asked @ way, done @ way), _dead(-asked @ way, -done @ way)
        enough = float(back[~slowed].sum()) >= STUCK_M or float(back.sum()) >= BRAKED_M
        if enough and float(forth.sum()) >= STUCK_M:
            most = max(most, float(back.sum()))
    return most


def _dead(asked: Floats, done: Floats) -> Floats:
    """Return what was asked for (T,) [m] where nothing came of it, else 0."""
    return np.where((asked > 0.0) & (done < DEAD * asked), asked, 0.0)


def _ways(lost: Floats) -> Floats:
    """Return unit vectors (K, 3) along which something was taken, a few rows each."""
    bounds = np.arange(0, len(lost), max(CHUNK, len(lost) // MOST_CHUNKS))
    sums = np.add.reduceat(lost, bounds, axis=0)
    lengths = np.linalg.norm(sums, axis=1)
    taken = lengths > CHUNK_M
    return sums[taken] / lengths[taken, None]


def _lost_along(asked: Floats, done: Floats, slowed: Flags, told: Floats, at: slice) -> float:
    """Return the motion [m] that was taken although a command has been farther on; 0 if little.

    Of a convex bound, what row t takes at p_t says that every y within has (y - p_t) l_t <= 0.
    """
    taken = np.where(slowed[:, None], 0.0, asked - done)
    whole = taken.sum(axis=0)
    length = float(np.linalg.norm(whole))
    if length < STUCK_M:
        return 0.0
    beyond = np.nanmax(told @ whole) - float(np.sum(taken * told[at]))
    return length if float(beyond) / length >= BEYOND_M else 0.0


def _bridged(rows: Flags, chain: Chain) -> Flags:
    """Return ``rows`` with the short gaps filled in which the hand went on but touched nothing."""
    out = rows.copy()
    for begin, end in runs(~rows):
        inside = begin > 0 and end < len(rows)
        short = chain.period[begin:end].sum() <= TOUCHING_S
        if inside and short and chain.rows_of(Stage.ACCEPTED)[begin:end].all():
            out[begin:end] = True
    return out
