"""Problems of likelihood-free inference: simulators against plain loops, exact posteriors, published numbers."""

import subprocess
import sys
from bisect import bisect
from itertools import accumulate

import numpy as np
import pytest
from expected import refused
from scipy import integrate, stats

from decond import lfi, problems
from decond.problems import LotkaVolterra, gillespie, infected_fraction, statistics

ALL = ("exponential_gamma", "gaussian_linear_uniform", "lotka_volterra", "sir", "two_moons")


def plain_statistics(x, y):
    """Nine statistics of one course, by loops."""
    n = len(x)
    means = [sum(s) / n for s in (x, y)]
    variances = [sum((v - m) ** 2 for v in s) / (n - 1) for s, m in zip((x, y), means, strict=True)]
    a, b = (
        [(v - m) / np.sqrt(var) if var > 0 else 0.0 for v in s]
        for s, m, var in zip((x, y), means, variances, strict=True)
    )

    def correlation(s, t, lag):
        return sum(s[i] * t[i + lag] for i in range(n - lag)) / (n - 1)

    lags = [correlation(s, s, lag) for s in (a, b) for lag in (1, 2)]
    return [*means, *(np.log(v + 1) for v in variances), *lags, correlation(a, b, 0)]


def plain_gillespie(rates, rng, max_reactions=10_000):
    """One course by a plain loop; None if it takes too many reactions."""
    x, y, time, records, reactions = 50, 100, 0.0, [], 0
    while len(records) < 151:
        chances = (rates[0] * x * y, rates[1] * x, rates[2] * y, rates[3] * x * y)
        total = sum(chances)
        time = time + rng.exponential(1.0 / total) if total > 0.0 else np.inf
        while len(records) < 151 and len(records) * 0.2 <= time:
            records.append((x, y))
        if len(records) == 151:
            break
        reactions += 1
        if reactions > max_reactions:
            return None
        event = bisect(list(accumulate(chances)), rng.random() * total)
        x, y = x + (1, -1, 0, 0)[event], y + (0, 0, 1, -1)[event]
    return np.array(records, dtype=float)


@pytest.mark.parametrize("name", ALL)
def test_problems_are_complete_and_determined_by_the_generator(name):
    problem = getattr(problems, name)()
    theta = problem.prior.sample(20, seed=1)
    x = problem.simulator(theta, np.random.default_rng(2))
    assert problem.batched
    assert x.shape == (20, len(problem.observed))
    assert x.dtype == np.float64
    np.testing.assert_array_equal(x, problem.simulator(theta, np.random.default_rng(2)))
    assert not np.array_equal(x, problem.simulator(theta, np.random.default_rng(3)))
    assert problem.prior.contains(problem.true_parameters[None]).all()
    assert not problem.observed.flags.writeable


@pytest.mark.parametrize("name", ["gaussian_linear_uniform", "sir", "two_moons"])
def test_an_observation_may_be_given(name):
    make = getattr(problems, name)
    given = np.arange(len(make().observed), dtype=float) / 20.0
    problem = make(observed=given)
    np.testing.assert_array_equal(problem.observed, given)
    assert problem.true_parameters is None
    assert not np.array_equal(make(seed=1).observed, make(seed=2).observed)


def test_importing_problems_stays_light():
    code = "import sys, decond.problems; sys.exit('scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestExponentialGamma:
    def test_the_paper_and_meeds_observations(self):
        paper, meeds = problems.exponential_gamma(), problems.exponential_gamma("meeds")
        assert paper.observed[0] == pytest.approx(0.5927312618509876, rel=1e-14)
        assert meeds.observed[0] == pytest.approx(10.0867, abs=1e-4)
        at = np.linspace(0.3, 4.0, 7)[:, None]
        np.testing.assert_allclose(
            paper.log_posterior(at), stats.gamma.logpdf(at[:, 0], 17, scale=1 / 9.890968), 1e-4
        )

    @pytest.mark.parametrize("setup", ["paper", "meeds"])
    def test_the_exact_posterior_is_prior_times_likelihood(self, setup):
        problem = problems.exponential_gamma(setup)
        theta = np.linspace(0.08, 0.13, 5)[:, None] * (1.0 if setup == "meeds" else 17.0)
        n, mean = len(problem.observed_raw), problem.observed[0]
        unnormalized = problem.prior.log_density(theta) + n * np.log(theta[:, 0]) - n * theta[:, 0] * mean
        gap = problem.log_posterior(theta) - unnormalized
        np.testing.assert_allclose(gap, gap[0], atol=1e-8)

    def test_summaries_are_means_of_the_raw_draws(self):
        problem = problems.exponential_gamma()
        theta = np.full((4000, 1), 2.0)
        raw = problem.raw_simulator(theta, np.random.default_rng(0))
        assert raw.shape == (4000, 15)
        assert stats.kstest(raw.ravel(), stats.expon(scale=0.5).cdf).pvalue > 0.001
        np.testing.assert_array_equal(problem.summarize(raw), problem.simulator(theta, np.random.default_rng(0)))
        np.testing.assert_allclose(problem.summarize(problem.observed_raw), problem.observed)

    def test_an_unknown_setup_is_named(self):
        with refused("setup"):
            problems.exponential_gamma("other")


