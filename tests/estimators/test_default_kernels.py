"""Kernels that are chosen from the data: their parts, what is learned of them, and where f has a trend."""

import numpy as np
import pytest

from decond import TaskTransformedGP, kernels
from decond.estimators.defaults import SearchRanges, in_data_units, smooth_kernel, with_trend
from decond.gp import Direct, FunctionPrior, LogNormal, Model, select

NUMBERS = np.array([[0.0, 5.0], [1.0, 3.0], [2.0, 9.0]])
MIXED = np.array([[0.0, "a"], [1.0, "b"], [2.0, "a"]], dtype=object)
LABELS = MIXED[:, 1:]


@pytest.mark.parametrize("x", [NUMBERS, MIXED, LABELS], ids=["numbers", "numbers and labels", "labels"])
@pytest.mark.parametrize("trend", [False, True])
def test_named_parameters_are_those_of_the_kernel(x, trend):
    choice = smooth_kernel(x, 4.0, trend).under("prior.kernel.")
    model = Model(FunctionPrior(choice.kernel), Direct(x, noise=0.1))
    variables = select(model, choice.free, (), choice.bounds, choice.hyperpriors)
    scales = {path for path in model.values() if path.endswith("variance")}
    assert scales <= {variable.name for variable in variables}
    assert scales <= set(choice.bounds)
    assert choice.amplitude in choice.free


def test_a_trend_is_a_line_about_the_mean_with_a_share_of_the_variance():
    without, trended = smooth_kernel(NUMBERS, 4.0, False), smooth_kernel(NUMBERS, 4.0, True)
    added = trended.kernel(NUMBERS, NUMBERS) - without.kernel(NUMBERS, NUMBERS)
    scores = (NUMBERS - NUMBERS.mean(axis=0)) / NUMBERS.std(axis=0)
    np.testing.assert_allclose(added, SearchRanges.trend * 4.0 * scores @ scores.T, atol=1e-12)

    path = "parts.1.variance"
    assert trended.hyperpriors[path] == LogNormal(SearchRanges.trend * 4.0, 1.5)
    assert set(trended.hyperpriors) - {path} == {f"parts.0.{name}" for name in without.hyperpriors}


def test_a_column_that_never_changes_has_no_trend():
    x = np.column_stack([NUMBERS[:, 0], np.full(3, 2014.0)])
    far = np.array([[1.0, 2014.0], [1.0, 9999.0]])
    (line,) = [part for part in smooth_kernel(x, 4.0, True).kernel.parts if "Linear" in repr(part)]
    np.testing.assert_allclose(line(far, far), 0.0, atol=1e-12)


def test_labels_have_no_trend():
    choice = smooth_kernel(LABELS, 4.0, False)
    assert with_trend(choice, LABELS, 4.0) is choice


def test_a_given_kernel_takes_the_scales_of_the_data():
    spread = NUMBERS.std(axis=0)
    each = in_data_units(1e-9 * kernels.RBF([7.0, 7.0]), NUMBERS, 4.0)
    np.testing.assert_allclose(each.kernel.lengthscale, SearchRanges.smoothness * spread)
    assert each.variance == pytest.approx(4.0)
    one = in_data_units(kernels.RBF(7.0), NUMBERS, 4.0)
    assert one.kernel.lengthscale == pytest.approx(SearchRanges.smoothness * np.sqrt(np.mean(spread**2)))
    assert one.variance == pytest.approx(4.0)
    parts = in_data_units(3.0 * kernels.RBF(7.0).on([0]) + 1.0 * kernels.Periodic(1.0, 2.0).on([1]), NUMBERS, 4.0)
    assert [part.variance for part in parts.parts] == pytest.approx([3.0, 1.0])
    assert parts.parts[0].kernel.kernel.lengthscale == pytest.approx(SearchRanges.smoothness * spread[0])
    assert parts.parts[1].kernel.kernel.lengthscale == 1.0  # of a circle, whatever the data
    np.testing.assert_allclose(np.mean(in_data_units(kernels.Linear(), NUMBERS, 4.0).diag(NUMBERS)), 4.0)


def test_constant_columns_and_labels_have_no_say_in_a_common_lengthscale():
    still = np.column_stack([1e-3 * NUMBERS[:, 0], np.full(3, 7.0)])
    assert in_data_units(kernels.RBF(1.0), still, 1.0).kernel.lengthscale == pytest.approx(
        SearchRanges.smoothness * 1e-3 * NUMBERS[:, 0].std()
    )
    assert in_data_units(kernels.RBF(1.0), np.ones((3, 2)), 1.0).kernel.lengthscale == pytest.approx(
        SearchRanges.smoothness
    )
    mixed = in_data_units(kernels.RBF(5.0).on([0]) * kernels.Categorical().on([1]), MIXED, 4.0)
    assert mixed.variance == pytest.approx(4.0)
    assert mixed.kernel.parts[0].kernel.lengthscale == pytest.approx(SearchRanges.smoothness * NUMBERS[:, 0].std())
    assert in_data_units(kernels.Linear(), np.zeros((3, 1)), 4.0).has_variance  # nothing to take a scale from


def has_trend(gp):
    """Return, for every candidate, whether a straight line is part of its kernel."""
    return ["Linear" in repr(candidate.model.prior.kernel) for candidate in gp.average_.candidates]


def tables_of(f, rng):
    y, y_task = rng.uniform(-3, 3, 60), rng.uniform(-3, 3, 90)
    x, x_task = (rows + 0.5 * rng.standard_normal(len(rows)) for rows in (y, y_task))
    return x, y, y_task, f(x_task) + 0.1 * rng.standard_normal(90)


def test_f_of_single_measurements_goes_on_beyond_them(short_chains):
    tables = tables_of(lambda x: x, np.random.default_rng(0))
    beyond = np.array([[-9.0], [9.0]])
    gp = TaskTransformedGP(targets="single").fit(*tables)
    returning = TaskTransformedGP(kernel_x=kernels.Matern32(2.0), targets="single").fit(*tables)
    assert has_trend(gp) == [True]
    misses = [np.abs(model.predict(beyond) - beyond[:, 0]) for model in (gp, returning)]
    assert np.all(misses[0] < 0.7 * misses[1])


def test_labels_of_x_stand_beside_a_trend_of_its_numbers(short_chains):
    x, y, y_task, z = tables_of(lambda x: np.tanh(3.0 * x), np.random.default_rng(1))
    mixed = np.empty((len(x), 2), dtype=object)
    mixed[:, 0], mixed[:, 1] = x, np.where(y > 0.0, "high", "low")
    assert has_trend(TaskTransformedGP(targets="single").fit(mixed, y, y_task, z)) == [True]


def test_a_given_kernel_is_left_as_it_is(short_chains):
    tables = tables_of(lambda x: np.tanh(3.0 * x), np.random.default_rng(1))
    gp = TaskTransformedGP(kernel_x=kernels.Matern52(2.0), targets="single").fit(*tables)
    assert has_trend(gp) == [False]
