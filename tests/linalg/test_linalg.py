"""Factors, adjoints and the one jitter."""

import pickle
import platform
import subprocess
import sys

import numpy as np
import pytest

from decond.linalg import (
    JitterWarning,
    LogDensityAdjoint,
    LowRankPlusNoise,
    NotPositiveDefiniteError,
    cholesky,
    cholesky_if,
    gaussian_log_density,
    gaussian_log_density_pullback,
    half_solve_pullback,
    mirrored,
    multiply,
    pivoted_cholesky,
    solve_general,
    solve_pullback,
    square_root,
    symmetric_product,
    times_symmetric,
    with_jitter,
)

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _same_draws():
    """Each test draws the same numbers, whatever ran before it."""
    RNG.bit_generator.state = np.random.default_rng(1).bit_generator.state


def positive_definite(size):
    root = RNG.standard_normal((size, size))
    return root @ root.T + np.eye(size)


@pytest.fixture(params=(1, 7, 150))
def matrix(request):
    """One entry, a small matrix, and one larger than the blocks that solves are split into."""
    return positive_definite(request.param)


@pytest.mark.parametrize("order", ["C", "F"])
def test_factor_solves_in_either_layout(matrix, order):
    B = np.asarray(RNG.standard_normal((len(matrix), 5)), order=order)
    before, factor, inverse = B.copy(), cholesky(matrix, "S"), np.linalg.inv(matrix)
    root = np.linalg.cholesky(matrix)
    pairs = [
        (factor.lower, root),
        (factor.inverse_diagonal(), np.diag(inverse)),
        (np.tril(factor.inverse()), np.tril(inverse)),
        (mirrored(factor.inverse()), inverse),
        (mirrored(factor.inverse_root().sandwich(B.T)), B.T @ inverse @ B),
    ]
    for right in (B, B[:, 0], B[:, :1]):
        pairs.append((factor.solve(right), np.linalg.solve(matrix, right)))
        pairs.append((factor.half_solve(right), np.linalg.solve(root, right)))
        pairs.append((factor.half_solve_transposed(right), np.linalg.solve(root.T, right)))
    for found, expected in pairs:
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-11 * np.abs(expected).max())
    assert factor.jitter == 0.0
    assert factor.inverse_trace() == pytest.approx(np.trace(inverse), rel=1e-10)
    assert factor.log_determinant == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-12, abs=1e-14)
    np.testing.assert_array_equal(B, before)


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


def slopes(function, value, step=1e-30):
    """Return the derivative of an analytic function by each entry of an array: complex steps, exact to rounding."""
    found = np.empty(value.shape)
    for index in np.ndindex(value.shape):
        moved = value.astype(complex)
        moved[index] += 1j * step
        found[index] = function(moved).imag / step
    return found


def lower_root(S):
    """Return R with R Rᵀ = S, without the conjugates of NumPy's Cholesky factor, so that it is analytic."""
    R = np.zeros_like(S)
    for j in range(len(S)):
        R[j, j] = np.sqrt(S[j, j] - R[j, :j] @ R[j, :j])
        R[j + 1 :, j] = (S[j + 1 :, j] - R[j + 1 :, :j] @ R[j, :j]) / R[j, j]
    return R


def check_symmetric(bar, expected):
    np.testing.assert_allclose(mirrored(np.tril(bar)), 0.5 * (expected + expected.T), rtol=1e-9, atol=1e-11)


def test_solve_adjoint_is_that_of_complex_steps():
    S, B, X_bar = positive_definite(6), RNG.standard_normal((6, 3)), RNG.standard_normal((6, 3))
    factor = cholesky(S, "S")
    B_bar, S_bar = solve_pullback(factor, factor.solve(B), factor.half_solve(X_bar))
    np.testing.assert_allclose(B_bar, np.linalg.solve(S, X_bar), rtol=1e-9)
    check_symmetric(S_bar, slopes(lambda S: (X_bar * np.linalg.solve(S, B)).sum(), S))


def test_half_solve_adjoint_is_that_of_complex_steps():
    S, B, W_bar = positive_definite(6), RNG.standard_normal((6, 3)), RNG.standard_normal((6, 3))
    factor = cholesky(S, "S")
    B_bar, S_bar = half_solve_pullback(factor, factor.half_solve(B), W_bar)

    def white(S, B):
        return (W_bar * np.linalg.solve(lower_root(0.5 * (S + S.T)), B)).sum()

    np.testing.assert_allclose(B_bar, slopes(lambda B: white(S, B), B), rtol=1e-9, atol=1e-11)
    check_symmetric(S_bar, slopes(lambda S: white(S, B), S))


