"""The mixture density network: Gaussian algebra against plain NumPy, known posteriors, and life without the extra."""

import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pytest
from expected import refused
from scipy import stats

from decond import lfi, problems
from decond.lfi.exceptions import FailedSimulationsWarning, UninformativeNetworkWarning
from decond.lfi.methods.mdn import MDNSettings, _empty_notes, _round_sizes
from decond.lfi.neural import require
from decond.lfi.neural.gaussian_mixture import (
    CutMixture,
    GaussianMixture,
    LogQuadratic,
    MixtureSettings,
    prior_quadratic,
)
from decond.lfi.neural.training import TrainingSettings, train

PRIOR = lfi.Prior({"a": stats.norm(0.0, 1.0), "b": stats.norm(1.0, 2.0)})


def some_mixture(rng, k=3, d=2, extra=2.0):
    factors = rng.standard_normal((k, d, d))
    precisions = factors @ factors.swapaxes(1, 2) + extra * np.eye(d)
    return GaussianMixture(np.log(rng.dirichlet(np.ones(k))), rng.standard_normal((k, d)), precisions)


def mixture_of(mean, sd):
    """Return one Gaussian as a mixture."""
    return GaussianMixture(np.zeros(1), np.full((1, 1), mean), np.full((1, 1, 1), sd**-2.0))


def quietly(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        return call()


# ---- Gaussian algebra ------------------------------------------------------------------------------------------


def test_the_density_of_a_mixture_is_the_sum_of_its_gaussians():
    rng = np.random.default_rng(0)
    mixture, points = some_mixture(rng), rng.standard_normal((7, 2))
    parts = zip(np.exp(mixture.log_weights), mixture.means, mixture.precisions, strict=True)
    exact = sum(w * stats.multivariate_normal(m, np.linalg.inv(P)).pdf(points) for w, m, P in parts)
    np.testing.assert_allclose(np.exp(mixture.log_density(points)), exact, rtol=1e-10)


def test_draws_and_moments_of_a_mixture_agree():
    rng = np.random.default_rng(1)
    mixture = some_mixture(rng).moved(np.array([3.0, -1.0]), np.array([[2.0, 0.0], [0.5, 1.5]]))
    mean, covariance = mixture.moments()
    draws = mixture.sample(200_000, rng)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.02)
    np.testing.assert_allclose(np.cov(draws, rowvar=False), covariance, atol=0.05)


def test_moving_a_mixture_moves_its_density():
    rng = np.random.default_rng(2)
    mixture, points = some_mixture(rng), rng.standard_normal((5, 2))
    center, root = np.array([3.0, -1.0]), np.array([[2.0, 0.0], [0.5, 1.5]])
    moved = mixture.moved(center, root).log_density(center + points @ root.T)
    np.testing.assert_allclose(moved, mixture.log_density(points) - np.log(3.0), rtol=1e-10)


@pytest.mark.parametrize("flat", [True, False])
def test_the_correction_is_prior_over_proposal_times_the_mixture(flat):
    rng = np.random.default_rng(3)
    mixture, points = some_mixture(rng), rng.standard_normal((50, 2))
    proposal = stats.multivariate_normal([0.3, -0.2], [[1.0, 0.2], [0.2, 0.8]])
    prior = stats.multivariate_normal([0.0, 1.0], [[2.0, -0.3], [-0.3, 3.0]])
    form = LogQuadratic(np.zeros((2, 2)), np.zeros(2)) if flat else LogQuadratic.gaussian(prior.mean, prior.cov)
    result, repaired = mixture.corrected(form, LogQuadratic.gaussian(proposal.mean, proposal.cov), np.eye(2))
    assert not repaired.any()
    wanted = mixture.log_density(points) - proposal.logpdf(points) + (0.0 if flat else prior.logpdf(points))
    difference = result.log_density(points) - wanted
    np.testing.assert_allclose(difference, difference[0], atol=1e-9)  # but for a constant
    assert np.exp(result.log_weights).sum() == pytest.approx(1.0)


