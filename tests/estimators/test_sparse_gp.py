"""The estimator of large tables: learning, streaming, scikit-learn's tools, and the paper's toy."""

import itertools

import numpy as np
import oracles
import pytest
from expected import refused, warned
from scipy.optimize import minimize
from scipy.spatial.distance import pdist
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from decond import kernels, load, save
from decond.estimators.direct import DirectGP
from decond.estimators.sparse import SparseGP
from decond.gp import BoundWarning, FunctionPrior, NoSignalWarning, TaskTransformed, condition
from decond.parameters import same
from decond.streaming.sparse_search import starting_points

QUERY = np.array([[0.5, -1.0], [1.5, 0.0], [2.0, 1.0]])


def table(m=300, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.uniform(0, 6, m), rng.standard_normal(m)])
    return x, np.sin(x[:, 0]) + 0.3 * x[:, 1] + noise * rng.standard_normal(m)


# ---- the paper's toy (section 8.2) -------------------------------------------------------------------------------


def rbf(a, b, lengthscale):
    return np.exp(-0.5 * (a - b.T) ** 2 / lengthscale**2)


def best_of_random_restarts(joint, restarts=20):
    """The best log evidence that plain NumPy and differences find from random starts."""
    x, z, _ = oracles.sparse_toy_data()
    rng = np.random.default_rng(0)

    def negative(vector):
        u, (lengthscale, sigma) = vector[:5, None], np.exp(vector[5:]) if joint else (1.0, 0.25)
        return -oracles.sparse_log_evidence(rbf(u, u, lengthscale), rbf(u, x, lengthscale), z, sigma)

    best = np.inf
    for _ in range(restarts):
        hyperparameters = rng.uniform([np.log(0.3), np.log(0.05)], [np.log(10.0), 0.0])
        start = np.concatenate([rng.uniform(-5, 5, 5), hyperparameters if joint else []])
        bounds = [(-8.0, 8.0)] * 5 + [(-3.0, 4.0), (-4.0, 2.0)] * joint
        best = min(best, minimize(negative, start, method="L-BFGS-B", bounds=bounds).fun)
    return -best


def test_the_toy_with_true_hyperparameters_learns_its_points():
    x, z, u = oracles.sparse_toy_data()
    given = {"inducing": u, "kernel": kernels.RBF(1.0), "noise": 0.25, "mean": "zero", "prediction": "latent"}
    gp = SparseGP(**given, learn_hyperparameters=False, max_iterations=300).fit(x, z)
    assert gp.log_marginal_likelihood() >= best_of_random_restarts(joint=False) - 1e-4
    assert (gp.kernel_.lengthscale, gp.noise_) == (1.0, 0.25)
    assert gp.fit_result_.status == "converged"
    grid = np.linspace(-5, 5, 101)[:, None]
    error = [np.sqrt(np.mean((p - oracles.toy_f(grid)) ** 2)) for p in (gp.predict(grid), 0.0)]
    before = SparseGP(**given, optimize=False).fit(x, z)
    assert error[0] < 0.15 < 0.8 < error[1]
    assert gp.log_marginal_likelihood() > before.log_marginal_likelihood() + 50


def test_the_toy_learns_everything_jointly_from_far_away():
    x, z, u = oracles.sparse_toy_data()
    given = {"inducing": u, "kernel": kernels.RBF(10.0), "noise": 1.0, "mean": "zero", "prediction": "latent"}
    gp = SparseGP(**given, n_restarts=6, max_iterations=300).fit(x, z)
    assert gp.log_marginal_likelihood() >= best_of_random_restarts(joint=True) - 1e-4
    assert gp.noise_ == pytest.approx(0.25, abs=0.05)
    assert gp.kernel_.kernel.lengthscale == pytest.approx(1.0, abs=0.4)  # a variance to learn stands in front
    assert len(gp.fit_result_.starts) == 8  # from the data, as given, and six restarts
    assert gp.fit_result_.log_evidence == pytest.approx(gp.log_marginal_likelihood(), rel=1e-9)


# ---- the model ---------------------------------------------------------------------------------------------------


