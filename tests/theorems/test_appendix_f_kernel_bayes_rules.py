"""Section 7 and appendix F: the deconditional operator and the kernel Bayes' rules (Tables F.1 and F.2)."""

import numpy as np
import oracles
import pytest

from decond import DeconditionalMeanOperator, KernelBayesRule

LAMBDA, EPSILON = 0.02, 0.03
RULES = {
    ("a", "I"): oracles.kbr_a_I,
    ("a", "II"): oracles.kbr_a_II,
    ("b", "I"): oracles.kbr_b_I,
    ("b", "II"): oracles.kbr_b_II,
    ("importance", "I"): oracles.kbr_importance,
}
TABLE = [rule for rule in RULES if rule[0] != "importance"]


def fit_rule(sample, variant, regularizer, lam=LAMBDA, eps=EPSILON, y_prior=None):
    return KernelBayesRule(
        sample.kernel_x,
        sample.kernel_y,
        variant=variant,
        regularizer=regularizer,
        regularization=lam,
        evidence_regularization=eps,
    ).fit(sample.x, sample.y, sample.y_tilde if y_prior is None else y_prior)


def fit_dmo(sample, lam=LAMBDA, eps=EPSILON, y_prior=None, form="auto"):
    return DeconditionalMeanOperator(
        sample.kernel_x, sample.kernel_y, regularization=lam, evidence_regularization=eps, form=form
    ).fit(sample.x, sample.y, sample.y_tilde if y_prior is None else y_prior)


def transformation(sample, y_prior):
    return oracles.transformation(sample.ell(sample.y, sample.y), sample.ell(sample.y, y_prior), LAMBDA)


@pytest.fixture
def uneven(sample):
    """Prior points in one corner: A 1 has a negative entry there, so that D has no real square root."""
    y_prior = np.full((4, 1), 1.9)
    assert transformation(sample, y_prior).sum(1).min() < -1e-3
    return y_prior


@pytest.mark.parametrize("rule", RULES, ids="-".join)
def test_table_f_1_kernel_bayes_rule(sample, rule):
    expected = RULES[rule](sample.K, sample.A(LAMBDA), sample.k_star, EPSILON)
    fitted = fit_rule(sample, *rule)
    np.testing.assert_allclose(fitted.weights(sample.x_star), expected, rtol=1e-8, atol=1e-12)
    points = sample.y_tilde if rule[0] == "a" else sample.y
    embedding = fitted.embedding(sample.x_star[0])
    np.testing.assert_allclose(
        embedding(sample.y_star), sample.ell(sample.y_star, points) @ expected[:, 0], rtol=1e-8
    )


