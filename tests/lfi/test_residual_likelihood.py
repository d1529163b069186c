"""The residual likelihood: exact leave-one-out, densities, known posteriors, what the user is told."""

import pickle
import warnings

import numpy as np
import pytest
from expected import refused, warned
from scipy import stats

from decond.conditional.residual_density import (
    KernelFits,
    ResidualDensity,
    ResidualSettings,
    _MeanRegression,
    _SparseLinear,
)
from decond.lfi.diagnostics.diagnosis_report import Report
from decond.lfi.diagnostics.predictive_checks import observation_among
from decond.lfi.exceptions import (
    DeterministicSimulatorWarning,
    DiscreteSummaryWarning,
    FailedSimulationsWarning,
    FewSimulationsWarning,
    MisfitWarning,
    OutlyingSimulationsWarning,
    PosteriorWarning,
    TimeLimitWarning,
    UnstablePosteriorWarning,
)
from decond.lfi.methods.residual_likelihood import (
    AtomLikelihood,
    Columns,
    Refits,
    ResidualLikelihood,
    ShiftedLikelihood,
    _unstable_note,
    closeness,
    likelihood_at,
)
from decond.lfi.prior import Prior
from decond.lfi.sampling import temper
from decond.lfi.simulations import Simulations
from decond.lfi.summaries import RedundancyRule
from decond.lfi.validity import EventProbability, OutlierRule


def refitted_without(fit, phi, x, weights, row):
    """Solve the weighted ridge problem of a fit anew without one row, in plain NumPy, and predict that row."""
    kept = np.arange(len(phi)) != row
    points = (phi - fit.inputs.origin) / fit.inputs.spread

    def gram(a, b):
        squared = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
        return np.exp(-0.5 * squared / fit.lengthscale[0] ** 2) + ResidualSettings.linear_variance * (1.0 + a @ b.T)

    noise = np.diag(fit.ridge[0] * weights.max() / weights[kept])
    coefficients = np.linalg.solve(gram(points[kept], points[kept]) + noise, x[kept] - fit.center)
    return (gram(points[[row]], points[kept]) @ coefficients + fit.center)[0]


def test_leave_one_out_residuals_equal_refits():
    rng = np.random.default_rng(0)
    phi, weights = rng.uniform(-2, 2, (30, 2)), rng.uniform(0.1, 1.0, 30)
    x = np.sin(phi[:, [0]]) + phi[:, [1]] ** 2 + 0.2 * rng.standard_normal((30, 1))
    fit = KernelFits(phi, weights).fit(x)
    for row in (0, 7, 29):
        left_out = refitted_without(fit, phi, x, weights, row)
        assert x[row] - fit.residual[row] == pytest.approx(left_out, rel=1e-6, abs=1e-8)


def test_predictions_solve_the_weighted_ridge_problem():
    rng = np.random.default_rng(1)
    phi, weights = rng.uniform(-2, 2, (25, 1)), rng.uniform(0.1, 1.0, 25)
    x = np.column_stack([np.sin(3 * phi[:, 0]), phi[:, 0]]) + 0.1 * rng.standard_normal((25, 2))
    fit = KernelFits(phi, weights).fit(x)
    assert len(set(fit.lengthscale)) == 2  # the outputs share no Gram matrix
    points, query = (phi - fit.inputs.origin) / fit.inputs.spread, np.array([[0.3], [-1.0]])
    rows = (query - fit.inputs.origin) / fit.inputs.spread
    for column in range(2):
        scale = -0.5 / fit.lengthscale[column] ** 2
        gram = np.exp(scale * (points - points.T) ** 2) + ResidualSettings.linear_variance * (1 + points @ points.T)
        cross = np.exp(scale * (rows - points.T) ** 2) + ResidualSettings.linear_variance * (1 + rows @ points.T)
        noise = np.diag(fit.ridge[column] * weights.max() / weights)
        expected = cross @ np.linalg.solve(gram + noise, x[:, column] - fit.center[column]) + fit.center[column]
        assert fit.predict(query)[:, column] == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_sparse_linear_residuals_equal_refits():
    rng = np.random.default_rng(2)
    phi, weights = rng.standard_normal((40, 3)), rng.uniform(0.2, 1.0, 40)
    x = 1.0 + 2.0 * phi[:, [1]] + 0.1 * rng.standard_normal((40, 1))
    fit = _SparseLinear(phi, x, weights)
    assert np.flatnonzero(fit.slopes[:, 0]).tolist() == [1]
    design = np.column_stack([np.ones(40), phi[:, 1]])
    kept = np.arange(40) != 5
    root = np.sqrt(weights[kept])[:, None]
    beta = np.linalg.lstsq(root * design[kept], root * x[kept], rcond=None)[0]
    assert fit.residual[5] == pytest.approx(x[5] - design[5] @ beta, rel=1e-9)


