"""Prior, simulations, posterior, validity, learned summaries, and what every method checks at its door."""

import pickle
import warnings

import numpy as np
import pytest
from expected import refused, warned
from scipy import stats

from decond import load, save
from decond.conditional import KernelFits
from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi import (
    SMCABC,
    Method,
    Posterior,
    PosteriorWarning,
    Prior,
    RejectionABC,
    ResidualLikelihood,
    Simulations,
    model_probabilities,
)
from decond.lfi.exceptions import (
    ExtrapolationWarning,
    FailedSimulationsWarning,
    FewSimulationsWarning,
    PriorFileError,
    RepeatedSimulationsWarning,
    TimeLimitWarning,
)
from decond.lfi.posterior_draws import reflected_density
from decond.lfi.rounds import METHODS, method_named, round_sizes
from decond.lfi.simulation import simulate
from decond.lfi.summaries import LearnedSummary, Standardizer
from decond.lfi.validity import ValidityModel

MARGINALS = {
    "half line": stats.gamma(2.0, scale=3.0),
    "from three": stats.expon(3.0, 2.0),
    "decades": stats.loguniform(1e-3, 10.0),
    "box": stats.uniform(-1.0, 2.0),
    "line": stats.norm(5.0, 2.0),
    "share": stats.beta(2.0, 5.0),
}