@pytest.mark.parametrize("rule", RULES, ids="-".join)
def test_table_f_1_kernel_bayes_rule_with_negative_prior_weights(sample, rule, uneven):
    A = transformation(sample, uneven)
    expected = RULES[rule](sample.K, A, sample.k_star, EPSILON)
    fitted = fit_rule(sample, *rule, y_prior=uneven)
    np.testing.assert_allclose(fitted.weights(sample.x_star), expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("regularizer", ["I", "II"])
def test_appendix_f_symmetric_forms(sample, regularizer):
    """D^1/2 on both sides gives the same KBR(b) where D is positive, and is what is factored there."""
    A = sample.A(LAMBDA)
    assert A.sum(1).min() > 0.0
    rule = fit_rule(sample, "b", regularizer)
    assert rule.evidence_factor_ is not None
    weights = rule.weights(sample.x_star)
    general = {"I": oracles.kbr_b_I, "II": oracles.kbr_b_II}[regularizer]
    symmetric = {"I": oracles.kbr_b_I_symmetric, "II": oracles.kbr_b_II_symmetric}[regularizer]
    for oracle in (general, symmetric):
        np.testing.assert_allclose(weights, oracle(sample.K, A, sample.k_star, EPSILON), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("regularizer", ["I", "II"])
def test_appendix_f_symmetric_forms_with_zeros_of_the_density_ratio(sample, regularizer):
    """Woodbury's identity needs no inverse of D: an entry may be zero."""
    rule = fit_rule(sample, "b", regularizer)
    A = sample.A(LAMBDA)
    A[2] = 0.0
    rule.ratio_ = A.sum(1)
    rule.evidence_factor_ = rule._symmetric_factor()
    assert rule.evidence_factor_ is not None
    general = {"I": oracles.kbr_b_I, "II": oracles.kbr_b_II}[regularizer]
    expected = general(sample.K, A, sample.k_star, EPSILON)
    np.testing.assert_allclose(rule.weights(sample.x_star), expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("rule", [("b", "I"), ("b", "II"), ("a", "I"), ("a", "II")], ids="-".join)
def test_appendix_f_symmetric_forms_are_left_where_the_root_is_not_real(sample, rule, uneven):
    """KBR(a) has none; KBR(b) has none where the density ratio has negative entries."""
    assert fit_rule(sample, *rule, y_prior=uneven).evidence_factor_ is None
    assert (fit_rule(sample, *rule).evidence_factor_ is None) == (rule[0] == "a")


def test_importance_weights_change_nothing_where_the_density_ratio_is_positive(sample):
    """Clipping is the only difference from KBR(b)-I (Xu et al. 2022)."""
    np.testing.assert_allclose(
        fit_rule(sample, "importance", "I").weights(sample.x_star),
        fit_rule(sample, "b", "I").weights(sample.x_star),
        rtol=1e-8,
        atol=1e-12,
    )


def test_table_f_2_degenerate_dmo(sample):
    expected = oracles.dmo_degenerate(sample.K, sample.A(LAMBDA), sample.k_star)
    weights = fit_dmo(sample, eps=1e-13, form="transformation").weights(sample.x_star)
    np.testing.assert_allclose(weights, expected, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize(("regularizer", "eps"), [("I", 1e-12), ("II", 1e-14)])
def test_table_f_2_degenerate_kbr_a(sample, regularizer, eps):
    expected = oracles.kbr_a_degenerate(sample.K, sample.A(LAMBDA), sample.k_star)
    weights = fit_rule(sample, "a", regularizer, eps=eps).weights(sample.x_star)
    np.testing.assert_allclose(weights, expected, rtol=0.0, atol=1e-8)


@pytest.mark.parametrize(("regularizer", "eps"), [("I", 1e-12), ("II", 1e-14)])
def test_table_f_2_degenerate_kbr_b(sample, regularizer, eps):
    expected = oracles.kbr_b_degenerate(sample.K, sample.k_star)
    weights = fit_rule(sample, "b", regularizer, eps=eps).weights(sample.x_star)
    np.testing.assert_allclose(weights, expected, rtol=0.0, atol=1e-8)


def test_section_7_kbr_b_forgets_the_prior_and_the_dmo_does_not(sample):
    """As epsilon -> 0 two priors give one KBR(b) posterior, and still two deconditional ones."""
    priors = sample.y_tilde, np.linspace(-2.0, 0.5, 12)[:, None]
    g = np.sin

    def spread(fit, points, eps):
        first, second = (g(points(y_prior))[:, 0] @ fit(eps, y_prior).weights(sample.x_star) for y_prior in priors)
        return np.abs(first - second).max()

    def rule(eps, y_prior):
        return fit_rule(sample, "b", "I", eps=eps, y_prior=y_prior)

    def dmo(eps, y_prior):
        return fit_dmo(sample, eps=eps, y_prior=y_prior, form="transformation")

    assert spread(rule, lambda _: sample.y, EPSILON) > 0.05
    assert spread(rule, lambda _: sample.y, 1e-12) < 1e-7
    assert spread(dmo, lambda y_prior: y_prior, 1e-12) > 0.05


@pytest.mark.parametrize("rule", TABLE, ids="-".join)
def test_appendix_f_other_degenerate_case_is_a_conditional_mean(sample, rule):
    """m = n, y_tilde = y, lambda -> 0: (K + n epsilon I)^-1 k(x) for I.

    The paper says so of all estimators; with regularizer II the limit is [K^2 + n^2 epsilon I]^-1 K k(x).
    """
    K, n = sample.K, sample.n
    expected = {
        "I": np.linalg.inv(K + n * EPSILON * np.eye(n)) @ sample.k_star,
        "II": np.linalg.inv(K @ K + n**2 * EPSILON * np.eye(n)) @ K @ sample.k_star,
    }
    weights = fit_rule(sample, *rule, lam=1e-10, y_prior=sample.y).weights(sample.x_star)
    np.testing.assert_allclose(weights, expected[rule[1]], atol=1e-6)
    assert np.abs(expected["I"] - expected["II"]).max() > 0.01