def test_curvature_needs_the_kernel_and_a_line_does_not():
    rng = np.random.default_rng(3)
    phi, weights = rng.uniform(-2, 2, (200, 1)), np.ones(200)
    x = np.column_stack([phi[:, 0] ** 2, phi[:, 0]]) + 0.1 * rng.standard_normal((200, 2))
    assert _MeanRegression(phi, x, weights, KernelFits(phi, weights)).smooth.tolist() == [True, False]


@pytest.mark.parametrize("width", [0.1, 0.4, 1.0])
def test_the_density_of_residuals_integrates_to_one_and_keeps_its_variance(width):
    rng = np.random.default_rng(4)
    residual = rng.gamma(2.0, size=(300, 1))
    density = ResidualDensity(residual, rng.standard_normal((300, 1)), rng.uniform(0.5, 1, 300), width=width)
    grid = np.linspace(-15, 25, 8001)[:, None]
    values = np.exp(density.log_density(grid, np.zeros((len(grid), 1))))
    assert np.trapezoid(values, grid[:, 0]) == pytest.approx(1.0, abs=1e-6)
    mean = np.trapezoid(values * grid[:, 0], grid[:, 0])
    variance = np.trapezoid(values * (grid[:, 0] - mean) ** 2, grid[:, 0])
    share = density.share
    assert mean == pytest.approx(share @ residual[:, 0], abs=1e-6)
    assert variance == pytest.approx(share @ (residual[:, 0] - mean) ** 2, rel=0.01)


def test_with_locality_it_still_integrates_to_one():
    rng = np.random.default_rng(5)
    phi = rng.uniform(-2, 2, (600, 1))
    residual = np.where(phi > 0, rng.choice([-1.0, 1.0], (600, 1)), 0.0) + 0.1 * rng.standard_normal((600, 1))
    density = ResidualDensity(residual, phi, np.ones(600))
    assert density.locality < np.inf
    assert density.width < 0.5
    grid = np.linspace(-6, 6, 6001)[:, None]
    for place in (-1.0, 1.5):
        values = np.exp(density.log_density(grid, np.full_like(grid, place)))
        assert np.trapezoid(values, grid[:, 0]) == pytest.approx(1.0, abs=1e-6)


def test_h_of_one_is_the_gaussian():
    rng = np.random.default_rng(6)
    residual = rng.normal(1.0, 2.0, (500, 1))
    density = ResidualDensity(residual, np.zeros((500, 1)), np.ones(500))
    assert density.width == 1.0
    query = rng.standard_normal((5, 1))
    gaussian = stats.norm(residual.mean(), residual.std(ddof=1))
    assert density.log_density(query, np.zeros((5, 1))) == pytest.approx(gaussian.logpdf(query[:, 0]), abs=1e-8)


def test_correlations_are_kept_and_those_of_noise_are_not():
    rng = np.random.default_rng(6)
    residual = rng.multivariate_normal([1.0, -2.0], [[2.0, 0.9], [0.9, 1.0]], 500)
    density = ResidualDensity(residual, np.zeros((500, 1)), np.ones(500))
    gaussian = stats.multivariate_normal(residual.mean(axis=0), np.cov(residual.T))
    query = residual[:50]  # correlations of this size are pulled in by a per cent or less
    assert density.log_density(query, np.zeros((50, 1))) == pytest.approx(gaussian.logpdf(query), abs=0.05)
    noise = rng.standard_normal((500, 2))
    alone = [ResidualDensity(noise[:, [j]], np.zeros((500, 1)), np.ones(500)) for j in range(2)]
    apart = sum(one.log_density(noise[:, [j]], np.zeros((500, 1))) for j, one in enumerate(alone))
    together = ResidualDensity(noise, np.zeros((500, 1)), np.ones(500)).log_density(noise, np.zeros((500, 1)))
    assert together == pytest.approx(apart, abs=1e-6)


