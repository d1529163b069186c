"""Diagnostics of posteriors: a right one passes, and each kind of wrong one is called by its name."""

import functools
import io

import numpy as np
import pytest
from expected import refused, warned
from scipy import stats

from decond.errors import ArgumentTypeError
from decond.kernels import RBF
from decond.lfi import K2ABC, Method, Posterior, Prior, Simulations
from decond.lfi.diagnostics import (
    Calibration,
    c2st,
    diagnose,
    expected_coverage,
    mmd,
    posterior_predictive_check,
    simulation_based_calibration,
    total_variation,
)
from decond.lfi.diagnostics.predictive_checks import share_as_remote
from decond.lfi.diagnostics.rank_calibration import UniformityTest, rank_counts
from decond.lfi.diagnostics.trials import (
    TrialPlan,
    _rank_among,
    _ranked_score,
    compare_with_half,
    difference_from_prior,
    run_trials,
)
from decond.lfi.exceptions import ExtrapolationWarning, PosteriorWarning
from decond.verdict import State

NOISE = 0.5


class Conjugate(Method):
    """The posterior of θ ~ N(0, 1) given x ~ N(θ, NOISE²) in closed form, or one that is wrong in a known way."""

    def __init__(self, factor=1.0, shift=0.0, density=True, effective=None):
        self.factor, self.shift, self.density, self.effective = factor, shift, density, effective
        self.seed, self.summary = 0, "none"

    def _fit(self):
        self.fitted_on = getattr(self, "fitted_on", [])
        self.fitted_on.append(self.theta_)

    def _posterior(self, observed):
        x = self._scale.center + self._scale.scale * (
            self._summary_scale.center + self._summary_scale.scale * observed[0]
        )
        variance = 1.0 / (1.0 + NOISE**-2)
        spread = self.factor * np.sqrt(variance)
        mean = variance * x / NOISE**2 + self.shift * np.sqrt(variance)

        def log_likelihood(theta):
            return 0.5 * (theta**2 - ((theta - mean) / spread) ** 2).sum(axis=1)

        return Posterior(
            self.prior_,
            lambda n, rng: rng.normal(mean, spread, (n, len(mean))),
            log_likelihood=log_likelihood if self.density else None,
            effective=self.effective,
        )


class Learner(Conjugate):
    """A posterior whose error falls with the number of simulations, and is always stated rightly."""

    def _posterior(self, observed):
        rng = np.random.default_rng(int(1e6 * abs(observed[0, 0])))
        extra = 10.0 / np.sqrt(len(self.theta_))
        exact = super()._posterior(observed)
        off = extra * rng.standard_normal(exact.prior.dim)
        return Posterior(
            self.prior_, lambda n, g: exact.sample(n, g) + off + extra * g.standard_normal((n, exact.prior.dim))
        )


def simulator(theta, rng):
    return theta + NOISE * rng.standard_normal(theta.shape)


def problem(d=2, n=500, seed=0):
    prior = Prior({f"theta_{j + 1}": stats.norm(0, 1) for j in range(d)})
    rng = np.random.default_rng(seed)
    theta = prior.sample(n, rng)
    return prior, Simulations(theta, simulator(theta, rng))


def calibration_of(method, d=2, **options):
    prior, sims = problem(d)
    return simulation_based_calibration(method, sims, prior, **options)


@functools.cache
def calibration_of_conjugate(d=2, **wrong):
    return calibration_of(Conjugate(**wrong), d)


def are_sentences(texts):
    return bool(texts) and all(text[0] == text[0].upper() and text.endswith(".") for text in texts)


# ---- calibration ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("density", [True, False])
@pytest.mark.parametrize("d", [1, 3])
def test_the_exact_posterior_passes(d, density):
    result = calibration_of_conjugate(d, density=density)
    assert result.passed
    assert result.verdict == "fine"
    assert result.joint == {(1, True): "", (1, False): ""}.get(
        (d, density), "highest density" if density else "ellipsoids"
    )
    for share in result.coverage.at(0.9).values():
        assert 0.85 <= share <= 0.95
    assert result.n == 200
    assert are_sentences(result.sentences)