class TestPrior:
    def test_density_and_draws_are_those_of_the_marginals(self):
        prior = Prior(MARGINALS)
        theta = prior.sample(4000, seed=3)
        expected = sum(d.logpdf(column) for d, column in zip(MARGINALS.values(), theta.T, strict=True))
        np.testing.assert_allclose(prior.log_density(theta), expected, rtol=1e-12)
        for column, distribution in zip(theta.T, MARGINALS.values(), strict=True):
            assert stats.kstest(column, distribution.cdf).pvalue > 1e-3

    def test_working_coordinates_go_there_and_back(self):
        prior = Prior(MARGINALS)
        theta = prior.sample(200, seed=0)
        np.testing.assert_allclose(prior.from_working(prior.to_working(theta)), theta, rtol=1e-9, atol=1e-12)
        assert (np.abs(np.median(prior.to_working(prior.sample(4000)), axis=0)) < 0.1).all()

    @pytest.mark.parametrize("name", list(MARGINALS))
    def test_density_of_working_coordinates_integrates_to_one(self, name):
        prior = Prior({name: MARGINALS[name]})
        phi = np.linspace(-40.0, 12.0, 400_001)[:, None]
        with np.errstate(divide="ignore"):
            total = np.trapezoid(np.exp(prior.log_density_working(phi)), phi[:, 0])
        assert total == pytest.approx(1.0, abs=2e-3)

    def test_a_log_scale_only_where_it_helps(self):
        phi = Prior(MARGINALS).to_working(
            np.array([[1.0, 4.0, 1.0, 0.1, 5.0, 0.2], [10.0, 13.0, 10.0, 0.2, 6.0, 0.3]])
        )
        steps = phi[1] - phi[0]
        doubled = Prior(MARGINALS).to_working(np.array([[100.0, 103.0, 10.0, 0.3, 7.0, 0.4]]))[0] - phi[1]
        np.testing.assert_allclose(doubled[[0, 1]], steps[[0, 1]])  # equal factors are equal steps
        np.testing.assert_allclose(doubled[3:], steps[3:], rtol=1e-9)  # equal differences are equal steps

    def test_outside_the_support_is_impossible(self):
        prior = Prior({"a": stats.uniform(0, 1), "b": stats.gamma(2)})
        assert prior.log_density([[0.5, 1.0], [1.5, 1.0], [0.5, -1.0]])[1:].tolist() == [-np.inf, -np.inf]
        assert prior.contains([[0.5, 1.0], [1.5, 1.0]]).tolist() == [True, False]

    def test_joint_with_a_support(self):
        joint = stats.multivariate_normal([0.0, 1.0], [[1.0, 0.5], [0.5, 2.0]])
        prior = Prior(joint, names=["u", "v"], support=([0.0, -np.inf], np.inf))
        theta = prior.sample(500, seed=1)
        assert (theta[:, 0] >= 0).all()
        mass = 0.5  # half of a normal lies above its mean
        np.testing.assert_allclose(prior.log_density(theta), joint.logpdf(theta) - np.log(mass), atol=0.01)
        assert prior.log_density([[-0.1, 0.0]]) == -np.inf

    @pytest.mark.parametrize(
        ("make", "argument", "error"),
        [
            (lambda: Prior({}), "distributions", ArgumentError),
            (lambda: Prior({"k": stats.poisson(3)}), "distributions['k']", ArgumentTypeError),
            (lambda: Prior({"k": 3.0}), "distributions['k']", ArgumentTypeError),
            (lambda: Prior({"k": stats.gamma}), "distributions['k']", ArgumentTypeError),
            (lambda: Prior({"k": stats.norm(0, -1)}), "distributions['k']", ArgumentError),
            (lambda: Prior(stats.dirichlet([1.0, 2.0, 3.0])), "distributions", ArgumentTypeError),
            (lambda: Prior({"k": stats.norm([0, 1])}), "distributions['k']", ArgumentError),
            (lambda: Prior({3: stats.norm()}), "distributions", ArgumentTypeError),
            (lambda: Prior(3.0), "distributions", ArgumentTypeError),
            (lambda: Prior({"k": stats.norm()}, names=["k"]), "names", ArgumentError),
            (lambda: Prior({"k": stats.norm()}, support=(0, 1)), "support", ArgumentError),
            (lambda: Prior(stats.multivariate_normal([0, 0]), names=["a"]), "names", ArgumentError),
            (lambda: Prior(stats.multivariate_normal([0, 0]), names=["a", "a"]), "names", ArgumentError),
            (lambda: Prior(stats.multivariate_normal([0, 0]), support=(1, 0)), "support", ArgumentError),
            (lambda: Prior(stats.norm(0, 1), support=(90, 91)), "support", ArgumentError),
            (lambda: Prior({"k": stats.norm()}).log_density([[1.0, 2.0]]), "theta", ArgumentError),
            (lambda: Prior({"k": stats.norm()}).sample(5, seed=-1), "seed", ArgumentError),
        ],
    )
    def test_wrong_input(self, make, argument, error):
        with refused(argument, error):
            make()

    def test_a_joint_prior_that_is_cut_integrates_to_one(self):
        prior = Prior(stats.norm(0.0, 1.0), support=(0.0, np.inf))
        assert prior.log_density([[1.0]])[0] == pytest.approx(stats.halfnorm().logpdf(1.0))

    def test_an_upper_end_has_its_jacobian(self):
        prior = Prior(stats.norm(0.0, 1.0), support=(-np.inf, 1.0))
        phi = np.linspace(-30.0, 30.0, 100_001)[:, None]
        assert np.trapezoid(np.exp(prior.log_density_working(phi)), phi[:, 0]) == pytest.approx(1.0, abs=1e-3)