def test_closeness_does_not_look_at_the_outcome():
    """A simulation whose noise carried it onto the observation is no closer than its twin."""
    rng = np.random.default_rng(7)
    phi = rng.uniform(-2, 2, (400, 1))
    x = phi + 0.5 * rng.standard_normal((400, 1))
    weights = closeness(phi, x, np.array([[0.0]]), rng)
    noise = (x - phi)[:, 0]
    near = weights > 0.5
    assert abs(np.corrcoef(np.abs(x[near, 0]), weights[near])[0, 1]) < 0.75 * abs(
        np.corrcoef(np.abs(phi[near, 0]), weights[near])[0, 1]
    )
    assert np.average(noise**2, weights=weights) == pytest.approx(0.25, rel=0.1)


def test_columns_find_the_scale_of_even_noise():
    rng = np.random.default_rng(8)
    phi = rng.uniform(-1, 1, (400, 1))
    mean = np.exp(3.0 + phi[:, 0])
    x = np.column_stack(
        [rng.poisson(mean), mean * rng.gamma(20.0, 0.05, 400), mean + rng.standard_normal(400), -mean]
    ).astype(float)
    columns = Columns.chosen(x, phi, np.ones(400))
    assert columns.power[1:].tolist() == [0.0, 1.0, 1.0]
    assert columns.power[0] == 0.5
    step = 1e-5
    slope = (columns.apply(x + step) - columns.apply(x)) / step
    assert columns.log_slopes(x) == pytest.approx(np.log(np.maximum(slope, 1e-12)), abs=1e-3)


def test_the_likelihood_is_a_density_of_the_data_in_their_own_units():
    rng = np.random.default_rng(9)
    phi = rng.standard_normal((300, 1))
    x = 5.0 * np.exp(0.3 * phi + 0.2 * rng.standard_normal((300, 1)))
    query = np.array([[0.4]])
    grid = np.linspace(3.0, 10.0, 6)
    truth = stats.lognorm(0.2, scale=5.0 * np.exp(0.12)).pdf(grid)
    values = [
        np.exp(likelihood_at(phi, x, np.array([[y]]), summary="none", rng=rng).log_density(query)[0]) for y in grid
    ]
    assert np.abs(np.array(values) - truth).max() < 0.1 * truth.max()


def test_scale_is_found_where_noise_changes():
    rng = np.random.default_rng(10)
    phi = rng.uniform(-1, 1, (500, 1))
    x = phi + np.exp(phi) * 0.3 * rng.standard_normal((500, 1))
    fitted = ShiftedLikelihood(phi, x, np.array([[0.0]]), np.ones(500))
    assert fitted.scaled.tolist() == [True]
    even = ShiftedLikelihood(phi, phi + 0.3 * rng.standard_normal((500, 1)), np.array([[0.0]]), np.ones(500))
    assert even.scaled.tolist() == [False]


def gaussian_problem(n=400, seed=0):
    prior = Prior({"a": stats.norm(0, 1), "b": stats.norm(0, 1)})
    rng = np.random.default_rng(seed)
    theta = prior.sample(n, rng)
    return prior, Simulations(theta, theta + 0.5 * rng.standard_normal((n, 2)))


def test_a_conjugate_posterior_is_recovered():
    prior, sims = gaussian_problem()
    observed = np.array([1.0, -0.5])
    posterior = ResidualLikelihood(seed=0).fit(sims, prior).posterior(observed)
    assert posterior.mean() == pytest.approx(0.8 * observed, abs=0.08)
    assert posterior.std() == pytest.approx(np.sqrt(0.2) * np.ones(2), rel=0.12)
    exact = stats.norm(0, np.sqrt(1.25)).logpdf(observed).sum()
    assert posterior.log_evidence == pytest.approx(exact, abs=0.25)
    assert posterior.effective > 100
    proposed = posterior.propose(1000, seed=1)
    assert (proposed.std(axis=0) > 1.1 * posterior.std()).all()


def test_exponential_gamma_beats_the_published_distance():
    prior = Prior({"rate": stats.gamma(2)})
    grid = np.linspace(0, 3.5, 351)
    truth = stats.gamma(17, scale=1 / 9.890968).pdf(grid)
    distances = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        theta = prior.sample(100, rng)
        x = rng.exponential(1 / theta, (100, 15)).mean(axis=1, keepdims=True)
        posterior = ResidualLikelihood(seed=seed).fit(Simulations(theta, x), prior).posterior([0.5927312618509876])
        distances.append(0.5 * np.trapezoid(np.abs(stats.gaussian_kde(posterior.samples[:, 0])(grid) - truth), grid))
    assert np.mean(distances) < 0.11


