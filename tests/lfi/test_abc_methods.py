"""ABC on problems with known answers: conjugate Gaussians, bounded supports, simulators that fail."""

import warnings

import numpy as np
import pytest
from expected import refused, warned
from scipy import stats

from decond.lfi import Prior, Simulations
from decond.lfi.exceptions import FailedSimulationsWarning, FewSimulationsWarning, PosteriorWarning
from decond.lfi.methods.distance_abc import MCMCABC, SMCABC, Accepted, RejectionABC, _Mixture
from decond.lfi.methods.simulating_method import BoundedSimulator

NOISE = 0.5
PRIOR = Prior({"a": stats.norm(0.0, 1.0), "b": stats.norm(0.0, 2.0)})
OBSERVED = np.array([1.0, -2.0])
GAINS = np.array([1.0, 4.0]) / (np.array([1.0, 4.0]) + NOISE**2)
EXACT_MEAN, EXACT_SD = GAINS * OBSERVED, NOISE * np.sqrt(GAINS)


def noisy(theta, rng):
    return theta + NOISE * rng.standard_normal(theta.shape)


def pilot(n, prior=PRIOR, simulator=noisy, seed=0):
    theta = prior.sample(n, seed=seed)
    return Simulations(theta=theta, x=simulator(theta, np.random.default_rng([seed, 1])), names=prior.names)


def quietly(method, sims, observed=OBSERVED, prior=PRIOR):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)
        return method.fit(sims, prior).posterior(observed)


METHODS = {
    "rejection": (lambda simulator: RejectionABC(0.02), 20_000),
    "rejection, adjusted": (lambda simulator: RejectionABC(0.1, adjustment="linear"), 20_000),
    "mcmc": (lambda simulator: MCMCABC(simulator, 20_000, batched=True, tolerance=0.2, n_chains=50), 2000),
    "smc": (lambda simulator: SMCABC(simulator, 10_000, batched=True, n_particles=400), 1000),
    "smc, adjusted": (
        lambda simulator: SMCABC(simulator, 10_000, batched=True, n_particles=800, adjustment="linear"),
        1000,
    ),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_conjugate_gaussian_is_recovered(name):
    """400 effective draws: standard errors 0.05 sd for a mean, 3.5 % for a deviation; tolerances widen by 10 %."""
    make, n = METHODS[name]
    posterior = make(noisy).fit(pilot(n), PRIOR).posterior(OBSERVED)
    assert np.abs((posterior.mean() - EXACT_MEAN) / EXACT_SD).max() < 0.2
    assert np.abs(np.log(posterior.std() / EXACT_SD)).max() < 0.18
    assert posterior.effective > 200.0


def test_smc_weights_undo_the_proposals():
    """With hardly any information in the data the posterior is the prior, though proposals are √3 times as wide."""
    prior = Prior({"a": stats.norm(3.0, 1.0)})

    def vague(theta, rng):
        return theta + 20.0 * rng.standard_normal(theta.shape)

    method = SMCABC(vague, 4000, batched=True, n_particles=1000)
    posterior = method.fit(pilot(500, prior, vague), prior).posterior([3.0])
    assert posterior.mean() == pytest.approx(3.0, abs=0.12)
    assert posterior.std() == pytest.approx(1.0, abs=0.1)


def test_a_proposal_cut_to_the_support_has_mass_one():
    prior = Prior({"a": stats.uniform(0.0, 1.0)})
    phi = prior.to_working(np.array([[0.02], [0.05], [0.4]]))
    population = Accepted(phi, phi, np.zeros(3), np.array([0.5, 0.3, 0.2]), 0.0)
    proposal = _Mixture(population, prior)
    draws = proposal.sample(4000, np.random.default_rng(0))
    low, high = prior.to_working(np.array([[0.0], [1.0]])).ravel()
    grid = np.linspace(low, high, 2001)
    density = np.exp(proposal.log_density(grid[:, None]))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=0.05)
    cumulative = np.cumsum(density) / density.sum()
    assert stats.kstest(draws[:, 0], lambda at: np.interp(at, grid, cumulative)).pvalue > 0.001


def test_mcmc_keeps_an_uneven_prior():
    prior = Prior({"rate": stats.gamma(3.0)})

    def vague(theta, rng):
        return theta + 100.0 * rng.standard_normal(theta.shape)

    method = MCMCABC(vague, 20_000, batched=True, quantile=0.5, n_chains=100)
    posterior = method.fit(pilot(1000, prior, vague), prior).posterior([3.0])
    assert posterior.mean() == pytest.approx(3.0, abs=0.25)
    assert posterior.std() == pytest.approx(np.sqrt(3.0), abs=0.25)


def test_tolerances_shrink():
    method = SMCABC(noisy, 4000, batched=True).fit(pilot(500), PRIOR)
    method.posterior(OBSERVED)
    assert len(method.tolerances_) == 9
    assert method.tolerances_[-1] < 0.5 * method.tolerances_[0]


@pytest.mark.parametrize("make", [RejectionABC, lambda **kw: SMCABC(noisy, 1500, batched=True, **kw)])
def test_adjustment_brings_the_posterior_nearer(make):
    def error(posterior):
        return np.abs(posterior.mean() - EXACT_MEAN).max() + np.abs(posterior.std() - EXACT_SD).max()

    # a tolerance as wide as a quarter of the prior: without adjustment the posterior is far too wide
    option = {"quantile": 0.25} if make is RejectionABC else {"n_particles": 300}
    plain, adjusted = (quietly(make(adjustment=kind, **option), pilot(1000)) for kind in ("none", "linear"))
    assert error(adjusted) < 0.5 * error(plain)


