"""Mirrored and swapped axes, and quaternions read in another order: what the motion says."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kinematics import Side

from ..schema import WXYZ, XYZ
from .chain import Chain, Floats, Stage
from .finding import Finding, Symptom, Verdict
from .links import TELLING, Link, Order, Windows

NEAR = 0.5
"""Distance, of 2 between a direction and its opposite and 1.4 to a right angle, within which a
fitted axis is taken for a whole one."""
FAR = 0.7
"""And beyond which it is not the one that it should be."""
BETTER = 0.5
"""A quaternion's order must explain the motion so much better than axes do."""

SIGNED_AXES: tuple[Floats, ...] = tuple(
    sorted(
        (
            np.eye(3)[list(order)] * np.array(signs)[:, None]
            for order in itertools.permutations(range(3))
            for signs in itertools.product((1.0, -1.0), repeat=3)
        ),
        key=lambda axes: int((axes != np.eye(3)).any(axis=0).sum()),
    )
)
"""The 48 ways in which three axes can be named and turned round; the fewest changes first."""

_COMMON = ((0, 1, 2, 3), (1, 2, 3, 0), (3, 0, 1, 2), (3, 2, 1, 0))
ORDERS: tuple[Order, ...] = tuple(
    Order(columns, inverted, *where)
    for columns in sorted(itertools.permutations(range(4)), key=lambda c: c not in _COMMON)
    for inverted in (False, True)
    if (np.linalg.det(np.eye(4)[list(columns)]) < 0.0) != inverted
    for where in ((True, False), (True, True), (False, False))
)
"""Ways to read a quaternion wrong, the common ones first. Those that mirror its four numbers turn
a rotation into its inverse as the hand sees it; the others no more than rename axes."""
SAME = 0.01
"""Ways that explain the motion this equally well are told by the first of them."""


@dataclass(frozen=True, slots=True, eq=False)
class AxesFit:
    """Say which whole axes a link's motion follows."""

    seen: int
    """Directions, of 3, in which there was enough motion."""
    axes: Floats | None
    """(3, 3) nearest to the fit; None when no whole axes are near."""
    left: float
    """Share of the motion that they leave."""
    left_as_is: float
    """Share that is left if every axis is what it should be."""

    @property
    def right(self) -> bool:
        """Every axis is what it should be, as far as it was seen."""
        return self.axes is not None and np.array_equal(self.axes, np.eye(3))


def fit_axes(windows: Windows, least: float) -> AxesFit:
    """Return the axes that the second stage's motion follows, of those in which there was any."""
    seen = windows.seen(least)
    as_is = windows.left(windows.first)
    k = seen.shape[1]
    if not k:
        return AxesFit(0, None, np.inf, as_is)
    fitted = windows.matrix() @ seen
    gain = float(np.linalg.norm(fitted)) / np.sqrt(k)
    errors = [
        float(np.linalg.norm(fitted / max(gain, 1e-9) - axes @ seen)) / np.sqrt(k)
        for axes in SIGNED_AXES
    ]
    if errors[0] <= FAR:
        return AxesFit(k, SIGNED_AXES[0], as_is, as_is)
    best = next(n for n, error in enumerate(errors) if error <= min(errors) + 1e-3)
    left = windows.left(gain * windows.first @ SIGNED_AXES[best].T)
    found = SIGNED_AXES[best] if errors[best] <= NEAR and left <= TELLING else None
    return AxesFit(k, found, left, as_is)


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """What one link shows of one kind of motion."""

    link: Link
    kind: str
    fit: AxesFit
    order: Order | None = None
    """The quaternion's order that explains it better than any axes."""
    rival: Order | None = None
    """One that explains it as well as the axes do: turns about one axis at a time cannot tell."""
    left: float = np.inf


def axes_findings(chain: Chain, links: list[Link], side: Side) -> list[Finding]:
    """Return what is found of mirrored axes, swapped axes and the order of quaternions."""
    seen = [_look(link, turns) for link in links for turns in (False, True)]
    mirrored, swapped, orders = list(_tables(chain)), [], list[str]()
    for one in seen:
        if one.order is not None:
            orders.append(f"{one.link.place(side)}: {_order_words(one, one.order, side)}")
        elif one.fit.axes is not None and not one.fit.right:
            diagonal = np.count_nonzero(np.diag(one.fit.axes)) == 3
            words = _axes_words(one, side)
            if one.rival is not None:
                words += f", or {_order_words(one, one.rival, side)}"
            (mirrored if diagonal else swapped).append(words)
    held = int(np.count_nonzero(np.char.find(chain.reason, "mirrored") >= 0))
    words, blind = _coverage(seen)
    turned = max((one.fit.seen for one in seen if one.kind == "rotation"), default=0)
    return [
        _finding(Symptom.MIRRORED, side, mirrored, words, blind, held),
        _finding(Symptom.SWAPPED, side, swapped + list(_tilted(chain)), words, blind),
        _finding(Symptom.QUATERNION, side, orders, words, not turned or _unclear(seen)),
    ]