def test_failed_simulations_are_part_of_the_likelihood():
    """Half of the parameters never give data: the posterior leaves them."""
    prior = Prior({"a": stats.uniform(-1, 2)})
    rng = np.random.default_rng(0)
    theta = prior.sample(400, rng)
    x = np.abs(theta) + 0.3 * rng.standard_normal((400, 1))
    x[theta[:, 0] > 0] = np.nan
    method = ResidualLikelihood(seed=0).fit(Simulations(theta, x), prior)
    with warned(FailedSimulationsWarning, n_failed=int(np.sum(theta > 0)), n_simulations=400):
        posterior = method.posterior([0.5])
    assert np.mean(posterior.samples[:, 0] > 0.1) < 0.05


@pytest.mark.parametrize("summary", ["none", "learned"])
def test_many_columns_with_and_without_learned_summaries(summary):
    """Twelve noisy copies of one parameter: the posterior is that of their mean."""
    prior = Prior({"a": stats.norm(0, 1)})
    rng = np.random.default_rng(0)
    theta = prior.sample(400, rng)
    x = theta + rng.standard_normal((400, 12))
    observed = np.full(12, 0.8) + np.tile([0.5, -0.5], 6)
    posterior = ResidualLikelihood(seed=0, summary=summary).fit(Simulations(theta, x), prior).posterior(observed)
    assert posterior.mean()[0] == pytest.approx(0.8 * 12 / 13, abs=0.12)
    assert posterior.std()[0] == pytest.approx(np.sqrt(1 / 13), rel=0.2)


def test_out_of_time_and_few_simulations_are_said():
    prior, sims = gaussian_problem(40)
    method = ResidualLikelihood(time_limit=0.0).fit(sims, prior)
    with warned(TimeLimitWarning, stage="sampling"), warned(FewSimulationsWarning, needed=50.0):
        posterior = method.posterior([0.2, 0.1])
    assert [type(warning) for warning in posterior.warnings] == [FewSimulationsWarning, TimeLimitWarning]
    assert posterior.warnings[0].effective == posterior.effective < 50.0


def test_data_that_never_change_are_refused():
    prior = Prior({"a": stats.norm(0, 1)})
    theta = prior.sample(50, 0)
    with refused("sims"):
        ResidualLikelihood().fit(Simulations(theta, np.ones((50, 2))), prior).posterior([1.0, 1.0])


def test_summaries_are_learned_where_they_tell_more_and_guarded():
    """Nine columns that are noisy, bent copies of one parameter; far parameters give data unlike any near ones."""
    rng = np.random.default_rng(11)
    phi = rng.uniform(-3, 3, (400, 1))
    x = np.concatenate([np.sinh(phi) + 3.0 * rng.standard_normal((400, 1)) for _ in range(9)], axis=1)
    observed = np.full((1, 9), np.sinh(1.0))
    fitted = {name: likelihood_at(phi, x, observed, summary=name, rng=rng) for name in ("none", "learned", "auto")}
    assert fitted["none"].observed.shape == (1, 9)
    assert fitted["learned"].observed.shape == (1, 1)
    weights = np.ones(400)
    tells = {name: one.information(weights) for name, one in fitted.items()}
    assert tells["auto"] == pytest.approx(max(tells["none"], tells["learned"]), abs=0.11)
    guarded = fitted["learned"]
    far = np.array([[-3.0]])
    before = guarded.log_density(far)[0]
    guarded.guard_by(fitted["none"], phi)
    assert guarded.log_density(np.array([[1.0]]))[0] > before
    assert guarded.log_density(far)[0] < before


def counts(kind, n=1500, seed=0):
    """Return a prior and counts simulated from it."""
    rng = np.random.default_rng(seed)
    if kind == "poisson":
        prior = Prior({"rate": stats.expon()})
        theta = prior.sample(n, rng)
        return prior, Simulations(theta, rng.poisson(theta).astype(float))
    prior = Prior({"p": stats.uniform(0, 1)})
    theta = prior.sample(n, rng)
    return prior, Simulations(theta, rng.binomial(20, theta).astype(float))


@pytest.mark.parametrize(
    ("kind", "observed", "exact", "evidence"),
    [
        ("poisson", 0, stats.gamma(1, scale=0.5), 1 / 2),
        ("poisson", 1, stats.gamma(2, scale=0.5), 1 / 4),
        ("binomial", 0, stats.beta(1, 21), 1 / 21),
    ],
)
def test_counts_at_the_edge_have_a_probability(kind, observed, exact, evidence):
    prior, sims = counts(kind)
    method = ResidualLikelihood().fit(sims, prior)
    posterior = method.posterior([observed])
    assert isinstance(method.likelihood_, AtomLikelihood)
    assert posterior.mean()[0] == pytest.approx(exact.mean(), abs=0.2 * exact.std())
    assert posterior.std()[0] == pytest.approx(exact.std(), rel=0.2)
    assert posterior.log_evidence == pytest.approx(np.log(evidence), abs=0.15)
    assert posterior.effective == np.sum(sims.x == observed)