def test_a_component_that_tells_less_than_the_proposal_keeps_the_prior():
    covariance = np.array([[2.0, 0.6], [0.6, 1.0]])
    root, prior = np.linalg.cholesky(covariance), LogQuadratic.gaussian(np.zeros(2), covariance)
    wide = GaussianMixture(np.zeros(1), np.array([[0.5, 0.5]]), 0.5 * np.eye(2)[None])
    result, repaired = wide.corrected(prior, LogQuadratic(np.eye(2), np.zeros(2)), root)
    assert repaired.all()
    least = MixtureSettings.least_information
    np.testing.assert_allclose(result.moments()[1], covariance / (1.0 + least), rtol=1e-9)
    np.testing.assert_allclose(result.moments()[0], 0.5 * least / (1.0 + least), rtol=1e-9)


def test_a_repair_keeps_what_the_other_components_and_directions_tell():
    """The prior is correlated: its root and the transpose of it differ."""
    root = np.linalg.cholesky(np.array([[2.0, 0.6], [0.6, 1.0]]))
    flat, proposal = LogQuadratic(np.zeros((2, 2)), np.zeros(2)), LogQuadratic(np.eye(2), np.zeros(2))
    told = np.array([[4.0, 1.0], [1.0, 3.0]])  # by the good component, of mean (1, 20)
    direction = np.linalg.solve(root.T, [0.6, 0.8])  # in units of the prior, the bad one tells only this
    empty = root @ [0.8, -0.6]
    bad = 5.0 * np.outer(direction, direction) + np.eye(2) - 0.1 * np.linalg.inv(root @ root.T)
    means = np.array([[1.0, 20.0], [1.0, 2.0]])
    mixture = GaussianMixture(np.log([0.5, 0.5]), means, np.stack([told + np.eye(2), bad]))
    result, repaired = mixture.corrected(flat, proposal, root)
    np.testing.assert_array_equal(repaired, [False, True])
    np.testing.assert_allclose(result.precisions[0], told, atol=1e-12)
    np.testing.assert_allclose(result.means[0], np.linalg.solve(told, (told + np.eye(2)) @ means[0]), rtol=1e-12)
    along = root @ [0.6, 0.8]
    assert along @ result.precisions[1] @ along == pytest.approx(4.9)
    assert direction @ result.means[1] == pytest.approx(along @ bad @ means[1] / 4.9)
    assert empty @ result.precisions[1] @ empty == pytest.approx(MixtureSettings.least_information)


@pytest.mark.parametrize(
    ("distributions", "exact"),
    [
        ({"a": stats.norm(3.0, 2.0), "b": stats.uniform(-5.0, 7.0)}, True),
        ({"a": stats.lognorm(0.7, scale=2.0)}, True),
        ({"a": stats.loguniform(0.01, 100.0)}, True),
        ({"a": stats.gamma(2.0)}, False),
        ({"a": stats.t(3.0)}, False),
    ],
)
def test_priors_that_are_gaussian_or_flat_in_working_coordinates_are_found(distributions, exact):
    prior = lfi.Prior(distributions)
    form, root, found = prior_quadratic(prior)
    assert found == exact
    phi = prior.to_working(prior.sample(50, seed=7))
    difference = prior.log_density_working(phi) - form.log_value(phi)
    assert (np.ptp(difference) < 1e-5) == exact
    np.testing.assert_allclose(root @ root.T, np.cov(prior.to_working(prior.sample(2000, seed=0)).T), atol=0.3)


def test_a_mixture_is_cut_to_the_support_and_put_right_for_the_prior():
    prior = lfi.Prior({"rate": stats.gamma(2.0)})
    narrow = GaussianMixture(np.log([0.3, 0.7]), np.array([[-0.5], [0.5]]), np.full((2, 1, 1), 3.0))
    assumed = LogQuadratic.gaussian(np.array([0.2]), np.array([[1.5]]))
    cut, grid = CutMixture(narrow, prior, assumed), np.linspace(-6.0, 6.0, 4001)[:, None]
    wanted = np.exp(narrow.log_density(grid) + prior.log_density_working(grid) - assumed.log_value(grid))
    wanted /= wanted.sum() * 0.003
    np.testing.assert_allclose(np.exp(cut.log_density(grid)), wanted, atol=0.02)
    draws = cut.sample(20_000, np.random.default_rng(1))
    assert draws.mean() == pytest.approx((grid[:, 0] * wanted).sum() * 0.003, abs=0.02)