@pytest.mark.parametrize(
    ("wrong", "verdict"),
    [
        ({"factor": 0.6}, "over-confident"),
        ({"factor": 1.8}, "under-confident"),
        ({"shift": 0.7}, "biased"),
        ({"shift": -2.5}, "biased"),
        ({"factor": 0.5, "shift": 1.0}, "biased, over-confident"),
    ],
)
def test_a_wrong_posterior_is_called_by_its_name(wrong, verdict):
    result = calibration_of_conjugate(**wrong)
    assert not result.passed
    assert result.verdict == verdict
    assert max(result.p_values.values()) < 0.001


def test_the_numbers_behind_a_verdict_are_those_of_the_error():
    narrow = calibration_of_conjugate(factor=0.6).frame()
    np.testing.assert_allclose(narrow["spread"].dropna(), 1.0 / 0.6, rtol=0.12)
    exact = 2.0 * stats.norm.cdf(0.6 * stats.norm.ppf(0.95)) - 1.0
    np.testing.assert_allclose(narrow["inside 90 %"][:2], exact, atol=0.1)
    shifted = calibration_of_conjugate(shift=0.7)
    np.testing.assert_allclose(list(shifted.bias.values()), -0.7, atol=0.2)
    assert "too high" in " ".join(shifted.sentences)


@pytest.mark.parametrize("options", [{}, {"density": False}])
def test_regions_of_all_parameters_hold_what_theory_says(options):
    narrow = calibration_of_conjugate(factor=0.6, **options)
    exact = stats.chi2.cdf(0.6**2 * stats.chi2.ppf(0.9, 2), 2)
    assert narrow.coverage.at(0.9)[narrow.joint] == pytest.approx(exact, abs=0.1)


@pytest.mark.parametrize(
    ("depth", "verdict"),
    [
        (lambda u: u**0.25, "over-confident"),
        (lambda u: 0.9 * u**2.0, "under-confident"),
        # Middle regions hold too much, and those of 90 % a little less than they say.
        (lambda u: np.where(u < 0.72, u**2.0, u + 0.06), "under-confident"),
        (lambda u: 0.31 + 0.44 * u, "not calibrated"),
    ],
)
def test_wrong_regions_are_called_by_their_name(depth, verdict):
    """Regions of level a hold the truth if its depth, uniform for a right posterior, is at most a."""
    n, n_draws = 400, 9999
    even = (np.arange(n) + 0.5) / n
    ranks = np.round((1.0 - depth(even)) * n_draws)
    alone = np.column_stack([even, even[::-1]]) * n_draws  # each parameter by itself is right
    found = Calibration(("a", "b"), alone.round(), n_draws, np.zeros((n, 2)), np.arange(n), ranks, "ellipsoids")
    assert found.verdict == verdict
    assert are_sentences(found.sentences)


def test_false_alarms_are_as_rare_as_promised():
    rng = np.random.default_rng(0)
    none = np.zeros(100)
    alarms = [
        not Calibration(("a", "b"), rng.integers(0, 1000, (100, 2)), 999, none, none, level=0.1).passed
        for _ in range(300)
    ]
    assert 0.04 < np.mean(alarms) < 0.16  # 0.1, and four standard errors


def test_wrong_correlations_are_seen_though_each_parameter_is_right():
    class Uncorrelated(Method):
        seed, summary = 0, "none"

        def _fit(self):
            pass

        def _posterior(self, observed):
            return Posterior(self.prior_, lambda n, rng: rng.standard_normal((n, 2)))

    joint = stats.multivariate_normal([0.0, 0.0], [[1.0, 0.95], [0.95, 1.0]])
    prior = Prior(joint, names=["a", "b"])
    sims = Simulations(prior.sample(400), np.random.default_rng(0).standard_normal((400, 1)))
    result = simulation_based_calibration(Uncorrelated(), sims, prior)
    assert result.failing == ["ellipsoids"]


def test_nothing_is_judged_on_what_it_was_fitted_on():
    prior, sims = problem(1, 100)
    method = Conjugate()
    method.fitted_on = []
    trials = run_trials(method, sims, prior, TrialPlan(n=40, folds=4, n_draws=19))
    assert len({trial.row for trial in trials}) == 40
    assert [len(theta) for theta in method.fitted_on] == [90] * 4
    for k, theta in enumerate(method.fitted_on):
        judged = sims.theta[[trial.row for trial in trials[10 * k : 10 * (k + 1)]]]
        assert not np.isin(judged, theta).any()
    assert not hasattr(method, "sims_")  # the user's own method stays as it was


