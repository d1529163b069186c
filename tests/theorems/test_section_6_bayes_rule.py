"""Section 6 and appendix E: the deconditional operator as a nonparametric Bayes' rule."""

import numpy as np
import oracles
import pytest

from decond import ConditionalMeanOperator, CovarianceOperator, DeconditionalMeanOperator, kernels

EPSILON = 0.03
SMALL = 1e-8  # a limit to about five digits: the bias is of order 1e-8 over the smallest eigenvalue of C_XX
LABELS = kernels.Categorical()


def fit_table(table, y_prior, lam, eps=EPSILON):
    dmo = DeconditionalMeanOperator(LABELS, LABELS, regularization=lam, evidence_regularization=eps)
    return dmo.fit(table.x, table.y, y_prior)


def one_hot_rows(labels, size):
    return (labels == np.arange(size)).T.astype(float)


@pytest.fixture
def functional(table):
    """X = r(Y) for a map r that is not invertible: each column has one cell."""
    return table([[3, 0, 5, 0], [0, 2, 0, 0], [0, 0, 0, 4]])


def test_theorem_6_1_assumption_holds_when_x_is_a_function_of_y(functional, wide):
    """C_{X|Y} C_{Y|X} C_XX = C_XX for X = r(Y), and not for a noisy table, with the operators of decond."""
    gaps = []
    for t in (functional, wide):
        forward = ConditionalMeanOperator(LABELS, LABELS, regularization=SMALL).fit(t.x, t.y)
        backward = ConditionalMeanOperator(LABELS, LABELS, regularization=SMALL).fit(t.y, t.x)
        C_XX = CovarianceOperator(LABELS, t.x)(t.x_values, t.x_values)
        np.testing.assert_allclose(C_XX, np.diag(t.joint.sum(1)), atol=1e-15)
        product = t.Phi @ forward.weights(t.y_values) @ t.Psi @ backward.weights(t.x_values) @ C_XX
        np.testing.assert_allclose(product, t.x_given_y @ t.y_given_x @ C_XX, atol=1e-6)
        gaps.append(np.abs(product - C_XX).max())
    assert gaps[0] < 1e-6
    assert gaps[1] > 0.05


def test_theorem_6_1_deconditional_operator_is_the_posterior_operator(functional):
    """C'_{X|Y} = C_{Y|X} where the assumption holds: both operators of decond, at the same epsilon."""
    g = np.array([1.0, -2.0, 0.5, 3.0])[functional.y[:, 0].astype(int)]
    posterior = ConditionalMeanOperator(LABELS, LABELS, regularization=EPSILON).fit(functional.y, functional.x)
    deconditional = fit_table(functional, functional.y, SMALL)
    np.testing.assert_allclose(
        deconditional.deconditional_mean(g, functional.x_values),
        posterior.expectation(g, functional.x_values),
        atol=1e-5,
    )


def test_theorem_6_1_evidence_operators_coincide(functional):
    """C'_XX = C_{X|Y} C_YY C_{X|Y}^T = C_XX, with C_{X|Y} from decond."""
    cmo = ConditionalMeanOperator(LABELS, LABELS, regularization=SMALL).fit(functional.x, functional.y)
    C = functional.Phi @ cmo.weights(functional.y_values)
    evidence = C @ oracles.covariance(functional.Psi) @ C.T
    np.testing.assert_allclose(evidence, oracles.covariance(functional.Phi), atol=1e-5)


def test_theorem_6_1_is_not_so_in_general(wide):
    """Without the assumption the deconditional operator is not the posterior operator."""
    weights = fit_table(wide, wide.y, SMALL, SMALL).weights(wide.x_values)
    assert np.abs(wide.Psi @ weights - wide.y_given_x).max() > 0.2


def test_section_6_prior_is_free_and_bayes_rule_holds(functional):
    """Pairs from p(x | y) q(y) and prior points from p(y) give p(y | x), not q(y | x)."""
    counts = np.array([6, 1, 2, 3])
    y_prior = np.repeat(functional.y_values, counts, axis=0)
    joint = functional.x_given_y * (counts / counts.sum())
    posterior = (joint / joint.sum(1)[:, None]).T
    weights = fit_table(functional, y_prior, SMALL, SMALL).weights(functional.x_values)
    np.testing.assert_allclose(one_hot_rows(y_prior, 4) @ weights, posterior, atol=1e-5)
    assert np.abs(posterior - functional.y_given_x).max() > 0.3


def test_appendix_e_joint_is_matched_without_the_assumption(wide):
    """D_{Y|X} = C'_{X|Y} and D_XX = C'_XX always give the joint D_{Y|X} D_XX = C_YX."""
    backward = wide.Psi @ fit_table(wide, wide.y, SMALL, SMALL).weights(wide.x_values)
    C_YY = oracles.covariance(wide.Psi)
    evidence = wide.x_given_y @ C_YY @ wide.x_given_y.T
    np.testing.assert_allclose(backward @ evidence, wide.joint.T, atol=1e-5)
    assert np.abs(evidence - oracles.covariance(wide.Phi)).max() > 0.05


@pytest.mark.parametrize("form", ["task", "transformation"])
def test_theorem_6_2_dmo_becomes_the_cmo_of_the_other_direction(sample, form):
    """m = n, y_tilde = y, lambda -> 0: the weights tend to (K + n epsilon I)^-1 k(x), as O(lambda)."""
    other = ConditionalMeanOperator(sample.kernel_y, sample.kernel_x, regularization=EPSILON)
    limit = other.fit(sample.y, sample.x).weights(sample.x_star)
    np.testing.assert_allclose(limit, oracles.transformation(sample.K, sample.k_star, EPSILON), rtol=1e-10)
    errors = []
    for lam in (1e-6, 1e-7, 1e-8):
        dmo = DeconditionalMeanOperator(
            sample.kernel_x, sample.kernel_y, regularization=lam, evidence_regularization=EPSILON, form=form
        ).fit(sample.x, sample.y, sample.y)
        errors.append(np.abs(dmo.weights(sample.x_star) - limit).max())
    assert errors[2] < 1e-6
    np.testing.assert_allclose(errors[:2], np.array(errors[1:]) * 10.0, rtol=1e-2)


def test_section_6_distinct_values_of_y_suffice(sample):
    """For estimates: where all y differ, C'_XX tends to C_XX as lambda -> 0, though x is not a function of y."""
    gaps = {}
    for name, y in (("distinct", sample.y), ("repeated", np.round(sample.y))):
        dmo = DeconditionalMeanOperator(sample.kernel_x, sample.kernel_y, SMALL, EPSILON).fit(sample.x, y, y)
        evidence = dmo.evidence_operator()(sample.x_star, sample.x_star)
        plain = oracles.covariance(sample.k(sample.x_star, sample.x))
        gaps[name] = np.abs(evidence - plain).max()
    assert gaps["distinct"] < 1e-4
    assert gaps["repeated"] > 0.01