@pytest.mark.parametrize("shape", [(6,), (6, 3)])
def test_log_density_and_its_adjoint_are_those_of_complex_steps(shape):
    S, r = positive_definite(6), RNG.standard_normal(shape)

    def log_density(r, S):
        columns = r.reshape(6, -1)
        quadratic = np.sum(columns * np.linalg.solve(S, columns))
        return -0.5 * (quadratic + columns.shape[1] * (np.log(np.linalg.det(S)) + 6 * np.log(2 * np.pi)))

    factor = cholesky(S, "S")
    r_bar, S_bar = gaussian_log_density_pullback(factor, r)
    np.testing.assert_allclose(gaussian_log_density(factor, r), log_density(r, S), rtol=1e-12)
    np.testing.assert_allclose(r_bar, slopes(lambda r: log_density(r, S), r), rtol=1e-9, atol=1e-11)
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


@pytest.mark.parametrize(("rank", "size"), [(1, 9), (3, 3), (4, 9), (9, 9), (3, 150)])
def test_low_rank_plus_noise_is_the_full_matrix(rank, size):
    W, P, b = RNG.standard_normal((rank, size)), positive_definite(rank), RNG.standard_normal((size, 2))
    S = W.T @ P @ W + 0.3 * np.eye(size)
    low_rank = LowRankPlusNoise(W, P, 0.3, "S")
    c = RNG.standard_normal((rank, 2))
    np.testing.assert_allclose(low_rank.log_determinant, np.linalg.slogdet(S)[1], rtol=1e-11)
    np.testing.assert_allclose(low_rank.solve(b), np.linalg.solve(S, b), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(low_rank.rows_solve(b), W @ np.linalg.solve(S, b), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(low_rank.solve_rows(c), np.linalg.solve(S, W.T @ c), rtol=1e-8, atol=1e-10)


def test_low_rank_allows_a_singular_prior_and_repeated_rows():
    W = np.repeat(RNG.standard_normal((2, 9)), 2, axis=0)
    P = np.ones((4, 4))
    S = W.T @ P @ W + 1e-4 * np.eye(9)
    np.testing.assert_allclose(LowRankPlusNoise(W, P, 1e-4, "S").log_determinant, np.linalg.slogdet(S)[1], rtol=1e-9)


@pytest.mark.parametrize(
    "matrix",
    [-np.eye(3), np.diag([1.0, -1.0, 1.0]), np.diag([1.0, -1e-3]), np.full((3, 3), np.nan), np.zeros((2, 2))],
)
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


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_condition_and_jitter_do_not_depend_on_units(matrix, scale):
    """A diagonal matrix has the ratio of its entries as its condition; jitter is relative to the mean diagonal."""
    diagonal = scale * np.diag([1.0, 5.0, 20.0])
    assert cholesky(diagonal, "S").condition(20.0 * scale) == pytest.approx(20.0)
    assert cholesky_if(diagonal, condition=19.0) is None
    assert cholesky_if(diagonal, condition=21.0).size == 3
    added = with_jitter(scale * matrix) - scale * matrix
    expected = 1e-10 * scale * np.diag(matrix).mean() * np.eye(len(matrix))
    np.testing.assert_allclose(added, expected, rtol=1e-3, atol=1e-14 * scale * np.abs(matrix).max())


def test_products_of_empty_matrices_are_empty_or_zero():
    assert multiply(np.ones((0, 3)), np.ones((3, 2))).shape == (0, 2)
    np.testing.assert_array_equal(multiply(np.ones((2, 0)), np.ones((0, 2))), np.zeros((2, 2)))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_jitter_is_relative_to_the_diagonal_and_is_announced(scale):
    """A matrix that is indefinite by 1e-9 of its diagonal gets 1e-8 of it, in whatever units."""
    almost = scale * np.diag([1.0, 1.0, 1.0, -1e-9])
    with pytest.warns(JitterWarning) as caught:
        factor = cholesky(almost, "S")
    [warning] = caught
    assert (warning.message.matrix, warning.message.jitter) == ("S", factor.jitter)
    assert 1e-9 * scale < factor.jitter <= 1e-8 * scale
    added = factor.lower @ factor.lower.T - almost
    np.testing.assert_allclose(added, factor.jitter * np.eye(4), rtol=1e-6, atol=0.0)


def test_square_root_of_singular_matrices(matrix):
    """Rank one, full rank, and a rank that rounding makes negative: R Rᵀ is the matrix."""
    column = matrix[:, :1]
    bent = column @ column.T - 1e-7 * np.abs(matrix).max() * np.eye(len(matrix))
    for one, tolerance in ((matrix, 1e-12), (column @ column.T, 1e-7), (bent, 1e-5)):
        root = square_root(one)
        np.testing.assert_allclose(root @ root.T, one, atol=tolerance * np.abs(one).max())


MANY_MATRICES = """
import resource
import numpy as np
import decond

def use_matrices():
    matrices = [np.ones((500, 500)) for _ in range(8)]

for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    use_matrices()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have rules of their own")
def test_matrices_are_made_in_the_memory_of_freed_ones():
    found = subprocess.run([sys.executable, "-c", MANY_MATRICES], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 100  # of 3,900 pages