def test_ranks_do_not_depend_on_earlier_calls_or_processes_and_change_with_the_seed():
    first, again, apart = (calibration_of(Conjugate(), n=30, seed=3, n_jobs=jobs).ranks for jobs in (None, 1, 2))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, apart)
    assert (calibration_of(Conjugate(), n=30, seed=4).ranks != first).any()


def test_failed_simulations_are_never_judged():
    prior, sims = problem(1, 200)
    x = np.where(sims.theta > 0.0, np.nan, sims.x)
    failing = Simulations(sims.theta, x)
    trials = run_trials(Conjugate(), failing, prior, TrialPlan(n=150, n_draws=9))
    assert len(trials) == failing.n_valid < 150
    assert failing.valid[[trial.row for trial in trials]].all()


def test_simulations_from_rounds_need_others_to_be_judged_by():
    prior, sims = problem(2, 600)
    near = np.abs(sims.theta[:, 1]) < 0.5
    rounds = Simulations(sims.theta[near], sims.x[near])
    with refused("sims"):
        simulation_based_calibration(Conjugate(), rounds, prior)
    _, test = problem(2, 150, seed=9)
    assert simulation_based_calibration(Conjugate(), rounds, prior, test=test).n == 150
    with refused("test"):
        simulation_based_calibration(Conjugate(), sims, prior, test=sims)


def test_a_proposal_with_the_prior_marginals_is_still_noticed():
    prior = Prior({name: stats.norm(0, 1) for name in "ab"})
    a = prior.sample(1000)[:, :1]
    assert difference_from_prior(Simulations(np.hstack([a, a]), a), prior)
    assert not difference_from_prior(Simulations(prior.sample(1000), a), prior)


def test_time_is_bounded():
    prior, sims = problem(1)
    seen = []
    result = simulation_based_calibration(
        Conjugate(), sims, prior, seconds=1e-9, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(1, 200)]
    assert result.n == 1
    assert result.verdict == "too few trials"
    assert are_sentences(result.sentences)


def test_ties_fall_either_way_by_chance():
    rng = np.random.default_rng(0)
    draws = np.array([[1.0], [2.0], [2.0], [3.0]])
    ranks = [int(_rank_among(draws, np.array([2.0]), rng)[0]) for _ in range(3000)]
    assert set(ranks) == {1, 2, 3}
    np.testing.assert_allclose(np.bincount(ranks)[1:] / 3000, 1.0 / 3.0, atol=0.04)
    discrete = rng.integers(0, 3, (2000, 20, 1)).astype(float)
    truths = rng.integers(0, 3, (2000, 1)).astype(float)
    ranks = np.array([_rank_among(d, t, rng)[0] for d, t in zip(discrete, truths, strict=True)])
    ranks = ranks.reshape(-1, 1)
    found = Calibration(("a",), ranks, 20, np.zeros(ranks.shape), np.arange(len(ranks)))
    assert found.passed


def test_the_uniformity_test_is_exact_and_its_band_holds():
    rng = np.random.default_rng(1)
    test = UniformityTest(80)
    values = rng.random((1000, 80))
    p = np.array([test.p_value(row) for row in values])
    assert 0.02 < np.mean(p <= 0.05) < 0.08
    low, high = test.band(0.05)
    curves = (values[:, :, None] < test.grid).mean(axis=1)
    leaving = ((curves < low) | (curves > high)).any(axis=1)
    assert leaving.mean() < 0.08
    np.testing.assert_array_equal(leaving, leaving & (p <= 0.06))


def test_bins_of_ranks_have_the_probabilities_that_are_claimed():
    counts, shares = rank_counts(np.repeat(np.arange(17), 20), 16)
    np.testing.assert_allclose(counts, shares * 17 * 20)
    assert shares.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("argument", "value"), [("n", 0), ("folds", 1), ("n_draws", 2.5), ("seconds", -1.0), ("seed", "x")]
)
def test_wrong_numbers_are_refused(argument, value):
    with refused(argument):
        calibration_of(Conjugate(), **{argument: value})


