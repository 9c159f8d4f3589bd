"""Compare the motion of two neighbouring stages: how late, how large, and along which axes.

The second stage's displacement over a short window is fitted to that of the first, ``tau``
earlier, by least squares with any matrix (3, 3): neither a mirrored nor a swapped axis hides the
delay, and once the delay is known the matrix shows the axes.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinematics import Side

from .chain import Chain, Flags, Floats, Poses, Stage
from .turns import conjugated, product, quats_of, rotvecs

WINDOW_S = 0.1
"""Long against a control step and the hand's noise, short against a stroke."""
DELAYS_S = np.arange(-0.1, 0.51, 0.02)
"""Delays that are tried [s]; then those between, around the best."""
FINE_S = 0.004
"""Step [s] of the second look."""
MIN_WINDOWS = 10
"""Independent windows without which nothing is said."""
MOVED = (0.001, 0.005)
"""m and rad rms a window along or about a direction: 1 cm/s, 3 degrees a second."""
NOISY = 3.0
"""So much more of it where the first stage trembles: ten times the noise of a tracked hand."""
TELLING = 0.3
"""Share of the motion that a fit may leave and still tell something."""


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Hold what two stages did in the same windows."""

    first: Floats
    """(N, 3) [m] or [rad]: what the first stage did, ``tau`` earlier, at the second's scale."""
    second: Floats
    """(N, 3) what the second did."""
    count: float
    """Windows that do not overlap."""

    def matrix(self) -> Floats:
        """Return M (3, 3) of ``second = M first``, of least squares; unseen directions give 0."""
        return (
            np.linalg.pinv(self.first.T @ self.first, rcond=1e-6) @ self.first.T @ self.second
        ).T

    def left(self, predicted: Floats | None = None) -> float:
        """Return the share of the second's motion that a prediction (N, 3) leaves.

        Without one it is the fit's.
        """
        if predicted is None:
            predicted = self.first @ self.matrix().T
        energy = float(np.sum(self.second**2))
        return float(np.sum((self.second - predicted) ** 2)) / energy if energy > 0.0 else np.inf

    def seen(self, least: float) -> Floats:
        """Return an orthonormal basis (3, k) of the directions in which the first moved enough.

        Enough: ``least`` rms a window, and so much that the matrix is known there to a seventh.
        """
        if self.count < MIN_WINDOWS:
            return np.zeros((3, 0))
        mean = self.first.T @ self.first / len(self.first)
        values, vectors = np.linalg.eigh(mean)
        error = self.second - self.first @ self.matrix().T
        noise = float(np.sum(error**2)) / len(error) / self.count
        enough = (values >= least**2) & (values >= noise / KNOWN_TO**2)
        return vectors[:, enough]


KNOWN_TO = 0.15
"""Standard error of the fitted matrix, along a direction that counts as seen."""


