"""Section 5: the deconditional estimators as solutions of chained least squares (TTLRR and TTKRR)."""

import numpy as np
import oracles
import pytest

from decond import ConditionalMeanOperator, DeconditionalMeanOperator, features, kernels
from decond.gp import FunctionPrior, TaskTransformed, WeightPrior, estimate

LAMBDA, EPSILON = 0.02, 0.03


@pytest.fixture
def linear(sample):
    """Phi, Psi, Psi_tilde of polynomial features, and the estimate of decond."""
    phi, psi = features.Polynomial(2), features.Polynomial(3)
    observation = TaskTransformed(
        sample.x,
        sample.y,
        sample.y_tilde,
        psi.kernel(),
        noise=np.sqrt(sample.m * EPSILON),
        mediator="map",
        mediator_noise=np.sqrt(sample.n * LAMBDA),
    )
    return phi, phi(sample.x).T, psi(sample.y).T, psi(sample.y_tilde).T, observation


def gradient(loss, at):
    """Central differences with a step of one: the losses are quadratic, so they are exact."""
    return np.array([(loss(at + step) - loss(at - step)) / 2.0 for step in np.eye(len(at))])


@pytest.mark.parametrize("kernel_y", [features.Polynomial(3), kernels.Polynomial(3)], ids=["features", "kernel"])
def test_theorem_5_1_conditional_mean_minimizes_the_inner_loss(sample, linear, kernel_y):
    """g(y) = E[f(X) | Y = y] of decond is v^T psi(y), and this v minimizes the first loss, for any f = w^T phi."""
    phi, Phi, Psi, _, _ = linear
    cmo = ConditionalMeanOperator(phi, kernel_y, regularization=LAMBDA).fit(sample.x, sample.y)
    points = np.linspace(-2.0, 2.0, len(Psi))[:, None]
    for w in np.eye(len(Phi)):
        v = np.linalg.solve(features.Polynomial(3)(points), cmo.expectation(w @ Phi, points))
        np.testing.assert_allclose(v, oracles.inner_solution(w, Phi, Psi, LAMBDA), rtol=1e-7, atol=1e-9)
        slopes = gradient(lambda v, w=w: oracles.inner_loss(v, w, Phi, Psi, LAMBDA), v)
        np.testing.assert_allclose(slopes, 0.0, atol=1e-8)


@pytest.mark.parametrize("form", ["function", "inducing", "weight"])
def test_theorem_5_1_outer_loss_is_stationary_at_the_parametric_estimator(sample, linear, form):
    """The weights of the estimate minimize the second loss, through v_hat[w]."""
    phi, Phi, Psi, Psi_tilde, observation = linear
    w = estimate(WeightPrior(phi), observation, sample.z, form=form).weights
    slopes = gradient(lambda w: oracles.outer_loss(w, sample.z, Phi, Psi, Psi_tilde, LAMBDA, EPSILON), w)
    np.testing.assert_allclose(slopes, 0.0, atol=1e-9)


def test_lemma_5_2_kernel_trick_relates_dual_and_primal_weights(sample, linear):
    """w_bar = Phi alpha_bar, from a p x p and an m x m system."""
    phi, Phi, _, _, observation = linear
    primal = estimate(WeightPrior(phi), observation, sample.z, form="weight").weights
    dual = estimate(FunctionPrior(phi.kernel()), observation, sample.z, form="function").weights
    np.testing.assert_allclose(Phi @ dual, primal, rtol=1e-8)


def test_lemma_5_2_kernel_loss_is_stationary_at_the_nonparametric_estimator(sample):
    """The same chained losses over functions: |f|^2 = alpha^T K alpha and |g|^2 = beta^T L beta."""
    dmo = DeconditionalMeanOperator(
        sample.kernel_x, sample.kernel_y, regularization=LAMBDA, evidence_regularization=EPSILON
    ).fit(sample.x, sample.y, sample.y_tilde)
    fitted = dmo.deconditional_mean(sample.z, sample.x)
    alpha = np.linalg.solve(sample.K, fitted)
    L, L_tilde = sample.ell(sample.y, sample.y), sample.ell(sample.y, sample.y_tilde)
    K, smoother = sample.K, np.linalg.inv(L + sample.n * LAMBDA * np.eye(sample.n))

    def outer(alpha):
        beta = smoother @ (K @ alpha)
        return ((sample.z - beta @ L_tilde) ** 2).mean() + EPSILON * (alpha @ K @ alpha)

    np.testing.assert_allclose(gradient(outer, alpha), 0.0, atol=1e-9)
