"""The posterior of hyperparameters: points around one optimum against plain NumPy, several modes by their mass."""

import numpy as np
import pytest
from scipy.stats import norm, qmc

from decond import kernels
from decond.gp import (
    Direct,
    FitResult,
    FunctionPrior,
    LaplaceSettings,
    LogNormal,
    Model,
    maximize_evidence,
    sample_hyperparameters,
    select,
)
from decond.linalg import NotPositiveDefiniteError
from decond.parameters import positive

# ---- one mode ------------------------------------------------------------------------------------------------


class Bell:
    """A model whose log evidence is -½ (t - c)ᵀ H (t - c) in the logarithms t of its three parameters."""

    NAMES = ("first", "second", "third")
    CENTER = np.log([2.0, 0.5, 7.0])

    def __init__(self, hessian, at=(2.0, 0.5, 7.0), fails_above=np.inf):
        self.hessian, self.at, self.fails_above = np.asarray(hessian), tuple(at), fails_above

    def values(self):
        return dict(zip(self.NAMES, self.at, strict=True))

    def points(self):
        return {}

    def constraints(self):
        return dict.fromkeys(self.values(), positive)

    def with_values(self, values):
        return Bell(self.hessian, [values[name] for name in self.NAMES], self.fails_above)

    def log_evidence(self, z):
        return self.log_evidence_and_gradient(z)[0]

    def log_evidence_and_gradient(self, z, *, points=True):
        if self.at[0] > self.fails_above:
            raise NotPositiveDefiniteError("too large")
        d = np.log(self.at) - self.CENTER
        slope = -self.hessian @ d / np.array(self.at)
        return -0.5 * d @ self.hessian @ d, dict(zip(self.NAMES, slope, strict=True))


def at_optimum(model, variables=None):
    values = model.values()
    return FitResult(model, values, 0.0, "converged", "", 1, 0, (0.0,), optima=(values,)), variables or select(model)


def logs_of(sample):
    return np.log([[values[name] for name in Bell.NAMES] for values in sample.values])


def sobol(dimension, seed, n=16):
    return norm.ppf(qmc.Sobol(dimension, seed=seed).random(n))


def test_a_bell_is_sampled_by_its_hessian_with_equal_weights():
    H = np.array([[9.0, 3.0, -1.0], [3.0, 5.0, 2.0], [-1.0, 2.0, 7.0]])
    result, variables = at_optimum(Bell(H))
    sample = sample_hyperparameters(result, None, variables, seed=7)
    steps = logs_of(sample) - Bell.CENTER
    np.testing.assert_allclose(steps[0], 0.0, atol=1e-12)
    np.testing.assert_allclose(
        np.einsum("si,ij,sj->s", steps[1:], H, steps[1:]), (sobol(3, 7) ** 2).sum(axis=1), rtol=1e-5
    )
    assert np.linalg.matrix_rank(steps) == 3
    np.testing.assert_allclose(sample.weights, 1.0 / 17.0, rtol=1e-5)


def test_flat_directions_are_proposed_no_wider_than_a_factor_of_e():
    H = np.diag([4.0, 0.25, 9.0])
    result, variables = at_optimum(Bell(H))
    sample = sample_hyperparameters(result, None, variables, seed=1)
    steps = logs_of(sample)[1:] - Bell.CENTER
    normal = sobol(3, 1)
    widths = np.sort(np.abs(steps * [2.0, 1.0, 3.0]), axis=None)  # curvatures 4 and 9, and 1 instead of 0.25
    np.testing.assert_allclose(widths, np.sort(np.abs(normal), axis=None), rtol=1e-5)
    logs = np.concatenate([[0.0], 0.5 * (1.0 - 0.25) * steps[:, 1] ** 2])
    np.testing.assert_allclose(sample.weights, np.exp(logs) / np.exp(logs).sum(), rtol=1e-5)


def test_hyperpriors_count_in_the_curvature_and_in_the_weights():
    model = Bell(np.diag([4.0, 4.0, 4.0]))
    variables = select(model, hyperpriors={"first": LogNormal(2.0, 0.5)})  # at the optimum already
    sample = sample_hyperparameters(at_optimum(model)[0], None, variables, seed=2)
    steps = logs_of(sample)[1:] - Bell.CENTER
    widths = np.sort(np.abs(steps * np.sqrt([8.0, 4.0, 4.0])), axis=None)
    np.testing.assert_allclose(widths, np.sort(np.abs(sobol(3, 2)), axis=None), rtol=1e-5)
    np.testing.assert_allclose(sample.weights, 1.0 / 17.0, rtol=1e-5)


def test_points_where_nothing_can_be_computed_weigh_nothing():
    result, variables = at_optimum(Bell(np.eye(3), fails_above=2.2))
    with_failures = sample_hyperparameters(result, None, variables, seed=0)
    assert 1 < len(with_failures.values) < 17
    assert all(values["first"] <= 2.2 for values in with_failures.values)
    assert with_failures.weights.sum() == pytest.approx(1.0)


