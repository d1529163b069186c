"""Factors, adjoints and the one jitter."""

import pickle

import numpy as np
import pytest
from expected import warned

from decond.linalg import (
    JitterWarning,
    LogDensityAdjoint,
    LowRankPlusNoise,
    NotPositiveDefiniteError,
    cholesky,
    gaussian_log_density,
    gaussian_log_density_pullback,
    half_solve_pullback,
    mirrored,
    multiply,
    pivoted_cholesky,
    solve_general,
    solve_pullback,
    symmetric_product,
    times_symmetric,
)

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _same_draws():
    """Each test draws the same numbers, whatever ran before it."""
    RNG.bit_generator.state = np.random.default_rng(1).bit_generator.state


def positive_definite(size):
    root = RNG.standard_normal((size, size))
    return root @ root.T + np.eye(size)


@pytest.mark.parametrize("order", ["C", "F"])
def test_factor_solves_in_either_layout(order):
    S, B = positive_definite(7), np.asarray(RNG.standard_normal((7, 5)), order=order)
    before = B.copy()
    factor = cholesky(S, "S")
    np.testing.assert_allclose(factor.lower @ factor.lower.T, S, rtol=1e-12)
    np.testing.assert_allclose(factor.solve(B), np.linalg.solve(S, B), rtol=1e-10)
    np.testing.assert_allclose(factor.half_solve(B), np.linalg.solve(factor.lower, B), rtol=1e-10)
    np.testing.assert_allclose(factor.half_solve_transposed(B), np.linalg.solve(factor.lower.T, B), rtol=1e-10)
    np.testing.assert_allclose(factor.solve(B[:, 0]), np.linalg.solve(S, B[:, 0]), rtol=1e-10)
    np.testing.assert_allclose(factor.solve(B[:, :1]), np.linalg.solve(S, B[:, :1]), rtol=1e-10)
    np.testing.assert_allclose(mirrored(factor.inverse()), np.linalg.inv(S), rtol=1e-9)
    np.testing.assert_allclose(factor.inverse_diagonal(), np.diag(np.linalg.inv(S)), rtol=1e-10)
    np.testing.assert_allclose(factor.inverse_trace(), np.trace(np.linalg.inv(S)), rtol=1e-10)
    np.testing.assert_allclose(factor.log_determinant, np.linalg.slogdet(S)[1], rtol=1e-12)
    np.testing.assert_array_equal(B, before)


@pytest.mark.parametrize("order", ["C", "F"])
def test_large_factors_are_solved_in_halves(order):
    S, B = positive_definite(150), np.asarray(RNG.standard_normal((150, 5)), order=order)
    factor = cholesky(S, "S")
    for found, expected in (
        (factor.solve(B), np.linalg.solve(S, B)),
        (factor.half_solve(B), np.linalg.solve(factor.lower, B)),
        (factor.half_solve_transposed(B), np.linalg.solve(factor.lower.T, B)),
        (mirrored(factor.inverse()), np.linalg.inv(S)),
        (factor.inverse_diagonal(), np.diag(np.linalg.inv(S))),
    ):
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-11 * np.abs(expected).max())


def test_only_the_lower_triangle_is_read():
    S = positive_definite(5)
    junk = np.where(np.tri(5, dtype=bool), S, 1e300)
    np.testing.assert_allclose(cholesky(junk, "S").lower, np.linalg.cholesky(S), rtol=1e-12)


@pytest.mark.parametrize("size", [3, 700])
@pytest.mark.parametrize("orders", ["CC", "CF", "FC", "FF"])
def test_products_in_every_layout(size, orders):
    a = np.asarray(RNG.standard_normal((size, 4)), order=orders[0])
    b = np.asarray(RNG.standard_normal((4, size)), order=orders[1])
    np.testing.assert_allclose(multiply(a, b), a @ b, rtol=1e-12, atol=1e-13)
    symmetric = symmetric_product(a, np.asarray(a.T, order=orders[1]))
    np.testing.assert_allclose(mirrored(symmetric), a @ a.T, rtol=1e-12, atol=1e-13)
    S = positive_definite(4)
    junk = np.where(np.tri(4, dtype=bool), S, np.nan)
    np.testing.assert_allclose(times_symmetric(a, junk, 2.0), 2.0 * (a @ S), rtol=1e-12, atol=1e-13)


def slopes(function, value, step=1e-6):
    """Return central differences of a number for each entry of an array."""
    found = np.empty(value.shape)
    for index in np.ndindex(value.shape):
        shift = np.zeros(value.shape)
        shift[index] = step
        found[index] = (function(value + shift) - function(value - shift)) / (2.0 * step)
    return found


def check_symmetric(bar, expected):
    np.testing.assert_allclose(mirrored(np.tril(bar)), 0.5 * (expected + expected.T), rtol=1e-6, atol=1e-8)


def test_solve_adjoint_is_that_of_differences():
    S, B, X_bar = positive_definite(6), RNG.standard_normal((6, 3)), RNG.standard_normal((6, 3))
    factor = cholesky(S, "S")
    B_bar, S_bar = solve_pullback(factor, factor.solve(B), factor.half_solve(X_bar))
    np.testing.assert_allclose(B_bar, np.linalg.solve(S, X_bar), rtol=1e-9)
    check_symmetric(S_bar, slopes(lambda S: (X_bar * np.linalg.solve(S, B)).sum(), S))


