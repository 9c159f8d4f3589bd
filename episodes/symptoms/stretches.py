"""Jumps and frozen stretches: what single rows show."""

import numpy as np

from kinematics import Side

from ..arrays import runs
from .chain import Chain, Flags, Floats, Poses, Stage
from .finding import Finding, Place, Symptom, Verdict
from .turns import conjugated, product, rotvecs

HAND = (4.5, 55.0)
"""m/s and rad/s; no hand at a table is faster."""
OVER = 1.5
"""Times v_max dt, for a command; the arm's own rounding and a pull by contact are below."""
SLACK = (0.002, 0.02)
"""m and rad that come on top, so that rows at 200 Hz are not judged by their rounding."""
PUSHED = (0.03, 0.3)
"""m and rad that a measured tool may move on top of twice v_max dt in a row: a blow."""
FROZEN_S = 0.1
"""A tracked hand is never bit-still: nine samples at 90 Hz are no chance."""
WHILE_MOVING_M = 0.01
"""m that the stage before must have moved meanwhile."""
AFTER_S = 0.15
"""The guard's answer to a stretch comes within so much of its end."""


def jump_finding(chain: Chain, side: Side) -> Finding:
    """Return rows in which a pose moved farther than it may in a control step."""
    words, places, judged = list[str](), list[Place](), False
    for stage, (bound_m, bound_rad), rows in _bounds(chain):
        # A command goes out from what was accepted of the last one.
        base = Stage.ACCEPTED if stage is Stage.TARGET else stage
        poses, before = chain.poses[stage], chain.poses[base]
        rows = rows & chain.joined & poses.known & np.roll(before.known, 1)
        moved, turned = _steps(before, poses)
        judged = judged or bool((rows & np.isfinite(bound_m)).any())
        over = np.maximum(moved / bound_m, turned / bound_rad)
        far = rows & (over > 1.0)
        if far.any():
            worst = int(np.argmax(np.where(far, over, 0.0)))
            words.append(
                f"{stage.of(side)}: {int(far.sum())} x, worst {1e3 * moved[worst]:.0f} mm and "
                f"{np.degrees(turned[worst]):.0f} degrees in a row "
                f"(at most {1e3 * bound_m[worst]:.0f} mm, {np.degrees(bound_rad[worst]):.0f})"
            )
            places.extend(chain.place(row) for row in np.flatnonzero(far).tolist())
    if words:
        return Finding(Symptom.JUMP, side, Verdict.FOUND, "; ".join(words), tuple(places))
    held = runs(np.char.find(chain.reason, "jumped") >= 0)
    if len(held):
        told = f"the guard held the arm for a leap of the stream {len(held)} x"
        at = tuple(chain.place(*run) for run in held)
        return Finding(Symptom.JUMP, side, Verdict.HELD, told, at)
    if not judged:
        return Finding(Symptom.JUMP, side, Verdict.UNKNOWN, "the file does not say v_max")
    return Finding(Symptom.JUMP, side, Verdict.NONE, "every step within v_max dt")


def _bounds(chain: Chain) -> list[tuple[Stage, tuple[Floats, Floats], Flags]]:
    """Return stages with the farthest [m, rad] that each row may go, and the rows to look at."""
    step, period = chain.max_step, chain.period
    command = (OVER * step[:, 0] + SLACK[0], OVER * step[:, 1] + SLACK[1])
    tool = (2.0 * step[:, 0] + PUSHED[0], 2.0 * step[:, 1] + PUSHED[1])
    # A leash or the end of reach draws the accepted target back to where the tool can be.
    accepted = tuple(np.where(chain.free, c, t) for c, t in zip(command, tool, strict=True))
    measured = np.maximum(period, np.diff(chain.poses[Stage.SAMPLE].time, prepend=np.nan))
    hand = (HAND[0] * period + SLACK[0], HAND[1] * period + SLACK[1])
    sample = (HAND[0] * measured + SLACK[0], HAND[1] * measured + SLACK[1])
    always = np.ones(chain.n_rows, dtype=bool)
    held = chain.engaged & np.roll(chain.engaged, 1)
    return [
        (Stage.SAMPLE, sample, held),
        (Stage.HAND, hand, held),
        (Stage.TARGET, command, always),
        (Stage.ACCEPTED, (accepted[0], accepted[1]), always),
        (Stage.TOOL, tool, always),
    ]


