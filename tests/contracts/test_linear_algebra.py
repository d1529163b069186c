"""What every factorization and adjoint of `linalg` must satisfy, beside explicit inverses."""

import numpy as np
import pytest

from decond import linalg

SIZES = (1, 5, 300)  # of one entry, small, and larger than the blocks of solves and products


@pytest.fixture(params=SIZES)
def matrix(request):
    root = np.random.default_rng(0).standard_normal((request.param, request.param + 3))
    return root @ root.T + np.eye(request.param)


@pytest.fixture
def columns(matrix):
    return np.random.default_rng(1).standard_normal((len(matrix), 3))


def test_factor_solves_and_has_the_determinant(matrix, columns):
    factor, inverse = linalg.cholesky(matrix, "S"), np.linalg.inv(matrix)
    root = np.linalg.cholesky(matrix)
    assert factor.jitter == 0.0
    assert factor.log_determinant == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-12)
    np.testing.assert_allclose(factor.lower, root, rtol=1e-10, atol=1e-12)
    for right in (columns, np.asfortranarray(columns), columns[:, 0]):
        np.testing.assert_allclose(factor.solve(right), inverse @ right, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(factor.half_solve(right), np.linalg.solve(root, right), rtol=1e-8, atol=1e-10)
        half = factor.half_solve_transposed(right)
        np.testing.assert_allclose(half, np.linalg.solve(root.T, right), rtol=1e-8, atol=1e-10)


def test_inverse_root_has_the_inverse_its_trace_and_its_sandwiches(matrix, columns):
    factor, inverse = linalg.cholesky(matrix, "S"), np.linalg.inv(matrix)
    np.testing.assert_allclose(np.tril(factor.inverse()), np.tril(inverse), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(factor.inverse_diagonal(), np.diag(inverse), rtol=1e-9)
    assert factor.inverse_trace() == pytest.approx(np.trace(inverse), rel=1e-10)
    product = factor.inverse_root().sandwich(columns.T)
    np.testing.assert_allclose(product, np.tril(columns.T @ inverse @ columns), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_jitter_is_relative_to_the_diagonal_and_is_announced(scale):
    """A matrix that is indefinite by 1e-9 of its diagonal gets 1e-8 of it, in whatever units."""
    almost = scale * np.diag([1.0, 1.0, 1.0, -1e-9])
    with pytest.warns(linalg.JitterWarning) as caught:
        factor = linalg.cholesky(almost, "S")
    assert caught[0].message.jitter == factor.jitter
    assert 1e-9 * scale < factor.jitter <= 1e-8 * scale
    added = factor.lower @ factor.lower.T - almost
    np.testing.assert_allclose(added, factor.jitter * np.eye(4), rtol=1e-6, atol=0.0)


def test_matrix_with_a_negative_eigenvalue_is_refused():
    with pytest.raises(linalg.NotPositiveDefiniteError):
        linalg.cholesky(np.diag([1.0, -1e-3]), "S")


def test_low_rank_plus_noise_is_that_matrix(columns):
    """S = W^T P W + s I, for fewer rows than columns and as many."""
    rows, prior, noise = columns.T, np.diag([0.5, 1.0, 2.0]), 0.3
    if rows.shape[1] < 3:
        rows = np.random.default_rng(2).standard_normal((3, 3))
    S = rows.T @ prior @ rows + noise * np.eye(rows.shape[1])
    inverse, right = np.linalg.inv(S), np.random.default_rng(3).standard_normal((len(S), 2))
    low_rank = linalg.LowRankPlusNoise(rows, prior, noise, "S")
    assert low_rank.log_determinant == pytest.approx(np.linalg.slogdet(S)[1], rel=1e-10)
    np.testing.assert_allclose(low_rank.solve(right), inverse @ right, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(low_rank.rows_solve(right), rows @ inverse @ right, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(low_rank.solve_rows(np.eye(3)), inverse @ rows.T, rtol=1e-8, atol=1e-10)


def test_pivoted_cholesky_explains_the_matrix_and_stops_at_its_rank(columns):
    product = columns @ columns.T
    pivots, factor = linalg.pivoted_cholesky(np.diag(product), lambda i: product[i], rank=len(product))
    assert len(pivots) == min(3, len(product))
    assert pivots[0] == np.argmax(np.diag(product))
    np.testing.assert_allclose(factor @ factor.T, product, rtol=1e-8, atol=1e-10)


def test_products_of_symmetric_matrices_read_one_triangle(matrix, columns):
    junk = np.where(np.tri(len(matrix), dtype=bool), matrix, np.nan)
    for left in (columns.T, np.ascontiguousarray(columns.T)):
        np.testing.assert_allclose(linalg.times_symmetric(left, junk, 1.7), 1.7 * left @ matrix, rtol=1e-10)
    np.testing.assert_allclose(linalg.mirrored(np.tril(matrix)), matrix)
    inverse = np.linalg.inv(matrix)
    np.testing.assert_allclose(np.tril(linalg.symmetric_product(matrix, inverse)), np.eye(len(matrix)), atol=1e-9)


def test_adjoints_of_solves_are_those_of_central_differences(matrix, columns):
    """Along a random symmetric change of the matrix, and a random change of the right-hand side."""
    rng = np.random.default_rng(4)
    bar, right_step = rng.standard_normal((2, *columns.shape))
    step = rng.standard_normal(matrix.shape)
    step, h = (step + step.T) / len(matrix), 1e-5
    factor = linalg.cholesky(matrix, "S")
    solution, white = factor.solve(columns), factor.half_solve(columns)
    for solve, (right_bar, matrix_bar) in (
        (np.linalg.solve, linalg.solve_pullback(factor, solution, factor.half_solve(bar))),
        (lambda S, b: np.linalg.solve(np.linalg.cholesky(S), b), linalg.half_solve_pullback(factor, white, bar)),
    ):
        full = linalg.mirrored(np.tril(matrix_bar))
        ends = [(bar * solve(matrix + t * step, columns + t * right_step)).sum() for t in (h, -h)]
        slope = (ends[0] - ends[1]) / (2.0 * h)
        assert (right_bar * right_step).sum() + (full * step).sum() == pytest.approx(slope, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_condition_and_jitter_do_not_depend_on_units(matrix, scale):
    """A diagonal matrix has the ratio of its entries as its condition; jitter is relative to the mean diagonal."""
    diagonal = scale * np.diag([1.0, 5.0, 20.0])
    assert linalg.cholesky(diagonal, "S").condition(20.0 * scale) == pytest.approx(20.0)
    assert linalg.cholesky_if(diagonal, condition=19.0) is None
    assert linalg.cholesky_if(diagonal, condition=21.0).size == 3
    added = linalg.with_jitter(scale * matrix) - scale * matrix
    expected = 1e-10 * scale * np.diag(matrix).mean() * np.eye(len(matrix))
    np.testing.assert_allclose(added, expected, rtol=1e-3, atol=1e-14 * scale * np.abs(matrix).max())


def test_square_root_of_singular_matrices(matrix):
    """Rank one, full rank, and a rank that rounding makes negative: R Rᵀ is the matrix."""
    column = matrix[:, :1]
    bent = column @ column.T - 1e-7 * np.abs(matrix).max() * np.eye(len(matrix))
    for one, tolerance in ((matrix, 1e-12), (column @ column.T, 1e-7), (bent, 1e-5)):
        root = linalg.square_root(one)
        np.testing.assert_allclose(root @ root.T, one, atol=tolerance * np.abs(one).max())