def test_wrong_objects_are_refused():
    prior, sims = problem(2, 50)
    with refused("method", ArgumentTypeError):
        simulation_based_calibration("rejection", sims, prior)
    with refused("method", ArgumentTypeError):
        diagnose(Conjugate, sims, prior, [0.0, 0.0])
    with refused("sims", ArgumentTypeError):
        simulation_based_calibration(Conjugate(), sims.x, prior)
    with refused("test", ArgumentTypeError):
        simulation_based_calibration(Conjugate(), sims, prior, test=sims.x)
    with refused("test"):
        simulation_based_calibration(Conjugate(), sims, prior, test=problem(1, 50)[1])
    nothing = Simulations(sims.theta, np.full_like(sims.x, np.nan))
    with refused("test"):
        simulation_based_calibration(Conjugate(), sims, prior, test=nothing)
    with refused("levels"):
        expected_coverage(simulation_based_calibration(Conjugate(), sims, prior, n=20), [0.9, 0.5])


# ---- enough simulations ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "verdict"), [(Conjugate(), "fine"), (Learner(), "too few simulations")])
def test_half_of_the_simulations_tell_whether_they_are_enough(method, verdict):
    prior, sims = problem(2, 300)
    known = simulation_based_calibration(method, sims, prior, n=80)
    seen = []
    found = compare_with_half(method, sims, prior, known, None, progress=lambda done, total: seen.append(total))
    assert seen == [60] * 60
    assert (found.n, found.verdict) == (60, verdict)
    assert found.ratio == pytest.approx(1.0, abs=0.05) if found.passed else found.ratio > 1.1
    assert are_sentences(found.sentences)


def test_a_handful_of_trials_tells_nothing():
    prior, sims = problem(1, 300)
    result = compare_with_half(
        Learner(), sims, prior, simulation_based_calibration(Learner(), sims, prior, n=5), None
    )
    assert (result.passed, result.unclear) == (True, True)
    assert are_sentences(result.sentences)


def test_the_score_is_that_of_a_normal_distribution():
    draws = np.random.default_rng(0).normal(1.0, 2.0, (20_000, 1))
    z = (2.5 - 1.0) / 2.0
    exact = 2.0 * (z * (2.0 * stats.norm.cdf(z) - 1.0) + 2.0 * stats.norm.pdf(z) - 1.0 / np.sqrt(np.pi))
    np.testing.assert_allclose(_ranked_score(draws, np.array([2.5])), exact, rtol=0.02)


# ---- predictive checks ----------------------------------------------------------------------------------


def test_an_ordinary_observation_is_like_the_predictions():
    prior, sims = problem()
    posterior = Conjugate().fit(sims, prior).posterior([0.4, -0.2])
    check = posterior_predictive_check(posterior, simulator, [0.4, -0.2], n=150)
    assert check.passed
    assert check.simulated.shape == (150, 2)
    np.testing.assert_allclose(check.simulated.mean(axis=0), [0.32, -0.16], atol=0.2)


def test_an_observation_that_the_posterior_does_not_predict_is_named():
    prior, sims = problem()
    posterior = Conjugate(shift=8.0).fit(sims, prior).posterior([0.4, -0.2])
    check = posterior_predictive_check(posterior, simulator, [0.4, -0.2], names=["height", "weight"])
    assert check.verdict == "observation unlike the predictions"
    assert "height" in " ".join(check.sentences)


def test_an_odd_combination_of_ordinary_values_is_seen():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((300, 1))
    sims = Simulations(a, np.hstack([a, a + 0.05 * rng.standard_normal((300, 1))]))
    check = posterior_predictive_check(None, sims, [1.0, -1.0])
    assert check.tail_shares.min() > 0.1
    assert check.distance_share == pytest.approx(1.0 / 301.0)
    assert not check.passed


def test_shares_are_uniform_for_observations_from_the_simulator():
    rng = np.random.default_rng(0)
    checks = [
        posterior_predictive_check(None, Simulations(np.zeros((60, 1)), rows[1:]), rows[0])
        for rows in rng.standard_normal((200, 61, 3))
    ]
    assert stats.kstest([check.distance_share for check in checks], "uniform").pvalue > 0.01
    assert stats.kstest([check.tail_shares[0] for check in checks], "uniform").pvalue > 0.01