def frozen_finding(chain: Chain, side: Side) -> Finding:
    """Return stretches in which an engaged hand's pose, or what follows it, stood bit-still."""
    words, found, held = list[str](), list[Place](), list[Place]()
    stages = list(Stage)
    for stage in (Stage.SAMPLE, Stage.HAND, Stage.TARGET, Stage.ACCEPTED, Stage.TOOL):
        before = None if stage is Stage.SAMPLE else stages[stages.index(stage) - 1]
        stretches = _frozen(chain, stage, before)
        answered = [run for run in stretches if _answered(chain, run[1])]
        held.extend(chain.place(*run) for run in answered)
        left = [run for run in stretches if run not in answered]
        if left:
            longest = max(float(chain.period[b:e].sum()) for b, e in left)
            words.append(f"{stage.of(side)}: {len(left)} x, the longest {1e3 * longest:.0f} ms")
            found.extend(chain.place(*run) for run in left)
    if words:
        return Finding(Symptom.FROZEN, side, Verdict.FOUND, "; ".join(words), tuple(found))
    if held:
        told = f"a pose stood still {len(held)} x, and the guard held the arm"
        return Finding(Symptom.FROZEN, side, Verdict.HELD, told, tuple(held))
    if not chain.rows_of(Stage.SAMPLE).any():
        return Finding(Symptom.FROZEN, side, Verdict.UNKNOWN, "no engaged rows")
    return Finding(Symptom.FROZEN, side, Verdict.NONE, "every pose went on while engaged")


def _frozen(chain: Chain, stage: Stage, before: Stage | None) -> list[tuple[int, int]]:
    """Return half-open ranges of rows in which a stage repeats the row before them."""
    poses = chain.poses[stage]
    same = np.zeros(chain.n_rows, dtype=bool)
    same[1:] = (poses.position[1:] == poses.position[:-1]).all(axis=1)
    same[1:] &= (poses.quat[1:] == poses.quat[:-1]).all(axis=1)
    same &= chain.rows_of(stage)
    scale = np.ones(chain.n_rows)
    if stage is Stage.TARGET:
        same &= chain.moves & chain.turns
        scale = chain.scale
    if stage in (Stage.TARGET, Stage.ACCEPTED):
        same &= chain.free
    found = [r for r in runs(same) if chain.period[r[0] : r[1]].sum() >= FROZEN_S]
    if before is None:
        return found
    position = chain.poses[before].position
    return [
        (begin, end)
        for begin, end in found
        if float(np.linalg.norm(position[end - 1] - position[begin - 1])) * scale[begin]
        >= WHILE_MOVING_M
    ]


def _answered(chain: Chain, end: int) -> bool:
    """Say whether the guard held the arm for what stood still up to row ``end``."""
    last = end
    while last < chain.n_rows and chain.period[end:last].sum() < AFTER_S:
        last += 1
    reasons = chain.reason[end:last]
    return bool(any("frozen" in reason or "fresh" in reason for reason in reasons.tolist()))


def _steps(before: Poses, after: Poses) -> tuple[Floats, Floats]:
    """Return how far each row (T,) of a stage is from the row before of another [m], [rad]."""
    moved, turned = np.zeros(len(after.quat)), np.zeros(len(after.quat))
    moved[1:] = np.linalg.norm(after.position[1:] - before.position[:-1], axis=1)
    relative = product(after.quat[1:], conjugated(before.quat[:-1]))
    turned[1:] = np.linalg.norm(rotvecs(relative), axis=1)
    return moved, turned