def test_a_mixture_outside_the_support_gives_draws_at_its_edge():
    prior = lfi.Prior({"share": stats.uniform(0.0, 1.0)})
    cut = CutMixture(mixture_of(8.0, 1.0 / 3.0), prior)
    draws = prior.from_working(cut.sample(500, np.random.default_rng(0)))
    assert cut.kept == 0.0
    assert prior.contains(draws).all()
    assert draws.mean() > 0.95
    grid = np.linspace(*prior.to_working([[0.0], [1.0]])[:, 0], 20_001)[1:-1, None]
    assert np.exp(cut.log_density(grid)).sum() * (grid[1, 0] - grid[0, 0]) == pytest.approx(1.0, abs=0.15)


def test_tails_are_not_heavier_than_those_of_the_prior_that_taught_them():
    """In working coordinates, on a log scale, a Gaussian falls more slowly than the density of gamma draws does."""
    prior = lfi.Prior({"rate": stats.gamma(2.0)})
    simulated, mixture = prior.to_working(prior.sample(500, seed=0)), mixture_of(0.0, 1.5)
    cut, grid = CutMixture(mixture, prior, simulated=simulated), np.linspace(-9.0, 9.0, 6001)[:, None]
    within = (grid[:, 0] >= simulated.min()) & (grid[:, 0] <= simulated.max())
    likelihood = mixture.log_density(grid) - prior.log_density_working(grid)
    limit = likelihood[within].max()
    assert likelihood.max() > limit + 10.0
    np.testing.assert_allclose(np.ptp((cut.log_density(grid) - mixture.log_density(grid))[within]), 0.0, atol=0.02)
    assert (cut.log_density(grid) - prior.log_density_working(grid)).max() < limit + 0.1
    density = np.exp(cut.log_density(grid))
    assert density.sum() * 0.003 == pytest.approx(1.0, abs=0.02)
    mean = (grid[:, 0] * density).sum() / density.sum()
    assert cut.sample(20_000, np.random.default_rng(0)).mean() == pytest.approx(mean, abs=0.03)


def test_draws_of_a_mixture_mostly_outside_take_little_memory():
    prior = lfi.Prior({name: stats.uniform(0.0, 1.0) for name in "abcdef"})
    cut = CutMixture(GaussianMixture(np.zeros(1), np.zeros((1, 6)), 0.22 * np.eye(6)[None]), prior)
    assert cut.kept < 0.05
    tracemalloc.start()
    draws = cut.sample(10_000, np.random.default_rng(0))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert draws.shape == (10_000, 6)
    assert peak < 30e6


# ---- training --------------------------------------------------------------------------------------------------


def absolute_error(model, rows, fixed, noise):
    targets, inputs = rows
    import jax

    return abs(jax.vmap(model)(inputs) - targets + fixed * noise).mean()


@pytest.fixture(scope="module")
def line():
    import equinox as eqx
    import jax

    from decond.lfi.neural.training import in_float64

    with in_float64():
        return eqx.nn.Linear(30, 1, key=jax.random.key(0))


def test_training_stops_where_held_out_rows_say_so_and_keeps_the_best(line):
    rng = np.random.default_rng(0)
    data = rng.standard_normal((40, 1)), rng.standard_normal((40, 30))  # nothing to learn
    options = {"fixed": 0.0, "noise": 1, "rate": 0.01, "held_out": 0.5, "patience": 2}
    trained = train(line, absolute_error, data, steps=5000, **options)
    assert trained.finished
    assert trained.steps < 5000
    assert len(trained.held_out_losses) - 1 - np.argmin(trained.held_out_losses) == 2
    assert trained.losses[-1] < trained.losses[0]
    shorter = train(line, absolute_error, data, steps=100, **options)
    assert trained.steps > shorter.steps == TrainingSettings.chunk


def test_training_without_time_says_so(line):
    data = np.ones((9, 1)), np.ones((9, 30))
    trained = train(line, absolute_error, data, fixed=0.0, noise=1, seconds=-1.0)
    assert not trained.finished
    assert trained.steps == 0
    assert trained.model is line


# ---- known posteriors ------------------------------------------------------------------------------------------

NOISE = 0.5
OBSERVED = np.array([1.0, 3.0])
GAINS = np.array([1.0, 4.0]) / (np.array([1.0, 4.0]) + NOISE**2)
EXACT_MEAN = np.array([0.0, 1.0]) + GAINS * (OBSERVED - np.array([0.0, 1.0]))
EXACT_SD = NOISE * np.sqrt(GAINS)


