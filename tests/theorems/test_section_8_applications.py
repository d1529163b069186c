"""Section 8 and appendix G: the toy processes, sparse representations and likelihood-free inference."""

import numpy as np
import oracle_kernels
import oracles
import pytest

from decond import ConditionalMeanOperator, DeconditionalMeanOperator, kernels, problems
from decond.gp import (
    FunctionPrior,
    TaskTransformed,
    condition,
    log_evidence,
    log_evidence_and_gradient,
)
from decond.gp.conditioning import cascade, impute

LAMBDA, DELTA = 0.02, 0.03
LEARNED = (1.03741465, 0.35222978, 0.40144024)


def toy_model(lengthscale_x, lengthscale_y, sigma, mediator="full"):
    x, y, y_tilde, z = oracles.toy_data()
    prior = FunctionPrior(kernels.RBF(lengthscale_x))
    return (
        prior,
        TaskTransformed(x, y, y_tilde, kernels.RBF(lengthscale_y), noise=sigma, mediator=mediator),
        z,
    )


@pytest.mark.parametrize(("parameters", "expected"), [((1.0, 1.0, 0.1), 1548.0821503), (LEARNED, 105.72771406)])
def test_section_8_1_negative_log_evidence_of_the_toy_process(parameters, expected):
    """To the last digit given: eleven digits."""
    half_a_digit = 0.5 * 10.0 ** -len(str(expected).split(".")[1])
    assert oracles.toy_negative_log_evidence(*parameters) == pytest.approx(expected, rel=0, abs=half_a_digit)
    assert -log_evidence(*toy_model(*parameters)) == pytest.approx(expected, rel=0, abs=half_a_digit)


@pytest.mark.parametrize("parameters", [(1.0, 1.0, 0.1), (1.5, 0.5, 0.3)])
def test_section_8_1_gradient_of_the_toy_evidence(parameters):
    value, gradient = log_evidence_and_gradient(*toy_model(*parameters))
    assert value == pytest.approx(-oracles.toy_negative_log_evidence(*parameters), rel=1e-11)
    paths = ("prior.kernel.lengthscale", "observation.kernel_y.lengthscale", "observation.noise")
    for i, path in enumerate(paths):
        step = 1e-5 * parameters[i]
        ends = [
            -oracles.toy_negative_log_evidence(*(p + sign * step * (i == j) for j, p in enumerate(parameters)))
            for sign in (1, -1)
        ]
        assert gradient[path] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)


def test_section_8_1_gradient_vanishes_at_the_learned_values():
    gradient = log_evidence_and_gradient(*toy_model(*LEARNED))[1]
    slopes = [gradient[path] for path in ("prior.kernel.lengthscale", "observation.kernel_y.lengthscale")]
    np.testing.assert_allclose([*slopes, gradient["observation.noise"]], 0.0, atol=1e-4)