class Link:
    """Hold two neighbouring stages of a chain; everything is computed once."""

    def __init__(self, chain: Chain, first: Stage, second: Stage) -> None:
        self.chain, self.first, self.second = chain, first, second
        self._a, self._b = chain.poses[first], chain.poses[second]
        self._is_clutch = (first, second) == (Stage.HAND, Stage.TARGET)

    def place(self, side: Side) -> str:
        """Return in words where in the file the link is."""
        return f"{self.first.of(side)} -> {self.second.of(side)}"

    @property
    def has_both(self) -> bool:
        """Whether both stages were recorded."""
        return bool((self._a.known & self._b.known).any())

    @cached_property
    def _good(self) -> Flags:
        """(T,) steps of the second stage that can be judged."""
        good = self.chain.rows_of(self.second)
        good &= self.chain.free & np.roll(self.chain.free, 1)
        if not self._is_clutch:
            return good
        # Rows that were slowed are late, and right; they are needed only where hardly any is not.
        strict = good & ~self.chain.slowed
        return strict if self._ends_of(strict).size >= MIN_WINDOWS * self._steps_between else good

    @cached_property
    def _ratio(self) -> tuple[Floats, Floats]:
        if not self._is_clutch:
            return np.ones(self.chain.n_rows), np.ones(self.chain.n_rows)
        return self.chain.scale, self.chain.turn_scale

    @cached_property
    def _steps_between(self) -> int:
        ticks = self._b.time[np.isfinite(self._b.time)]
        period = float(np.median(np.diff(ticks))) if len(ticks) > 1 else 1.0
        return max(2, round(WINDOW_S / max(period, 1e-3)))

    def _ends(self, steady: Flags) -> np.ndarray:
        """Return the rows (N,) that end a window in which every step is good and steady."""
        return self._ends_of(self._good & steady)

    def _ends_of(self, good: Flags) -> np.ndarray:
        total = np.concatenate([[0], np.cumsum(good.astype(int))])
        w = self._steps_between
        ends = np.arange(w, len(good))
        return ends[total[ends + 1] - total[ends + 1 - w] == w]

    def _same_ratio(self, ratio: Floats) -> Flags:
        return ratio == np.roll(ratio, 1)

    @cached_property
    def _source(self) -> tuple[Floats, Floats, Floats]:
        """Return times (K,), positions (K, 3) and what is lost (K,) between neighbours, at first.

        The last one counts breaks, so that no window reaches over one.
        """
        known = self._a.known & np.isfinite(self._a.time)
        rows = np.flatnonzero(known)
        fresh = np.concatenate([[True], np.diff(self._a.time[rows]) > 0.0]) if len(rows) else known
        rows = rows[fresh[: len(rows)]]
        broken = np.cumsum(~self.chain.joined | ~known)
        return self._a.time[rows], self._a.position[rows], broken[rows].astype(float)

    def moves(self, tau: float) -> Windows:
        """Return displacements, the first stage's ``tau`` [s] earlier."""
        scale = self._ratio[0]
        lock = self.chain.moves if self._is_clutch else np.ones(self.chain.n_rows, dtype=bool)
        ends = self._ends(self._same_ratio(scale) & lock)
        begins = ends - self._steps_between
        time, position, broken = self._source
        if len(time) < 2 or not len(ends):
            return Windows(np.zeros((0, 3)), np.zeros((0, 3)), 0.0)
        at = [self._b.time[rows] - tau for rows in (begins, ends)]
        inside = (at[0] >= time[0]) & (at[1] <= time[-1])
        low = np.clip(np.searchsorted(time, at[0], side="right") - 1, 0, len(time) - 1)
        high = np.clip(np.searchsorted(time, at[1], side="left"), 0, len(time) - 1)
        inside &= broken[low] == broken[high]
        paths = [
            np.stack([np.interp(t, time, position[:, k]) for k in range(3)], axis=1) for t in at
        ]
        first = (paths[1] - paths[0]) * scale[ends, None]
        second = self._b.position[ends] - self._b.position[begins]
        count = inside.sum() / self._steps_between
        return Windows(first[inside], second[inside], float(count))

    def turns(self, tau: float, order: "Order | None" = None) -> Windows:
        """Return rotation vectors, the first stage's ``tau`` earlier, one read in ``order``."""
        scale = self._ratio[1]
        lock = self.chain.turns if self._is_clutch else np.ones(self.chain.n_rows, dtype=bool)
        ends = self._ends(self._same_ratio(scale) & lock)
        begins = ends - self._steps_between
        time, _, broken = self._source
        rows = np.flatnonzero(self._a.known & np.isfinite(self._a.time))
        if len(time) < 2 or not len(ends):
            return Windows(np.zeros((0, 3)), np.zeros((0, 3)), 0.0)
        of = rows[np.concatenate([[True], np.diff(self._a.time[rows]) > 0.0])]
        at = [self._nearest(time, self._b.time[rows] - tau) for rows in (begins, ends)]
        inside = broken[at[0]] == broken[at[1]]
        a, b = (self._a.quat, self._a.R_world), (self._b.quat, self._b.R_world)
        if order is not None:
            a, b = (order.read(self._a), b) if order.of_first else (a, order.read(self._b))
        first = _turned(*a, of[at[0]], of[at[1]]) * scale[ends, None]
        second = _turned(*b, begins, ends)
        count = inside.sum() / self._steps_between
        return Windows(first[inside], second[inside], float(count))

    @staticmethod
    def _nearest(time: Floats, at: Floats) -> np.ndarray:
        right = np.clip(np.searchsorted(time, at), 1, len(time) - 1)
        return np.where(at - time[right - 1] < time[right] - at, right - 1, right)

    def least(self, turns: bool = False) -> float:
        """Return the motion [m] or [rad] rms a window that counts as seen."""
        noisy = self.first in (Stage.RAW, Stage.SAMPLE)
        return MOVED[turns] * (NOISY if noisy else 1.0)

    @cached_property
    def delay(self) -> float | None:
        """How late the second stage is [s]; None when there was not enough motion to tell."""
        if not self.has_both:
            return None
        left = np.array([self._left_at(tau) for tau in DELAYS_S.tolist()])
        best = float(DELAYS_S[int(np.argmin(left))])
        step = float(DELAYS_S[1] - DELAYS_S[0])
        fine = np.arange(best - step, best + step + FINE_S / 2, FINE_S)
        left = np.array([self._left_at(tau) for tau in fine.tolist()])
        least = int(np.argmin(left))
        return _vertex(fine, left, least) if left[least] < TELLING else None

    def _left_at(self, tau: float) -> float:
        windows = self.moves(tau)
        return windows.left() if windows.seen(self.least()).shape[1] else np.inf


def _vertex(at: Floats, left: Floats, least: int) -> float:
    """Return the delay at the vertex of the parabola through the least value's neighbours."""
    if not 0 < least < len(left) - 1 or not np.isfinite(left[least - 1 : least + 2]).all():
        return float(at[least])
    before, here, after = left[least - 1 : least + 2]
    bend = before - 2.0 * here + after
    shift = 0.5 * (before - after) / bend if bend > 0.0 else 0.0
    return float(at[least] + shift * (at[1] - at[0]))


@dataclass(frozen=True, slots=True)
class Order:
    """Read stored quaternions in another way: component k is taken from column ``columns[k]``."""

    columns: tuple[int, ...]
    inverted: bool
    of_first: bool
    """Of the first stage's, else of the second's."""
    in_world: bool = False
    """After it has been turned into world, else as it is stored."""

    def read(self, poses: Poses) -> tuple[Floats, Floats]:
        """Return a stage's quaternions (T, 4) read in this way, and their frame (T, 3, 3)."""
        quats, frame = poses.quat, poses.R_world
        if self.in_world:
            quats, frame = product(quats_of(frame), quats), np.broadcast_to(np.eye(3), frame.shape)
        read = quats[:, self.columns]
        return conjugated(read) if self.inverted else read, frame


def _turned(quat: Floats, R_world: Floats, begins: np.ndarray, ends: np.ndarray) -> Floats:
    """Return the rotation vectors (N, 3) in world between two sets of rows."""
    relative = rotvecs(product(quat[ends], conjugated(quat[begins])))
    return np.einsum("nij,nj->ni", R_world[ends], relative)