def noisy(theta, rng):
    return theta + NOISE * rng.standard_normal(theta.shape)


def simulations(n, prior=PRIOR, simulator=noisy, seed=0):
    theta = prior.sample(n, seed=seed)
    return lfi.Simulations(theta, simulator(theta, np.random.default_rng([seed, 1])))


def test_one_network_serves_many_observations():
    method = lfi.MDN(components=1, hidden=(10,)).fit(simulations(1000), PRIOR)
    for shift in (np.zeros(2), np.array([-1.0, 1.0])):
        posterior = method.posterior(OBSERVED + shift)
        np.testing.assert_allclose(posterior.mean(), EXACT_MEAN + GAINS * shift, atol=0.15)
        np.testing.assert_allclose(posterior.std(), EXACT_SD, rtol=0.2)
    theta = np.array([[0.5, 2.5]])
    exact = stats.norm(EXACT_MEAN, EXACT_SD).pdf(theta).prod()
    assert method.posterior(OBSERVED).density(theta)[0] == pytest.approx(exact, rel=0.3)


class Uncorrected(lfi.MDN):
    """Takes what the network learned from the proposal as it is."""

    def _corrected(self, mixture, proposal):
        return mixture, np.zeros(len(mixture.means), dtype=bool)


def test_rounds_with_a_proposal_far_from_the_prior_are_corrected():
    """The proposal nearly halves the variance of what the network sees; uncorrected, the posterior is too narrow."""
    options = {"batched": True, "components": 1, "hidden": (10,), "rounds": 2}
    method = lfi.MDN(noisy, 1500, **options)
    posterior = method.fit(simulations(300), PRIOR).posterior(OBSERVED)
    np.testing.assert_allclose(posterior.mean(), EXACT_MEAN, atol=0.12)
    np.testing.assert_allclose(posterior.std(), EXACT_SD, rtol=0.2)
    assert len(method.proposals_) == 2
    assert (method.n_simulations_, len(method.simulations_)) == (1500, 1500)

    uncorrected = Uncorrected(noisy, 1500, **options).fit(simulations(300), PRIOR).posterior(OBSERVED)
    assert (uncorrected.std() < 0.8 * EXACT_SD).all()


@pytest.mark.parametrize("rounds", [0, 2])
def test_exponential_gamma(rounds):
    problem = problems.exponential_gamma()
    method = lfi.MDN(components=2, hidden=(10,), rounds=rounds, steps=2000)
    posterior = lfi.infer(problem.simulator, problem.prior, problem.observed, 1000, method=method, batched=True)
    grid = np.linspace(0.01, 6.0, 600)
    exact = np.exp(problem.log_posterior(grid))
    assert lfi.diagnostics.total_variation(posterior.density(grid[:, None]), exact, grid) < 0.12
    assert posterior.density(grid[:, None]).sum() * (grid[1] - grid[0]) == pytest.approx(1.0, abs=0.005)
    assert posterior.mean()[0] == pytest.approx(17.0 / 9.89, rel=0.08)
    assert posterior.map()[0] == pytest.approx(16.0 / 9.89, rel=0.08)


STANDARD = lfi.Prior({"a": stats.norm()})


def simulated_from(scaled, noise, n=500, seed=0):
    """Return simulations of scaled(θ) plus noise, θ standard normal."""
    return simulations(n, STANDARD, lambda theta, rng: scaled(theta + noise * rng.standard_normal(theta.shape)), seed)


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_two_modes_stay_apart(seed):
    """Networks whose Gaussians all start at the same mean answer with one wide Gaussian for these seeds."""
    theta, rng = STANDARD.sample(500, seed=100 + seed), np.random.default_rng([seed, 1])
    sims = lfi.Simulations(theta, theta**2 + 0.3 * rng.standard_normal(theta.shape))
    method = lfi.MDN(hidden=(20,), seed=seed)
    grid = np.linspace(-4.0, 4.0, 801)
    exact = np.exp(stats.norm.logpdf(grid) + stats.norm.logpdf(1.5, grid**2, 0.3))
    found = method.fit(sims, STANDARD).posterior([1.5]).density(grid[:, None])
    assert lfi.diagnostics.total_variation(found, exact / (exact.sum() * 0.01), grid) < 0.35