def test_counts_inside_keep_their_density_where_it_predicts_as_well():
    prior, sims = counts("binomial")
    method = ResidualLikelihood().fit(sims, prior)
    posterior = method.posterior([10])
    assert isinstance(method.likelihood_, ShiftedLikelihood)
    assert posterior.mean()[0] == pytest.approx(0.5, abs=0.02)
    assert posterior.std()[0] == pytest.approx(stats.beta(11, 11).std(), rel=0.12)


def test_an_atom_needs_enough_simulations_and_all_columns():
    rng = np.random.default_rng(0)
    phi = rng.standard_normal((1000, 1))
    x = np.column_stack([np.zeros(1000), np.ones(1000), rng.standard_normal(1000)])
    x[:25, 2] = 0.0
    observed = np.array([[0.0, 5.0, 0.0]])  # a column that never changes does not count
    assert AtomLikelihood.at(phi, x[:, :2], observed[:, :2]) is None
    found = AtomLikelihood.at(phi, x, observed)
    assert (found.effective, found.at_edge) == (25.0, False)
    x[6:25, 2] = 1.0
    assert AtomLikelihood.at(phi, x, observed) is None


def test_the_probability_of_an_event_is_calibrated_and_extrapolates():
    rng = np.random.default_rng(1)
    phi = rng.uniform(-2, 2, (2500, 1))  # more rows than the settings are chosen from
    model = EventProbability(phi, rng.random(2500) < 0.6 * np.exp(-2 * phi[:, 0] ** 2))
    grid = np.linspace(-1.5, 1.5, 31)
    assert np.abs(np.exp(model.log_probability(grid[:, None])) - 0.6 * np.exp(-2 * grid**2)).max() < 0.08
    assert -1.0 < model.score < -0.2
    steep = EventProbability(phi, rng.random(2500) < 1 / (1 + np.exp(3 * phi[:, 0])))
    assert steep.log_probability([[4.0]])[0] < -7.0
    assert EventProbability(phi[:5], np.array([True, False, False, False, False])).score == -np.inf


def two_columns(informative):
    """Return a count that is often zero beside a column that tells of the other parameter, or of the same."""
    rng = np.random.default_rng(2)
    phi = rng.standard_normal((600, 2))
    count = rng.poisson(np.exp(phi[:, 0])).astype(float)
    beside = phi[:, 1 if informative else 0] + 0.1 * rng.standard_normal(600)
    return phi if informative else phi[:, :1], np.column_stack([beside, count]), np.array([[-0.8, 0.0]])


def test_an_edge_that_matters_is_said_and_one_that_does_not_is_not():
    rng = np.random.default_rng(0)
    [warning] = likelihood_at(*two_columns(informative=True), summary="none", rng=rng).notes
    assert isinstance(warning, DiscreteSummaryWarning)
    assert warning.summaries == (1,)
    assert likelihood_at(*two_columns(informative=False), summary="none", rng=rng).notes == []


class Counting(ResidualLikelihood):
    """Counts the rows of parameters at which the likelihood is evaluated."""

    evaluations = 0

    def likelihood(self, observed):
        found = super().likelihood(observed)
        log_density = found.log_density

        def counted(phi):
            self.evaluations += len(phi)
            return log_density(phi)

        found.log_density = counted
        return found


@pytest.mark.parametrize("columns", [1, 2])
def test_a_deterministic_simulator_is_said_with_few_evaluations(columns):
    prior = Prior({"a": stats.norm(0, 1)})
    rng = np.random.default_rng(0)
    theta = prior.sample(300, rng)
    x = np.column_stack([theta, theta + rng.standard_normal((300, 1))])[:, :columns]
    method = Counting(time_limit=1e6)
    with warned(DeterministicSimulatorWarning, n_exact=1, n_summaries=columns):
        posterior = method.fit(Simulations(theta, x), prior).posterior([0.7, 0.2][:columns])
    assert posterior.mean()[0] == pytest.approx(0.7, abs=1e-5)
    assert 1e-8 < posterior.std()[0] < 1e-5
    assert method.evaluations < 500_000  # 300,000 for each; the sampler would stop at 2,000,000
    assert not any(isinstance(warning, TimeLimitWarning) for warning in posterior.warnings)