def test_section_8_1_problem_in_the_package_is_the_toy_process():
    problem, (x, y, y_tilde, z) = problems.latent_function(), oracles.toy_data()
    for ours, theirs in ((problem.x, x), (problem.y, y), (problem.y_task, y_tilde), (problem.z_task, z)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    grid = np.linspace(-6.0, 6.0, 13)
    np.testing.assert_allclose(problem.f(grid), oracles.toy_f(grid[:, None]), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("parameters", "mediator", "expected"),
    [(LEARNED, "full", 0.168), ((1.0, 1.0, 0.1), "full", 0.518), (LEARNED, "map", 0.137)],
)
def test_section_8_1_latent_function_of_the_toy_process_is_recovered(parameters, mediator, expected):
    grid = np.linspace(-6.0, 6.0, 500)[:, None]
    error = condition(*toy_model(*parameters, mediator)).mean(grid) - oracles.toy_f(grid)
    assert np.sqrt(np.mean(error**2)) == pytest.approx(expected, abs=1e-3)


def test_section_8_1_naive_solutions_are_worse():
    """Cascade and impute against the learned task transformed process."""
    grid = np.linspace(-6.0, 6.0, 500)[:, None]
    data, truth = oracles.toy_data(), oracles.toy_f(grid)
    learned = condition(*toy_model(*LEARNED)).mean(grid)
    prior = FunctionPrior(kernels.RBF(1.0))
    naive = [baseline(prior, prior, 0.25, data, grid) for baseline in (impute, cascade)]
    np.testing.assert_allclose(naive[0], oracles.impute(*data, grid), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(naive[1], oracles.cascade(*data, grid), rtol=1e-8, atol=1e-10)
    answers = [learned, *naive]
    errors = [np.sqrt(np.mean((answer - truth) ** 2)) for answer in answers]
    np.testing.assert_allclose(errors, [0.168, 0.836, 1.191], atol=1.5e-3)


def test_section_8_2_sparse_representation():
    """x = y = u: the alternative evidence and mean with a few inducing points."""
    y_tilde, z, u = oracles.sparse_toy_data()
    K, k_u = oracle_kernels.rbf(u, u), oracle_kernels.rbf(u, y_tilde)
    A = oracles.transformation(K, k_u, 0.25**2 / len(u))
    posterior = condition(
        FunctionPrior(kernels.RBF(1.0)),
        TaskTransformed(u, u, y_tilde, kernels.RBF(1.0), noise=0.25, mediator="map"),
        z,
        form="inducing",
    )
    expected = oracles.ttbkr_alternative_evidence(K, A, z, 0.25)
    assert posterior.log_evidence == pytest.approx(expected, rel=1e-10)
    grid = np.linspace(-5.0, 5.0, 11)[:, None]
    mean = oracles.dme_alternative(K, A, z, oracle_kernels.rbf(u, grid), 0.25**2 / len(z))
    np.testing.assert_allclose(posterior.mean(grid), mean, rtol=1e-9, atol=1e-12)
    covariance = oracles.tbkr_predictive(
        K, A, oracles.map_noise(len(z), 0.25), z, oracle_kernels.rbf(u, grid), oracle_kernels.rbf(grid, grid)
    )[1]
    np.testing.assert_allclose(posterior.covariance(grid), covariance, rtol=1e-9, atol=1e-11)


def test_section_8_2_gradient_with_respect_to_inducing_points():
    """x = y = u: the slope of the alternative evidence as all of u moves is the sum of those in x and in y."""
    y_tilde, z, u = oracles.sparse_toy_data()

    def oracle(u):
        return oracles.sparse_log_evidence(oracle_kernels.rbf(u, u), oracle_kernels.rbf(u, y_tilde), z, 0.25)

    kernel = kernels.RBF(1.0)
    observation = TaskTransformed(u, u, y_tilde, kernel, noise=0.25, mediator="map")
    value, gradient = log_evidence_and_gradient(FunctionPrior(kernel), observation, z, points=True)
    assert value == pytest.approx(oracle(u), rel=1e-9)
    steps = 1e-5 * np.eye(len(u))[:, :, None]
    expected = [(oracle(u + step) - oracle(u - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose((gradient["observation.x"] + gradient["observation.y"])[:, 0], expected, rtol=1e-5)


def test_algorithm_8_1_posterior_embedding_at_the_query_points(sample):
    """Line 5: mu = L*^T A^T [K A A^T + m delta I]^-1 k(y)."""
    dmo = fit_algorithm(sample)
    weights = oracles.dmo_weights_woodbury(sample.K, sample.A(LAMBDA), sample.k_star[:, :1], DELTA)
    expected = sample.ell(sample.y_star, sample.y_tilde) @ weights[:, 0]
    np.testing.assert_allclose(dmo.embedding(sample.x_star[0])(sample.y_star), expected, rtol=1e-9)


@pytest.mark.parametrize("lengthscale_prime", [None, 0.4])
def test_algorithm_8_1_kernel_herding(sample, lengthscale_prime):
    """Lines 6 to 9: the same super-samples in the same order, with ell' = ell and with another ell'."""
    candidates = np.random.default_rng(5).uniform(-2.0, 2.0, (40, 1))
    embedding = fit_algorithm(sample).embedding(sample.x_star[0])
    kernel_prime = None if lengthscale_prime is None else kernels.RBF(lengthscale_prime)
    gram_prime = (
        sample.ell(candidates, candidates)
        if lengthscale_prime is None
        else oracle_kernels.rbf(candidates, candidates, lengthscale_prime)
    )
    weights = oracles.dmo_weights_woodbury(sample.K, sample.A(LAMBDA), sample.k_star[:, :1], DELTA)
    mu = sample.ell(candidates, sample.y_tilde) @ weights[:, 0]
    expected = candidates[oracles.herd(mu, gram_prime, 60)]
    np.testing.assert_array_equal(embedding.herd(60, candidates, kernel=kernel_prime), expected)


def fit_algorithm(sample):
    """Simulations (theta = y, x) and prior samples y_tilde, with the algorithm's lambda and delta."""
    return DeconditionalMeanOperator(
        sample.kernel_x, sample.kernel_y, regularization=LAMBDA, evidence_regularization=DELTA
    ).fit(sample.x, sample.y, sample.y_tilde)


def test_algorithm_8_1_learning_objective_is_theorem_g_1(sample):
    """Line 11: q_bar = mean(A^T kappa) is the average over the prior of E[kappa(y, X) | theta]."""
    kappa = oracles.epsilon_kernel(sample.x_star[0], sample.x, 0.5)
    cmo = ConditionalMeanOperator(sample.kernel_x, sample.kernel_y, regularization=LAMBDA).fit(sample.x, sample.y)
    expected = oracles.q_bar(kappa, sample.A(LAMBDA))
    assert np.mean(cmo.expectation(kappa, sample.y_tilde)) == pytest.approx(expected, rel=1e-10)


def test_theorem_g_1_epsilon_kernel_is_the_normalized_kernel_k(sample):
    """kappa_eps(y, .) lies in H_k for a Gaussian k of lengthscale epsilon: it is a multiple of k(y, .)."""
    kappa = oracles.epsilon_kernel(sample.x_star[0], sample.x, 0.5)
    kernel = kernels.RBF(0.5)(sample.x, sample.x_star[:1])[:, 0]
    np.testing.assert_allclose(kappa / kernel, 1.0 / (2.0 * np.pi * 0.5**2), rtol=1e-12)


def test_theorem_g_1_approximate_marginal_likelihood_converges():
    """theta ~ N(0, 1), x ~ N(theta, 0.5^2): the error to the Gaussian evidence falls faster than the bound.

    With lambda = n^(-1/2) and m = n the theorem's rate is n^(-1/4): a factor of two from 25 to 400.
    """
    truth = np.exp(-0.5 * 0.7**2 / 1.5) / np.sqrt(2.0 * np.pi * 1.5)
    errors = {n: np.mean([abs(gaussian_q_bar(n, seed) - truth) for seed in range(20)]) for n in (25, 400)}
    assert errors[25] / errors[400] > 2.0


def gaussian_q_bar(n, seed):
    """q_bar(0.7) with an epsilon-kernel of width 0.5, by the operator of decond."""
    random = np.random.default_rng(seed)
    theta, theta_prior = random.standard_normal((2, n, 1))
    x = theta + 0.5 * random.standard_normal((n, 1))
    kappa = oracles.epsilon_kernel(np.array([0.7]), x, 0.5)
    cmo = ConditionalMeanOperator(kernels.RBF(0.5), kernels.RBF(1.0), regularization=n**-0.5).fit(x, theta)
    return np.mean(cmo.expectation(kappa, theta_prior))
