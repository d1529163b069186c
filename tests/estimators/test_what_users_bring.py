"""Labels, dates, missing values, aliased arrays, and tables that users bring in unexpected shapes."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from expected import refused, says_little, warned

from decond import (
    ConditionalMeanOperator,
    CovarianceOperator,
    DeconditionalMeanOperator,
    DirectGP,
    MeanEmbedding,
    TaskTransformedGP,
    features,
    kernels,
)
from decond.errors import ArgumentTypeError, DataWarning
from decond.gp import (
    Aggregated,
    Direct,
    FunctionPrior,
    TaskTransformed,
    Transformed,
    condition,
    log_evidence,
    log_evidence_and_gradient,
)
from decond.linalg import JitterWarning

RBF, CATEGORICAL = kernels.RBF(), kernels.Categorical()


def test_text_that_looks_like_a_number_stays_text():
    """Whether a label matches does not depend on what other labels its table has."""
    np.testing.assert_array_equal(CATEGORICAL(["01", "1"]), np.eye(2))
    np.testing.assert_array_equal(CATEGORICAL(["1", "2"], ["1", "other"]), [[1, 0], [0, 0]])
    operator = ConditionalMeanOperator(RBF, CATEGORICAL, 1e-9).fit([0.0, 1.0, 2.0], ["1", "2", "3"])
    np.testing.assert_allclose(operator.expectation([5.0, 6.0, 7.0], ["1", "2", "other"]), [5.0, 6.0, 0.0], rtol=1e-6)


def test_text_and_numbers_are_not_compared():
    with refused("b", ArgumentTypeError):
        CATEGORICAL(["1", "2"], [1, 2])


def test_dates_are_labels_in_any_unit_and_no_numbers():
    days = np.array(["2020-01-01", "2020-01-02"], "M8[D]")
    np.testing.assert_array_equal(CATEGORICAL(days, days.astype("M8[ns]")), np.eye(2))
    np.testing.assert_array_equal(CATEGORICAL(days, pd.Series(pd.to_datetime(days)).astype(object)), np.eye(2))
    with refused("a", ArgumentTypeError):
        RBF(days)


def test_ids_beyond_float_precision_stay_apart():
    np.testing.assert_array_equal(CATEGORICAL([2**53], [2**53 + 1]), [[0.0]])
    np.testing.assert_array_equal(CATEGORICAL([2**53 + 1], [2**53 + 1]), [[1.0]])


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(["a", None]),
        pd.Series(["a", np.nan], dtype=object),
        pd.Series(["a", pd.NA], dtype=object),
        np.array(["2020-01-01", "NaT"], "M8[D]"),
    ],
)
def test_missing_labels_are_refused(labels):
    with refused("a"):
        CATEGORICAL(labels)
    with refused("groups"):
        Aggregated([0.0, 1.0], labels)


def test_other_missing_values_are_refused():
    with refused("groups"):
        Aggregated([0.0, 1.0], [1.0, np.nan])
    with refused("a"):
        RBF(np.ma.masked_array([[1.0], [2.0]], mask=[[True], [False]]))
    with refused("a", ArgumentTypeError):
        RBF(np.array([[1.0 + 2.0j]]))
    with refused("a"):
        RBF([[1.0, 2.0], [3.0]])


@pytest.mark.parametrize(
    "x", [np.array([["01", "q"], ["1", "q"], ["2", "q"], ["2", "r"]]), np.array([1, "1", "b", 2.5], dtype=object)]
)
def test_gradient_sees_the_same_labels_as_the_value(x):
    z = np.array([1.0, -2.0, 0.5, 0.3])

    def evidence(variance):
        return log_evidence(FunctionPrior(variance * CATEGORICAL), Direct(x, noise=0.3), z)

    slope = log_evidence_and_gradient(FunctionPrior(1.4 * CATEGORICAL), Direct(x, noise=0.3), z)[1]
    expected = (evidence(1.4 + 1e-6) - evidence(1.4 - 1e-6)) / 2e-6
    assert slope["prior.kernel.variance"] == pytest.approx(expected, rel=1e-7)


def test_what_happens_to_the_callers_arrays_does_not_reach_fitted_objects():
    rng = np.random.default_rng(0)
    x, y, z, weights, lengthscale = (rng.uniform(1, 2, shape) for shape in ((6, 1), (6, 1), 6, 6, 1))
    kernel = kernels.RBF(lengthscale)
    query = np.array([[1.5]])
    posterior, gram = condition(FunctionPrior(kernel), Direct(x), z), kernels.Precomputed(np.outer(z, z))
    objects = {
        "posterior": posterior.mean,
        "left out": lambda _: posterior.leave_one_out()[0],
        "embedding": MeanEmbedding(kernel, x, weights),
        "operator": DeconditionalMeanOperator(kernel, kernel).fit(x, y, y).weights,
        "precomputed": lambda _: gram([0], [1]),
        "kernel": kernel,
    }
    before = {name: np.array(call(query)) for name, call in objects.items()}
    for array in (x, y, z, weights, lengthscale):
        array[:] = 100.0
    for name, call in objects.items():
        np.testing.assert_array_equal(call(query), before[name], err_msg=name)
    rows = np.ones((2, 2))
    features.Identity()(rows)[0, 0] = 5.0
    assert rows[0, 0] == 1.0


def test_one_number_parameters_take_one_number():
    for name, make in (
        ("variance", lambda: np.array([1.0, 2.0]) * RBF),
        ("value", lambda: kernels.Constant([1.0, 2.0])),
        ("alpha", lambda: kernels.RationalQuadratic(alpha=[1.0, 2.0])),
        ("noise", lambda: Direct([0.0, 1.0], noise=[0.1, 0.2])),
    ):
        with refused(name):
            make()


def test_nystrom_gradient_with_landmarks_that_nearly_repeat():
    phi = features.Nystrom(kernels.RBF(1.0), [*np.linspace(0, 1, 12), 0.5])
    x, z = np.linspace(0, 1, 30), np.sin(np.arange(30.0))

    def evidence(lengthscale):
        moved = features.Nystrom(kernels.RBF(lengthscale), phi.landmarks)
        return log_evidence(FunctionPrior(moved), Direct(x), z)

    slope = log_evidence_and_gradient(FunctionPrior(phi), Direct(x), z)[1]["prior.kernel.features.base.lengthscale"]
    assert slope == pytest.approx((evidence(1 + 1e-4) - evidence(1 - 1e-4)) / 2e-4, rel=1e-3)


def test_a_gradient_that_is_not_finite_is_an_error():
    class Kinked(kernels.RBF):
        def _differentiated(self, squared):
            return super()._differentiated(squared)._replace(slope=np.full(squared.shape, np.nan))

    with pytest.raises(FloatingPointError, match=r"prior\.kernel\.lengthscale"):
        log_evidence_and_gradient(FunctionPrior(Kinked()), Direct([0.0, 1.0]), [0.0, 1.0])


def test_fourier_features_need_a_fixed_seed():
    with refused("seed", ArgumentTypeError):
        features.RandomFourier(RBF, 5, seed=None)


def test_embeddings_of_different_kernels_are_not_compared():
    with refused("other"):
        MeanEmbedding(RBF, [0.0]).mmd(MeanEmbedding(kernels.RBF(5.0), [0.0]))
    with refused("other", ArgumentTypeError):
        MeanEmbedding(RBF, [0.0]).mmd([0.0])


@pytest.mark.parametrize(
    "observation",
    [
        Direct([0.0, 1.0, 2.0]),
        Transformed([0.0, 1.0, 2.0], np.ones((3, 2)), noise=0.1),
        Aggregated([0.0, 1.0, 2.0], ["a", "b", "a"]),
        TaskTransformed([0.0, 1.0], [0.0, 1.0], [0.5], RBF),
    ],
)
def test_posteriors_can_be_copied_and_pickled(observation):
    posterior = condition(FunctionPrior(2.0 * RBF), observation, np.ones(observation.size))
    for twin in (copy.deepcopy(posterior), pickle.loads(pickle.dumps(posterior))):
        np.testing.assert_array_equal(twin.mean([[0.3]]), posterior.mean([[0.3]]))


def test_mean_of_one_value_for_several_targets():
    prior = FunctionPrior(RBF, mean=[1.0])
    gradient = log_evidence_and_gradient(prior, Direct([0.0, 1.0]), np.ones((2, 3)) * 2.0)[1]
    assert gradient["prior.mean"].shape == (1,)


def test_small_conveniences_and_door_checks():
    assert sum([RBF, RBF])([0.0]).item() == 2.0
    assert kernels.Sum([RBF, RBF])([0.0]).item() == 2.0
    assert RBF.on(np.int64(0))([[0.0, 5.0]]).item() == 1.0
    with refused("lengthscale"):
        kernels.Linear([1.0, 2.0]).diag([[0.0]])
    with refused("n"):
        MeanEmbedding(RBF, [0.0]).herd(-1)
    with refused("f_values"):
        CovarianceOperator(RBF, [0.0]).expectation([[1.0, 2.0]], [1.0])
    with pytest.raises(RuntimeError):
        DeconditionalMeanOperator(RBF, RBF).embedding([0.0])
    with refused("noise_covariance"):
        Transformed([0.0], [[1.0, 1.0]], [[1.0, 5.0], [5.0, 1.0]])


def test_a_failed_refit_leaves_the_fitted_operator_as_it_was():
    operator = DeconditionalMeanOperator(RBF, RBF).fit([0.0, 1.0], [0.0, 1.0], [0.5])
    before = operator.weights([0.3])
    with refused("y_prior"):
        operator.fit([5.0, 6.0], [7.0, 8.0], [np.nan])
    np.testing.assert_array_equal(operator.weights([0.3]), before)


def test_warnings_point_at_the_users_line_however_deep_their_reason():
    labels, rng = np.repeat(list("abcde"), 4), np.random.default_rng(0)
    x = rng.standard_normal((20, 1))
    with says_little(), warned(DataWarning, argument="y_task") as caught:
        TaskTransformedGP(n_restarts=0).fit(x, labels, list("abcdx"), [0.0, 1.0, 2.0, 1.5, 3.0])
    with pytest.warns(JitterWarning) as deep:
        DirectGP(RBF, noise=1e-12, optimize=False).fit(np.repeat(x, 3, axis=0), np.repeat(x[:, 0], 3))
    assert {warning.filename for warning in [*caught, *deep]} == {__file__}
