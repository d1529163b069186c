"""Section 5: the deconditional estimators as solutions of chained least squares (TTLRR and TTKRR)."""

import jax
import numpy as np
import oracles
import pytest

from decond import DeconditionalMeanOperator, features
from decond.regression import FunctionPrior, TaskTransformed, WeightPrior, estimate

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
    with jax.enable_x64(True):
        return np.asarray(jax.grad(loss)(at))


def test_theorem_5_1_inner_loss_is_stationary_at_its_solution(sample, linear):
    """v_hat[w] minimizes the first loss, for a w that is not special."""
    _, Phi, Psi, _, _ = linear
    w = np.linspace(-1.0, 1.0, len(Phi))
    v = oracles.inner_solution(w, Phi, Psi, LAMBDA)

    def loss(v):
        return oracles.inner_loss(v, w, Phi, Psi, LAMBDA)

    np.testing.assert_allclose(gradient(loss, v), 0.0, atol=1e-10)
    assert np.abs(gradient(loss, v + 0.01)).max() > 1e-3


def test_theorem_5_1_outer_loss_is_stationary_at_the_parametric_estimator(sample, linear):
    """The weights of the estimate minimize the second loss, through v_hat[w]."""
    phi, Phi, Psi, Psi_tilde, observation = linear
    w = estimate(WeightPrior(phi), observation, sample.z).weights

    def loss(w):
        return oracles.outer_loss(w, sample.z, Phi, Psi, Psi_tilde, LAMBDA, EPSILON)

    np.testing.assert_allclose(gradient(loss, w), 0.0, atol=1e-10)
    assert np.abs(gradient(loss, w + 0.01)).max() > 1e-3


def test_theorem_5_1_outer_loss_is_stationary_by_central_differences(sample, linear):
    """The loss is quadratic, so that a central difference with a step of one is its exact derivative."""
    phi, Phi, Psi, Psi_tilde, observation = linear
    w = estimate(WeightPrior(phi), observation, sample.z).weights
    for step in np.eye(len(w)):
        above, below = (
            oracles.outer_loss(w + s * step, sample.z, Phi, Psi, Psi_tilde, LAMBDA, EPSILON) for s in (1, -1)
        )
        assert above - below == pytest.approx(0.0, abs=1e-9 * above)


def test_lemma_5_2_kernel_trick_relates_dual_and_primal_weights(sample, linear):
    """w_bar = Phi alpha_bar."""
    phi, Phi, _, _, observation = linear
    primal = estimate(WeightPrior(phi), observation, sample.z).weights
    dual = estimate(FunctionPrior(phi.kernel()), observation, sample.z).weights
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

    np.testing.assert_allclose(gradient(outer, alpha), 0.0, atol=1e-10)
    assert np.abs(gradient(outer, alpha + 0.01)).max() > 1e-3