def test_failed_predictions_are_counted_and_constant_summaries_do_no_harm():
    x = np.column_stack([np.ones(50), np.random.default_rng(0).standard_normal(50)])
    x[:5] = np.nan
    check = posterior_predictive_check(None, Simulations(np.zeros((50, 1)), x), [1.0, 0.1])
    assert check.passed
    assert check.tail_shares[0] == 1.0
    assert check.n_failed == 5
    assert are_sentences(check.sentences)
    other = posterior_predictive_check(None, Simulations(np.zeros((50, 1)), x), [2.0, 0.1])
    assert other.distance_share == pytest.approx(1.0 / 46.0)


def test_wrong_predictive_input_is_refused():
    sims = Simulations(np.zeros((3, 1)), [[0.0], [np.nan], [np.nan]])
    with refused("simulator", ArgumentTypeError):
        posterior_predictive_check(None, "run", [0.0])
    with refused("observed"):
        posterior_predictive_check(None, sims, [0.0, 1.0])
    with refused("simulator"):
        posterior_predictive_check(None, sims, [0.0])
    with refused("level"):
        posterior_predictive_check(None, sims, [0.0], level=2)
    with refused("names"):
        posterior_predictive_check(None, problem(1, 20)[1], [0.0], names=["a", "b"])


def test_remoteness_is_a_share_of_simulations():
    _, sims = problem(2, 400)
    inside = [share_as_remote(sims, row[None, :]) for row in problem(2, 200, seed=5)[1].x]
    assert 0.4 < np.mean(inside) < 0.6
    assert share_as_remote(sims, np.array([[9.0, 0.0]])) == 0.0


# ---- distances ------------------------------------------------------------------------------------------


def test_a_classifier_cannot_tell_equal_samples_apart_but_can_tell_others():
    rng = np.random.default_rng(0)
    reference = rng.standard_normal((150, 2))
    assert c2st(rng.standard_normal((150, 2)), reference) == pytest.approx(0.5, abs=0.08)
    far = 1e6 + 1e-3 * reference  # standardized by the reference, so units do not matter
    assert c2st(1e6 + 1e-3 * (rng.standard_normal((150, 2)) + 3.0), far) > 0.9


def test_the_discrepancy_of_two_normal_distributions_has_a_closed_form():
    rng = np.random.default_rng(0)
    shift, width = 0.8, 1.3
    p, q = rng.standard_normal((2000, 1)), shift + rng.standard_normal((2000, 1))
    scale = width / np.sqrt(width**2 + 2.0)
    exact = np.sqrt(2.0 * scale * (1.0 - np.exp(-(shift**2) / (2.0 * (width**2 + 2.0)))))
    assert mmd(p, q, RBF(width)) == pytest.approx(exact, abs=0.03)
    assert mmd(p, q) > 5.0 * mmd(p, rng.standard_normal((2000, 1)))


def test_total_variation_of_two_normal_densities():
    grid = np.linspace(-8.0, 9.0, 4001)
    exact = 2.0 * stats.norm.cdf(0.5) - 1.0
    assert total_variation(stats.norm(0).pdf, stats.norm.pdf(grid, 1.0), grid) == pytest.approx(exact, abs=1e-5)


def test_wrong_distances_are_refused():
    with refused("samples"):
        mmd(np.zeros((5, 1)), np.zeros((5, 2)))
    with refused("samples"):
        c2st(np.zeros((4, 1)), np.zeros((9, 1)))
    with refused("reference"):
        c2st(np.zeros((9, 1)), np.zeros((4, 1)))
    with refused("grid"):
        total_variation([1.0, 1.0], [1.0, 1.0], [1.0, 0.0])
    with refused("density"):
        total_variation([[1.0], [1.0]], [1.0, 1.0], [0.0, 1.0])


# ---- the page -------------------------------------------------------------------------------------------


def test_one_call_makes_a_page_and_a_verdict(tmp_path):
    prior, sims = problem(2)
    report = diagnose(Conjugate(), sims, prior, [0.4, -0.2], simulator, truth=[0.3, -0.1])
    assert report.verdict == "fine"
    assert report.findings == []
    assert str(report).splitlines() == ["fine", *(f"- {sentence}" for sentence in report.sentences)]
    assert are_sentences(report.sentences)
    path = report.save(tmp_path / "pages" / "page.png")
    assert path.read_bytes()[:4] == b"\x89PNG"
    display = report.plot()
    assert len(display.pairs_.axes_.ravel()) == 4
    assert display.coverage_.figure_ is not None
    assert [len(part.axes_) for part in (display.ranks_, display.predictive_)] == [2, 2]


