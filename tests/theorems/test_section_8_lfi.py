"""Section 8.3 and appendix G through `lfi.DME`: Algorithm 8.1 as written, with its learning."""

import warnings

import numpy as np
import oracle_kernels
import oracles
import pytest
from scipy import stats

from decond.kernels import RBF
from decond.lfi import PosteriorWarning, Prior, Simulations
from decond.lfi.methods.deconditioning import DataFeatures, Deconditioner, PriorBasis, ThetaFeatures
from decond.lfi.methods.dme import DME
from decond.lfi.methods.kernel_search import Evidence

PRIOR = Prior({"mean": stats.norm(0.0, 1.0)})


@pytest.fixture(scope="module")
def sims():
    rng = np.random.default_rng(0)
    theta = PRIOR.sample(60, rng)
    return Simulations(theta, theta + 0.5 * rng.standard_normal(theta.shape))


@pytest.fixture(scope="module")
def proposed():
    """Simulations from a proposal that is not the prior, for which q_bar has a maximum inside of the search's box."""
    rng = np.random.default_rng(4)
    theta = rng.normal(-0.5, 1.0, (30, 1))
    return Simulations(theta, theta + 0.5 * rng.standard_normal(theta.shape))


def as_written(sims, **settings):
    """The paper's algorithm, its posterior, and the observation that its kernels see."""
    method = DME(objective="evidence", robust=False, n_prior=150, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)
        posterior = method.fit(sims, PRIOR).posterior([0.7])
    return method, posterior, method._summarize(np.array([[0.7]]))


def test_algorithm_8_1_weights_with_delta_from_lambda(sims):
    """Lines 2 to 5, and the proxy of appendix G: delta = n lambda / m."""
    method, posterior, _ = as_written(sims, kernel_x=RBF(0.4), kernel_theta=RBF(0.8), regularization=0.02)
    draws = PRIOR.from_working(posterior.embedding.points)
    assert method.choice_.evidence_regularization == pytest.approx(60 * 0.02 / 150)
    L, L_tilde = (oracle_kernels.rbf(sims.theta, rows, 0.8) for rows in (sims.theta, draws))
    A = oracles.transformation(L, L_tilde, 0.02)
    K, k = (oracle_kernels.rbf(sims.x, rows, 0.4) for rows in (sims.x, np.array([[0.7]])))
    expected = oracles.dmo_weights_woodbury(K, A, k, 60 * 0.02 / 150)[:, 0]
    np.testing.assert_allclose(posterior.embedding.weights, expected, rtol=1e-6, atol=1e-9)


def test_algorithm_8_1_super_samples(sims):
    """Lines 6 to 9: the draws are those of herding among the prior draws, with ell' = ell."""
    _, posterior, _ = as_written(sims, kernel_x=RBF(0.4), kernel_theta=RBF(0.8), regularization=0.02)
    embedding = posterior.embedding
    draws = PRIOR.from_working(embedding.points)
    chosen = oracles.herd(embedding(embedding.points), oracle_kernels.rbf(draws, draws, 0.8), 10_000)
    expected = draws[chosen]
    np.testing.assert_array_equal(np.sort(posterior.samples, axis=0), np.sort(expected, axis=0))


def log_q_bar(method, posterior, y):
    """Return log q_bar (Theorem G.1) as a function of the logarithms that `learned` gives."""
    draws = posterior.embedding.points

    def value(logs):
        length, epsilon, lam = np.exp(logs)
        L = oracle_kernels.rbf(method.phi_, method.phi_, length)
        A = oracles.transformation(L, oracle_kernels.rbf(method.phi_, draws, length), lam)
        q_bar = oracles.q_bar(oracles.epsilon_kernel(y[0], method.x_, epsilon), A)
        return np.log(q_bar) if q_bar > 0.0 else -np.inf

    return value


def learned(method):
    """The logarithms of what was learned: the lengthscale of theta, epsilon and lambda."""
    choice = method.choice_
    return np.log([choice.kernel_theta.lengthscale, choice.kernel_x.lengthscale, choice.regularization])


@pytest.mark.parametrize("parameter", [0, 1, 2], ids=["lengthscale of theta", "epsilon", "lambda"])
def test_algorithm_8_1_learning_reaches_a_maximum_of_q_bar(proposed, parameter):
    """Line 11 and Theorem G.1: no step in any of the three gains, and each loses more than learning's tolerance."""
    fit = as_written(proposed, optimum="local")
    objective, at = log_q_bar(*fit), learned(fit[0])
    assert fit[0].choice_.objective == pytest.approx(objective(at), abs=1e-5)
    step = np.zeros(3)
    step[parameter] = (0.5, 0.5, np.log(10.0))[parameter]
    for moved in (at - step, at + step):
        assert objective(moved) < objective(at) - 0.02


def test_algorithm_8_1_global_optimum_is_above_a_local_one(sims):
    """q_bar has several maxima here: the one near the median heuristic is less than half as high as the best."""
    values = []
    for optimum in ("local", "global"):
        fit = as_written(sims, optimum=optimum)
        values.append(log_q_bar(*fit)(learned(fit[0])))
        assert fit[0].choice_.objective == pytest.approx(values[-1], abs=1e-5)
    assert values[1] > values[0] + np.log(2.0)