class TestPriorFile:
    def test_reads(self, tmp_path):
        path = tmp_path / "prior.toml"
        path.write_text(
            '[a]\ndistribution = "uniform"\nlow = -5\nhigh = 2\n[b]\ndistribution="gamma"\na=2\nscale=0.5\n'
        )
        prior = Prior.from_file(path)
        assert prior.names == ("a", "b")
        assert prior.log_density([[0.0, 1.0]])[0] == pytest.approx(-np.log(7) + stats.gamma(2, scale=0.5).logpdf(1.0))

    @pytest.mark.parametrize(
        ("text", "keys"),
        [
            ("rate = 3", ("distribution",)),
            ('[rate]\ndistribution = "poisson"\nmu = 3', ("distribution",)),
            ('[rate]\ndistribution = "os"', ("distribution",)),
            ('[rate]\ndistribution = "unifrom"', ("distribution",)),
            ('[rate]\ndistribution = "exponential"', ("distribution",)),
            ('[rate]\ndistribution = "invgama"', ("distribution",)),
            ('[rate]\ndistribution = "gamma"\nscale = 3', ("a",)),
            ('[rate]\ndistribution = "beta"', ("a", "b")),
            ('[rate]\ndistribution = "loguniform"', ("low", "high")),
            ('[rate]\ndistribution = "loguniform"\na = 1', ("b",)),
            ('[rate]\ndistribution = "uniform"\nlow = 0\nhigth = 1', ("higth",)),
            ('[rate]\ndistribution = "uniform"\nlow = 2\nhigh = 1', ("low", "high")),
            ('[rate]\ndistribution = "uniform"\nlow = 0', ("low", "high")),
            ('[rate]\ndistribution = "uniform"\nlow = 0\nloc = 1', ("low", "high")),
            ('[rate]\ndistribution = "norm"\nmean = 1', ("mean",)),
            ('[rate]\ndistribution = "norm"\nscale = "wide"', ("scale",)),
            ('[rate]\ndistribution = "norm"\nscale = -1', ("scale",)),
        ],
    )
    def test_wrong_tables_are_located(self, tmp_path, text, keys):
        path = tmp_path / "prior.toml"
        path.write_text(text)
        with pytest.raises(PriorFileError) as caught:
            Prior.from_file(path)
        for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
            assert (error.path, error.parameter, error.keys) == (path, "rate", keys)

    @pytest.mark.parametrize("text", ["[a", ""])
    def test_a_file_without_tables_is_refused(self, tmp_path, text):
        path = tmp_path / "prior.toml"
        path.write_text(text)
        with pytest.raises(PriorFileError) as caught:
            Prior.from_file(path)
        assert (caught.value.path, caught.value.parameter) == (path, None)

    def test_missing(self, tmp_path):
        for missing in (tmp_path / "none.toml", tmp_path):
            with pytest.raises(FileNotFoundError):
                Prior.from_file(missing)


class TestSimulations:
    def test_failed_rows_are_kept_with_reasons(self):
        sims = Simulations([[1.0], [2.0], [3.0]], [[1.0], [np.inf], [2.0]], valid=np.array([True, True, False]))
        assert sims.valid.tolist() == [True, False, False]
        assert sims.failures == {"returned NaN or infinity": 1, "marked as failed": 1}
        assert np.isnan(sims.x[1:]).all()
        assert (sims + sims).n_failed == 4
        assert sims.frame().columns.tolist() == ["theta_1", "x1", "valid", "reason"]

    @pytest.mark.parametrize(
        ("arguments", "argument"),
        [
            (([[1.0]], [[1.0], [2.0]]), "x"),
            (([[1.0]], np.zeros((1, 2, 2))), "x"),
            (([[1.0]], [[1.0]], [1]), "valid"),
            (([[1.0]], [[1.0]], None, None, None, ["a", "b"]), "names"),
        ],
    )
    def test_wrong_input(self, arguments, argument):
        with refused(argument):
            Simulations(*arguments)

    def test_other_columns_cannot_be_added(self):
        with refused("other"):
            Simulations([[1.0]], [[1.0]]) + Simulations([[1.0]], [[1.0, 2.0]])

    def test_names_and_ragged_data_sets(self):
        first = Simulations([[1.0, 2.0]], [[1.0]], names=["a", "b"])
        with refused("other"):
            first + Simulations([[1.0, 2.0]], [[1.0]], names=["b", "a"])
        both = Simulations([[1.0]], [[1.0]], raw=np.ones((1, 3))) + Simulations([[1.0]], [[1.0]], raw=np.ones((1, 4)))
        assert [len(raw) for raw in both.raw] == [3, 4]


