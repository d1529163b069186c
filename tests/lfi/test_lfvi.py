"""Variational inference with a learned ratio: the ratio, the Gaussian and the posterior against closed forms."""

import sys
import warnings

import numpy as np
import pytest
from expected import refused
from scipy import optimize, stats

from decond import lfi, problems
from decond.lfi.methods.lfvi import BoxedGaussian, fit_gaussian, lower_bound
from decond.lfi.neural import networks
from decond.lfi.neural.networks import fit_ratio
from decond.lfi.neural.training import train

NOISE = 0.5
PRIOR = lfi.Prior({"mean": stats.norm(0.0, 1.0)})


def noisy(theta, rng):
    return theta + NOISE * rng.standard_normal(theta.shape)


def pilot(n, prior=PRIOR, simulator=noisy, seed=0):
    theta = prior.sample(n, seed=seed)
    return lfi.Simulations(theta, simulator(theta, np.random.default_rng([seed, 1])), names=prior.names)


def quietly(method, sims, prior, observed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        return method.fit(sims, prior).posterior(observed)


# ---- the ratio -------------------------------------------------------------------------------------------------

GRID = np.linspace(-2.0, 2.0, 41)[:, None]


def exact_ratio(phi, x):
    """Log p(x | φ) / p(x) where φ is standard normal and x = φ + noise."""
    marginal = stats.norm(0.0, np.sqrt(1.0 + NOISE**2))
    return stats.norm.logpdf(x, phi[:, 0], NOISE) - marginal.logpdf(x)


def learned_ratio(loss, proposal, n=800):
    rng = np.random.default_rng(0)
    phi = proposal(rng, n)[:, None]
    return fit_ratio(phi, noisy(phi, rng), loss=loss, steps=1200, seed=0, seconds=600.0)


def test_the_log_loss_learns_the_log_ratio():
    ratio = learned_ratio("log", lambda rng, n: rng.standard_normal(n))
    for x in (-1.0, 0.0, 1.0):
        near = np.abs(GRID[:, 0] - x) < 1.5
        error = ratio.at(GRID[near], np.array([[x]])) - exact_ratio(GRID[near], x)
        assert np.sqrt(np.mean(error**2)) < 0.3


def test_another_proposal_changes_the_ratio_by_a_constant_only():
    ratio = learned_ratio(
        "log", lambda rng, n: np.where(rng.random(n) < 0.3, 2.0, 0.5) * rng.standard_normal(n) + 0.5
    )
    near = np.abs(GRID[:, 0] - 1.0) < 1.0
    error = ratio.at(GRID[near], np.ones((1, 1))) - exact_ratio(GRID[near], 1.0)
    assert np.std(error) < 0.25
    assert np.abs(np.mean(error)) > 0.1  # x = 1 is more common under this proposal, so the constant is not zero


def test_the_hinge_loss_learns_the_sign_of_the_log_ratio():
    ratio = learned_ratio("hinge", lambda rng, n: rng.standard_normal(n))
    for x in (-1.0, 1.0):
        exact = exact_ratio(GRID, x)
        clear = np.abs(exact) > 0.4
        assert np.mean(np.sign(ratio.at(GRID, np.array([[x]])))[clear] == np.sign(exact[clear])) > 0.9


# ---- the Gaussian ----------------------------------------------------------------------------------------------


def boxed(d, low=-np.inf, high=np.inf):
    return BoxedGaussian(np.zeros(d), np.eye(d), np.full(d, low), np.full(d, high))


@pytest.mark.parametrize("high", [np.inf, 0.5])
def test_a_gaussian_is_found_exactly_also_where_it_is_cut(high):
    root = np.array([[0.3, 0.0, 0.0], [0.2, 0.1, 0.0], [-0.1, 0.05, 0.4]])
    target = stats.multivariate_normal([0.4, -1.0, 0.2], root @ root.T)
    found = fit_gaussian(target.logpdf, boxed(3, high=high), seed=0)
    np.testing.assert_allclose(found.mean, target.mean, atol=1e-3)
    np.testing.assert_allclose(found.root, root, atol=1e-3)
    draws = found.sample(500, np.random.default_rng(0))
    assert draws.shape == (500, 3)
    assert draws.max() <= high


@pytest.mark.parametrize("mean", [-0.1, -1.0, -10.0, 4.0])
def test_a_gaussian_whose_mean_is_outside_the_box_is_found(mean):
    """The box is [0, 1]; the oracle is SciPy's truncated normal distribution."""
    target, box = stats.norm(mean, 0.3), BoxedGaussian(np.full(1, 0.5), 0.3 * np.eye(1), np.zeros(1), np.ones(1))
    exact = stats.truncnorm(-mean / 0.3, (1.0 - mean) / 0.3, mean, 0.3)
    found = fit_gaussian(lambda phi: target.logpdf(phi[:, 0]), box, seed=0)
    draws = found.sample(20_000, np.random.default_rng(0))[:, 0]
    assert draws.mean() == pytest.approx(exact.mean(), abs=0.03 * exact.std())
    assert draws.std() == pytest.approx(exact.std(), rel=0.03)
    share = target.cdf(1.0) - target.cdf(0.0) if mean > 0.0 else target.sf(0.0) - target.sf(1.0)
    bound = lower_bound(lambda phi: target.logpdf(phi[:, 0]), found, seed=0)
    assert bound == pytest.approx(np.log(share), abs=1e-4)


@pytest.mark.parametrize("rate", [0.1, 5.0, 300.0])
def test_a_posterior_that_falls_from_a_bound_as_an_exponential_does(rate):
    exact = stats.truncexpon(rate, scale=1.0 / rate)  # on [0, 1]
    start = BoxedGaussian(np.full(1, 0.5), 0.3 * np.eye(1), np.zeros(1), np.ones(1))
    draws = fit_gaussian(lambda phi: -rate * phi[:, 0], start, seed=0).sample(20_000, np.random.default_rng(0))[:, 0]
    assert draws.mean() == pytest.approx(exact.mean(), abs=0.03 * exact.std())
    assert draws.std() == pytest.approx(exact.std(), rel=0.03)


def test_draws_in_a_corner_far_from_the_mean():
    """Two correlated parameters; the oracle sums over a grid."""
    mean, covariance = np.array([-0.6, 1.5]), np.array([[0.09, 0.06], [0.06, 0.1]])
    axis = (np.arange(800) + 0.5) / 800
    cells = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    weights = stats.multivariate_normal(mean, covariance).pdf(cells)
    weights /= weights.sum()
    corner = BoxedGaussian(mean, np.linalg.cholesky(covariance), np.zeros(2), np.ones(2))
    draws, exact = corner.sample(20_000, np.random.default_rng(0)), weights @ cells
    exact_covariance = (cells - exact).T @ (weights[:, None] * (cells - exact))
    np.testing.assert_allclose(draws.mean(axis=0), exact, atol=0.004)
    np.testing.assert_allclose(np.cov(draws, rowvar=False), exact_covariance, rtol=0.06, atol=2e-5)


def test_the_divergence_from_a_skewed_posterior_is_smallest():
    """The oracle minimises the divergence by Gauss-Hermite quadrature; 2000 quasi-random points are less exact."""
    target = stats.gumbel_r(1.0, 0.7)
    z, weights = np.polynomial.hermite_e.hermegauss(80)

    def divergence(parameters):
        mean, log_sd = parameters
        return -(weights @ target.logpdf(mean + np.exp(log_sd) * z)) / weights.sum() - log_sd

    mean, log_sd = optimize.minimize(divergence, [0.0, 0.0]).x
    found = fit_gaussian(lambda phi: target.logpdf(phi[:, 0]), boxed(1), seed=0)
    assert found.mean[0] == pytest.approx(mean, abs=0.05)
    assert found.root[0, 0] == pytest.approx(np.exp(log_sd), rel=0.05)


def test_a_flat_posterior_fills_its_box():
    draws = fit_gaussian(lambda phi: np.zeros(len(phi)), boxed(2, -1.4, 1.4), seed=0).sample(
        5000, np.random.default_rng(0)
    )
    assert stats.kstest(draws[:, 0], stats.uniform(-1.4, 2.8).cdf).statistic < 0.05


# ---- posteriors ------------------------------------------------------------------------------------------------

MIXING = np.array([[1.0, 0.6], [-0.3, 0.8]])
PAIR = lfi.Prior({"a": stats.norm(0.0, 1.0), "b": stats.norm(1.0, 2.0)})
OBSERVED = np.array([1.5, -0.5])


def linear(theta, rng):
    return theta @ MIXING.T + NOISE * rng.standard_normal(theta.shape)


def exact_linear():
    """Mean and standard deviations of the conjugate posterior."""
    prior_precision = np.diag([1.0, 0.25])
    covariance = np.linalg.inv(prior_precision + MIXING.T @ MIXING / NOISE**2)
    mean = covariance @ (prior_precision @ [0.0, 1.0] + MIXING.T @ OBSERVED / NOISE**2)
    return mean, np.sqrt(np.diag(covariance)), covariance[0, 1]


def test_a_linear_gaussian_model_in_rounds():
    method = lfi.LFVI(linear, 800, batched=True, rounds=1, steps=1500)
    posterior = quietly(method, pilot(300, PAIR, linear), PAIR, OBSERVED)
    mean, sd, covariance = exact_linear()
    assert np.abs((posterior.mean() - mean) / sd).max() < 0.3
    assert np.abs(np.log(posterior.std() / sd)).max() < 0.3
    assert posterior.cov()[0, 1] == pytest.approx(covariance, abs=0.15 * sd[0] * sd[1])
    assert len(posterior.simulations) == method.n_simulations_ == 800


def test_simulations_from_anywhere_give_the_same_posterior():
    mean, sd, _ = exact_linear()
    rng = np.random.default_rng(3)
    theta = mean + 3.0 * sd * rng.standard_normal((800, 2))  # far from draws of the prior
    method = lfi.LFVI(steps=1500)
    posterior = quietly(method, lfi.Simulations(theta, linear(theta, rng)), PAIR, OBSERVED)
    assert np.abs((posterior.mean() - mean) / sd).max() < 0.3
    assert np.abs(np.log(posterior.std() / sd)).max() < 0.3


@pytest.mark.parametrize("loss", ["log", "hinge"])
def test_the_rate_of_exponential_draws(loss):
    problem = problems.exponential_gamma()
    method = lfi.LFVI(problem.simulator, 800, batched=True, loss=loss, rounds=1, steps=1000)
    posterior = quietly(method, pilot(200, problem.prior, problem.simulator), problem.prior, problem.observed)
    grid = np.linspace(0.05, 6.0, 1000)
    exact = np.exp(problem.log_posterior(grid))
    assert lfi.diagnostics.total_variation(posterior.marginal_density(0, grid), exact, grid) < 0.12


def test_failures_are_part_of_the_posterior():
    """Data that tell nothing, and simulations that mostly fail above zero: the posterior is below zero."""

    def failing(theta, rng):
        x = rng.standard_normal(theta.shape)
        return np.where((theta > 0.0) & (rng.random(theta.shape) < 0.9), np.nan, x)

    posterior = quietly(lfi.LFVI(steps=1000), pilot(800, PRIOR, failing), PRIOR, [0.0])
    assert -1.0 < posterior.mean()[0] < -0.35  # exact: -0.65; without the failures: 0


def test_a_posterior_that_leans_on_the_edge_of_its_prior():
    prior = lfi.Prior({"mean": stats.uniform(0.0, 1.0)})
    posterior = quietly(lfi.LFVI(steps=1000), pilot(1000, prior), prior, [-0.6])
    exact = stats.truncnorm(0.6 / NOISE, 1.6 / NOISE, -0.6, NOISE)
    assert posterior.mean()[0] == pytest.approx(exact.mean(), abs=0.06)
    assert posterior.std()[0] == pytest.approx(exact.std(), rel=0.15)


def test_each_training_has_all_the_time(monkeypatch):
    """Also the last one, after simulations that have used up theirs: the posterior rests on it."""
    given = []

    def recorded(*args, seconds, **options):
        given.append(seconds)
        return train(*args, seconds=seconds, **options)

    monkeypatch.setattr(networks, "train", recorded)
    quietly(lfi.LFVI(noisy, 200, batched=True, rounds=1, steps=1, time_limit=9.0), pilot(100), PRIOR, [0.5])
    assert given == [9.0, 9.0]


def test_what_is_refused(monkeypatch):
    with refused("loss"):
        lfi.LFVI(loss="square").fit(pilot(50), PRIOR)
    method = lfi.LFVI(noisy, 80, batched=True, rounds=1, steps=1)
    assert np.isfinite(quietly(method, pilot(50), PRIOR, [0.5]).samples).all()  # half of one step is one
    with refused("rounds"):
        lfi.LFVI(rounds=-1).fit(pilot(50), PRIOR)
    monkeypatch.setitem(sys.modules, "equinox", None)  # as if it were not installed
    with pytest.raises(ModuleNotFoundError, match=r"decond\[neural\]") as error:
        lfi.LFVI()
    assert error.value.name == "equinox"