def sparse_posterior(kernel, u, x, z, noise, query):
    """Mean and covariance of f at the query, and the bound, of the sparse Gaussian process, by m x m matrices."""
    K = kernel(u)
    K += 1e-8 * np.trace(K) / len(K) * np.eye(len(K))
    at_rows, at_query = (np.linalg.solve(np.linalg.cholesky(K), kernel(u, points)) for points in (x, query))
    S = at_rows.T @ at_rows + noise**2 * np.eye(len(x))
    half = np.linalg.solve(np.linalg.cholesky(S), np.column_stack([at_rows.T @ at_query, z]))
    seen, targets = half[:, : len(query)], half[:, len(query) :]
    log_density = -0.5 * ((targets**2).sum() + targets.shape[1] * np.linalg.slogdet(2 * np.pi * S)[1])
    left_open = targets.shape[1] * (kernel.diag(x) - (at_rows**2).sum(axis=0)).sum()
    bound = log_density - 0.5 * left_open / noise**2
    return (seen.T @ targets).reshape(-1, *z.shape[1:]), kernel(query) - seen.T @ seen, bound


@pytest.mark.parametrize("prediction", ["latent", "targets"])
@pytest.mark.parametrize("columns", [None, 2])
def test_as_given_it_is_the_sparse_process_or_the_task_transformed_model(prediction, columns):
    x, z = table(60)
    z = z if columns is None else np.column_stack([z, z**2])
    u, kernel, noise = x[:7], 1.5 * kernels.RBF([1.0, 2.0]), 0.3
    gp = SparseGP(inducing=u, kernel=kernel, noise=noise, mean="zero", optimize=False, prediction=prediction).fit(
        x, z
    )
    assert gp.kernel_ is kernel
    if prediction == "latent":
        observation = TaskTransformed(u, u, x, kernel, noise=noise, mediator="map")
        posterior = condition(FunctionPrior(kernel), observation, z)
        mean, covariance, evidence = posterior.mean(QUERY), posterior.covariance(QUERY), posterior.log_evidence
    else:
        mean, covariance, evidence = sparse_posterior(kernel, u, x, z, noise, QUERY)
    found, deviation = gp.predict(QUERY, return_std=True)
    np.testing.assert_allclose(found, mean, rtol=1e-8)
    full = gp.predict(QUERY, return_cov=True)[1]
    if columns is not None:
        assert deviation.shape == (3, 2)
        assert full.shape == (3, 3, 2)
        deviation, full = deviation[:, 0], full[:, :, 0]
    np.testing.assert_allclose(deviation**2, np.diag(covariance), rtol=1e-8)
    np.testing.assert_allclose(full, covariance, rtol=1e-7, atol=1e-10)
    assert gp.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-10)
    draws = gp.sample(QUERY, 4000, seed=1)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.1)


def test_it_learns_a_table_with_calibrated_or_careful_bands():
    x, z = table(1500)
    new, truth = table(500, seed=1, noise=0.0)
    gp = SparseGP(n_inducing=30).fit(x, z)
    mean, std = gp.predict(new, return_std=True)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.06
    assert np.mean(np.abs(mean - truth) < 1.96 * std) > 0.9
    assert np.median(std) < 0.15
    assert gp.noise_ == pytest.approx(0.1, abs=0.02)
    assert gp.inducing_.shape == (30, 2)
    assert gp.score(new, truth) > 0.99
    far = gp.predict([[1e4, 5e3]], return_std=True)
    assert far[0] == pytest.approx(z.mean(), rel=1e-6)
    assert far[1] > 0.5


def test_an_irrelevant_column_a_constant_one_and_a_huge_offset():
    x, z = table(400)
    rng = np.random.default_rng(5)
    wide = np.column_stack([x[:, 0] * 1e-6 + 3.0, np.full(400, 7.0), rng.standard_normal(400) * 1e5, x[:, 1] + 1e6])
    with warned(BoundWarning):  # of the lengthscale of the irrelevant one
        gp = SparseGP(n_inducing=25).fit(wide, 1e4 * z + 1e7)
    assert gp.score(wide, 1e4 * z + 1e7) > 0.95
    lengthscale = gp.kernel_.kernel.lengthscale
    assert lengthscale[2] / 1e5 > 2 * lengthscale[3]
    assert gp.offset_ == pytest.approx(1e7, rel=1e-2)