def test_points_stay_within_bounds_and_repeat_with_the_seed():
    model = Bell(np.eye(3))
    variables = select(model, bounds={"first": (1.0, 3.0), "second": (0.3, 0.9)})
    sample = sample_hyperparameters(at_optimum(model)[0], None, variables, seed=0)
    natural = np.exp(logs_of(sample))
    inside = natural[:, :2]
    assert np.all((inside >= [1.0, 0.3]) & (inside <= [3.0, 0.9]))
    assert np.all((inside > [1.0, 0.3]) & (inside < [3.0, 0.9])), "points outside are dropped, not moved to the edge"
    assert 1 < len(natural) < 17
    again = sample_hyperparameters(at_optimum(model)[0], None, variables, seed=0)
    np.testing.assert_array_equal(np.exp(logs_of(again)), natural)
    np.testing.assert_array_equal(again.weights, sample.weights)
    other = sample_hyperparameters(at_optimum(model)[0], None, variables, seed=1)
    assert not np.array_equal(np.exp(logs_of(other)), natural[: len(other.values)])


def test_no_further_points_is_the_optimum_alone():
    result, variables = at_optimum(Bell(np.eye(3)))
    sample = sample_hyperparameters(result, None, variables, settings=LaplaceSettings(points=0))
    assert sample.values[0]["first"] == pytest.approx(2.0)
    np.testing.assert_array_equal(sample.weights, [1.0])


def test_noise_alone_has_a_known_evidence():
    """With next to no f, log p(z) = -n log σ - Σz²/2σ²: σ̂² = mean z², and a curvature of 2n in log σ."""
    n, rng = 30, np.random.default_rng(4)
    z = rng.standard_normal(n)
    model = Model(FunctionPrior(1e-14 * kernels.RBF(1.0)), Direct(rng.standard_normal((n, 1)), noise=0.3))
    variables = select(model, free=["observation.noise"])
    result = maximize_evidence(model, z, variables, n_restarts=0)
    best = np.sqrt(np.mean(z**2))
    assert result.parameters["observation.noise"] == pytest.approx(best, rel=1e-4)
    sample = sample_hyperparameters(result, z, variables, seed=3, settings=LaplaceSettings(points=8))
    sigma = np.array([values["observation.noise"] for values in sample.values])
    assert sigma[0] == pytest.approx(result.parameters["observation.noise"], rel=1e-12)
    np.testing.assert_allclose(np.log(sigma[1:] / sigma[0]) * np.sqrt(2 * n), sobol(1, 3, 8)[:, 0], rtol=1e-3)
    logs = -n * np.log(sigma) - (z**2).sum() / (2 * sigma**2) + n * np.log(sigma / sigma[0]) ** 2
    np.testing.assert_allclose(sample.weights, np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum(), rtol=1e-3)


# ---- several modes -------------------------------------------------------------------------------------------


class Mixture:
    """A model of one parameter whose evidence is a mixture of two bells in its logarithm t."""

    CENTERS, WIDTHS = np.array([-2.0, 2.0]), np.array([0.3, 0.6])

    def __init__(self, masses, at=1.0):
        self.masses, self.at = np.asarray(masses), at

    def values(self):
        return {"scale": self.at}

    def points(self):
        return {}

    def constraints(self):
        return {"scale": positive}

    def with_values(self, values):
        return Mixture(self.masses, values["scale"])

    def log_evidence(self, z):
        return self.log_evidence_and_gradient(z)[0]

    def log_evidence_and_gradient(self, z, *, points=True):
        steps = (np.log(self.at) - self.CENTERS) / self.WIDTHS
        densities = self.masses * np.exp(-0.5 * steps**2) / self.WIDTHS
        slope = -(densities * steps / self.WIDTHS).sum() / densities.sum()
        return np.log(densities.sum()), {"scale": slope / self.at}


def searched(masses, starts):
    """Return a sample after searches from these values of t."""
    model = Mixture(masses)
    variables = select(model)
    also = [{"scale": np.exp(t)} for t in starts]
    result = maximize_evidence(model, None, variables, n_restarts=0, also=also)
    return sample_hyperparameters(result, None, variables)


def mass_of_the_second(sample):
    logs = np.log([values["scale"] for values in sample.values])
    return float(sample.weights[logs > 0.0].sum())


@pytest.mark.parametrize("second", [0.1, 0.5, 0.8])
def test_every_mode_has_its_mass_and_not_its_height(second):
    """At 0.5 the first mode is twice as high as the second, and has the same mass."""
    found = mass_of_the_second(searched([1.0 - second, second], [-2.1, 2.1]))
    assert found == pytest.approx(second, rel=0.1)


def test_a_mode_that_was_found_several_times_counts_once():
    once, often = (searched([0.5, 0.5], starts) for starts in ([-2.1, 2.1], [-2.1, 2.1, 2.2, 1.9, 1.8, 2.3]))
    assert mass_of_the_second(often) == pytest.approx(mass_of_the_second(once), rel=0.01)
    assert len(often.values) == len(once.values) <= 2 * 17
    assert mass_of_the_second(often) == pytest.approx(0.5, rel=0.1)


def test_the_best_optimum_comes_first():
    sample = searched([0.5, 0.5], [2.1, -2.1])
    assert np.log(sample.values[0]["scale"]) == pytest.approx(-2.0, abs=0.01)


def test_a_mode_without_mass_is_dropped():
    sample = searched([1.0, 1e-5], [-2.1, 2.1])
    assert mass_of_the_second(sample) == 0.0
    assert all(np.log(values["scale"]) < 0.0 for values in sample.values)


def test_moments_over_both_modes():
    sample = searched([0.5, 0.5], [-2.1, 2.1])
    logs = np.log([values["scale"] for values in sample.values])
    mean = sample.weights @ logs
    assert mean == pytest.approx(0.0, abs=0.4)
    expected = 4.0 + 0.5 * (0.3**2 + 0.6**2)
    assert sample.weights @ (logs - mean) ** 2 == pytest.approx(expected, rel=0.1)
