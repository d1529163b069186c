"""Section 8.3 and appendix G through `lfi.DME`: Algorithm 8.1 as written, with its learning."""

import warnings

import numpy as np
import oracle_kernels
import oracles
import pytest
from scipy import stats

from decond.kernels import RBF
from decond.lfi import PosteriorWarning, Prior, Simulations
from decond.lfi.methods.dme import DME

PRIOR = Prior({"mean": stats.norm(0.0, 1.0)})


@pytest.fixture(scope="module")
def sims():
    rng = np.random.default_rng(0)
    theta = PRIOR.sample(60, rng)
    return Simulations(theta, theta + 0.5 * rng.standard_normal(theta.shape))


def as_written(sims, **settings):
    """The paper's algorithm, its posterior, and the observation that its kernels see."""
    method = DME(objective="evidence", robust=False, n_prior=150, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)
        posterior = method.fit(sims, PRIOR).posterior([0.7])
    return method, posterior, method._summarize(np.array([[0.7]]))


def test_algorithm_8_1_weights_with_delta_from_lambda(sims):
    """Lines 2 to 5, and the proxy of appendix G: delta = n lambda / m."""
    method, posterior, _ = as_written(sims, kernel_x=RBF(0.4), kernel_theta=RBF(0.8), regularization=0.02)
    draws = PRIOR.from_working(posterior.embedding.points)
    assert method.choice_.evidence_regularization == pytest.approx(60 * 0.02 / 150)
    L, L_tilde = (oracle_kernels.rbf(sims.theta, rows, 0.8) for rows in (sims.theta, draws))
    A = oracles.transformation(L, L_tilde, 0.02)
    K, k = (oracle_kernels.rbf(sims.x, rows, 0.4) for rows in (sims.x, np.array([[0.7]])))
    expected = oracles.dmo_weights_woodbury(K, A, k, 60 * 0.02 / 150)[:, 0]
    np.testing.assert_allclose(posterior.embedding.weights, expected, rtol=1e-6, atol=1e-9)


def test_algorithm_8_1_super_samples(sims):
    """Lines 6 to 9: the draws are those of herding among the prior draws, with ell' = ell."""
    _, posterior, _ = as_written(sims, kernel_x=RBF(0.4), kernel_theta=RBF(0.8), regularization=0.02)
    embedding = posterior.embedding
    draws = PRIOR.from_working(embedding.points)
    chosen = oracles.herd(embedding(embedding.points), oracle_kernels.rbf(draws, draws, 0.8), 10_000)
    expected = draws[chosen]
    np.testing.assert_array_equal(np.sort(posterior.samples, axis=0), np.sort(expected, axis=0))


def test_algorithm_8_1_learning_reaches_a_maximum_of_q_bar(sims):
    """Line 11 and Theorem G.1, with lambda kept as in the paper's experiments: no step in epsilon gains."""
    method, posterior, y = as_written(sims, optimum="local", regularization=0.1)
    draws = posterior.embedding.points
    at = np.log([
        method.choice_.kernel_theta.lengthscale, method.choice_.kernel_x.lengthscale, method.choice_.regularization
    ])  # fmt: skip

    def log_q_bar(logs):
        length, epsilon, lam = np.exp(logs)
        L = oracle_kernels.rbf(method.phi_, method.phi_, length)
        A = oracles.transformation(L, oracle_kernels.rbf(method.phi_, draws, length), lam)
        return np.log(oracles.q_bar(oracles.epsilon_kernel(y[0], method.x_, epsilon), A))

    assert method.choice_.objective == pytest.approx(log_q_bar(at), rel=1e-5, abs=1e-5)
    for direction in (1.0, -1.0):
        assert log_q_bar(at + np.array([0.0, 0.2 * direction, 0.0])) < method.choice_.objective


def test_algorithm_8_1_global_optimum_is_at_least_the_local_one(sims):
    objectives = [as_written(sims, optimum=optimum)[0].choice_.objective for optimum in ("global", "local")]
    assert objectives[0] >= objectives[1] - 1e-3