def test_data_with_heavy_tails_are_told_apart_far_out():
    """Log x = 3θ + noise; at log x = 6, x is many spreads away."""
    method = lfi.MDN(hidden=(20,), steps=2000).fit(simulated_from(lambda y: np.exp(3.0 * y), 0.1, 1500), STANDARD)
    for log_x in (4.5, 6.0):
        posterior = quietly(lambda log_x=log_x: method.posterior([np.exp(log_x)]))
        assert posterior.mean()[0] == pytest.approx(log_x / 3.0 / 1.01, abs=0.06)
        assert posterior.std()[0] == pytest.approx(np.sqrt(0.01 / 1.01), rel=0.4)


def test_components_that_are_not_used_do_not_widen_a_sharp_posterior():
    posterior = lfi.MDN(hidden=(50,)).fit(simulated_from(lambda y: y, 0.01, 2000), STANDARD).posterior([0.7])
    assert posterior.mean()[0] == pytest.approx(0.7, abs=0.01)
    assert posterior.std()[0] < 0.025  # exact: 0.01; an unused component of 1 % and unit width alone makes 0.1


def test_one_network_stays_inside_what_a_prior_on_the_half_line_allows():
    prior = lfi.Prior({"a": stats.gamma(0.3)})
    sims = simulations(1000, prior, lambda theta, rng: theta + 2.0 * rng.standard_normal(theta.shape))
    posterior = lfi.MDN(hidden=(20,), steps=1000).fit(sims, prior).posterior([1.0])
    assert posterior.mean()[0] == pytest.approx(0.293, abs=0.15)  # by quadrature
    assert posterior.std()[0] == pytest.approx(0.485, abs=0.3)


def test_failures_are_part_of_the_likelihood():
    """P(valid | θ) = exp(-θ²/2) beside a Gaussian likelihood of unit variance: the posterior is N(1/3, 1/3)."""

    def fragile(theta, rng):
        x = theta + rng.standard_normal(theta.shape)
        return np.where(rng.random(theta.shape) < np.exp(-0.5 * theta**2), x, np.nan)

    prior = lfi.Prior({"a": stats.norm()})
    pilot = simulations(300, prior, fragile)
    for method in (
        lfi.MDN(components=1, hidden=(10,)),
        lfi.MDN(fragile, 1500, batched=True, components=1, hidden=(10,), rounds=1),
    ):
        sims = pilot if method.simulator is not None else simulations(1500, prior, fragile)
        posterior = quietly(lambda method=method, sims=sims: method.fit(sims, prior).posterior([1.0]))
        assert any(isinstance(warning, FailedSimulationsWarning) for warning in posterior.warnings)
        assert posterior.mean()[0] == pytest.approx(1.0 / 3.0, abs=0.12)
        assert posterior.std()[0] == pytest.approx(np.sqrt(1.0 / 3.0), rel=0.15)
    assert method.n_failed_ > 0


def test_a_component_that_is_repaired_is_left_out_unless_it_holds_half():
    method = lfi.MDN(noisy, 200, batched=True).fit(simulations(60), PRIOR)
    proposal = GaussianMixture(np.zeros(1), np.zeros((1, 2)), 4.0 * np.eye(2)[None])
    means, precisions = np.array([[0.5, 0.0], [0.0, 0.5], [9.0, 9.0]]), np.array([6.0, 8.0, 1.0])[:, None, None]
    for bad, kept in ((0.2, 2), (0.6, 3)):  # the last component tells less than the proposal
        weights = np.log([0.5 * (1.0 - bad), 0.5 * (1.0 - bad), bad])
        found, repaired = method._corrected(GaussianMixture(weights, means, precisions * np.eye(2)), proposal)
        assert len(found.means) == len(repaired) == kept
        assert repaired.tolist() == [False, False, True][:kept]


@pytest.mark.slow
def test_a_component_that_is_repaired_does_not_move_the_others():
    """One of three components is repaired and left out; the others once went to b = 3.8 then, without a note."""
    prior = lfi.Prior({"a": stats.uniform(0.0, 1.0), "b": stats.gamma(2.0)})

    def simulator(theta, rng):
        return theta + np.array([0.05, 0.3]) * rng.standard_normal(2)

    posterior = quietly(lambda: lfi.infer(simulator, prior, [0.98, 0.2], 400, method=lfi.MDN()))
    assert posterior.mean()[0] == pytest.approx(0.95, abs=0.03)
    assert posterior.mean()[1] < 1.1  # exact: 0.43, standard deviation 0.21; those of the prior: 2.0 and 1.41
    assert posterior.std()[1] < 1.0


