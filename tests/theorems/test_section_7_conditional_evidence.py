"""Section 7: the marginal likelihood of a conditional mean embedding, as a special case of Theorem 5.3."""

import numpy as np
import oracles
import pytest

from decond import ConditionalMeanOperator, features
from decond.gp import FunctionPrior, TaskTransformed, Transformed, condition, conditional_model, log_evidence

LAMBDA = 0.02


@pytest.fixture
def f_values(sample):
    """Two functions of x at the pairs."""
    return np.column_stack([sample.x[:, 0] ** 2, np.sin(sample.x[:, 1])])


def fit(sample, lam=LAMBDA):
    return ConditionalMeanOperator(sample.kernel_x, sample.kernel_y, lam).fit(sample.x, sample.y)


def test_section_7_evidence_is_the_general_one_with_identity_and_isotropic_noise(sample, f_values):
    """M = I and Sigma = n lambda I, in the method, in the model that is learned, and in plain NumPy."""
    expected = oracles.cmo_log_evidence(sample.ell(sample.y, sample.y), f_values, LAMBDA)
    noise = np.sqrt(sample.n * LAMBDA)
    general = log_evidence(
        FunctionPrior(sample.kernel_y), Transformed(sample.y, np.eye(sample.n), noise=noise), f_values
    )
    learned = conditional_model(sample.kernel_y, sample.y, LAMBDA).log_evidence(f_values)
    for found in (fit(sample).log_evidence(f_values), general, learned):
        assert found == pytest.approx(expected, rel=1e-10)


def test_section_7_evidence_of_one_function(sample, f_values):
    L = sample.ell(sample.y, sample.y)
    expected = oracles.cmo_log_evidence(L, f_values[:, :1], LAMBDA)
    assert fit(sample).log_evidence(f_values[:, 0]) == pytest.approx(expected, rel=1e-10)


def test_section_7_evidence_of_the_features_of_x(sample):
    """By default the functions are coordinates of k(x, .), so that only K and their number r matter."""
    L, rank = sample.ell(sample.y, sample.y), sample.n
    expected = oracles.cmo_log_evidence_of_features(L, sample.K, rank, LAMBDA)
    assert fit(sample).log_evidence() == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("f_given", [False, True])
def test_section_7_evidence_in_finite_features(sample, f_values, f_given):
    """With fewer features of y than pairs, and a kernel of x of rank three."""
    phi, psi = features.Identity(), features.Polynomial(3)
    cmo = ConditionalMeanOperator(phi, psi.kernel(variance=1.7), LAMBDA).fit(sample.x, sample.y)
    assert cmo.smoother_.rank < sample.n
    L, K = 1.7 * psi(sample.y) @ psi(sample.y).T, sample.x @ sample.x.T
    if f_given:
        expected = oracles.cmo_log_evidence(L, f_values, LAMBDA)
        assert cmo.log_evidence(f_values) == pytest.approx(expected, rel=1e-10)
        assert cmo.log_evidence(f_values[:, 0]) == pytest.approx(
            oracles.cmo_log_evidence(L, f_values[:, :1], LAMBDA), rel=1e-10
        )
    else:
        expected = oracles.cmo_log_evidence_of_features(L, K, np.linalg.matrix_rank(K), LAMBDA)
        assert cmo.log_evidence() == pytest.approx(expected, rel=1e-10)


def test_section_7_evidence_is_where_theorem_6_2_leads(sample, f_values):
    """The evidence of the task-transformed model of Y given X, x_tilde = x and its lambda -> 0 at fixed epsilon.

    Theorem 5.3 ties both regularizations to one noise; this limit needs a mediator noise of its own.
    """
    epsilon_noise = np.sqrt(sample.n * LAMBDA)
    limit = fit(sample).log_evidence(f_values)
    errors = []
    for tau in (1e-2, 1e-3):
        mediated = TaskTransformed(
            sample.y, sample.x, sample.x, sample.kernel_x, noise=epsilon_noise, mediator_noise=tau
        )
        errors.append(abs(log_evidence(FunctionPrior(sample.kernel_y), mediated, f_values) - limit))
    assert errors[1] < 1e-3
    assert errors[1] == pytest.approx(0.01 * errors[0], rel=0.05)  # an error of order tau^2 = n lambda


def test_section_7_conditional_mean_is_the_posterior_mean_of_that_model(sample, f_values):
    model = conditional_model(sample.kernel_y, sample.y, LAMBDA)
    posterior = condition(model.prior, model.observation, f_values)
    expected = fit(sample).expectation(f_values, sample.y_star)
    np.testing.assert_allclose(posterior.mean(sample.y_star), expected, rtol=1e-10)


@pytest.mark.parametrize("path", ["prior.kernel.kernel.lengthscale", "prior.kernel.variance", "observation.noise"])
def test_section_7_gradient_is_that_of_central_differences(sample, f_values, path):
    """At a small step the two agree to six digits; the evidence itself is that of the fitted operator."""
    model = conditional_model(1.3 * sample.kernel_y, sample.y, LAMBDA)
    _, gradient = model.log_evidence_and_gradient(f_values)
    value, step = model.values()[path], 1e-5

    def evidence(change):
        moved = model.with_values({path: value + change})
        lam = moved.observation.noise**2 / sample.n
        cmo = ConditionalMeanOperator(sample.kernel_x, moved.prior.kernel, lam).fit(sample.x, sample.y)
        return cmo.log_evidence(f_values)

    slope = (evidence(step) - evidence(-step)) / (2.0 * step)
    assert gradient[path] == pytest.approx(slope, rel=1e-6)