class TestPosterior:
    prior = Prior({"a": stats.norm(0.0, 3.0), "b": stats.uniform(0.0, 1.0)})

    def posterior(self, **extras):
        def sampler(n, rng):
            return np.column_stack([rng.normal(1.0, 0.5, n), rng.beta(1.0, 3.0, n)])

        return Posterior(self.prior, sampler, **extras)

    def test_summaries_are_those_of_the_distribution(self):
        posterior = self.posterior()
        np.testing.assert_allclose(posterior.mean(), [1.0, 0.25], atol=0.02)
        np.testing.assert_allclose(posterior.std(), [0.5, np.sqrt(3 / 80)], rtol=0.03)
        np.testing.assert_allclose(posterior.interval(0.9)[:, 0], [1 - 0.822, 1 + 0.822], atol=0.03)
        assert posterior.quantile(0.5).shape == (2,)
        assert posterior.expectation(lambda t: t[:, 0] ** 2) == pytest.approx(1.25, abs=0.04)
        assert posterior.summary().loc["b", "median"] == pytest.approx(1 - 0.5 ** (1 / 3), abs=0.02)

    def test_samples_repeat_and_seeds_differ(self):
        posterior = self.posterior()
        np.testing.assert_array_equal(posterior.sample(7), posterior.sample(7))
        assert not np.array_equal(posterior.sample(7, seed=1), posterior.sample(7, seed=2))
        assert posterior.sample(12_000).shape == (12_000, 2)
        assert posterior.frame(3).columns.tolist() == ["a", "b"]

    def test_density_near_an_edge_keeps_its_height(self):
        grid = np.linspace(0.0, 1.0, 201)
        density = self.posterior().marginal_density("b", grid)
        assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=0.02)
        assert density[0] == pytest.approx(3.0, rel=0.12)
        assert reflected_density(np.array([0.1, 0.2]), np.array([-0.1]), 0.0, 1.0) == 0.0

    def test_density_of_two_parameters_keeps_its_mass_inside(self):
        prior = Prior({"a": stats.uniform(0, 1), "b": stats.uniform(0, 1)})
        posterior = Posterior(prior, lambda n, rng: rng.random((n, 2)))
        grid = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 41)] * 2), axis=-1)
        density = posterior.density(grid.reshape(-1, 2)).reshape(41, 41)
        total = np.trapezoid(np.trapezoid(density, grid[0, :, 0], axis=1), grid[0, :, 0])
        assert total == pytest.approx(1.0, abs=0.02)
        assert density[0, 0] == pytest.approx(1.0, abs=0.3)
        line = Posterior(prior, lambda n, rng: np.repeat(rng.random((n, 1)), 2, axis=1))
        with pytest.raises(ValueError, match="on a line or a point"):
            line.density([[0.5, 0.5]])

    def test_predictive_noise_is_its_own(self):
        prior = Prior({"mean": stats.norm(0.0, 1.0)})
        posterior = Posterior(prior, lambda n, rng: np.full((n, 1), 0.5))
        seen = []

        def simulator(theta, rng):
            seen.append(theta[0])
            return rng.standard_normal(1)

        predicted = posterior.predictive(simulator, 20).x
        trained = simulate(simulator, prior, 20, proposal=posterior.sample(20)).x
        assert set(seen) == {0.5}
        assert not np.isin(predicted, trained).any()

    def test_density_and_map_from_a_likelihood(self):
        prior = Prior({"mean": stats.norm(0.0, 1.0)})
        exact = stats.norm(0.5, np.sqrt(0.5))
        evidence = float(stats.norm(0.0, np.sqrt(2.0)).logpdf(1.0))
        posterior = Posterior(
            prior,
            lambda n, rng: rng.normal(0.5, np.sqrt(0.5), (n, 1)),
            log_likelihood=lambda theta: stats.norm(1.0, 1.0).logpdf(theta[:, 0]),
            log_evidence=evidence,
        )
        np.testing.assert_allclose(posterior.density([[0.0], [1.0]]), exact.pdf([0.0, 1.0]), rtol=1e-10)
        assert posterior.map()[0] == pytest.approx(0.5, abs=1e-3)

    def test_proposals_keep_a_tenth_of_the_prior(self):
        theta = self.posterior().propose(5000, seed=0)
        far = np.abs(theta[:, 0] - 1.0) > 2.0  # a share of 0.52 of the prior, and next to none of the posterior
        assert 0.03 < far.mean() < 0.08

    def test_notes_warn(self):
        time_out = TimeLimitWarning("stopped early", "training", 7)
        with pytest.warns(PosteriorWarning) as caught:
            posterior = self.posterior(notes=["be careful", time_out])
        assert [warning.message for warning in caught] == posterior.warnings
        assert posterior.warnings[1] is time_out
        assert posterior.notes == ["be careful", "stopped early"]
        assert "2 note" in repr(posterior)

    def test_warnings_keep_their_attributes_in_a_pickle(self):
        warning = FewSimulationsWarning("few", effective=5.0, needed=30.0)
        again = pickle.loads(pickle.dumps(warning))
        assert (str(again), again.effective, again.needed) == ("few", 5.0, 30.0)

    def test_arviz(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pytest.importorskip("arviz")
            data = self.posterior().to_arviz()
        assert data["posterior"]["b"].shape == (1, 10_000)

    @pytest.mark.parametrize(
        ("ask", "argument"),
        [
            (lambda p: p.quantile([1.5]), "q"),
            (lambda p: p.interval(95), "level"),
            (lambda p: p.sample(0), "n"),
            (lambda p: p.marginal_density("c", [0.0]), "parameter"),
            (lambda p: p.marginal_density(2, [0.0]), "parameter"),
            (lambda p: p.expectation(lambda t: 1.0), "function(samples)"),
        ],
    )
    def test_wrong_questions(self, ask, argument):
        with refused(argument):
            ask(self.posterior())


class TestRidge:
    def test_repeated_rows_and_constant_columns(self):
        x = np.column_stack([np.repeat(np.arange(10.0), 3), np.zeros(30)])
        fit = KernelFits(x, np.ones(30)).fit(x[:, :1] ** 2)
        assert np.isfinite(fit.residual).all()
        np.testing.assert_allclose(fit.predict(x)[:, 0], x[:, 0] ** 2, atol=1.0)


class TestSummaries:
    def test_wild_and_constant_columns(self):
        rng = np.random.default_rng(0)
        x = np.column_stack([rng.standard_cauchy(500) * 1e6, np.full(500, 7.0), rng.standard_normal(500)])
        scaled = Standardizer(x).apply(x)
        assert np.isfinite(scaled).all()
        assert (scaled[:, 1] == 0).all()
        np.testing.assert_allclose(np.quantile(scaled, 0.84, axis=0)[[0, 2]], 1.0, rtol=0.2)

    def test_learned_summary_finds_the_parameter(self):
        rng = np.random.default_rng(1)
        phi = rng.standard_normal((300, 1))
        x = phi + 0.3 * rng.standard_normal((300, 12))
        summary = LearnedSummary().fit(x, phi)
        new = rng.standard_normal((200, 1))
        found = summary.apply(new + 0.3 * rng.standard_normal((200, 12)))
        assert np.corrcoef(found[:, 0], new[:, 0])[0, 1] > 0.98
        spread = [np.std(summary.training_values_ - phi), np.std(found - new)]
        assert 0.75 < spread[0] / spread[1] < 1.33  # left-out values are as spread as new ones


def test_validity_follows_the_share_of_valid_runs():
    rng = np.random.default_rng(0)
    phi = rng.standard_normal((800, 2))
    chance = 1.0 / (1.0 + np.exp(-3.0 * phi[:, 0]))
    model = ValidityModel(phi, rng.random(800) < chance)
    error = np.exp(model.log_probability(phi)) - chance
    assert np.sqrt(np.mean(error**2)) < 0.1
    assert ValidityModel(phi, np.ones(800, bool)).log_probability(phi).max() == 0.0


@pytest.mark.parametrize(("total", "rounds"), [(1000, 3), (2000, 4), (7, 7), (11, 3), (5, 1)])
def test_round_sizes_add_up(total, rounds):
    sizes = round_sizes(total, rounds)
    assert sum(sizes) == total
    assert len(sizes) == rounds
    assert min(sizes) >= 1


class Nearest(Method):
    """A stub method: the parameters of the nearest simulations."""

    def __init__(self, summary="auto"):
        self.seed, self.summary = 0, summary

    def _fit(self):
        pass

    def _posterior(self, observed):
        near = np.argsort(((self.x_ - observed) ** 2).sum(axis=1))[:10]
        return Posterior(self.prior_, lambda n, rng: self.theta_[rng.choice(near, n)])


class Elsewhere(Nearest):
    """A stub method that keeps a setting under another name."""

    def __init__(self, count=10):
        super().__init__()
        self.n = count


class TestMethodRepr:
    @pytest.mark.parametrize("name", METHODS)
    def test_defaults_are_left_out(self, name):
        assert repr(method_named(name)) == f"{METHODS[name]}()"
        assert repr(method_named(name, seed=3)) == f"{METHODS[name]}(seed=3)"

    def test_settings_are_in_the_order_of_the_constructor(self):
        method = SMCABC(simulate, 500, seed=3, time_limit=9.0)
        assert repr(method) == "SMCABC(simulator=simulate, n_simulations=500, time_limit=9.0, seed=3)"

    def test_settings_kept_elsewhere_leave_the_name(self):
        assert repr(Nearest("none")) == "Nearest(summary='none')"
        assert repr(Elsewhere(3)) == "Elsewhere"


class TestMethodDoor:
    prior = Prior({"a": stats.uniform(-1.0, 2.0)})

    def simulations(self, n=100, columns=1, failed=0):
        rng = np.random.default_rng(0)
        theta = self.prior.sample(n, rng)
        x = theta + 0.1 * rng.standard_normal((n, columns))
        x[:failed] = np.nan
        return Simulations(theta, x)

    def test_failures_are_told(self):
        with warned(FailedSimulationsWarning, n_failed=20, n_simulations=100):
            posterior = Nearest().fit(self.simulations(failed=20), self.prior).posterior([0.3])
        assert posterior.mean()[0] == pytest.approx(0.3, abs=0.1)

    @pytest.mark.parametrize(("observed", "name"), [([3.0], None), ({"height": 3.0}, "height")])
    def test_an_observation_outside_is_told(self, observed, name):
        with warned(ExtrapolationWarning, summary=0, name=name) as caught:
            Nearest().fit(self.simulations(), self.prior).posterior(observed)
        assert caught[0].message.distance > 1.0

    def test_an_observation_inside_is_not(self):
        Nearest().fit(self.simulations(), self.prior).posterior([0.3])

    def test_many_columns_become_learned_summaries(self):
        method = Nearest().fit(self.simulations(columns=5), self.prior)
        assert method.x_.shape == (100, 1)
        assert Nearest("none").fit(self.simulations(columns=5), self.prior).x_.shape == (100, 5)
        assert method.posterior(np.full(5, 0.3)).mean()[0] == pytest.approx(0.3, abs=0.1)

    def test_one_wild_simulation_does_not_hide_that_the_observation_is_outside(self):
        sims = self.simulations()
        wild = Simulations([[0.0]], [[1e4]])
        with warned(ExtrapolationWarning, summary=None):
            Nearest().fit(sims + wild, self.prior).posterior([30.0])

    def test_exact_repeats_count_once(self):
        sims = self.simulations()
        method = Nearest().fit(sims + sims, self.prior)
        assert len(method.theta_) == 100
        with warned(RepeatedSimulationsWarning, n_repeats=100):
            method.posterior([0.3])

    def test_probability_of_a_valid_simulation(self):
        method = Nearest().fit(self.simulations(failed=20), self.prior)
        assert 0.6 < method.probability_valid([[0.0]])[0] < 0.95

    def test_names_in_another_order_are_refused(self):
        prior = Prior({"a": stats.norm(), "b": stats.norm()})
        sims = Simulations(prior.sample(30), np.ones((30, 1)), names=["b", "a"])
        with refused("sims"):
            Nearest().fit(sims, prior)

    def test_wrong_input(self):
        sims = self.simulations()
        for ask in (Nearest().posterior, Nearest().probability_valid):
            with pytest.raises(RuntimeError):
                ask([0.3])
        with refused("observed"):
            Nearest().fit(sims, self.prior).posterior([0.3, 0.4])
        with refused("sims", ArgumentTypeError):
            Nearest().fit((sims.theta, sims.x), self.prior)
        with refused("prior", ArgumentTypeError):
            Nearest().fit(sims, stats.uniform(-1, 2))
        with refused("sims"):
            Nearest().fit(sims, Prior({"a": stats.norm(), "b": stats.norm()}))
        with refused("sims"):
            Nearest().fit(sims, Prior({"a": stats.uniform(0, 1)}))
        with refused("sims"):
            Nearest().fit(self.simulations(failed=95), self.prior)
        with refused("summary"):
            Nearest("some").fit(sims, self.prior)


class TestModelProbabilities:
    @staticmethod
    def posterior(spread, observed=(0.5, -0.2), summary="none", seed=0):
        rng = np.random.default_rng(seed)
        prior = Prior({"mean": stats.norm(0.0, spread)})
        theta = prior.sample(400, seed)
        sims = Simulations(theta, theta + rng.standard_normal((400, 2)))
        return ResidualLikelihood(summary=summary).fit(sims, prior).posterior(observed)

    def test_they_are_those_of_the_known_evidence(self, tmp_path):
        posteriors = {"narrow": self.posterior(1.0), "wide": self.posterior(4.0)}
        found = model_probabilities(posteriors, prior={"narrow": 1.0, "wide": 2.0})
        narrow, wide = (
            stats.multivariate_normal(np.zeros(2), np.eye(2) + spread**2).pdf([0.5, -0.2]) for spread in (1.0, 4.0)
        )
        assert found["narrow"] / found["wide"] == pytest.approx(narrow / (2.0 * wide), rel=0.3)
        assert sum(found.values()) == pytest.approx(1.0)
        for name, spread in (("narrow", 1.0), ("wide", 4.0)):
            exact = stats.multivariate_normal(np.zeros(2), np.eye(2) + spread**2).logpdf([0.5, -0.2])
            assert abs(found.log_evidence[name] - exact) < max(4.0 * found.standard_error[name], 0.2)
            low, high = found.interval[name]
            assert low < found[name] < high
            assert found.frame().loc[name, "probability"] == found[name]
            save(posteriors[name], tmp_path / name)
            assert load(tmp_path / name).log_evidence_error() == found.standard_error[name]

    def test_what_cannot_be_compared_is_refused(self):
        one = self.posterior(1.0)
        others = {"other": self.posterior(1.0, (0.0, 0.0)), "learned": self.posterior(1.0, summary="learned")}
        for other in others.values():
            with refused("posteriors"):
                model_probabilities({"one": one, "other": other})
        with refused("posteriors"):
            model_probabilities({"one": one})
        with refused("prior"):
            model_probabilities({"one": one, "same": one}, prior={"one": 1.0})


def test_a_joint_prior_is_kept_and_code_of_ones_own_is_refused(tmp_path):
    class Own:
        def rvs(self, size, random_state):
            return random_state.standard_normal((size, 2))

        def logpdf(self, x):
            return -0.5 * (x**2).sum(axis=1)

    joint = stats.multivariate_normal([0.0, 1.0], [[1.0, 0.5], [0.5, 2.0]])
    prior = Prior(joint, names=["a", "b"], support=([-3.0, -3.0], [3.0, 4.0]))
    sims = Simulations(prior.sample(50, seed=0), prior.sample(50, seed=1))
    save(RejectionABC(quantile=1.0).fit(sims, prior).posterior([0.0, 0.0]), tmp_path / "a")
    rows = prior.sample(5, seed=0)
    np.testing.assert_array_equal(load(tmp_path / "a").prior.log_density(rows), prior.log_density(rows))
    own = Prior(Own())
    with refused("prior", ArgumentTypeError):
        save(RejectionABC(quantile=1.0).fit(sims, own).posterior([0.0, 0.0]), tmp_path / "b")
    with refused("posterior", ArgumentTypeError):
        save(Posterior(prior, lambda n, rng: prior.sample(n, rng)), tmp_path / "b")
    assert not (tmp_path / "b").exists()
