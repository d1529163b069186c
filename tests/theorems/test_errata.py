"""Statements of the paper that hold only with one more assumption, each with the smallest counterexample."""

import numpy as np
import pytest

from decond import ConditionalMeanOperator, DeconditionalMeanOperator, KernelBayesRule, kernels

LABELS = kernels.Categorical()
SMALL = 1e-9


def test_erratum_theorem_4_1_operator_is_not_unique():
    """X has one value, Y two: for every prior p of Y the operator (p, 1 - p) inverts all conditional means."""
    operators = []
    for counts in ([1, 1], [1, 3]):
        y_prior = np.repeat([0.0, 1.0], counts)
        dmo = DeconditionalMeanOperator(LABELS, LABELS, SMALL, SMALL).fit([0.0, 0.0], [0.0, 1.0], y_prior)
        weights = dmo.weights([0.0])[:, 0]
        operators.append([weights[y_prior == value].sum() for value in (0.0, 1.0)])
        f, g = 2.0, np.full(len(y_prior), 2.0)  # g(y) = E[f(X) | Y = y] = f
        assert dmo.deconditional_mean(g, [0.0])[0] == pytest.approx(f, abs=1e-6)
    np.testing.assert_allclose(operators, [[0.5, 0.5], [0.25, 0.75]], atol=1e-6)


def test_erratum_theorem_6_2_needs_a_nonsingular_gram_matrix_of_y():
    """Three pairs with y repeated: A tends to a projection, not to I, and the operators differ."""
    x, y, epsilon = np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0]), 0.1
    dmo = DeconditionalMeanOperator(LABELS, LABELS, SMALL, epsilon).fit(x, y, y)
    cmo = ConditionalMeanOperator(LABELS, LABELS, epsilon).fit(y, x)
    indicator = (y == 0.0).astype(float)  # of Y = 0, given X = 0 and X = 1
    deconditional = indicator @ dmo.weights([0.0, 1.0])
    conditional = indicator @ cmo.weights([0.0, 1.0])
    np.testing.assert_allclose(conditional, [10 / 13, 10 / 23], atol=1e-6)
    np.testing.assert_allclose(deconditional, [130 / 119, 30 / 119], atol=1e-6)


def test_erratum_table_f_2_needs_as_many_prior_points_as_pairs():
    """With m < n, A A^T is singular; the limit is [A^T K A]^-1 A^T k(x)."""
    x, y, y_prior = np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([0.0])
    k, ell = kernels.RBF(), kernels.RBF()
    dmo = DeconditionalMeanOperator(k, ell, 0.05, 1e-12).fit(x, y, y_prior)
    A = np.linalg.solve(ell(y) + 0.1 * np.eye(2), ell(y, y_prior))
    assert np.linalg.matrix_rank(A @ A.T) == 1
    expected = A.T @ k(x, [0.5]) / (A.T @ k(x) @ A)
    np.testing.assert_allclose(dmo.weights([0.5]), expected, rtol=1e-6)


@pytest.mark.parametrize(("regularizer", "expected"), [("I", 2 / 3), ("II", 1 / 2)])
@pytest.mark.parametrize("variant", ["a", "b"])
def test_erratum_appendix_f_regularizer_ii_does_not_revert_to_a_conditional_embedding(variant, regularizer, expected):
    """The table [[1, 0], [0, 1]] and epsilon = 1/4: 1/(1 + 2 epsilon) with I, 1/(1 + 4 epsilon) with II."""
    pairs, epsilon = np.array([0.0, 1.0]), 0.25
    rule = KernelBayesRule(LABELS, LABELS, variant, regularizer, SMALL, epsilon).fit(pairs, pairs, pairs)
    np.testing.assert_allclose(rule.weights([0.0])[:, 0], [expected, 0.0], atol=1e-7)
    cmo = ConditionalMeanOperator(LABELS, LABELS, epsilon).fit(pairs, pairs)
    np.testing.assert_allclose(cmo.weights([0.0])[:, 0], [2 / 3, 0.0], atol=1e-7)