@pytest.mark.parametrize("x_unit", [2.0**-10, 2.0**10])
@pytest.mark.parametrize("z_unit", [2.0**-10, 2.0**10])
def test_units_do_not_matter(x_unit, z_unit):
    """Powers of two, which keep every bit of the table."""
    x, z = table(200)
    plain = SparseGP(n_inducing=12, max_iterations=15).fit(x, z)
    moved = SparseGP(n_inducing=12, max_iterations=15).fit(x * x_unit, z * z_unit)
    for one, other in zip(
        plain.predict(QUERY, return_std=True), moved.predict(QUERY * x_unit, return_std=True), strict=True
    ):
        np.testing.assert_allclose(other, one * z_unit, rtol=1e-10)


def test_many_rows_are_sampled_first_and_then_read_in_full():
    x, z = table(400)
    seen = []
    gp = SparseGP(n_inducing=12, max_iterations=30, sample_size=60, objective="bound")
    gp.fit(x, z, progress=lambda *now: seen.append(now))
    assert gp.posterior_.statistics.count == 400
    assert gp.fit_result_.evaluations == len(seen)
    assert gp.fit_result_.message.startswith("of 400 rows, 60 ")
    assert len(gp.fit_result_.starts) == 1  # further searches go on from where the first one ended
    assert gp.log_marginal_likelihood() == pytest.approx(gp.fit_result_.log_evidence, rel=1e-8)
    assert gp.score(x, z) > 0.95


def test_what_is_not_to_be_learned_stays():
    x, z = table(100)
    kernel = 1.3 * kernels.RBF([1.0, 2.0])
    fixed = SparseGP(n_inducing=8, kernel=kernel, noise=0.2, learn_inducing=False, max_iterations=5).fit(x, z)
    np.testing.assert_array_equal(fixed.inducing_, starting_points(x, 8, 0))
    assert not same(fixed.kernel_, kernel)
    moved = SparseGP(n_inducing=8, kernel=kernel, noise=0.2, learn_hyperparameters=False, max_iterations=5).fit(x, z)
    assert same(moved.kernel_, kernel)
    assert moved.noise_ == 0.2
    assert not np.array_equal(moved.inducing_, fixed.inducing_)
    neither = SparseGP(n_inducing=8, kernel=kernel, noise=0.2, learn_inducing=False, learn_hyperparameters=False)
    assert neither.fit(x, z).fit_result_ is None


# ---- kernels that are given --------------------------------------------------------------------------------------


