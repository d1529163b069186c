"""Wrong input gets an error that names the argument, shows the value and says what to do, before any work."""

import numpy as np
import pytest

from decond import (
    ConditionalMeanOperator,
    CovarianceOperator,
    DeconditionalMeanOperator,
    KernelBayesRule,
    MeanEmbedding,
    features,
    kernels,
)
from decond.regression import (
    Aggregated,
    Direct,
    FunctionPrior,
    TaskTransformed,
    Transformed,
    WeightPrior,
    condition,
)

RBF = kernels.RBF()
X, Y, Y_TASK = np.zeros((3, 1)), np.zeros((3, 1)), np.zeros((2, 1))
FITTED = DeconditionalMeanOperator(RBF, RBF).fit([0.0, 1.0], [0.0, 1.0], [0.5])

CASES = {
    # points
    "NaN": (
        lambda: RBF([[0.0], [np.nan]]),
        r"a has 1 value.*NaN or infinite.*row 1, column 0 \(nan\).*Remove or fill",
    ),
    "infinity": (lambda: RBF([[np.inf, 0.0]]), r"a has 1 value.*row 0, column 0 \(inf\)"),
    "three dimensions": (lambda: RBF(np.zeros((2, 2, 2))), r"a has 3 dimensions \(shape \(2, 2, 2\)\).*Reshape"),
    "a number for rows": (lambda: RBF(3.0), r"a is a single number; give rows of points, for example \[\[3.0\]\]"),
    "empty": (lambda: RBF(np.zeros((0, 2))), r"a is empty \(shape \(0, 2\)\); give at least one row"),
    "different columns": (lambda: RBF(np.zeros((2, 2)), np.zeros((2, 3))), r"a has 2 columns but b has 3"),
    "text in numbers": (
        lambda: RBF([["a"], ["b"]]),
        r"a holds values of type .* \(for example 'a'\); numbers are needed",
    ),
    "text on a numeric column": (
        lambda: RBF.on([0])(np.array([["a", 1.0]], dtype=object)),
        r"columns \[0\] holds values of type object \(for example 'a'\)",
    ),
    # parameters
    "negative lengthscale": (lambda: kernels.RBF(-1.0), r"RBF\(lengthscale=-1.0\): lengthscale must be positive"),
    "zero lengthscale": (lambda: kernels.Matern32([1.0, 0.0]), r"lengthscale must be positive and finite"),
    "NaN lengthscale": (lambda: kernels.RBF(np.nan), r"lengthscale=nan.*must be positive and finite"),
    "text lengthscale": (lambda: kernels.RBF("long"), r"RBF\(lengthscale='long'\).*must be a number"),
    "no lengthscale": (lambda: kernels.RBF(None), r"RBF\(lengthscale=None\): a number is needed"),
    "matrix lengthscale": (
        lambda: kernels.RBF(np.eye(2)),
        r"lengthscale has shape \(2, 2\); it must be a number, or a flat",
    ),
    "lengthscales that do not fit": (
        lambda: kernels.RBF([1.0, 2.0])(np.zeros((2, 3))),
        r"RBF: lengthscale has 2 values but the points have 3 column\(s\).*pick columns with .on",
    ),
    "negative scale": (lambda: -1.0 * RBF, r"variance must be positive"),
    "center of a line": (lambda: kernels.Linear(center=2.0), r"Linear: center is 2.0; give a flat list"),
    "center that does not fit": (
        lambda: kernels.Linear(center=[1.0, 2.0])(np.zeros((2, 3))),
        r"Linear: center has 2 values but the points have 3 column\(s\)",
    ),
    "center that is not finite": (lambda: kernels.Linear(center=[np.nan]), r"Linear: center is \[nan\].*finite"),
    "degree": (lambda: kernels.Polynomial(degree=1.5), r"Polynomial: degree is 1.5; a whole number of at least 1"),
    "power": (lambda: RBF**0, r"Power: exponent is 0; a whole number"),
    "columns by name": (lambda: RBF.on(["a"]), r"columns are whole numbers counted from 0"),
    "columns that do not exist": (lambda: RBF.on([3])(np.zeros((2, 2))), r"points have only 2 column\(s\)"),
    "rectangular Gram": (lambda: kernels.Precomputed(np.ones((2, 3))), r"matrix has shape \(2, 3\); a square Gram"),
    "asymmetric Gram": (lambda: kernels.Precomputed([[1.0, 2.0], [3.0, 1.0]]), r"not finite and symmetric"),
    "rows of a Gram": (lambda: kernels.Precomputed(np.eye(2))([0.5]), r"whole row numbers from 0 to 1"),
    "spectrum": (lambda: features.RandomFourier(kernels.Linear())([[1.0]]), r"Linear is not stationary.*Nystrom"),
    # operators
    "not a kernel": (lambda: ConditionalMeanOperator("rbf", RBF), r"kernel_x is 'rbf'; a kernel or a feature map"),
    "zero regularization": (lambda: ConditionalMeanOperator(RBF, RBF, 0.0), r"regularization is 0.0; it must be > 0"),
    "text regularization": (
        lambda: ConditionalMeanOperator(RBF, RBF, "small"),
        r"regularization is 'small'; a single",
    ),
    "mismatched lengths": (
        lambda: ConditionalMeanOperator(RBF, RBF).fit(np.zeros((3, 1)), np.zeros((2, 1))),
        r"y has 2 rows but x has 3; they are paired row by row.*Check that no rows were dropped",
    ),
    "not fitted": (lambda: ConditionalMeanOperator(RBF, RBF).weights([0.0]), r"not fitted yet; call .fit"),
    "query columns": (lambda: FITTED.weights(np.zeros((1, 2))), r"x_query has 2 column\(s\) but .* fitted on 1"),
    "several query rows": (lambda: FITTED.embedding([[0.0], [1.0]]), r"x_query_row has 2 rows; exactly one point"),
    "values": (lambda: FITTED.deconditional_mean([1.0, 2.0], [[0.0]]), r"g_values has 2 rows but y_prior has 1"),
    "form": (
        lambda: DeconditionalMeanOperator(RBF, RBF, form="fast"),
        r"form is 'fast'; choose one of 'auto', 'task'",
    ),
    "features form without features": (
        lambda: DeconditionalMeanOperator(RBF, RBF, form="features").fit(X, Y, Y_TASK),
        r'form="features" needs a feature map as kernel_x',
    ),
    "variant": (
        lambda: KernelBayesRule(RBF, RBF, variant="c"),
        r"variant is 'c'; choose one of 'a', 'b', 'importance'",
    ),
    "importance II": (lambda: KernelBayesRule(RBF, RBF, "importance", "II"), r'regularizer is "II".*Use "I"'),
    # embeddings
    "weights": (lambda: MeanEmbedding(RBF, [0.0, 1.0], [1.0]), r"weights has 1 rows but points has 2"),
    "weights as a table": (
        lambda: MeanEmbedding(RBF, [0.0], [[1.0, 2.0]]),
        r"weights has shape .* give a flat array",
    ),
    "weights that cancel": (
        lambda: MeanEmbedding(RBF, [0.0, 1.0], [1.0, -1.0]).normalized(),
        r"weights sum to 0, so they cannot be scaled to sum to one",
    ),
    "embeddings of other kinds": (
        lambda: MeanEmbedding(RBF, [[0.0]]).inner(MeanEmbedding(RBF, [[0.0, 1.0]])),
        r"the points have 1 columns here but 2 there",
    ),
    "operator values": (
        lambda: CovarianceOperator(RBF, [0.0]).expectation([1.0, 2.0], [1.0]),
        r"f_values has 2 rows",
    ),
    # regression
    "targets": (lambda: condition(FunctionPrior(RBF), Direct(X), [1.0]), r"z has 1 rows but x has 3"),
    "targets with NaN": (
        lambda: condition(FunctionPrior(RBF), Direct(X), [1.0, np.nan, 2.0]),
        r"z has 1 value\(s\) that are NaN or infinite, the first at row 1 \(nan\)",
    ),
    "targets of three dimensions": (
        lambda: condition(FunctionPrior(RBF), Direct(X), np.zeros((3, 1, 1))),
        r"z has shape",
    ),
    "zero noise": (lambda: Direct(X, noise=0.0), r"Direct\(noise=0.0\): noise must be positive"),
    "no noise at all": (lambda: Transformed(X, np.ones((3, 2))), r"noise_covariance and noise are both zero"),
    "noise shape": (
        lambda: Transformed(X, np.ones((3, 2)), np.eye(3)),
        r"noise_covariance has shape \(3, 3\); give a number",
    ),
    "negative variance": (lambda: Transformed(X, np.ones((3, 2)), [-1.0, 1.0]), r"negative or non-finite variances"),
    "asymmetric noise": (
        lambda: Transformed(X, np.ones((3, 2)), [[1, 0.5], [0, 1]]),
        r"noise_covariance is not symmetric",
    ),
    "transformation rows": (lambda: Transformed(X, np.ones((2, 2)), 1.0), r"transformation has 2 rows but x has 3"),
    "groups": (lambda: Aggregated(X, [0, 1]), r"groups has 2 rows but x has 3"),
    "groups as a table": (lambda: Aggregated(X, np.zeros((3, 1))), r"groups has shape \(3, 1\); give one label"),
    "repeats": (lambda: Aggregated(X, [0, 0, 1], repeats=[1, 0]), r"repeats has values down to 0; it counts"),
    "repeats of rows": (
        lambda: Aggregated(X, [0, 0, 1], repeats=[1, 1, 1]),
        r"repeats has 3 rows but the distinct labels of groups has 2",
    ),
    "labels of two kinds": (
        lambda: Aggregated(X, np.array(["a", 1, 2], dtype=object)),
        r"groups has text and numbers as labels, which have no order. Convert all to text",
    ),
    "targets by other labels": (
        lambda: condition(FunctionPrior(RBF), Aggregated(X, ["a", "a", "b"]), {"a": 1.0, "c": 2.0}),
        r"z is labeled by \['a', 'c'\], but groups has the labels \['a', 'b'\]",
    ),
    "negative scale of noise": (
        lambda: Transformed(X, np.ones((3, 2)), 1.0, scale=-1.0),
        r"Transformed\(scale=-1.0\): scale must be positive",
    ),
    "group weights": (lambda: Aggregated(X, [0, 0, 1], weights=[1, 0, 1]), r"weights has values down to 0"),
    "mediator columns": (
        lambda: TaskTransformed(X, Y, np.zeros((2, 2)), RBF),
        r"y_task has 2 column\(s\) but y has 1",
    ),
    "mediator": (lambda: TaskTransformed(X, Y, Y_TASK, RBF, mediator="mean"), r"mediator is 'mean'; choose one of"),
    "pairs": (lambda: TaskTransformed(X, Y[:2], Y_TASK, RBF), r"y has 2 rows but x has 3"),
    "features for a prior": (lambda: WeightPrior(RBF), r"a feature map is needed.*use FunctionPrior"),
    "means": (
        lambda: condition(FunctionPrior(RBF, mean=[1, 2]), Direct(X), np.ones(3)),
        r"mean has 2 values but there are 1",
    ),
    "weight form without weights": (
        lambda: condition(FunctionPrior(RBF), Direct(X), np.ones(3), form="weight"),
        r'form="weight" needs a WeightPrior',
    ),
    "weight form of samples": (
        lambda: condition(
            WeightPrior(features.Polynomial(1)), Aggregated(X, [0, 0, 1], sampled=True), [0, 0], form="weight"
        ),
        r'form="weight" is not there for groups that are samples \(sampled=True\).*Use form="auto"',
    ),
    "inducing form with full noise": (
        lambda: condition(FunctionPrior(RBF), TaskTransformed(X, Y, Y_TASK, RBF), [0, 0], form="inducing"),
        r'form="inducing" needs the same independent noise.*mediator="map"',
    ),
    "a kernel for a prior": (
        lambda: condition(RBF, Direct(X), np.ones(3)),
        r"a FunctionPrior or WeightPrior is needed",
    ),
    "data for an observation": (
        lambda: condition(FunctionPrior(RBF), X, np.ones(3)),
        r"observation is a ndarray; say how the data see the function",
    ),
    "text for a base kernel": (lambda: features.Nystrom("rbf", X), r"base is 'rbf'; a kernel or a feature map"),
    "prediction columns": (
        lambda: condition(FunctionPrior(RBF), Direct(X), np.ones(3)).mean(np.zeros((1, 2))),
        r"x has 2 column\(s\) but the model was conditioned on 1",
    ),
}


@pytest.mark.parametrize("case", list(CASES))
def test_message(case):
    call, pattern = CASES[case]
    with pytest.raises((ValueError, TypeError, RuntimeError), match=pattern):
        call()


def test_unknown_parameter_path_lists_the_known_ones():
    from decond.parameters import with_leaves

    with pytest.raises(KeyError, match=r"\['width'\] are no parameters of this model; it has \['lengthscale'\]"):
        with_leaves(RBF, {"width": 1.0})
