"""Section 7 and Table F.1: third-order operators, and the joint and evidence operators as objects."""

import numpy as np
import oracles
import pytest

from decond import ConditionalMeanOperator, DeconditionalMeanOperator, KernelBayesRule, features, kernels

LAMBDA, EPSILON = 0.02, 0.03
PHI, PSI = features.Polynomial(2), features.Polynomial(3)
LABELS = kernels.Categorical()
VARIANTS = ["a", "b", "importance"]


def matrix(operator, phi, psi):
    """The operator between finite features, from its points and weights."""
    W = operator.weights if operator.weights.ndim == 2 else np.diag(operator.weights)
    return phi(operator.x).T @ W @ psi(operator.y)


@pytest.fixture
def maps(sample):
    """Features of the sample, columns are points."""
    return PHI(sample.x).T, PSI(sample.y).T, PSI(sample.y_tilde).T


@pytest.fixture
def cmo(sample):
    return ConditionalMeanOperator(PHI, PSI, LAMBDA).fit(sample.x, sample.y)


@pytest.fixture
def dmo(sample):
    return DeconditionalMeanOperator(PHI, PSI, LAMBDA, EPSILON, form="task").fit(sample.x, sample.y, sample.y_tilde)


def fit_rule(sample, variant, regularizer="I"):
    rule = KernelBayesRule(PHI, PSI, variant, regularizer, LAMBDA, EPSILON)
    return rule.fit(sample.x, sample.y, sample.y_tilde)


