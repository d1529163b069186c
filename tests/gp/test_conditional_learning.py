"""Conditional mean operators whose kernel of y and regularization are learned from the pairs."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from expected import refused

from decond import ConditionalMeanOperator, features, kernels
from decond.gp import BoundWarning, conditional_model, learn_conditional

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "conditional.py"
K, L = kernels.RBF(1.0), kernels.RBF(2.0)


@pytest.fixture(scope="module")
def pairs():
    rng = np.random.default_rng(0)
    y = rng.uniform(-3.0, 3.0, 80)
    return np.sin(2.0 * y) + 0.2 * rng.standard_normal(80), y


@pytest.fixture(scope="module")
def benchmark():
    """The module of the benchmark, which has the problems and their truth."""
    spec = importlib.util.spec_from_file_location("benchmark_conditional", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def ratios(benchmark):
    """Mean errors relative to those of the median heuristic with λ = 1e-3, by problem."""
    found = {}
    for number, (name, problem) in enumerate(benchmark.PROBLEMS.items()):
        errors = []
        for seed in range(4):
            x, y = problem.draw(200, np.random.default_rng([seed, number]))
            operators = benchmark.operators(x, y)
            errors.append({way: benchmark.error(operator, x, problem) for way, operator in operators.items()})
        means = {way: np.mean([row[way] for row in errors]) for way in errors[0]}
        found[name] = means["evidence"] / means["median"]
    return found


def test_truth_of_the_benchmark_is_that_of_many_draws(benchmark):
    """E[f(X) | Y = y] by quadrature, against draws of X at one y."""
    y = np.full(200_000, 0.7)
    for problem in benchmark.PROBLEMS.values():
        rng = np.random.default_rng(0)
        center = np.where(rng.random(len(y)) < problem.share(y), *problem.means(y))
        x = center + problem.deviation(y) * rng.standard_normal(len(y))
        for f in benchmark.FUNCTIONS.values():
            assert problem.expectation(f, y[:1])[0] == pytest.approx(f(x).mean(), abs=0.01)


def test_the_evidence_beats_the_median_heuristic_where_that_is_wrong_and_overall(ratios):
    """A sine that is faster than half the range of y needs another lengthscale; smooth problems do not."""
    assert ratios["heteroscedastic sine"] < 0.6
    assert ratios["linear-Gaussian"] < 1.1
    assert ratios["two modes"] < 1.1
    assert np.exp(np.mean(np.log(list(ratios.values())))) < 0.9  # geometric mean over all problems


def test_evidence_is_at_a_maximum_and_is_that_of_the_operator(pairs):
    x, y = pairs
    found = learn_conditional(K, L, x, y)
    assert found.result.status == "converged"
    assert found.result.log_evidence == pytest.approx(found.operator.log_evidence(), rel=1e-10)
    for lengthscale, variance, lam in ((1.1, 1.0, 1.0), (0.9, 1.0, 1.0), (1.0, 1.2, 1.0), (1.0, 1.0, 1.2)):
        kernel = found.operator.kernel_y
        moved = kernel.replace(
            kernel=kernels.RBF(lengthscale * kernel.kernel.lengthscale), variance=variance * kernel.variance
        )
        other = ConditionalMeanOperator(K, moved, lam * found.operator.regularization).fit(x, y)
        assert other.log_evidence() < found.result.log_evidence


def test_number_of_coordinates_changes_nothing_but_a_factor(pairs):
    """Functions that are zero add coordinates without changing K: the same lengthscale and ridge are learned."""
    x, y = pairs
    F = np.column_stack([x, np.cos(x)])
    plain = learn_conditional(K, L, x, y, F, n_restarts=0).operator
    padded = learn_conditional(K, L, x, y, np.hstack([F, np.zeros((80, 3))]), n_restarts=0).operator
    assert padded.kernel_y.kernel.lengthscale == pytest.approx(plain.kernel_y.kernel.lengthscale, rel=1e-3)
    assert padded.regularization / padded.kernel_y.variance == pytest.approx(
        plain.regularization / plain.kernel_y.variance, rel=1e-2
    )
    assert padded.kernel_y.variance == pytest.approx(0.4 * plain.kernel_y.variance, rel=1e-2)


def test_default_functions_are_the_features_of_x(pairs):
    """A root of K gives the same operator, whichever root it is."""
    x, y = pairs
    values, vectors = np.linalg.eigh(K(x, x))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    kept = root[:, values > 1e-6]
    default = learn_conditional(K, L, x, y, n_restarts=0).operator
    given = learn_conditional(K, L, x, y, kept, n_restarts=0).operator
    np.testing.assert_allclose(given.weights([0.3]), default.weights([0.3]), rtol=1e-2, atol=1e-4)


def test_learned_operator_does_not_depend_on_the_scale_of_functions(pairs):
    x, y = pairs
    plain = learn_conditional(K, L, x, y, x, n_restarts=0).operator
    large = learn_conditional(K, L, x, y, 1e3 * x, n_restarts=0).operator
    np.testing.assert_allclose(large.expectation(x, [0.3]), plain.expectation(x, [0.3]), rtol=1e-3)


def test_labels_as_mediator():
    """A kernel without lengthscale: only amplitude and ridge are learned, and groups keep their means."""
    rng = np.random.default_rng(1)
    groups = np.array(["a", "b", "c"] * 20)
    x = np.array([-1.0, 0.0, 2.0] * 20) + 0.1 * rng.standard_normal(60)
    found = learn_conditional(kernels.RBF(1.0), kernels.Categorical(), x, groups)
    means = [x[groups == label].mean() for label in "abc"]
    np.testing.assert_allclose(found.operator.expectation(x, ["a", "b", "c"]), means, atol=0.02)


def test_feature_maps_and_scaled_kernels_keep_their_variance(pairs):
    x, y = pairs
    found = learn_conditional(features.Identity(), features.Polynomial(3), x, y)
    assert found.operator.smoother_.rank == 4
    scaled = learn_conditional(K, 2.0 * L, x, y)
    assert isinstance(scaled.operator.kernel_y.kernel, kernels.RBF)  # no second variance around the first


def test_model_of_the_evidence_has_the_noise_of_the_regularization():
    assert conditional_model(L, np.zeros((8, 1)), 0.5).observation.noise == pytest.approx(2.0)


def test_a_relation_without_noise_is_learned_without_a_warning():
    """The noise ends on its lower bound, which the result tells."""
    y = np.linspace(0.0, 6.0, 30)
    found = learn_conditional(K, L, np.sin(y), y, np.sin(y), n_restarts=0)
    np.testing.assert_allclose(found.operator.expectation(np.sin(y), [1.0]), np.sin(1.0), atol=1e-3)


def test_functions_that_are_zero_say_nothing_about_a_kernel():
    """There is no scale to start from, and the amplitude ends on its bound."""
    y = np.linspace(0.0, 1.0, 5)
    with pytest.warns(BoundWarning):
        found = learn_conditional(K, L, y, y, np.zeros(5), n_restarts=0)
    assert "prior.kernel.variance" in found.result.on_bounds
    np.testing.assert_array_equal(found.operator.expectation(np.zeros(5), [0.5]), 0.0)


def test_one_pair_is_enough_to_answer():
    found = learn_conditional(K, L, [1.0], [0.0], n_restarts=0)
    assert np.isfinite(found.operator.expectation([1.0], [0.0])).all()


def test_wrong_arguments_are_refused_by_name(pairs):
    x, y = pairs
    for argument, call in {
        "y": lambda: learn_conditional(K, L, x, y[:-1]),
        "f_values": lambda: learn_conditional(K, L, x, y, x[:-1]),
        "n_restarts": lambda: learn_conditional(K, L, x, y, n_restarts=-1),
    }.items():
        with refused(argument):
            call()
    with pytest.raises(RuntimeError):
        ConditionalMeanOperator(K, L).log_evidence()
    with refused("f_values"):
        ConditionalMeanOperator(K, L).fit(x, y).log_evidence(x[:-1])
