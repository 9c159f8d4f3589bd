"""Lag along the chain, and a tool that trails its target in proportion to speed."""

import numpy as np

from kinematics import Side

from .chain import Chain, Stage
from .finding import Finding, Symptom, Verdict
from .links import Link

FILTER_TOLERANCE_S = 0.025
"""Between the filter's stated lag and the measured one: a device period and what the fit errs."""
STEP_TOLERANCE = 0.6
"""Periods, for stages that belong to one row: a whole one is a row too late, or too early."""
LEAST_TOLERANCE_S = 0.01
"""s; what the fit can tell with rows at 200 Hz."""
TRAILING_S = 0.03
"""s behind the target: with feed-forward the tool is 1 to 7 ms behind, servos alone 100 ms."""
TRAILING_M = 0.003
"""m behind it while moving, p95; less is nobody's concern."""
MOVING_M_S = 0.03
"""Of the target; slower rows say nothing of what grows with speed."""
MOVING_S = 0.5
"""Moving for less is not enough to tell."""


def lag_finding(chain: Chain, links: list[Link], side: Side, period: float) -> Finding:
    """Return how late each stage is, against what the settings say."""
    delays = {link: link.delay for link in links if link.second is not Stage.TOOL}
    told = {link: seconds for link, seconds in delays.items() if seconds is not None}
    late: list[str] = []
    for link, seconds in told.items():
        filtered = link.second is Stage.HAND
        expected = float(np.median(chain.filter_lag)) if filtered else 0.0
        tolerance = FILTER_TOLERANCE_S if filtered else STEP_TOLERANCE * period
        if abs(seconds - expected) > max(tolerance, LEAST_TOLERANCE_S):
            late.append(
                f"{link.place(side)}: {1e3 * seconds:.0f} ms late, {1e3 * expected:.0f} expected"
            )
    figures = {"delay_ms": 1e3 * sum(told.values())}
    if late:
        return Finding(Symptom.LAG, side, Verdict.FOUND, "; ".join(late), figures=figures)
    missing = [link for link, seconds in delays.items() if seconds is None and link.has_both]
    words = f"hand to command {figures['delay_ms']:.0f} ms"
    if missing or not told:
        return Finding(Symptom.LAG, side, Verdict.UNKNOWN, "too little motion", figures=figures)
    return Finding(Symptom.LAG, side, Verdict.NONE, words, figures=figures)


def trailing_finding(chain: Chain, side: Side, period: float) -> Finding:
    """Return by how many seconds the tool is behind its command, from error against velocity."""
    told, tool = chain.poses[Stage.ACCEPTED].position, chain.poses[Stage.TOOL].position
    velocity = np.zeros_like(told)
    velocity[1:] = np.diff(told, axis=0) / period
    speed = np.linalg.norm(velocity, axis=1)
    rows = chain.rows_of(Stage.TOOL) & chain.free & (speed > MOVING_M_S)
    if rows.sum() * period < MOVING_S:
        return Finding(Symptom.TRAILING, side, Verdict.UNKNOWN, "too little motion")
    error, velocity = (told - tool)[rows], velocity[rows]
    behind = float(np.sum(error * velocity) / np.sum(velocity**2))
    p95 = float(np.percentile(np.linalg.norm(error, axis=1), 95))
    figures = {"behind_ms": 1e3 * behind, "error_p95_mm": 1e3 * p95}
    words = f"{1e3 * behind:.0f} ms behind the command, p95 {1e3 * p95:.1f} mm while moving"
    found = abs(behind) > TRAILING_S and p95 > TRAILING_M
    verdict = Verdict.FOUND if found else Verdict.NONE
    return Finding(Symptom.TRAILING, side, verdict, words, figures=figures)