def test_half_solve_adjoint_is_that_of_differences():
    S, B, W_bar = positive_definite(6), RNG.standard_normal((6, 3)), RNG.standard_normal((6, 3))
    factor = cholesky(S, "S")
    B_bar, S_bar = half_solve_pullback(factor, factor.half_solve(B), W_bar)

    def white(S, B):
        return (W_bar * np.linalg.solve(np.linalg.cholesky(0.5 * (S + S.T)), B)).sum()

    np.testing.assert_allclose(B_bar, slopes(lambda B: white(S, B), B), rtol=1e-6, atol=1e-9)
    check_symmetric(S_bar, slopes(lambda S: white(S, B), S))


@pytest.mark.parametrize("shape", [(6,), (6, 3)])
def test_log_density_and_its_adjoint_are_those_of_differences(shape):
    S, r = positive_definite(6), RNG.standard_normal(shape)

    def log_density(r, S):
        columns = r.reshape(6, -1)
        quadratic = np.sum(columns * np.linalg.solve(S, columns))
        return -0.5 * (quadratic + columns.shape[1] * (np.linalg.slogdet(S)[1] + 6 * np.log(2 * np.pi)))

    factor = cholesky(S, "S")
    r_bar, S_bar = gaussian_log_density_pullback(factor, r)
    np.testing.assert_allclose(gaussian_log_density(factor, r), log_density(r, S), rtol=1e-12)
    np.testing.assert_allclose(r_bar, slopes(lambda r: log_density(r, S), r), rtol=1e-6, atol=1e-9)
    check_symmetric(S_bar, slopes(lambda S: log_density(r, S), S))


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("count", [2, 11])
def test_sandwich_is_the_product_with_the_adjoint(count, order, columns):
    S, r = positive_definite(6), RNG.standard_normal((6, columns))
    M = np.asarray(RNG.standard_normal((count, 6)), order=order)
    before = M.copy()
    alpha = np.linalg.solve(S, r)
    G = 0.5 * (alpha @ alpha.T - columns * np.linalg.inv(S))
    adjoint = LogDensityAdjoint(cholesky(S, "S"), r)
    found = adjoint.sandwich(M)
    np.testing.assert_allclose(mirrored(found), M @ G @ M.T, rtol=1e-9, atol=1e-11)
    assert not np.triu(found, 1).any()
    np.testing.assert_allclose(mirrored(adjoint.covariance()), G, rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(M, before)


@pytest.mark.parametrize("rank", [1, 4, 9])
def test_low_rank_plus_noise_is_the_full_matrix(rank):
    W, P, b = RNG.standard_normal((rank, 9)), positive_definite(rank), RNG.standard_normal((9, 2))
    S = W.T @ P @ W + 0.3 * np.eye(9)
    low_rank = LowRankPlusNoise(W, P, 0.3, "S")
    c = RNG.standard_normal((rank, 2))
    np.testing.assert_allclose(low_rank.log_determinant, np.linalg.slogdet(S)[1], rtol=1e-11)
    np.testing.assert_allclose(low_rank.solve(b), np.linalg.solve(S, b), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(low_rank.solve_rows(c), np.linalg.solve(S, W.T @ c), rtol=1e-8, atol=1e-10)


def test_low_rank_allows_a_singular_prior_and_repeated_rows():
    W = np.repeat(RNG.standard_normal((2, 9)), 2, axis=0)
    P = np.ones((4, 4))
    S = W.T @ P @ W + 1e-4 * np.eye(9)
    np.testing.assert_allclose(LowRankPlusNoise(W, P, 1e-4, "S").log_determinant, np.linalg.slogdet(S)[1], rtol=1e-9)


def test_jitter_escalates_and_warns_once_with_the_value():
    singular = np.ones((30, 30)) - 1e-11 * np.eye(30)
    with warned(JitterWarning, matrix="the Gram matrix", jitter=pytest.approx(1e-10)):
        factor = cholesky(singular, "the Gram matrix")
    assert factor.jitter == pytest.approx(1e-10)


@pytest.mark.parametrize("matrix", [-np.eye(3), np.diag([1.0, -1.0, 1.0]), np.full((3, 3), np.nan), np.zeros((2, 2))])
def test_failure_names_the_matrix(matrix):
    with pytest.raises(NotPositiveDefiniteError) as caught:
        cholesky(matrix, "MᵀKM + Σ")
    assert caught.value.matrix == "MᵀKM + Σ"
    assert pickle.loads(pickle.dumps(caught.value)).matrix == "MᵀKM + Σ"


def test_pivoted_cholesky_explains_the_matrix_and_stops_at_its_rank():
    root = RNG.standard_normal((12, 3))
    S = root @ root.T
    pivots, factor = pivoted_cholesky(np.diag(S), lambda i: S[i], rank=12)
    assert len(pivots) == 3
    assert len(set(pivots)) == 3
    np.testing.assert_allclose(factor @ factor.T, S, rtol=1e-9, atol=1e-10)


def test_pivoted_cholesky_asks_for_the_rows_of_pivots_only():
    S = positive_definite(12)
    asked = []

    def row(i):
        asked.append(i)
        return S[i]

    pivots, _ = pivoted_cholesky(np.diag(S), row, rank=4)
    assert asked == pivots.tolist()
    assert pivots[0] == np.argmax(np.diag(S))


def test_general_solve_says_what_is_singular():
    with pytest.raises(np.linalg.LinAlgError, match="KD"):
        solve_general(np.zeros((2, 2)), np.ones((2, 1)), "KD")


def test_condition_is_estimated_from_the_factor():
    matrix = np.diag([4.0, 1.0, 1e-6])
    assert cholesky(matrix, "S").condition(4.0) == pytest.approx(4e6, rel=1e-9)


def test_products_of_empty_matrices_are_empty_or_zero():
    assert multiply(np.ones((0, 3)), np.ones((3, 2))).shape == (0, 2)
    np.testing.assert_array_equal(multiply(np.ones((2, 0)), np.ones((0, 2))), np.zeros((2, 2)))