def test_adjustment_is_exact_where_the_relation_is_a_line():
    rng = np.random.default_rng(0)
    prior = Prior({"a": stats.norm(0.0, 3.0), "b": stats.norm(0.0, 1.0)})
    x = rng.standard_normal((50, 2))
    theta = np.array([1.0, 2.0]) + x @ np.array([[1.0, 0.5], [-1.0, 2.0]])
    at = np.array([[0.3, -0.2]])
    adjusted = Accepted(theta, x, np.zeros(50), np.full(50, 0.02), 0.0).adjusted(prior, at).theta
    expected = np.array([1.0, 2.0]) + at @ np.array([[1.0, 0.5], [-1.0, 2.0]])
    np.testing.assert_allclose(adjusted, np.tile(expected, (50, 1)), atol=1e-10)


def one_sided(theta, rng):
    """Fails where the first parameter is positive, in three ways."""
    if theta[0] > 1.5:
        raise RuntimeError("negative concentration")
    if theta[0] > 1.0:
        return np.zeros(3)
    return np.where(theta[0] > 0.5, np.nan, noisy(theta, rng))


def one_sided_batch(theta, rng):
    x = noisy(theta, rng)
    x[theta[:, 0] > 0.5] = np.nan
    return x


@pytest.mark.parametrize(
    ("kind", "simulator", "batched"), [(MCMCABC, one_sided, False), (SMCABC, one_sided_batch, True)]
)
def test_failed_simulations_are_infinitely_far_and_counted(kind, simulator, batched):
    method = kind(simulator, 600, batched=batched)
    posterior = quietly(method, pilot(200, simulator=one_sided_batch), [0.4, -2.0])
    assert posterior.sample(5000)[:, 0].max() <= 0.5
    failed = [one for one in posterior.warnings if isinstance(one, FailedSimulationsWarning)]
    counts = {(one.n_failed, one.n_simulations) for one in failed}  # of the pilot, and of those run by the method
    assert len(failed) == 2
    assert (method.n_failed_, method.n_simulations_ - 200) in counts


def test_a_batch_that_raises_is_run_row_by_row():
    def fragile(theta, rng):
        if (theta > 1.0).any():
            raise RuntimeError("too large")
        return theta

    theta = np.linspace(0.0, 1.0, 20)[:, None]
    prior = Prior({"a": stats.norm()})
    runner = BoundedSimulator(MCMCABC(fragile, 30, batched=True).fit(Simulations(theta, theta), prior))
    x = runner.run(np.array([[0.0], [2.0], [1.0]]), np.random.default_rng(0))
    np.testing.assert_array_equal(x, [[0.0], [np.nan], [1.0]])
    assert (runner.n_run, runner.n_failed, runner.left) == (3, 1, 7)
    [warning] = runner.notes()
    assert (warning.n_failed, warning.n_simulations) == (1, 3)
    assert warning.reasons == {"RuntimeError: too large": 1}


def test_a_summary_in_which_simulations_crowd_does_not_drown_the_others():
    """Most simulations give almost the same second summary, the observation another: its spread is no unit."""
    prior = Prior({"a": stats.uniform(-1.0, 2.0)})

    def simulator(theta, rng):
        alive = rng.random(len(theta)) < 0.1
        second = np.where(
            alive, 50.0 + 10.0 * rng.standard_normal(len(theta)), 1e-3 * rng.standard_normal(len(theta))
        )
        return np.column_stack([theta[:, 0] + 0.05 * rng.standard_normal(len(theta)), second])

    sims = pilot(4000, prior, simulator)
    by_observation, by_spread = (
        quietly(RejectionABC(0.01, scale=scale), sims, [0.3, 50.0], prior) for scale in ("observation", "spread")
    )
    assert by_observation.mean() == pytest.approx(0.3, abs=0.05)
    assert by_observation.std()[0] < 0.15 < 0.3 < by_spread.std()[0]


def test_units_of_the_data_are_kept_on_request():
    method = RejectionABC(tolerance=0.4, scale="none")
    quietly(method, pilot(2000))
    near = np.sqrt(((pilot(2000).x - OBSERVED) ** 2).sum(axis=1)) <= 0.4
    assert quietly(method, pilot(2000)).effective == pytest.approx(near.sum())


def test_learned_summaries_are_an_option():
    posterior = quietly(RejectionABC(0.05, summary="learned", adjustment="linear"), pilot(400))
    assert np.abs(posterior.mean() - EXACT_MEAN).max() < 0.3


def test_too_few_accepted_simulations_are_said():
    with warned(FewSimulationsWarning, effective=pytest.approx(5.0), needed=30.0):
        RejectionABC(0.05).fit(pilot(100), PRIOR).posterior(OBSERVED)
    not_adjusted = quietly(RejectionABC(0.05, adjustment="linear"), pilot(100)).warnings[0]
    assert isinstance(not_adjusted, FewSimulationsWarning)
    assert (not_adjusted.effective, not_adjusted.needed) == (5, 6)


@pytest.mark.parametrize(
    ("method", "argument"),
    [
        (RejectionABC(quantile=0.0), "quantile"),
        (RejectionABC(quantile=1.5), "quantile"),
        (RejectionABC(tolerance=-1.0), "tolerance"),
        (RejectionABC(adjustment="cubic"), "adjustment"),
        (RejectionABC(scale="sd"), "scale"),
        (MCMCABC(noisy, n_chains=0), "n_chains"),
        (SMCABC(noisy, n_particles=0), "n_particles"),
        (SMCABC(noisy, adjustment="quadratic"), "adjustment"),
    ],
)
def test_wrong_options_are_named(method, argument):
    with refused(argument):
        method.fit(pilot(100), PRIOR)


def test_an_impossible_tolerance_is_refused():
    with refused("tolerance"):
        RejectionABC(tolerance=1e-9).fit(pilot(100), PRIOR).posterior(OBSERVED)
