"""The kernel methods of likelihood-free inference: weights by plain formulas, behaviour where it hurts."""

import warnings
from types import MappingProxyType

import numpy as np
import oracle_kernels
import pytest
from expected import refused
from numpy.linalg import inv
from scipy import stats

from decond.errors import ArgumentTypeError
from decond.kernels import RBF, Matern32, median_heuristic
from decond.lfi import PosteriorWarning, Prior, Simulations
from decond.lfi.exceptions import (
    DegenerateDrawsWarning,
    ExtrapolationWarning,
    FailedSimulationsWarning,
    FewSimulationsWarning,
    WeightSumWarning,
)
from decond.lfi.methods.deconditioning import DataFeatures, Deconditioner, PriorBasis, ThetaFeatures
from decond.lfi.methods.dme import DME
from decond.lfi.methods.gps_abc import GPSABC
from decond.lfi.methods.kelfi import KELFI
from decond.lfi.methods.kernel_abc import K2ABC, KABC, KBR
from decond.lfi.methods.kernel_posterior import InUnits, lengthscales_of, narrowed
from decond.lfi.methods.kernel_search import Evidence, Validation
from decond.lfi.sampling import effective_sample_size

PRIOR = Prior({"mean": stats.norm(0.0, 1.0)})
BOX = Prior({"a": stats.uniform(0.0, 1.0), "b": stats.gamma(2.0)})
EVERY = [
    DME(n_prior=500),
    DME(optimum="local", local=False, n_prior=500),
    DME(objective="evidence", robust=False, optimum="local", n_prior=300),
    KELFI(n_prior=500),
    KBR("a", n_prior=300),
    KBR("b", "II", n_prior=300),
    KBR("importance", n_prior=300),
    KABC(),
]


def name_of(method):
    settings = (f"{key}={value}" for key, value in vars(method).items() if isinstance(value, str | bool))
    return f"{type(method).__name__}({', '.join(settings)})"


def vars_of(method):
    """The settings that a method was made with."""
    return {key: value for key, value in vars(method).items() if not key.startswith("_") and not key.endswith("_")}


def simulator(theta, rng):
    return theta + 0.5 * rng.standard_normal(theta.shape)


def warnings_of(posterior, kind):
    return [warning for warning in posterior.warnings if isinstance(warning, kind)]


def gaussian_sims(n=100, seed=0, prior=PRIOR):
    rng = np.random.default_rng(seed)
    theta = prior.sample(n, rng)
    return Simulations(theta, simulator(theta, rng))


