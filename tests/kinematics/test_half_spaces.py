"""The small quadratic program, against an independent solver."""

import numpy as np
import pytest
from scipy.optimize import nnls

from kinematics.frames import Array
from kinematics.half_spaces import EXACT, move_within

N = 7


def reference(H: Array, g: Array, rows: Array, floors: Array, lower: Array, upper: Array) -> Array:
    """Solve it as a least distance problem (Lawson & Hanson, chapter 23)."""
    factor = np.linalg.inv(np.linalg.cholesky(H))
    C = np.vstack([rows, np.eye(N), -np.eye(N)])
    d = np.concatenate([floors, lower, -upper])
    shifted = factor @ g
    G = C @ factor.T
    E = np.vstack([G.T, d + G @ shifted])
    f = np.zeros(N + 1)
    f[-1] = 1.0
    u, _ = nnls(E, f, maxiter=10000)
    r = E @ u - f
    return factor.T @ (-r[:N] / r[N] - shifted)


def problem(rng: np.random.Generator, m: int) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Return what a tick's problem looks like; some half-spaces twice, or nearly."""
    J = 0.4 * rng.normal(size=(6, N))
    H = J.T @ J + 1.1e-3 * np.eye(N)
    g = -J.T @ rng.normal(scale=rng.choice([1e-3, 1e-2, 1e-1]), size=6)
    rows = 0.4 * rng.normal(size=(m, N))
    floors = -0.065 * np.maximum(rng.normal(scale=2e-3, size=m), 0.0)
    if m > 3:
        rows[1] = rows[0] + rng.choice([0.0, 1e-9, 1e-4]) * rng.normal(size=N)
        floors[1] = floors[0]
    return H, g, rows, floors, np.full(N, -0.011), np.full(N, 0.011)


@pytest.mark.parametrize("m", [1, 2, 5, 12])
def test_it_finds_the_least_within_all_limits(m: int) -> None:
    rng = np.random.default_rng(m)
    for _ in range(60):
        case = problem(rng, m)
        _, _, rows, floors, lower, upper = case
        x = np.zeros(N)
        assert move_within(x, *case)
        assert (rows @ x >= floors - 10 * EXACT).all()
        assert (x >= lower - 10 * EXACT).all()
        assert (x <= upper + 10 * EXACT).all()
        # 5e-6 rad: what limits missed by EXACT may move the least by where they meet at a sharp
        # angle.
        np.testing.assert_allclose(x, reference(*case), atol=5e-6)


def test_a_limit_that_does_not_act_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    H, g, rows, _, lower, upper = problem(rng, 3)
    free, held = np.zeros(N), np.zeros(N)
    assert move_within(free, H, g, np.zeros((0, N)), np.zeros(0), lower, upper)
    assert move_within(held, H, g, rows, rows @ free - 1e-3, lower, upper)
    np.testing.assert_array_equal(held, free)


def test_where_nothing_satisfies_all_it_says_so_and_leaves_x() -> None:
    row = np.zeros((1, N))
    row[0, 2] = 1.0
    x = np.full(N, 0.5)
    case = np.eye(N), np.zeros(N), row, np.array([1.0]), np.full(N, -0.1), np.full(N, 0.1)
    assert not move_within(x, *case)
    np.testing.assert_array_equal(x, 0.5)