def _look(link: Link, turns: bool) -> _Seen:
    tau, kind = link.delay or 0.0, "rotation" if turns else "position"
    windows = link.turns(tau) if turns else link.moves(tau)
    fit = fit_axes(windows, link.least(turns))
    if not turns or fit.right or not fit.seen:
        return _Seen(link, kind, fit)
    lefts = [_left(link.turns(tau, order)) for order in ORDERS]
    first = next(n for n, left in enumerate(lefts) if left <= min(lefts) + SAME)
    left = lefts[first]
    if left > TELLING:
        return _Seen(link, kind, fit)
    if fit.axes is None or left <= BETTER * fit.left:
        return _Seen(link, kind, fit, order=ORDERS[first], left=left)
    return _Seen(link, kind, fit, rival=ORDERS[first], left=left)


def _left(windows: Windows) -> float:
    return windows.left(windows.first)


def _tables(chain: Chain) -> Iterator[str]:
    """Say where tracking's pose in world is mirrored."""
    R = chain.poses[Stage.HAND].R_world
    rows = np.flatnonzero(np.linalg.det(R) < 0.0)
    if len(rows):
        yield f"operator/*_T_world_tracking has determinant -1 in {len(rows)} rows"


def _tilted(chain: Chain) -> Iterator[str]:
    """Say where tracking's up is not world's up."""
    R = chain.poses[Stage.HAND].R_world
    rows = np.flatnonzero(np.abs(R[:, 2, 1] - 1.0) > 1e-3)
    if len(rows):
        up = ", ".join(f"{entry:.2f}" for entry in R[rows[0], :, 1])
        yield f"operator/*_T_world_tracking turns up (0, 1, 0) into ({up}) in {len(rows)} rows"


def _axes_words(one: _Seen, side: Side) -> str:
    axes, changes = one.fit.axes, list[str]()
    assert axes is not None
    for column, name in enumerate(XYZ):
        row = int(np.argmax(np.abs(axes[:, column])))
        sign = "-" if axes[row, column] < 0.0 else ""
        if sign or row != column:
            changes.append(f"{name} comes out as {sign}{XYZ[row]}")
    return (
        f"{one.link.place(side)}, {one.kind}: {', '.join(changes)} in world "
        f"(fits {_percent(one.fit.left)}; as it should be {_percent(one.fit.left_as_is)}; "
        f"{one.fit.seen} of 3 directions seen)"
    )


_WORDS: dict[tuple[int, ...], str] = {
    (1, 2, 3, 0): "as x, y, z, w and those taken for w, x, y, z",
    (3, 0, 1, 2): "as if it were x, y, z, w",
}


def _order_of(columns: tuple[int, ...]) -> str:
    return f"as {', '.join(WXYZ[column] for column in columns)}"


def _order_words(one: _Seen, order: Order, side: Side) -> str:
    what = _WORDS.get(order.columns) or _order_of(order.columns)
    if order.columns == (0, 1, 2, 3):
        what = "inverted"
    elif order.inverted:
        what += " and inverted"
    stage = (one.link.first if order.of_first else one.link.second).of(side)
    where = " in world" if order.in_world else ""
    return (
        f"the rotation fits {_percent(one.left)} if {stage}{where} is read {what}, "
        f"{_percent(one.fit.left_as_is)} as it is"
    )


def _percent(left: float) -> str:
    return f"{100.0 * max(0.0, 1.0 - left):.0f} %"


def _coverage(seen: list[_Seen]) -> tuple[str, bool]:
    """Say in how many directions a hand moved and turned; the flag: too few to be sure."""
    least = {
        kind: min((one.fit.seen for one in seen if one.kind == kind), default=0)
        for kind in ("position", "rotation")
    }
    words = f"seen: {least['position']} of 3 directions of motion, {least['rotation']} of rotation"
    return words, least["position"] < 3 or _unexplained(seen, "position")


def _unclear(seen: list[_Seen]) -> bool:
    return _unexplained(seen) or any(one.rival is not None for one in seen)


def _unexplained(seen: list[_Seen], kind: str = "rotation") -> bool:
    """Say whether some motion follows neither axes nor order."""
    return any(
        one.fit.seen > 0 and one.fit.axes is None and one.order is None
        for one in seen
        if one.kind == kind
    )


def _finding(
    symptom: Symptom, side: Side, found: list[str], words: str, blind: bool, held: int = 0
) -> Finding:
    if found:
        return Finding(symptom, side, Verdict.FOUND, "; ".join(found))
    if held:
        return Finding(symptom, side, Verdict.HELD, f"the guard refused them in {held} rows")
    return Finding(symptom, side, Verdict.UNKNOWN if blind else Verdict.NONE, words)