class TestLotkaVolterra:
    def test_statistics_equal_plain_loops(self):
        courses = np.random.default_rng(0).poisson(20.0, (4, 151, 2)).cumsum(axis=1).astype(float)
        courses[1, :, 0] = 7.0  # no predator was born or died
        courses[2, :, :] = 0.0
        expected = [plain_statistics(*course.T) for course in courses]
        np.testing.assert_allclose(statistics(courses), expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(statistics(courses[0]), expected[0], rtol=1e-10)

    @pytest.mark.parametrize("rates", [(0.01, 0.5, 1.0, 0.01), (0.002, 1.5, 0.05, 0.004)])
    def test_runs_are_distributed_as_a_plain_gillespie(self, rates):
        n_plain = 100
        rng = np.random.default_rng(3)
        plain = [plain_gillespie(rates, rng) for _ in range(n_plain)]
        fast = gillespie(np.tile(rates, (400, 1)), np.random.default_rng(4))
        failed = np.isnan(fast).any(axis=(1, 2))
        plain_failed = np.mean([run is None for run in plain])
        assert abs(plain_failed - failed.mean()) < 4.0 * np.sqrt(0.25 / n_plain)
        kept = np.array([run for run in plain if run is not None])[:, ::10].reshape(-1, 32)
        ours = fast[~failed][:, ::10].reshape(-1, 32)
        error = np.sqrt(kept.var(axis=0) / len(kept) + ours.var(axis=0) / len(ours)) + 1e-12
        assert np.abs((kept.mean(axis=0) - ours.mean(axis=0)) / error).max() < 4.5
        np.testing.assert_array_equal(fast[~failed][:, 0], np.tile([50.0, 100.0], ((~failed).sum(), 1)))

    def test_predators_alone_die_out_exponentially(self):
        runs = gillespie(np.tile([0.0, 0.3, 0.0, 0.0], (2000, 1)), np.random.default_rng(0))
        expected = 50.0 * np.exp(-0.3 * 0.2 * np.arange(151))
        error = np.sqrt(expected * (1.0 - expected / 50.0) / 2000) + 1e-12
        assert np.abs((runs[:, :, 0].mean(axis=0) - expected) / error).max() < 4.5
        assert (runs[:, :, 1] == 100.0).all()

    def test_a_run_with_no_reactions_keeps_its_start_and_one_with_too_many_fails(self):
        runs = gillespie(np.array([[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 5.0, 0.0]]), np.random.default_rng(0))
        assert (runs[0] == [50.0, 100.0]).all()
        assert np.isnan(runs[1]).all()

    def test_exactly_the_limit_is_still_valid(self):
        rates = np.array([[0.0, 10.0, 0.0, 0.0]])  # 50 deaths, and then nothing can happen
        assert np.isfinite(gillespie(rates, np.random.default_rng(0), LotkaVolterra(max_reactions=50))).all()
        assert np.isnan(gillespie(rates, np.random.default_rng(0), LotkaVolterra(max_reactions=49))).all()

    def test_prior_simulations_reproduce_the_published_pilot(self):
        problem = problems.lotka_volterra()
        x = problem.simulator(problem.prior.sample(2000, seed=0), np.random.default_rng(1))
        valid = np.isfinite(x).all(axis=1)
        assert 0.84 < valid.mean() < 0.92
        pilot = x[valid][:1000]
        # normalized by another pilot of 1000: the difference of two means has standard error √(2/1000) = 0.045
        assert np.abs(pilot.mean(axis=0)).max() < 4.0 * 0.045
        # that of log standard deviations is √((kurtosis − 1)/4n) for each: large where prey rarely explode
        error = np.sqrt(2.0 * (stats.kurtosis(pilot, fisher=False) - 1.0) / 4000.0)
        assert np.abs(np.log(pilot.std(axis=0)) / error).max() < 4.0
        assert np.median(error) < 0.05
        raw = problem.raw_simulator(problem.prior.sample(5, seed=2), np.random.default_rng(3))
        assert raw.shape == (5, 151, 2)
        np.testing.assert_array_equal(problem.summarize(raw), LotkaVolterra().normalized(statistics(raw)))

    def test_the_observation_is_typical_of_the_true_parameters(self):
        problem = problems.lotka_volterra()
        x = problem.simulator(np.tile(problem.true_parameters, (200, 1)), np.random.default_rng(0))
        low, high = np.nanquantile(x, [0.005, 0.995], axis=0)
        assert ((low <= problem.observed) & (problem.observed <= high)).all()


class TestPublicTasks:
    def test_epidemics_agree_with_an_adaptive_solver(self):
        theta = np.vstack([problems.sir().prior.sample(6, seed=0), [[2.5, 0.07], [0.05, 0.25]]])
        ours = infected_fraction(theta)
        for (beta, gamma), row in zip(theta, ours, strict=True):
            answer = integrate.solve_ivp(
                lambda _, u, b=beta, g=gamma: [-b * np.exp(u[1]), b * np.exp(u[0]) - g],
                (0.0, 153.0),
                np.log([1.0 - 1e-6, 1e-6]),
                t_eval=np.arange(10) * 17.0,
                method="DOP853",
                rtol=1e-12,
                atol=1e-12,
            )
            np.testing.assert_allclose(row, np.exp(answer.y[1]), rtol=1e-6)

    def test_epidemics_at_the_benchmark_parameters_look_like_its_observation(self):
        seen = np.array([0.0, 1.0, 352.0, 40.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        chance = infected_fraction(np.array([[0.61479264, 0.19172086]]))[0]
        tail = 2.0 * np.minimum(stats.binom.cdf(seen, 1000, chance), stats.binom.sf(seen - 1, 1000, chance))
        assert tail.min() > 0.01

    def test_gaussian_posterior_is_normalized_and_truncated(self):
        problem = problems.gaussian_linear_uniform(observed=np.full(10, 0.9))
        at = np.linspace(-1.0, 1.0, 4001)
        density = np.exp(problem.log_posterior(np.tile(at[:, None], 10)) / 10.0)
        assert np.trapezoid(density, at) == pytest.approx(1.0, abs=1e-3)
        assert problem.log_posterior(np.full((1, 10), 1.1)) == -np.inf

    def test_two_moons_posterior_agrees_with_rejection(self):
        problem = problems.two_moons(observed=[0.0, 0.0])
        rng = np.random.default_rng(0)
        theta = problem.prior.sample(400_000, seed=rng)
        x = problem.simulator(theta, rng)
        kept = theta[np.abs(x).max(axis=1) < 0.02]
        weights = np.exp(problem.log_posterior(theta))
        weights /= weights.sum()
        np.testing.assert_allclose(kept.mean(axis=0), weights @ theta, atol=0.03)
        np.testing.assert_allclose(np.cov(kept.T), np.cov(theta.T, aweights=weights), atol=0.01)
        assert problem.log_posterior(np.array([[2.0, 0.0]])) == -np.inf


@pytest.mark.parametrize(
    "problem",
    [
        problems.exponential_gamma(),
        problems.gaussian_linear_uniform(),
        problems.lotka_volterra(),
        problems.sir(),
        problems.two_moons(),
    ],
    ids=lambda problem: problem.name,
)
@pytest.mark.parametrize("method", [lfi.RejectionABC(), "smc"], ids=["rejection", "smc"])
@pytest.mark.filterwarnings("ignore::decond.lfi.PosteriorWarning")
def test_inference_takes_a_problem_as_it_is(problem, method):
    posterior = lfi.infer(problem.simulator, problem.prior, problem.observed, 150, 1, method)
    assert posterior.samples.shape[1] == problem.prior.dim