def waves(m=300, noise=10.0, seed=0):
    """Return rows, targets with a deviation of about 70, and rows with the truth."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, (2 * m, 1))
    f = 100.0 * np.sin(x[:, 0])
    return x[:m], f[:m] + noise * rng.standard_normal(m), x[m:], f[m:]


def test_restarts_are_drawn_around_the_scales_of_the_data():
    x, z, *_ = waves()
    far = 1e-9 * kernels.RBF(1e6)
    starts = SparseGP(n_inducing=20, kernel=far, noise=1e5, n_restarts=2, objective="bound")
    starts = starts.fit(x, z).fit_result_.starts
    assert len(starts) == 4
    assert min(starts[0], *starts[2:]) > starts[1] + 100.0  # all but the given one


def test_a_fit_that_is_no_better_than_a_constant_warns():
    x, z, *_ = waves()
    shuffled = np.random.default_rng(1).permutation(z)
    with warned(NoSignalWarning):
        SparseGP(n_inducing=5).fit(x, shuffled)
    with warned(NoSignalWarning):  # of many rows too, of which a sample was learned from first
        SparseGP(n_inducing=5, sample_size=100).fit(x, np.column_stack([shuffled, 1e3 * shuffled]))


@pytest.mark.filterwarnings("ignore::decond.gp.BoundWarning")
@pytest.mark.parametrize("value", [0.0, 0.1, 0.5])
def test_targets_that_are_all_equal_need_no_signal(value):
    x, *_ = waves(m=50)
    np.testing.assert_allclose(SparseGP(n_inducing=5).fit(x, np.full(len(x), value)).predict(x), value, atol=1e-9)


def test_starting_points_are_distinct_rows_spread_in_units_of_the_columns():
    rng = np.random.default_rng(0)
    x = np.column_stack([1e6 + rng.standard_normal(500), 1e-6 * rng.standard_normal(500), np.full(500, 3.0)])
    points = starting_points(x, 20, seed=0)
    assert points.shape == (20, 3)
    assert {tuple(row) for row in points} <= {tuple(row) for row in x}
    unit = x.std(axis=0)[:2]
    at_random = [pdist(x[rng.choice(500, 20, replace=False), :2] / unit).min() for _ in range(20)]
    assert pdist(points[:, :2] / unit).min() > 2 * np.median(at_random)
    few = starting_points(np.repeat(x[:4], 30, axis=0), 20, seed=0)
    assert len(few) == 4
    many = np.arange(12_000.0)[:, None]  # more than are looked at
    assert set(starting_points(many, 3, seed=0).ravel()) <= set(many.ravel())


# ---- streaming ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [None, 2.0 * kernels.Matern32([1.0, 2.0])])
@pytest.mark.parametrize("columns", [None, 2])
def test_rows_may_come_in_any_order(kernel, columns):
    x, z = table(90)
    z = z + 1e4 if columns is None else np.column_stack([z, 100.0 * z**2 - 7.0])
    settings = {"inducing": x[:9], "kernel": kernel}
    whole = SparseGP(**settings, optimize=False).fit(x, z)
    parts = [slice(0, 1), slice(1, 30), slice(30, 90)]
    for order in itertools.permutations(parts):
        gp = SparseGP(**settings)
        for rows in order:
            gp.partial_fit(x[rows], z[rows])
        np.testing.assert_allclose(gp.predict(QUERY), whole.predict(QUERY), rtol=1e-8)
        for ours, theirs in zip(*(m.predict(QUERY, return_std=True) for m in (gp, whole)), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-7)
        assert gp.noise_ == pytest.approx(whole.noise_, rel=1e-8)
        assert gp.log_marginal_likelihood() == pytest.approx(whole.log_marginal_likelihood(), rel=1e-8)


def test_more_rows_after_learning():
    x, z = table(400)
    gp = SparseGP(n_inducing=15, max_iterations=30).fit(x[:200], z[:200])
    kernel, before = gp.kernel_, gp.predict(QUERY, return_std=True)[1]
    gp.partial_fit(x[200:], z[200:])
    assert gp.kernel_ is kernel
    assert gp.posterior_.statistics.count == 400
    assert np.all(gp.predict(QUERY, return_std=True)[1] < before)
    assert gp.fit_result_ is not None
    gp.fit(x[:200], z[:200])  # starts afresh
    assert gp.posterior_.statistics.count == 200


def test_a_noise_without_a_kernel_sets_the_amplitude():
    x, z = table(50)
    gp = SparseGP(inducing=x[:5], noise=0.6).partial_fit(x, z)
    assert gp.noise_ == 0.6
    assert gp.kernel_.variance == pytest.approx(4.0)  # noise starts at 0.3 of the amplitude


# ---- scikit-learn's tools ----------------------------------------------------------------------------------------


def test_several_targets_are_saved_and_more_rows_taken_up(tmp_path):
    x, z = table(120)
    gp = SparseGP(inducing=x[:5]).partial_fit(x, np.column_stack([z, z]))
    save(gp, tmp_path / "gp.decond")
    other = load(tmp_path / "gp.decond")
    for ours, theirs in zip(*(m.predict(QUERY, return_cov=True) for m in (gp, other)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert other.partial_fit(x, np.column_stack([z, z])).posterior_.statistics.count == 240


@pytest.mark.filterwarnings("ignore::decond.gp.BoundWarning")  # some of its tables have no noise
@pytest.mark.filterwarnings("ignore::decond.gp.NoSignalWarning")  # and some have nothing else
def test_scikit_learns_own_checks():
    """With few points and steps: the checks are of conventions, and make a hundred fits."""
    results = check_estimator(SparseGP(n_inducing=8, max_iterations=5), on_skip=None)
    assert len(results) > 40


# ---- at the door -------------------------------------------------------------------------------------------------


def test_settings_are_checked():
    x, z = table(20)
    with refused("inducing"):
        SparseGP(inducing=[[0.0]]).fit(x, z)
    with pytest.raises(NotFittedError):
        SparseGP().log_marginal_likelihood()
    with refused("return_cov"):
        SparseGP(inducing=x[:2]).partial_fit(x, z).predict(QUERY, return_std=True, return_cov=True)


@pytest.mark.filterwarnings("ignore::decond.gp.BoundWarning", "ignore::decond.gp.NoSignalWarning")
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows_have_an_answer(rows):
    x, z = table(rows)
    gp = SparseGP().fit(x, z)
    assert np.isfinite(gp.predict(QUERY)).all()
    assert np.all(gp.predict(QUERY, return_std=True)[1] > 0)


def test_the_range_of_the_data_is_not_known_before_fitting():
    with pytest.raises(NotFittedError):
        SparseGP()._range_seen()


# ---- what is learned from ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 3])
def test_many_points_and_much_noise_do_not_overfit(columns):
    """The evidence would, by up to four times the error of the exact Gaussian process."""
    rng = np.random.default_rng(columns)
    x, new = rng.uniform(-2, 2, (200, columns)), rng.uniform(-2, 2, (500, columns))
    f, truth = (np.sin(2 * rows[:, 0]) + 0.5 * (rows[:, 1:] ** 2).sum(axis=1) for rows in (x, new))
    z = f + f.std() * rng.standard_normal(200)
    exact, sparse = (
        np.sqrt(np.mean((gp.fit(x, z).predict(new) - truth) ** 2))
        for gp in (DirectGP(n_restarts=0), SparseGP(n_inducing=150, max_iterations=50))
    )
    assert sparse < 1.1 * exact


def test_many_points_in_one_dimension_stay_apart():
    x, z, *_ = waves(m=1500)
    points = np.sort(SparseGP(n_inducing=100).fit(x, z).inducing_.ravel())
    assert np.diff(points).min() > 1e-3
    assert -0.5 < points[0] < points[-1] < 10.5


def test_the_band_of_f_shrinks_with_the_rows_and_is_as_wide_as_the_error():
    previous = np.inf
    for m in (1_000, 16_000):
        x, z, new, truth = waves(m)
        mean, std = SparseGP(n_inducing=40).fit(x, z).predict(new, return_std=True)
        error = np.sqrt(np.mean((mean - truth) ** 2))
        assert 0.7 < std.mean() / error < 2.0
        assert np.mean(np.abs(mean - truth) < 2.0 * std) > 0.9
        assert std.mean() < 0.5 * previous
        previous = std.mean()


@pytest.mark.filterwarnings("ignore::decond.gp.BoundWarning")  # the last column is linear, its lengthscale long
def test_few_points_and_many_rows_are_learned_by_the_evidence():
    """The bound takes for noise what 64 points leave open; on these draws a search that is patient gains most."""
    rng = np.random.default_rng(0)
    rng.uniform(size=3600), rng.standard_normal(200)
    x, new = rng.uniform(-2, 2, (4000, 5)), rng.uniform(-2, 2, (1000, 5))
    z, truth = (
        np.sin(rows[:, 0] * rows[:, 1]) + rows[:, 2] * np.cos(rows[:, 3]) + 0.3 * rows[:, 4] for rows in (x, new)
    )
    z = z + 0.1 * rng.standard_normal(4000)
    bound, gp = (SparseGP(n_inducing=64, objective=objective).fit(x, z) for objective in ("bound", "auto"))
    assert gp.posterior_.model.objective == "evidence"
    mean, std = gp.predict(new, return_std=True)
    error, of_bound = (np.sqrt(np.mean((found - truth) ** 2)) for found in (mean, bound.predict(new)))
    assert error < 0.7 * of_bound
    assert 0.85 < np.mean(np.abs(mean - truth) < 1.96 * std) < 0.99
    assert gp.noise_ == pytest.approx(0.1, rel=0.1)