def test_learned_summaries_have_no_evidence_of_the_data():
    prior, rng = Prior({"mean": stats.norm(0.0, 1.0)}), np.random.default_rng(0)
    theta = prior.sample(200, rng)
    sims = Simulations(theta, theta + rng.standard_normal((200, 5)))
    posterior = ResidualLikelihood(summary="learned").fit(sims, prior).posterior(np.full(5, 0.5))
    assert posterior.log_evidence is None
    grid = np.linspace(-4.0, 4.0, 801)
    assert np.trapezoid(posterior.density(grid[:, None]), grid) == pytest.approx(1.0, abs=0.1)


def test_one_exact_column_leaves_the_other_as_it_is():
    """The likelihood then spans twenty powers of ten, which tempering has to climb in tiny steps."""
    prior, rng = Prior({"a": stats.uniform(-1.0, 2.0), "b": stats.uniform(-1.0, 2.0)}), np.random.default_rng(1)
    theta = prior.sample(500, rng)
    noise = np.column_stack([0.1 * rng.standard_normal(500), 1e-10 * rng.standard_normal(500)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)
        posterior = ResidualLikelihood().fit(Simulations(theta, theta + noise), prior).posterior([0.3, 0.4])
        draws = posterior.sample(2000)
    assert draws.mean(axis=0) == pytest.approx([0.3, 0.4], abs=0.03)
    assert draws[:, 0].std() == pytest.approx(0.1, rel=0.25)


@pytest.mark.parametrize("t", [1, 30])
@pytest.mark.parametrize("model", ["gaussian", "exponential", "counts"])
def test_independent_observations_multiply(model, t):
    rng = np.random.default_rng(100 + t)
    prior = Prior({"theta": stats.norm(0.0, 2.0) if model == "gaussian" else stats.gamma(2.0)})
    theta = prior.sample(1500, seed=1)
    if model == "gaussian":
        x, y = theta + rng.standard_normal(theta.shape), 1.0 + rng.standard_normal((t, 1))
        variance = 1.0 / (t + 0.25)
        mean, sd = variance * y.sum(), np.sqrt(variance)
    elif model == "exponential":
        x, y = rng.exponential(1.0, theta.shape) / theta, rng.exponential(1.0, (t, 1))
        mean, sd = (2.0 + t) / (1.0 + y.sum()), np.sqrt(2.0 + t) / (1.0 + y.sum())
    else:
        x, y = rng.poisson(theta).astype(float), rng.poisson(1.0, (t, 1)).astype(float)
        mean, sd = (2.0 + y.sum()) / (1.0 + t), np.sqrt(2.0 + y.sum()) / (1.0 + t)
    posterior = ResidualLikelihood().fit(Simulations(theta, x), prior).posterior(y, iid=True)
    noise = np.sqrt(t / 1500)  # of the best estimate from so many simulations, in standard deviations
    # The probability of each count is a regression of its own; its error is multiplied by how often it was observed.
    many_counts = model == "counts" and t > 1
    assert posterior.mean()[0] == pytest.approx(mean, abs=(1.0 if many_counts else 0.2 + 2.0 * noise) * sd)
    assert posterior.std()[0] == pytest.approx(sd, rel=0.4 if many_counts else 0.25)


def test_values_that_were_not_measured_are_left_out():
    rng = np.random.default_rng(0)
    prior = Prior({"mean": stats.norm(0.0, 2.0)})
    theta = prior.sample(1000, seed=1)
    noise = np.array([0.5, 1.0, 2.0])
    method = ResidualLikelihood().fit(Simulations(theta, theta + noise * rng.standard_normal((1000, 3))), prior)
    posterior = method.posterior([np.nan, 1.0, 3.0])
    precision = 1.0 + 0.25 + 0.25
    assert posterior.mean()[0] == pytest.approx((1.0 + 3.0 / 4.0) / precision, abs=0.2 * precision**-0.5)
    assert posterior.std()[0] == pytest.approx(precision**-0.5, rel=0.15)
    posterior = method.posterior([[np.nan, 1.0, 3.0], [1.0, np.nan, 2.0], [np.nan, 2.0, 2.0]], iid=True)
    precision = 4.0 + 2.0 + 3.0 / 4.0 + 0.25
    expected = (4.0 + 1.0 + 2.0 + 7.0 / 4.0) / precision
    assert posterior.mean()[0] == pytest.approx(expected, abs=0.2 * precision**-0.5)
    assert posterior.std()[0] == pytest.approx(precision**-0.5, rel=0.15)
    with refused("observed"):
        method.posterior([np.nan, np.nan, np.nan])
    with refused("observed"):
        method.posterior([[1.0, 1.0, 1.0], [np.nan, np.nan, np.nan]], iid=True)


def test_an_observation_that_the_model_cannot_give_is_noticed_and_what_it_can_give_is_not():
    rng = np.random.default_rng(0)
    prior = Prior({"mean": stats.norm(0.0, 2.0)})
    theta = prior.sample(400, seed=1)
    method = ResidualLikelihood().fit(Simulations(theta, theta + 0.2 * rng.standard_normal((400, 2))), prior)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        method.posterior([1.0, -1.0])  # each value is in range, but no mean gives both
    [warning] = [one.message for one in caught if one.category is MisfitWarning]
    assert warning.distance > 5.0 > warning.usual
    for observed in 1.0 + 0.2 * rng.standard_normal((5, 2)):
        method.posterior(observed)  # warnings are errors


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("factor", [1e3, 1e50, 1e200])
def test_simulations_that_explode_do_not_move_the_answer(factor):
    prior, sims = gaussian_problem(100)
    wild = sims.x.copy()
    wild[[3, 50]] *= factor
    calm = ResidualLikelihood().fit(sims, prior).posterior([1.0, -0.5])
    with warned(OutlyingSimulationsWarning, n_outliers=2, n_simulations=100):
        posterior = ResidualLikelihood().fit(Simulations(sims.theta, wild), prior).posterior([1.0, -0.5])
    assert posterior.mean() == pytest.approx(calm.mean(), abs=0.3 * calm.std().min())
    assert posterior.std() == pytest.approx(calm.std(), rel=0.25)


def test_the_probability_that_a_simulation_explodes_is_part_of_the_likelihood():
    """Positive parameters explode half of the time, so a calm observation halves their odds."""
    prior = Prior({"a": stats.uniform(-1, 2)})
    rng = np.random.default_rng(0)
    theta = prior.sample(1000, rng)
    x = rng.standard_normal((1000, 1))
    x[(theta[:, 0] > 0) & (rng.random(1000) < 0.5)] *= 1e9
    with warned(OutlyingSimulationsWarning, n_simulations=1000):
        posterior = ResidualLikelihood().fit(Simulations(theta, x), prior).posterior([0.5])
    assert np.mean(posterior.samples[:, 0] > 0.0) == pytest.approx(1 / 3, abs=0.07)


def test_outliers_are_not_tails_nor_is_the_observation_one():
    rng = np.random.default_rng(1)
    phi = rng.standard_normal((500, 1))
    noise = rng.standard_normal((500, 1))
    calm = np.zeros((1, 1))
    for x in (np.exp(phi + 0.5 * noise), (phi + 0.5 * noise) ** 3, rng.poisson(np.exp(2 + 1.5 * phi)).astype(float)):
        assert OutlierRule().outliers(phi, x, calm).sum() <= 1
    x = phi + noise
    x[:9] *= 1e5
    assert np.flatnonzero(OutlierRule().outliers(phi, x, calm)).tolist() == list(range(9))
    assert not OutlierRule().outliers(phi, x, np.array([[1e5]])).any()


@pytest.mark.parametrize("n", [100, 1000])
@pytest.mark.parametrize(
    "repeated",
    [
        lambda mean, sd: [mean, sd, sd],
        lambda mean, sd: [mean, sd, sd**2, np.log(sd)],
        lambda mean, sd: [mean, 15.0 * mean, sd],
        lambda mean, sd: [mean, sd, mean**2 + sd**2],
    ],
)
def test_summaries_that_repeat_others_tell_nothing_new(n, repeated):
    prior = Prior({"mean": stats.norm(0, 1), "log_sd": stats.norm(0, 0.5)})
    theta = prior.sample(n, seed=0)
    raw = theta[:, :1] + np.exp(theta[:, 1:]) * np.random.default_rng(1).standard_normal((n, 15))
    mean, sd = raw.mean(axis=1), raw.std(axis=1)

    def posterior(summaries):
        sims = Simulations(theta, np.column_stack(summaries(mean, sd)))
        return ResidualLikelihood().fit(sims, prior).posterior([float(v) for v in summaries(0.4, 0.9)])

    plain, repeats = posterior(lambda mean, sd: [mean, sd]), posterior(repeated)
    assert repeats.mean() == pytest.approx(plain.mean(), abs=0.3 * plain.std().min())
    assert repeats.std() == pytest.approx(plain.std(), rel=0.2)


def test_a_difference_of_noisy_columns_that_tells_of_the_parameters_is_kept():
    rng = np.random.default_rng(2)
    phi, noise = rng.standard_normal((300, 1)), 30.0 * rng.standard_normal((300, 1))
    x = np.hstack([noise, noise + phi + 0.01 * rng.standard_normal((300, 1))])
    assert RedundancyRule().kept(phi, x, np.ones(300)).all()
    x[:, 1:] = noise + 0.01 * rng.standard_normal((300, 1))
    assert RedundancyRule().kept(phi, x, np.ones(300)).sum() == 1


def test_the_order_of_simulations_moves_nothing():
    prior, sims = gaussian_problem(600)
    shuffled = sims.take(np.random.default_rng(1).permutation(len(sims)))
    first, second = (ResidualLikelihood().fit(each, prior).posterior([1.0, -0.5]) for each in (sims, shuffled))
    assert first.samples == pytest.approx(second.samples, abs=1e-6)


def test_a_regression_of_low_rank_equals_the_full_one_and_its_residuals_equal_refits():
    rng = np.random.default_rng(3)
    phi, weights = rng.uniform(-2, 2, (300, 1)), rng.uniform(0.1, 1.0, 300)
    x = np.sin(2 * phi) + 0.2 * rng.standard_normal((300, 1))
    full = KernelFits(phi, weights).fit(x)
    short = KernelFits(phi, weights, ResidualSettings(exact_rows=100, landmarks=80)).fit(x)
    query = np.linspace(-2, 2, 9)[:, None]
    assert short.predict(query) == pytest.approx(full.predict(query), abs=1e-3)
    assert short.residual == pytest.approx(full.residual, abs=1e-3)


def refits_of(*centers):
    """Return refits of N(0, 1) under a flat prior whose halves are N(center, 1)."""

    def log_prior(points):
        return np.where(np.abs(points[:, 0]) < 20.0, -np.log(40.0), -np.inf)

    def gaussian(center):
        return lambda points: -0.5 * (points[:, 0] - center) ** 2

    class Gaussian:
        def __init__(self, center):
            self.log_density = gaussian(center)

    rng = np.random.default_rng(0)
    clouds = temper(log_prior, gaussian(0.0), rng.uniform(-20, 20, (4000, 1)), rng, powers=(0.25, 1.0))
    centers = [Gaussian(center) for center in centers]
    return Refits(clouds, Gaussian(0.0), list(zip(centers[::2], centers[1::2], strict=True)))


def test_halves_that_disagree_measure_the_error():
    assert refits_of().stability is None
    assert refits_of(0.1, 0.1).stability == pytest.approx(0.0, abs=0.01)
    assert refits_of(1.0, -1.0).stability == pytest.approx(1.0, abs=0.15)


def test_few_simulations_of_unlikely_counts_are_called_unstable():
    rng = np.random.default_rng(4)
    prior = Prior({"level": stats.norm(0, 1), "fall": stats.norm(0, 1)})
    theta = prior.sample(60, rng)
    rates = np.exp(2.0 + theta[:, :1] - (1.5 + 0.5 * theta[:, 1:]) * np.arange(6))
    with warned(UnstablePosteriorWarning):
        posterior = (
            ResidualLikelihood()
            .fit(Simulations(theta, rng.poisson(rates).astype(float)), prior)
            .posterior([9.0, 1.0, 0.0, 0.0, 2.0, 1.0])
        )
    assert posterior.stability > 0.5
    copied = pickle.loads(pickle.dumps(posterior))
    assert copied.stability == posterior.stability
    rows = prior.sample(500, seed=1)
    assert copied.log_likelihood(rows) == pytest.approx(posterior.log_likelihood(rows), rel=1e-6)
    weights = np.exp(posterior.log_likelihood(prior.sample(100_000, seed=2)))
    exact = np.average(prior.sample(100_000, seed=2), axis=0, weights=weights)
    assert posterior.mean() == pytest.approx(exact, abs=0.15 * posterior.std().min())
    assert (
        "unstable"
        in Report(posterior, None, None, observation_among(posterior.simulations, np.ones((1, 6))), True).findings
    )


@pytest.mark.parametrize(("stability", "factor"), [(1.0, "1.5."), (30.0, "1.92e+05."), (5000.0, "inf.")])
def test_an_unstable_posterior_is_described_however_far_halves_disagree(stability, factor):
    assert f"by a factor of {factor}" in str(_unstable_note(stability))