def quiet(method, sims, observed, prior=PRIOR):
    """The posterior, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)
        return method.fit(sims, prior).posterior(observed)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(3)
    phi = rng.standard_normal((40, 2))
    x = phi + 0.3 * rng.standard_normal((40, 2))
    draws = rng.standard_normal((120, 2))
    weights = rng.random(120)
    return phi, x, draws, weights / weights.sum(), np.array([[0.3, -0.2], [1.0, 1.0]])


def deconditioner(problem, lam):
    phi, x, draws, v, _ = problem
    features = ThetaFeatures(RBF(0.8), phi, len(phi), np.random.default_rng(0))
    return Deconditioner(PriorBasis(features, draws, v), DataFeatures(features, RBF(0.6), x), lam)


class TestDeconditioner:
    def test_many_small_weights_are_one_large_weight(self, problem):
        """A draw with weight 3/m is the same as three equal draws."""
        phi, x, draws, _, y = problem
        repeated = np.concatenate([draws, draws[:30], draws[:30]])
        counts = np.ones(len(draws))
        counts[:30] = 3.0
        weighted = (phi, x, draws, counts / counts.sum(), y)
        equal = (phi, x, repeated, np.full(len(repeated), 1.0 / len(repeated)), y)
        ratios = [
            (rule := deconditioner(setting, 1e-2)).ratio(phi, rule.coefficients(y, 1e-2))
            for setting in (weighted, equal)
        ]
        np.testing.assert_allclose(ratios[0], ratios[1], rtol=1e-6, atol=1e-6)

    def test_large_delta_gives_the_surrogate_likelihood(self, problem):
        phi, x, _, _, y = problem
        rule = deconditioner(problem, 1e-2)
        ratio = rule.ratio(phi, rule.coefficients(y, 1e8)) * 1e8
        ridge = inv(oracle_kernels.rbf(phi, phi, 0.8) + 0.4 * np.eye(40))
        expected = oracle_kernels.rbf(phi, phi, 0.8) @ ridge @ oracle_kernels.rbf(x, y, 0.6)
        np.testing.assert_allclose(ratio, expected, rtol=1e-5, atol=1e-6)

    def test_fewer_landmarks_come_close(self, problem):
        phi, x, draws, v, y = problem
        ratios = []
        for n_landmarks in (40, 30):
            features = ThetaFeatures(RBF(2.0), phi, n_landmarks, np.random.default_rng(0))
            rule = Deconditioner(PriorBasis(features, draws, v), DataFeatures(features, RBF(0.6), x), 1e-2)
            ratios.append(rule.ratio(draws, rule.coefficients(y, 0.1)))
        np.testing.assert_allclose(ratios[1], ratios[0], atol=0.02 * np.abs(ratios[0]).max())


class TestLearning:
    @pytest.mark.parametrize("wide", [True, False])
    def test_evidence_rises_from_its_start(self, problem, wide):
        phi, x, draws, _, y = problem
        evidence = Evidence(phi, x, y[:1], draws)
        start = evidence.log_value(evidence.scales[0], np.array([evidence.scales[1]]), np.array([1e-3]))[0, 0]
        assert evidence.best(None, wide=wide).objective > start

    def test_what_is_given_stays(self, problem):
        phi, x, draws, _, y = problem
        choice = Evidence(phi, x, y[:1], draws, Matern32(0.7), RBF(0.4)).best(0.05, wide=True)
        assert choice[:3] == (choice.kernel_theta, choice.kernel_x, pytest.approx(0.05))
        assert (choice.kernel_theta.lengthscale, choice.kernel_x.lengthscale) == (0.7, 0.4)
        assert choice.evidence_regularization == pytest.approx(40 * 0.05 / 120)

    def test_validation_score_is_the_held_out_density(self):
        """Against a plain loop over folds for one point of the grid and one δ, but for features that are left out."""
        sims = gaussian_sims(60)
        kernels = ([RBF(0.7)], [RBF(0.5)])
        validation = Validation(
            sims.theta, sims.x, None, *kernels, np.array([1e-2]), np.array([0.1]), np.random.default_rng(0)
        )
        total = 0.0
        for fold in validation._folds:
            rest = np.setdiff1d(np.arange(60), fold)
            queries = np.concatenate([validation.draws, sims.theta[fold]])
            weights = np.concatenate([np.full(len(validation.draws), 1 / len(validation.draws)), np.zeros(len(fold))])
            g = plain_ratio_of((sims.theta[rest], sims.x[rest], queries, weights, sims.x[fold]))
            g = np.maximum(g - 2.0 * np.sqrt(weights @ np.minimum(g, 0.0) ** 2), 0.0)
            density = np.diag(g[-len(fold) :]) / (weights @ g)
            total += np.log(0.98 * density + 0.02).sum()
        assert validation.scores((0, 0, 0))[0] == pytest.approx(total / 60, rel=1e-4)


def plain_ratio_of(setting, length_theta=0.7, length_x=0.5, lam=1e-2, delta=0.1):
    """g at the draws for every observation of a setting (phi, x, draws, weights, y)."""
    phi, x, draws, v, y = setting
    A = inv(oracle_kernels.rbf(phi, phi, length_theta) + len(phi) * lam * np.eye(len(phi)))
    A = A @ oracle_kernels.rbf(phi, draws, length_theta)
    evidence = oracle_kernels.rbf(x, x, length_x) @ (A * v) @ A.T + delta * np.eye(len(phi))
    return A.T @ inv(evidence) @ oracle_kernels.rbf(x, y, length_x)


@pytest.mark.parametrize("method", EVERY, ids=name_of)
class TestEveryMethod:
    def test_finds_the_posterior_roughly(self, method):
        """Exact: mean 0.8 and standard deviation 0.447. The evidence may choose badly; its kernels are given here."""
        if getattr(method, "objective", "") == "evidence":
            given = {**vars_of(method), "kernel_x": RBF(0.4), "kernel_theta": RBF(0.7), "regularization": 0.3}
            method = type(method)(**given)
        posterior = quiet(method, gaussian_sims(), [1.0])
        assert abs(posterior.mean()[0] - 0.8) < 0.4
        assert posterior.embedding.points.shape[1] == 1
        assert np.isfinite(posterior.embedding.weights).all()
        assert posterior.effective > 1.0

    def test_repeated_simulations_do_no_harm(self, method):
        sims = gaussian_sims(30)
        posterior = quiet(method, sims + sims, [0.5])
        assert np.isfinite(posterior.samples).all()

    def test_tiny_noise_and_a_constant_summary_do_no_harm(self, method):
        """The posterior is near; that of the algorithm as written may be anywhere."""
        theta = PRIOR.sample(60, seed=0)
        x = np.column_stack([theta + 1e-9, np.full(60, 3.0)])
        posterior = quiet(method, Simulations(theta, x), [0.5, 3.0])
        assert np.isfinite(posterior.samples).all()
        assert abs(posterior.mean()[0] - 0.5) < (0.4 if getattr(method, "robust", True) else 5.0)

    def test_an_observation_far_outside_is_told(self, method):
        posterior = quiet(method, gaussian_sims(60), [40.0])
        [warning] = warnings_of(posterior, ExtrapolationWarning)
        assert warning.summary == 0
        assert warning.distance > 10.0
        assert np.isfinite(posterior.samples).all()


class TestDME:
    def test_validated_posterior_is_close(self):
        posterior = DME(n_prior=1000).fit(gaussian_sims(200), PRIOR).posterior([1.0])
        assert posterior.mean()[0] == pytest.approx(0.8, abs=0.15)
        assert posterior.std()[0] == pytest.approx(0.447, abs=0.12)
        assert posterior.embedding.weights.sum() == pytest.approx(1.0)
        assert posterior.log_evidence == pytest.approx(stats.norm(0.0, 1.25**0.5).logpdf(1.0), abs=0.3)

    def test_needs_no_correction_for_the_proposal(self):
        """x = θ + N(0, 1) = 1.5: exact mean 0.75, deviation 0.71. The uniform proposal would have a mean of 1.3."""
        rng = np.random.default_rng(5)
        theta = rng.uniform(-3.0, 4.0, (300, 1))
        sims = Simulations(theta, theta + rng.standard_normal(theta.shape))
        posterior = DME().fit(sims, PRIOR).posterior([1.5])
        assert posterior.mean()[0] == pytest.approx(0.75, abs=0.25)
        assert posterior.std()[0] == pytest.approx(0.71, abs=0.2)

    @pytest.mark.parametrize("make", [DME, KELFI])
    def test_a_narrow_posterior_is_not_blurred_by_few_prior_draws(self, make):
        rng = np.random.default_rng(0)
        theta = np.concatenate([PRIOR.sample(50, rng), rng.normal(0.5, 0.05, (100, 1))])
        x = theta + 0.01 * rng.standard_normal(theta.shape)
        posterior = make(n_prior=400).fit(Simulations(theta, x), PRIOR).posterior([0.5])
        assert posterior.std()[0] < 0.06
        assert len(np.unique(posterior.samples)) > 100

    def test_refreshed_draws_weigh_as_draws_of_the_prior(self):
        rng = np.random.default_rng(0)
        method = DME().fit(gaussian_sims(60), PRIOR)
        near = np.exp(-50.0 * (method.phi_[:, 0] - method.phi_[0, 0]) ** 2)
        draws, weights = method._refreshed(RBF(0.3), method.phi_, near, 20_000, rng)
        theta = PRIOR.from_working(draws)[:, 0]
        assert np.mean(np.abs(draws - method.phi_[0]) < 0.5) > 0.7  # most are where they were asked for
        assert weights.sum() == pytest.approx(1.0)
        assert weights @ theta == pytest.approx(0.0, abs=0.05)
        assert weights @ theta**2 == pytest.approx(1.0, abs=0.05)

    def test_failed_simulations_count_against_their_parameters(self):
        """Above 0.8 every simulation fails: a valid observation of 1 came from below."""
        sims = gaussian_sims(200)
        x = np.where(sims.theta > 0.8, np.nan, sims.x)
        posterior = quiet(DME(n_prior=1000), Simulations(sims.theta, x), [1.0])
        assert np.mean(posterior.samples > 1.0) < 0.15

    def test_the_algorithm_as_written_carries_signed_weights(self):
        posterior = quiet(DME(objective="evidence", robust=False), gaussian_sims(100), [1.0])
        assert (posterior.embedding.weights < 0.0).any()

    def test_the_algorithm_as_written_says_that_it_collapsed(self):
        method = DME(RBF(1e-3), RBF(3.0), regularization=1e-5, objective="evidence", robust=False)
        posterior = quiet(method, gaussian_sims(100), [1.0])
        [few] = warnings_of(posterior, FewSimulationsWarning)
        assert few.effective < few.needed
        assert warnings_of(posterior, (WeightSumWarning, DegenerateDrawsWarning))

    @pytest.mark.parametrize(
        ("argument", "value"),
        [
            ("objective", "luck"),
            ("optimum", "some"),
            ("regularization", "much"),
            ("regularization", -1.0),
            ("n_prior", 0),
        ],
    )
    def test_settings_are_checked_at_the_door(self, argument, value):
        with refused(argument):
            DME(**{argument: value}).fit(gaussian_sims(30), PRIOR)


class TestUnits:
    """Kernels that are given are in the units of the data and of the parameters."""

    prior = Prior({"rate": stats.gamma(2.0, scale=300.0)})
    observed = np.array([[7500.0]])
    kernels = MappingProxyType({"kernel_x": RBF(1500.0), "kernel_theta": RBF(200.0)})

    def sims(self, n=50):
        rng = np.random.default_rng(0)
        theta = self.prior.sample(n, rng)
        return Simulations(theta, 10.0 * theta + 1000.0 * rng.standard_normal(theta.shape) + 1e4)

    def grams(self, sims, draws):
        K, k = (oracle_kernels.rbf(sims.x, rows, 1500.0) for rows in (sims.x, self.observed + 1e4))
        L, L_tilde = (oracle_kernels.rbf(sims.theta, rows, 200.0) for rows in (sims.theta, draws))
        return K, k, L, L_tilde

    def fitted(self, method):
        sims = self.sims()
        posterior = quiet(method, sims, self.observed[0] + 1e4, self.prior)
        draws = self.prior.from_working(posterior.embedding.points)
        return posterior, self.grams(sims, draws)

    def test_kabc(self):
        posterior, (K, k, _, _) = self.fitted(KABC(**self.kernels, regularization=0.02))
        np.testing.assert_allclose(posterior.embedding.weights, (inv(K + np.eye(50)) @ k)[:, 0], rtol=1e-6, atol=1e-9)

    def test_kelfi(self):
        method = KELFI(**self.kernels, regularization=0.02, objective="evidence", robust=False, n_prior=80)
        posterior, (_, k, L, L_tilde) = self.fitted(method)
        likelihood = (L_tilde.T @ inv(L + np.eye(50)) @ k)[:, 0]
        np.testing.assert_allclose(posterior.embedding.weights, likelihood / likelihood.sum(), rtol=1e-6, atol=1e-9)

    def test_kbr(self):
        method = KBR("a", "I", **self.kernels, regularization=0.02, evidence_regularization=0.05, n_prior=80)
        posterior, (K, k, L, L_tilde) = self.fitted(method)
        A = inv(L + np.eye(50)) @ L_tilde
        expected = A.T @ inv(K * A.sum(axis=1) + 80 * 0.05 * np.eye(50)) @ k
        np.testing.assert_allclose(posterior.embedding.weights, expected[:, 0], rtol=1e-6, atol=1e-9)

    @pytest.mark.parametrize("kernel", [RBF(200.0), 2.0 * RBF(200.0)], ids=["with a lengthscale", "without one"])
    def test_robust_draws_have_a_shape(self, kernel):
        """Exact here by a sum over a fine grid of the rate."""
        grid = np.linspace(1.0, 3000.0, 20_000)
        density = stats.gamma(2.0, scale=300.0).pdf(grid) * stats.norm(10.0 * grid, 1000.0).pdf(7500.0)
        mean = density @ grid / density.sum()
        method = DME(kernel_theta=kernel, n_prior=500)
        posterior = quiet(method, self.sims(150), self.observed[0] + 1e4, self.prior)
        assert posterior.mean()[0] == pytest.approx(mean, rel=0.1)
        assert len(np.unique(posterior.samples)) > 100

    def test_the_narrow_kernel_has_a_quarter_of_the_lengthscale_in_the_same_units(self):
        phi = self.prior.to_working(self.prior.sample(40, seed=0))
        narrow = narrowed(InUnits(Matern32(200.0), self.prior.from_working), phi, 0.25)
        theta = self.prior.from_working(phi)
        np.testing.assert_allclose(narrow(phi), oracle_kernels.rbf(theta, theta, 50.0), atol=1e-10)
        assert narrowed(RBF(0.4) + RBF(0.1), phi, 0.25).lengthscale == pytest.approx(0.125 * median_heuristic(phi))

    def test_lengthscales_are_a_share_of_the_spread(self):
        rows = np.random.default_rng(0).standard_normal((30, 2))
        kernel = InUnits(RBF([2.0, 30.0]), lambda rows: rows * [10.0, 100.0] + 5.0)
        np.testing.assert_allclose(lengthscales_of(kernel, rows), [0.2, 0.3])
        np.testing.assert_allclose(lengthscales_of(RBF(0.7), rows), [0.7, 0.7])

    def test_the_herding_kernel_is_in_the_units_of_the_parameters(self):
        method = DME(**self.kernels, regularization=0.02, herding_kernel=RBF(30.0), n_prior=100)
        quiet(method, self.sims(), self.observed[0] + 1e4, self.prior)
        phi = method.phi_[:5]
        expected = oracle_kernels.rbf(method.theta_[:5], method.theta_[:5], 30.0)
        np.testing.assert_allclose(method._herding(phi), expected, atol=1e-10)

    @pytest.mark.parametrize("make", [DME, KELFI, KBR, KABC])
    def test_learned_summaries_have_no_such_units(self, make):
        sims = gaussian_sims(40)
        wide = Simulations(sims.theta, np.tile(sims.x, 4))
        with refused("kernel_x"):
            make(kernel_x=RBF(0.5)).fit(wide, PRIOR)
        make(kernel_x=RBF(0.5), summary="none").fit(wide, PRIOR)

    def test_only_kernels_are_taken(self):
        with refused("kernel_theta", ArgumentTypeError):
            KABC(kernel_theta="rbf").fit(gaussian_sims(20), PRIOR)


class TestK2ABC:
    def sims(self, n=60):
        rng = np.random.default_rng(0)
        theta = PRIOR.sample(n, rng)
        raw = theta + rng.standard_normal((n, 25))
        return Simulations(theta, raw.mean(axis=1), raw=raw), rng.normal(1.0, 1.0, 40)

    def test_weights_are_the_formula(self):
        sims, observed = self.sims()
        posterior = quiet(K2ABC(RBF(0.8), epsilon=0.05), sims, observed)
        squared = []
        for data in sims.raw:
            a, b = data[:, None], observed[:, None]
            parts = [oracle_kernels.rbf(p, q, 0.8).mean() for p, q in ((a, a), (b, b), (a, b))]
            squared.append(parts[0] + parts[1] - 2.0 * parts[2])
        weights = np.exp(-np.array(squared) / 0.05)
        np.testing.assert_allclose(posterior.embedding.weights, weights / weights.sum(), rtol=1e-8)

    def test_says_what_to_give(self):
        sims, _ = self.sims()
        with refused("sims.raw"):
            K2ABC().fit(Simulations(sims.theta, sims.x), PRIOR)
        with refused("observed"):
            K2ABC().fit(sims, PRIOR).posterior(np.ones((3, 2)))

    def test_ragged_and_flat_raw_data_are_refused(self):
        sims, _ = self.sims()
        ragged = np.empty(len(sims), dtype=object)
        ragged[:] = [np.zeros(2 + i % 2) for i in range(len(sims))]
        with refused("sims.raw"):
            K2ABC().fit(Simulations(sims.theta, sims.x, raw=ragged), PRIOR)
        with refused("sims.raw"):
            K2ABC().fit(Simulations(sims.theta, sims.x, raw=sims.x[:, 0]), PRIOR)

    def test_simulations_and_failures_are_told(self):
        sims, observed = self.sims()
        x = sims.x.copy()
        x[:7] = np.nan
        failing = Simulations(sims.theta, x, raw=sims.raw)
        posterior = quiet(K2ABC(), failing, observed)
        assert posterior.simulations is failing
        [failed] = warnings_of(posterior, FailedSimulationsWarning)
        assert (failed.n_failed, failed.n_simulations, sum(failed.reasons.values())) == (7, 60, 7)
        assert not warnings_of(posterior, ExtrapolationWarning)

    def test_observations_are_raw_data_sets(self):
        sims, _ = self.sims()
        np.testing.assert_array_equal(K2ABC().observation(sims, 3), sims.raw[3])
        np.testing.assert_array_equal(KABC().observation(sims, 3), sims.x[3])
        with refused("sims"):
            K2ABC().observation(Simulations(sims.theta, sims.x), 3)

    def test_a_data_set_far_outside_is_told(self):
        sims, observed = self.sims()
        [warning] = warnings_of(quiet(K2ABC(), sims, observed + 50.0), ExtrapolationWarning)
        assert warning.distance > 0.5


class TestGPSABC:
    def test_simulations_that_fail_are_counted(self):
        def failing(theta, rng):
            raise RuntimeError("no result")

        method = GPSABC(failing, n_simulations=25, n_samples=300, max_error=1e-6)
        posterior = quiet(method, gaussian_sims(20), [0.0])
        [failed] = warnings_of(posterior, FailedSimulationsWarning)
        assert failed.n_failed == failed.n_simulations > 0
        assert failed.reasons == {"RuntimeError: no result": failed.n_failed}
        assert PRIOR.contains(posterior.samples).all()


def test_effective_sample_size_of_tiny_and_zero_weights():
    assert effective_sample_size(np.full(4, 1e-300)) == pytest.approx(4.0)
    assert effective_sample_size(np.zeros(3)) == 0.0


@pytest.mark.parametrize("name", ["DME", "GPSABC"])
def test_failures_enter_the_posterior(name):
    """A simulation fails with probability θ; exact mean 0.339, and 0.5 if failures were merely dropped."""

    def simulator(theta, rng):
        x = theta + rng.standard_normal(theta.shape)
        return np.where(rng.random(theta.shape) < theta, np.nan, x)

    prior, rng = Prior({"share": stats.uniform(0.0, 1.0)}), np.random.default_rng(3)
    theta = prior.sample(400, rng)
    sims = Simulations(theta, simulator(theta, rng))
    grid = np.linspace(0.0, 1.0, 2001)
    weight = (1.0 - grid) * stats.norm(grid, 1.0).pdf(0.5)
    exact = (weight @ grid) / weight.sum()
    method = DME(seed=0) if name == "DME" else GPSABC(simulator, 440, batched=True, n_samples=1500, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)
        posterior = method.fit(sims, prior).posterior([0.5])
        assert posterior.mean()[0] == pytest.approx(exact, abs=0.07)