@pytest.mark.parametrize("unit", [1.0, 100.0])
def test_theorem_g_1_log_evidence_is_a_density_in_the_units_of_the_data(proposed, unit):
    """log q_bar of the posterior, of data in other units: a density becomes smaller by the unit."""
    scaled = Simulations(proposed.theta, unit * proposed.x)
    method = DME(objective="evidence", robust=False, n_prior=150, optimum="local", summary="none")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)
        posterior = method.fit(scaled, PRIOR).posterior([0.7 * unit])
    length, epsilon, lam = np.exp(learned(method))
    epsilon *= proposed.x.std() / method.x_.std()
    theta, draws = method.phi_, posterior.embedding.points
    A = oracles.transformation(
        oracle_kernels.rbf(theta, theta, length), oracle_kernels.rbf(theta, draws, length), lam
    )
    q_bar = oracles.q_bar(oracles.epsilon_kernel(np.array([0.7]), proposed.x, epsilon), A)
    assert posterior.log_evidence == pytest.approx(np.log(q_bar / unit), abs=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_algorithm_8_1_posterior_as_a_density_ratio(sample, weighted):
    """Line 5 is v_j g(theta_j), g(theta) = a(theta)^T [K S + delta I]^-1 k(y), S = sum_j v_j a_j a_j^T, v_j = 1/m."""
    v = np.linspace(1.0, 2.0, sample.m) if weighted else np.ones(sample.m)
    v, lam, delta = v / v.sum(), 0.02, 0.03
    features = ThetaFeatures(sample.kernel_y, sample.y, n_landmarks=sample.n, rng=np.random.default_rng(0))
    data = DataFeatures(features, sample.kernel_x, sample.x)
    rule = Deconditioner(PriorBasis(features, sample.y_tilde, v), data, lam)
    ratio = rule.ratio(sample.y_tilde, rule.coefficients(sample.x_star, delta))
    A = sample.A(lam)
    S = A @ np.diag(v) @ A.T
    expected = A.T @ np.linalg.inv(sample.K @ S + delta * np.eye(sample.n)) @ sample.k_star
    np.testing.assert_allclose(ratio, expected, rtol=1e-6, atol=1e-9)
    if not weighted:
        weights = oracles.dmo_weights_woodbury(sample.K, A, sample.k_star, delta)
        np.testing.assert_allclose(v[:, None] * ratio, weights, rtol=1e-6, atol=1e-9)


def test_theorem_g_1_q_bar_for_several_regularizations_and_widths(sims):
    """One eigendecomposition serves all λ: q̄ at each is that of the theorem, and that of a single λ."""
    draws, y = PRIOR.sample(30, 5), np.array([[0.7]])
    evidence = Evidence(sims.theta, sims.x, y, draws)
    lambdas, widths = np.array([1e-3, 0.02, 0.5]), np.array([0.2, 0.9])
    together = evidence.log_value(0.8, widths, lambdas)
    L, L_tilde = (oracle_kernels.rbf(sims.theta, rows, 0.8) for rows in (sims.theta, draws))
    for i, width in enumerate(widths):
        for j, lam in enumerate(lambdas):
            kappa = oracles.epsilon_kernel(y[0], sims.x, width)
            expected = np.log(oracles.q_bar(kappa, oracles.transformation(L, L_tilde, lam)))
            assert together[i, j] == pytest.approx(expected, rel=1e-8)
            assert evidence.log_value(0.8, widths[[i]], lambdas[[j]])[0, 0] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("lam", "delta"), [(0.02, 0.05), (0.1, 0.001), (0.005, 0.3)])
@pytest.mark.parametrize("coordinates", ["working", "raw"])
def test_algorithm_8_1_with_everything_set(lam, delta, coordinates):
    """Lines 1 to 10 in plain NumPy: δ ≠ nλ/m, query points of their own, a lengthscale for each parameter."""
    prior, rng = Prior({"a": stats.uniform(-2.0, 4.0), "b": stats.gamma(2.0)}), np.random.default_rng(0)
    theta, query, y = prior.sample(70, 1), prior.sample(40, 7), np.array([[0.3, 1.5]])
    x = np.column_stack([
        theta[:, 0] + 0.3 * rng.standard_normal(70), theta[:, 1] * np.exp(0.2 * rng.standard_normal(70))
    ])  # fmt: skip
    method = DME(
        kernel_x=RBF([0.5, 0.8]), kernel_theta=RBF([0.6, 1.1]), regularization=lam, evidence_regularization=delta,
        objective="evidence", robust=False, n_prior=120, query_points=query, coordinates=coordinates,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)
        posterior = method.fit(Simulations(theta, x), prior).posterior(y[0])
    draws = prior.from_working(posterior.embedding.points)

    def ell(a, b, scale=(0.6, 1.1)):
        return oracle_kernels.rbf(a / np.array(scale), b / np.array(scale), 1.0)

    def k(a, b):
        return ell(a, b, (0.5, 0.8))

    A = oracles.transformation(ell(theta, theta), ell(theta, draws), lam)
    weights = A.T @ np.linalg.solve(k(x, x) @ A @ A.T + 120 * delta * np.eye(70), k(x, y))[:, 0]
    np.testing.assert_allclose(posterior.embedding.weights, weights, rtol=0, atol=1e-10)
    mu = ell(draws, query).T @ weights
    np.testing.assert_allclose(posterior.embedding(prior.to_working(query)), mu, rtol=0, atol=1e-10)
    expected = query[oracles.herd(mu, ell(query, query), 10_000)]
    np.testing.assert_allclose(np.sort(posterior.samples, axis=0), np.sort(expected, axis=0), rtol=1e-10)


