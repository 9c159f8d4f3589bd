"""Findings as a table for people."""

from collections.abc import Iterator, Sequence

from rich.table import Table

from ..schema import demo_name
from .finding import Finding, Place, Verdict

_STYLES = {Verdict.FOUND: "red", Verdict.HELD: "yellow", Verdict.UNKNOWN: "dim"}
MOST_PLACES = 4
"""Named in the table; a count says the rest."""


def table(findings: Sequence[Finding]) -> Table:
    """Return a row a symptom and arm."""
    out = Table(title="symptoms")
    for column in ("symptom", "arm", "verdict", "evidence"):
        out.add_column(column, no_wrap=column != "evidence")
    for found in findings:
        evidence = found.evidence + _places(found.places)
        style = _STYLES.get(found.verdict)
        out.add_row(found.symptom, found.side, found.verdict, evidence, style=style)
    return out


def advice(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield what to look at next, once for every symptom that was found."""
    said = dict.fromkeys(
        f"{found.symptom}: {found.advice}" for found in findings if found.verdict is Verdict.FOUND
    )
    yield from said


def _places(places: Sequence[Place]) -> str:
    if not places:
        return ""
    named = [f"{demo_name(place.episode)} row {place.row}" for place in places[:MOST_PLACES]]
    more = len(places) - len(named)
    return f" ({', '.join(named)}{f' and {more} more' if more else ''})"