def test_everything_that_is_wrong_is_said():
    prior, sims = problem(1)
    with warned(ExtrapolationWarning, summary=0):
        report = diagnose(Conjugate(factor=0.4, effective=3.0), sims, prior, [7.0], simulator)
    assert report.findings[:3] == ["observation outside the simulations", "too few simulations", "over-confident"]
    assert are_sentences(report.sentences)
    assert len(report.sentences) > len(report.findings)
    assert report.sentences[-1][1:] == report.posterior.notes[-1][1:]


def test_simulations_from_rounds_are_judged_by_fresh_ones_or_not_at_all():
    prior, sims = problem(1, 600)
    near = np.abs(sims.theta[:, 0]) < 0.5
    rounds = Simulations(sims.theta[near], sims.x[near])
    blind = diagnose(Conjugate(), rounds, prior, [0.1])
    assert blind.verdict == "fine as far as checked"
    assert blind.calibration is None
    assert are_sentences(blind.sentences)
    blind.plot().figure_.savefig(io.BytesIO())
    fresh = diagnose(Conjugate(), rounds, prior, [0.1], simulator, n=60)
    assert fresh.calibration.n == 60
    given = diagnose(Conjugate(), rounds, prior, [0.1], test=problem(1, 80, seed=3)[1])
    assert given.calibration.n == 80


def test_a_method_that_takes_raw_data_is_judged_by_raw_data():
    prior, rng = Prior({"mean": stats.norm()}), np.random.default_rng(0)
    theta = prior.sample(150, rng)
    raw = theta + rng.standard_normal((150, 20))
    sims = Simulations(theta, raw.mean(axis=1), raw=raw)
    observed = rng.normal(0.5, 1.0, 20)
    report = diagnose(K2ABC(), sims, prior, observed, n=20, summarize=np.mean)
    assert report.calibration.n == 20
    assert report.predictive.observed == pytest.approx(observed.mean())
    with refused("summarize"):
        diagnose(K2ABC(), sims, prior, observed, n=20)


def test_progress_is_reported():
    prior, sims = problem(1, 200)
    seen = []
    diagnose(Conjugate(), sims, prior, [0.1], n=30, progress=lambda done, total: seen.append((done, total)))
    assert seen == 2 * [(done, 30) for done in range(1, 31)]  # with all of the simulations, and with half of them


def test_each_result_has_its_picture():
    prior, sims = problem(3, 200)
    report = diagnose(Conjugate(), sims, prior, [0.1, 0.2, 0.3], n=40)
    titles = [ax.get_title(loc="left") for ax in report.calibration.plot().axes_]
    assert titles == list(prior.names)
    assert list(report.calibration.coverage.plot().lines_) == [*prior.names, "highest density"]
    assert [ax.get_title(loc="left") for ax in report.predictive.plot().axes_] == ["x1", "x2", "x3"]


def test_too_many_summaries_show_the_oddest():
    rng = np.random.default_rng(0)
    observed = np.zeros(30)
    observed[[4, 17]] = 9.0
    check = posterior_predictive_check(None, Simulations(np.zeros((40, 1)), rng.standard_normal((40, 30))), observed)
    shown = [ax.get_title(loc="left") for ax in check.plot().axes_]
    assert len(shown) == 12
    assert {"x5", "x18"} <= set(shown)


def test_a_verdict_doubts_what_the_inference_warned_of():
    posterior = Posterior(Prior({"rate": stats.gamma(2)}), lambda n, rng: rng.gamma(4.0, 0.25, (n, 1)))
    assert posterior.check().state == State.OPEN  # calibration was not checked
    with pytest.warns(PosteriorWarning):
        posterior.note("something is odd")
    assert posterior.check().state == State.DOUBT
    assert posterior.check()["warnings"].sentence == "something is odd"


def test_repeated_observations_leave_a_verdict_open():
    posterior = Posterior(Prior({"rate": stats.gamma(2)}), lambda n, rng: rng.gamma(4.0, 0.25, (n, 1)))
    posterior.repeats = 40
    assert "40 times" in posterior.check().sentence