@pytest.fixture(scope="module")
def two_parameters():
    """Simulations of two parameters on very different scales; the second matters little."""
    prior, rng = Prior({"a": stats.norm(0.0, 1.0), "b": stats.gamma(3.0, scale=100.0)}), np.random.default_rng(2)
    theta = prior.sample(60, 3)
    x = theta[:, [0]] + 0.001 * theta[:, [1]] + 0.3 * rng.standard_normal((60, 1))
    return prior, Simulations(theta, 50.0 + 1000.0 * x)


def q_bar_at(theta, x, draws, y, lengths, epsilon, lam):
    """The theorem's objective with a lengthscale for each parameter, in plain NumPy."""
    scaled, scaled_draws = theta / lengths, draws / lengths
    L, L_tilde = (oracle_kernels.rbf(scaled, rows, 1.0) for rows in (scaled, scaled_draws))
    return np.log(oracles.q_bar(oracles.epsilon_kernel(y, x, epsilon), oracles.transformation(L, L_tilde, lam)))


def test_algorithm_8_1_learns_a_lengthscale_for_each_parameter(two_parameters):
    """With one for each, q̄ is at a maximum in every direction, and above that of a shared one."""
    prior, sims = two_parameters
    objectives = {}
    for lengthscales in ("shared", "per_parameter"):
        method = DME(objective="evidence", robust=False, regularization=0.1, n_prior=80, lengthscales=lengthscales)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PosteriorWarning)
            posterior = method.fit(sims, prior).posterior([100.0])
        objectives[lengthscales] = method.choice_.objective
    lengths, epsilon = method.choice_.kernel_theta.lengthscale, method.choice_.kernel_x.lengthscale
    assert lengths.shape == (2,)
    y = method._summarize(np.array([[100.0]]))[0]
    at = (method.phi_, method.x_, posterior.embedding.points, y)
    best = q_bar_at(*at, lengths, epsilon, 0.1)
    assert objectives["per_parameter"] == pytest.approx(best, abs=1e-6)
    assert best > objectives["shared"] + 1e-4
    for factors in ([1.3, 1.0], [1 / 1.3, 1.0]):
        assert q_bar_at(*at, lengths * factors, epsilon, 0.1) < best


def test_algorithm_8_1_learns_in_raw_coordinates(two_parameters):
    """Lengthscales, ε and the evidence are those of parameters and data as they are."""
    prior, sims = two_parameters
    method = DME(objective="evidence", robust=False, regularization=0.1, n_prior=80, coordinates="raw")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)
        posterior = method.fit(sims, prior).posterior([100.0])
    draws = prior.from_working(posterior.embedding.points)
    length, epsilon = (kernel.kernel.lengthscale for kernel in (method.choice_.kernel_theta, method.choice_.kernel_x))
    expected = q_bar_at(sims.theta, sims.x, draws, np.array([100.0]), length, epsilon, 0.1)
    assert method.choice_.objective == pytest.approx(expected, abs=1e-6)
    assert posterior.log_evidence == pytest.approx(expected, abs=1e-6)
    L, L_tilde = (oracle_kernels.rbf(sims.theta, rows, length) for rows in (sims.theta, draws))
    K, k = (oracle_kernels.rbf(sims.x, rows, epsilon) for rows in (sims.x, np.array([[100.0]])))
    A = oracles.transformation(L, L_tilde, 0.1)
    weights = oracles.dmo_weights_woodbury(K, A, k, 60 * 0.1 / 80)[:, 0]
    np.testing.assert_allclose(posterior.embedding.weights, weights, atol=1e-8)


def test_algorithm_8_1_has_a_kernel_of_its_own_between_super_samples(sims):
    """Line 8: ℓ' need not be ℓ."""
    settings = {"kernel_x": RBF(0.4), "kernel_theta": RBF(0.8), "regularization": 0.02}
    _, posterior, _ = as_written(sims, herding_kernel=RBF(0.2), **settings)
    embedding = posterior.embedding
    draws = PRIOR.from_working(embedding.points)
    chosen = oracles.herd(embedding(embedding.points), oracle_kernels.rbf(draws, draws, 0.2), 10_000)
    np.testing.assert_array_equal(np.sort(posterior.samples, axis=0), np.sort(draws[chosen], axis=0))