def test_components_as_wide_as_the_prior_are_noted():
    covariance = np.array([[2.0, 0.6], [0.6, 1.0]])
    root, prior = np.linalg.cholesky(covariance), LogQuadratic.gaussian(np.zeros(2), covariance)
    direction = np.linalg.solve(root.T, [0.6, 0.8])
    one_way = prior.precision + 50.0 * np.outer(direction, direction)  # adds nothing across it
    precisions = np.stack([one_way, one_way + 0.05 * prior.precision, one_way + 0.5 * prior.precision])
    mixture = GaussianMixture(np.log([0.2, 0.1, 0.7]), np.zeros((3, 2)), precisions)
    [warning] = _empty_notes(mixture, prior, root, 0.1)
    assert isinstance(warning, UninformativeNetworkWarning)
    assert warning.share == pytest.approx(0.3)
    assert _empty_notes(mixture.taken(np.array([False, False, True])), prior, root, 0.1) == []


# ---- the interface ---------------------------------------------------------------------------------------------


def test_small_budgets_have_fewer_rounds():
    assert [_round_sizes(n, 3, MDNSettings()) for n in (71, 400, 0)] == [[71], [100, 100, 200], []]


def test_a_simulator_that_fails_wherever_it_is_proposed_leaves_the_first_round():
    def broken(theta, rng):
        return np.full(theta.shape, np.nan)

    method = lfi.MDN(broken, 200, batched=True, components=1, hidden=(10,))
    posterior = quietly(lambda: method.fit(simulations(150), PRIOR).posterior(OBSERVED))
    assert method.n_failed_ == 50
    [failed] = [warning for warning in posterior.warnings if isinstance(warning, FailedSimulationsWarning)]
    assert (failed.n_failed, failed.n_simulations) == (50, 50)
    np.testing.assert_allclose(posterior.mean(), EXACT_MEAN, atol=0.6)


def test_the_networks_of_rounds_take_half_as_many_steps():
    taken = []

    class Recorded(lfi.MDN):
        def _trained(self, stage, rng, components, steps):
            taken.append(steps)
            return super()._trained(stage, rng, components, min(steps, TrainingSettings.chunk))

    for steps in (300, 1):
        method = Recorded(noisy, 260, batched=True, components=1, hidden=10, rounds=1, steps=steps)
        quietly(lambda method=method: method.fit(simulations(60), PRIOR).posterior(OBSERVED))
    assert taken == [150, 300, 1, 1]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("components", 0),
        ("steps", 0),
        ("rounds", -1),
        ("rounds", 1.5),
        ("hidden", (0,)),
        ("hidden", 10.0),
        ("time_limit", -1.0),
    ],
)
def test_wrong_settings_are_refused(argument, value):
    with refused(argument):
        lfi.MDN(**{argument: value}).fit(simulations(60), PRIOR)


WITHOUT_THE_EXTRA = """
import sys


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("equinox", "optax"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Hidden())
import decond
from decond import lfi

assert "jax" not in sys.modules
print(lfi.MDN.__name__)
try:
    lfi.MDN()
except ModuleNotFoundError as error:
    print(error.name)
try:
    lfi.infer(lambda theta, rng: theta, lfi.Prior({"a": __import__("scipy.stats").stats.norm()}), [0.0], method="mdn")
except ModuleNotFoundError as error:
    print(error.name)
"""


def test_without_the_extra_everything_else_works():
    result = subprocess.run([sys.executable, "-c", WITHOUT_THE_EXTRA], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["MDN", "equinox", "equinox"]


def test_a_package_that_is_installed_but_broken_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "equinox.py").write_text("import jax_of_another_age\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "equinox", raising=False)
    with pytest.raises(ImportError) as error:
        require("lfi.MDN")
    assert not isinstance(error.value, ModuleNotFoundError)
    assert error.value.name == "equinox"
    assert error.value.__cause__.name == "jax_of_another_age"