def test_section_7_third_order_operators_at_one_point(sample, maps, cmo):
    """C_XX|Y ell(y, .) and C_XY|Y ell(y, .) as tensors of features."""
    Phi, Psi, _ = maps
    for y in sample.y_star:
        psi = PSI(y[None])[0]
        covariance = oracles.third_order(Phi, Phi, Psi, psi, LAMBDA)
        np.testing.assert_allclose(matrix(cmo.covariance(y[None]), PHI, PHI), covariance, rtol=1e-8, atol=1e-10)
        cross = oracles.third_order(Phi, Psi, Psi, psi, LAMBDA)
        np.testing.assert_allclose(matrix(cmo.cross_covariance(y[None]), PHI, PSI), cross, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_section_7_third_order_operators_at_an_embedding_of_the_prior(sample, maps, cmo, weighted):
    Phi, Psi, Psi_tilde = maps
    weights = np.linspace(-0.1, 0.4, sample.m) if weighted else None
    mu = oracles.mean_embedding(Psi_tilde, weights)
    covariance, cross = cmo.covariance(sample.y_tilde, weights), cmo.cross_covariance(sample.y_tilde, weights)
    expected = oracles.third_order(Phi, Phi, Psi, mu, LAMBDA)
    np.testing.assert_allclose(matrix(covariance, PHI, PHI), expected, rtol=1e-8, atol=1e-10)
    expected = oracles.third_order(Phi, Psi, Psi, mu, LAMBDA)
    np.testing.assert_allclose(matrix(cross, PHI, PSI), expected, rtol=1e-8, atol=1e-10)


def test_section_7_third_order_operators_encode_conditional_expectations(wide):
    """E[f(X) f'(X) | Y = y] and E[f(X) g(Y) | Y = y] = g(y) E[f(X) | Y = y] on a table, as lambda -> 0."""
    cmo = ConditionalMeanOperator(LABELS, LABELS, 1e-8).fit(wide.x, wide.y)
    f, f_prime, g = np.array([2.0, -1.0, 0.5]), np.array([0.3, 1.0, -2.0]), np.array([1.0, 3.0, -1.0, 0.5])
    at_x, at_y = wide.x[:, 0].astype(int), wide.y[:, 0].astype(int)
    for j, y in enumerate(wide.y_values):
        second = cmo.covariance(y[None]).expectation(f[at_x], f_prime[at_x])
        assert second == pytest.approx((f * f_prime) @ wide.x_given_y[:, j], abs=1e-6)
        joint = cmo.cross_covariance(y[None]).expectation(f[at_x], g[at_y])
        assert joint == pytest.approx(g[j] * (f @ wide.x_given_y[:, j]), abs=1e-6)


def test_appendix_f_diagonal_comes_from_third_order_operators(sample):
    """D = diag(A 1): m times the weights of C_XX|Y and C_XY|Y at the embedding of the prior."""
    D = sample.A(LAMBDA).sum(1)
    cmo = ConditionalMeanOperator(sample.kernel_x, sample.kernel_y, LAMBDA).fit(sample.x, sample.y)
    rule = KernelBayesRule(sample.kernel_x, sample.kernel_y, "b", "I", LAMBDA, EPSILON)
    rule.fit(sample.x, sample.y, sample.y_tilde)
    for operator in (
        cmo.covariance(sample.y_tilde),
        cmo.cross_covariance(sample.y_tilde),
        rule.joint_operator(),
        rule.evidence_operator(),
    ):
        np.testing.assert_allclose(sample.m * operator.weights, D, rtol=1e-9)


@pytest.mark.parametrize("form", ["task", "transformation", "features"])
def test_appendix_b_joint_and_evidence_operators_of_the_dmo(sample, maps, form):
    """Equations B.5 and B.6, whichever form the operator is solved in."""
    fitted = DeconditionalMeanOperator(PHI, PSI, LAMBDA, EPSILON, form).fit(sample.x, sample.y, sample.y_tilde)
    joint, evidence = oracles.dmo_joint(*maps, LAMBDA), oracles.dmo_evidence(*maps, LAMBDA)
    np.testing.assert_allclose(matrix(fitted.joint_operator(), PHI, PSI), joint, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(matrix(fitted.evidence_operator(), PHI, PHI), evidence, rtol=1e-8, atol=1e-10)


def test_appendix_b_operators_of_the_dmo_evaluate_as_functions(sample, maps, dmo):
    """mu_XY(x, y) and mu_XX(x, x') with a full matrix of weights, and the adjoint."""
    joint, evidence = dmo.joint_operator(), dmo.evidence_operator()
    left, right = PHI(sample.x_star), PSI(sample.y_star)
    expected = left @ oracles.dmo_joint(*maps, LAMBDA) @ right.T
    np.testing.assert_allclose(joint(sample.x_star, sample.y_star), expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(joint.T(sample.y_star, sample.x_star), expected.T, rtol=1e-8, atol=1e-10)
    expected = left @ oracles.dmo_evidence(*maps, LAMBDA) @ left.T
    np.testing.assert_allclose(evidence(sample.x_star, sample.x_star), expected, rtol=1e-8, atol=1e-10)


def test_appendix_b_operators_of_the_dmo_encode_expectations(wide):
    """E[f(X) g(Y)] under the likelihood and another prior; and E[E[f(X) | Y]^2], which is not E[f(X)^2]."""
    counts = np.array([6, 1, 2, 3])
    y_prior = np.repeat(wide.y_values, counts, axis=0)
    dmo = DeconditionalMeanOperator(LABELS, LABELS, 1e-8, EPSILON).fit(wide.x, wide.y, y_prior)
    f, g = np.array([2.0, -1.0, 0.5]), np.array([1.0, 3.0, -1.0, 0.5])
    f_x, g_prior, prior = f[wide.x[:, 0].astype(int)], g[y_prior[:, 0].astype(int)], counts / counts.sum()
    means = f @ wide.x_given_y
    joint, evidence = dmo.joint_operator(), dmo.evidence_operator()
    assert joint.expectation(f_x, g_prior) == pytest.approx((means * g) @ prior, abs=1e-6)
    np.testing.assert_allclose(joint.apply(g_prior)(wide.x_values), wide.x_given_y @ (g * prior), atol=1e-6)
    assert evidence.expectation(f_x, f_x) == pytest.approx(means**2 @ prior, abs=1e-6)
    assert evidence.expectation(f_x, f_x) < f**2 @ wide.x_given_y @ prior - 0.1


@pytest.mark.parametrize("variant", VARIANTS)
def test_appendix_f_joint_and_evidence_operators_of_the_rules(sample, maps, variant):
    """The columns "Joint Operator" and "Evidence Operator" of Table F.1."""
    Phi, Psi, Psi_tilde = maps
    rule = fit_rule(sample, variant)
    mu = oracles.mean_embedding(Psi_tilde)
    joint, evidence = (oracles.third_order(Phi, other, Psi, mu, LAMBDA) for other in (Psi, Phi))
    if variant == "a":
        joint = oracles.dmo_joint(*maps, LAMBDA)
    if variant == "importance":
        D = np.maximum(oracles.transformation(Psi.T @ Psi, Psi.T @ Psi_tilde, LAMBDA).sum(1), 0.0) / sample.m
        joint, evidence = Phi @ np.diag(D) @ Psi.T, Phi @ np.diag(D) @ Phi.T
    np.testing.assert_allclose(matrix(rule.joint_operator(), PHI, PSI), joint, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(matrix(rule.evidence_operator(), PHI, PHI), evidence, rtol=1e-8, atol=1e-10)


def test_appendix_f_dmo_is_made_of_its_operators(sample, maps, dmo):
    """C_XY^T (C'_XX + epsilon I)^-1 from the two objects, against the weights of the operator."""
    joint, evidence = matrix(dmo.joint_operator(), PHI, PSI), matrix(dmo.evidence_operator(), PHI, PHI)
    expected = oracles.posterior_operator_I(joint, evidence, EPSILON) @ PHI(sample.x_star).T
    np.testing.assert_allclose(maps[2] @ dmo.weights(sample.x_star), expected, rtol=1e-7)


@pytest.mark.parametrize("regularizer", ["I", "II"])
@pytest.mark.parametrize("variant", ["a", "b"])
def test_appendix_f_rules_are_made_of_their_operators(sample, maps, variant, regularizer):
    rule = fit_rule(sample, variant, regularizer)
    joint, evidence = matrix(rule.joint_operator(), PHI, PSI), matrix(rule.evidence_operator(), PHI, PHI)
    invert = oracles.posterior_operator_I if regularizer == "I" else oracles.posterior_operator_II
    points = maps[2] if variant == "a" else maps[1]
    expected = invert(joint, evidence, EPSILON) @ PHI(sample.x_star).T
    np.testing.assert_allclose(points @ rule.weights(sample.x_star), expected, rtol=1e-6)


@pytest.mark.parametrize("method", ["joint_operator", "evidence_operator"])
@pytest.mark.parametrize("operator", [DeconditionalMeanOperator, KernelBayesRule])
def test_operators_need_data(operator, method):
    with pytest.raises(RuntimeError):
        getattr(operator(PHI, PSI), method)()
