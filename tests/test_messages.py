"""The wording of errors and warnings, in one file: `messages.txt` beside this one.

A message names the argument, shows the value and says what to do. After a change of wording, read the difference:

    python tests/test_messages.py && git diff tests/messages.txt
"""

import contextlib
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from decond import (
    AggregateGP,
    ConditionalMeanOperator,
    CovarianceOperator,
    DeconditionalMeanOperator,
    KernelBayesRule,
    MeanEmbedding,
    SparseGP,
    TaskTransformedGP,
    features,
    gp,
    kernels,
    lfi,
    linalg,
    load,
    save,
)
from decond.gp import (
    Aggregated,
    Direct,
    FunctionPrior,
    LatentInput,
    TaskTransformed,
    Transformed,
    WeightPrior,
    condition,
)
from decond.tables import read_table

RBF = kernels.RBF()
ROWS = np.arange(5.0)
PRIOR = lfi.Prior({"rate": stats.gamma(2.0)})
SIMS = lfi.Simulations(theta=np.linspace(0.5, 3.0, 20), x=np.linspace(0.5, 3.0, 20)[:, None] ** 2)
X, Y, Y_TASK = np.zeros((3, 1)), np.zeros((3, 1)), np.zeros((2, 1))
FITTED = DeconditionalMeanOperator(RBF, RBF).fit([0.0, 1.0], [0.0, 1.0], [0.5])


def check_of_a_loaded_model():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save(AggregateGP(kernels.RBF(), optimize=False).fit(ROWS, list("aabbb"), [0.0, 1.0]), "model.decond")
        load("model.decond").check()


CASES = {
    # points
    "NaN": lambda: RBF([[0.0], [np.nan]]),
    "infinity": lambda: RBF([[np.inf, 0.0]]),
    "three dimensions": lambda: RBF(np.zeros((2, 2, 2))),
    "a number for rows": lambda: RBF(3.0),
    "empty": lambda: RBF(np.zeros((0, 2))),
    "different columns": lambda: RBF(np.zeros((2, 2)), np.zeros((2, 3))),
    "text in numbers": lambda: RBF([["a"], ["b"]]),
    "text on a numeric column": lambda: RBF.on([0])(np.array([["a", 1.0]], dtype=object)),
    # parameters
    "negative lengthscale": lambda: kernels.RBF(-1.0),
    "zero lengthscale": lambda: kernels.Matern32([1.0, 0.0]),
    "NaN lengthscale": lambda: kernels.RBF(np.nan),
    "text lengthscale": lambda: kernels.RBF("long"),
    "no lengthscale": lambda: kernels.RBF(None),
    "matrix lengthscale": lambda: kernels.RBF(np.eye(2)),
    "lengthscales that do not fit": lambda: kernels.RBF([1.0, 2.0])(np.zeros((2, 3))),
    "negative scale": lambda: -1.0 * RBF,
    "center of a line": lambda: kernels.Linear(center=2.0),
    "center that does not fit": lambda: kernels.Linear(center=[1.0, 2.0])(np.zeros((2, 3))),
    "center that is not finite": lambda: kernels.Linear(center=[np.nan]),
    "degree": lambda: kernels.Polynomial(degree=1.5),
    "power": lambda: RBF**0,
    "columns by name": lambda: RBF.on(["a"]),
    "columns that do not exist": lambda: RBF.on([3])(np.zeros((2, 2))),
    "rectangular Gram": lambda: kernels.Precomputed(np.ones((2, 3))),
    "asymmetric Gram": lambda: kernels.Precomputed([[1.0, 2.0], [3.0, 1.0]]),
    "rows of a Gram": lambda: kernels.Precomputed(np.eye(2))([0.5]),
    "spectrum": lambda: features.RandomFourier(kernels.Linear())([[1.0]]),
    # operators
    "not a kernel": lambda: ConditionalMeanOperator("rbf", RBF),
    "zero regularization": lambda: ConditionalMeanOperator(RBF, RBF, 0.0),
    "text regularization": lambda: ConditionalMeanOperator(RBF, RBF, "small"),
    "mismatched lengths": lambda: ConditionalMeanOperator(RBF, RBF).fit(np.zeros((3, 1)), np.zeros((2, 1))),
    "not fitted": lambda: ConditionalMeanOperator(RBF, RBF).weights([0.0]),
    "query columns": lambda: FITTED.weights(np.zeros((1, 2))),
    "several query rows": lambda: FITTED.embedding([[0.0], [1.0]]),
    "values": lambda: FITTED.deconditional_mean([1.0, 2.0], [[0.0]]),
    "form": lambda: DeconditionalMeanOperator(RBF, RBF, form="fast"),
    "features form without features": lambda: DeconditionalMeanOperator(RBF, RBF, form="features").fit(X, Y, Y_TASK),
    "variant": lambda: KernelBayesRule(RBF, RBF, variant="c"),
    "importance II": lambda: KernelBayesRule(RBF, RBF, "importance", "II"),
    # embeddings
    "weights": lambda: MeanEmbedding(RBF, [0.0, 1.0], [1.0]),
    "weights as a table": lambda: MeanEmbedding(RBF, [0.0], [[1.0, 2.0]]),
    "weights that cancel": lambda: MeanEmbedding(RBF, [0.0, 1.0], [1.0, -1.0]).normalized(),
    "embeddings of other kinds": lambda: MeanEmbedding(RBF, [[0.0]]).inner(MeanEmbedding(RBF, [[0.0, 1.0]])),
    "operator values": lambda: CovarianceOperator(RBF, [0.0]).expectation([1.0, 2.0], [1.0]),
    # regression
    "targets": lambda: condition(FunctionPrior(RBF), Direct(X), [1.0]),
    "targets with NaN": lambda: condition(FunctionPrior(RBF), Direct(X), [1.0, np.nan, 2.0]),
    "targets of three dimensions": lambda: condition(FunctionPrior(RBF), Direct(X), np.zeros((3, 1, 1))),
    "zero noise": lambda: Direct(X, noise=0.0),
    "no noise at all": lambda: Transformed(X, np.ones((3, 2))),
    "noise shape": lambda: Transformed(X, np.ones((3, 2)), np.eye(3)),
    "negative variance": lambda: Transformed(X, np.ones((3, 2)), [-1.0, 1.0]),
    "asymmetric noise": lambda: Transformed(X, np.ones((3, 2)), [[1, 0.5], [0, 1]]),
    "transformation rows": lambda: Transformed(X, np.ones((2, 2)), 1.0),
    "groups": lambda: Aggregated(X, [0, 1]),
    "groups as a table": lambda: Aggregated(X, np.zeros((3, 1, 1))),
    "repeats": lambda: Aggregated(X, [0, 0, 1], repeats=[1, 0]),
    "repeats of rows": lambda: Aggregated(X, [0, 0, 1], repeats=[1, 1, 1]),
    "labels of two kinds": lambda: Aggregated(X, np.array(["a", 1, 2], dtype=object)),
    "targets by other labels": lambda: condition(
        FunctionPrior(RBF), Aggregated(X, ["a", "a", "b"]), {"a": 1.0, "c": 2.0}
    ),
    "sizes below the rows listed": lambda: Aggregated(X, [0, 0, 1], group_sizes=1),
    "sizes of other groups": lambda: Aggregated(X, ["a", "a", "b"], group_sizes={"a": 9, "c": 9}),
    "shape of sizes": lambda: Aggregated(X, [0, 0, 1], group_sizes=[9, 9, 9]),
    "negative target variance": lambda: Direct(X, target_variance=[1.0, -1.0, 0.0]),
    "probabilities of rows": lambda: LatentInput(X, np.ones((3, 2))),
    "assignment to rows": lambda: LatentInput(X, np.full((3, 2), 1 / 3), assignment=[0, 3]),
    "several targets at latent inputs": lambda: condition(
        FunctionPrior(RBF), LatentInput(X, np.full((3, 2), 1 / 3)), np.zeros((2, 2))
    ),
    "negative scale of noise": lambda: Transformed(X, np.ones((3, 2)), 1.0, scale=-1.0),
    "group weights": lambda: Aggregated(X, [0, 0, 1], weights=[1, 0, 1]),
    "mediator columns": lambda: TaskTransformed(X, Y, np.zeros((2, 2)), RBF),
    "mediator": lambda: TaskTransformed(X, Y, Y_TASK, RBF, mediator="mean"),
    "pairs": lambda: TaskTransformed(X, Y[:2], Y_TASK, RBF),
    "features for a prior": lambda: WeightPrior(RBF),
    "means": lambda: condition(FunctionPrior(RBF, mean=[1, 2]), Direct(X), np.ones(3)),
    "weight form without weights": lambda: condition(FunctionPrior(RBF), Direct(X), np.ones(3), form="weight"),
    "weight form of samples": lambda: condition(
        WeightPrior(features.Polynomial(1)), Aggregated(X, [0, 0, 1], group_sizes=9), [0, 0], form="weight"
    ),
    "inducing form with full noise": lambda: condition(
        FunctionPrior(RBF), TaskTransformed(X, Y, Y_TASK, RBF), [0, 0], form="inducing"
    ),
    "a kernel for a prior": lambda: condition(RBF, Direct(X), np.ones(3)),
    "data for an observation": lambda: condition(FunctionPrior(RBF), X, np.ones(3)),
    "text for a base kernel": lambda: features.Nystrom("rbf", X),
    "prediction columns": lambda: condition(FunctionPrior(RBF), Direct(X), np.ones(3)).mean(np.zeros((1, 2))),
    # estimators
    "mediator of an estimator": lambda: TaskTransformedGP(mediator="mean").fit(ROWS, ROWS, ROWS, ROWS),
    "labels that do not meet": lambda: TaskTransformedGP().fit(ROWS, ["a"] * 5, ["b"] * 5, ROWS),
    "text and numbers as mediator": lambda: TaskTransformedGP().fit(ROWS, ["a"] * 5, ROWS, ROWS),
    "targets of other groups": lambda: AggregateGP().fit(ROWS, list("aabbb"), {"a": 1.0, "c": 2.0}),
    "single targets of the plain model": lambda: TaskTransformedGP(targets="single", uncertainty="plain").fit(
        ROWS, ROWS, ROWS, ROWS
    ),
    "several columns of single targets": lambda: TaskTransformedGP(targets="single").fit(
        ROWS, ROWS, ROWS, np.zeros((5, 2))
    ),
    "negative drift": lambda: TaskTransformedGP(drift=-0.1).fit(ROWS, ROWS, ROWS, ROWS),
    "group sizes of numbers": lambda: TaskTransformedGP().fit(ROWS, ROWS, ROWS, ROWS, group_sizes=9),
    "group sizes that lack a label": lambda: TaskTransformedGP().fit(
        ROWS, list("aabbb"), list("ab"), [0.0, 1.0], group_sizes={"a": 9}
    ),
    "group sizes below the rows listed": lambda: TaskTransformedGP().fit(
        ROWS, list("aabbb"), list("ab"), [0.0, 1.0], group_sizes=2
    ),
    "negative known errors": lambda: TaskTransformedGP().fit(ROWS, ROWS, ROWS, ROWS, z_std=-ROWS),
    "negative known errors of groups": lambda: AggregateGP().fit(ROWS, list("aabbb"), [0.0, 1.0], z_std=[1.0, -1.0]),
    "no resolution": lambda: AggregateGP(kernels.RBF(), noise=1.0, optimize=False).fit(
        ROWS, list("ababa"), [0.0, 1.0]
    ),
    "a check of a loaded model": check_of_a_loaded_model,
    "number of inducing points": lambda: SparseGP(n_inducing=0).fit(ROWS[:, None], ROWS),
    "no better than a constant": lambda: gp.warn_if_constant(-3.0, np.arange(3.0)),
    "a saved kernel of one's own": lambda: save(AggregateGP(kernel="rbf"), "model.decond"),
    # files
    "a model file that is not there": lambda: load("model.decond"),
    "a model file that is something else": lambda: load(written("model.decond", "text")),
    "a table that is not there": lambda: read_table("table.csv"),
    "a table without rows": lambda: read_table(written("table.csv", "")),
    "a column that is not there": lambda: read_table(written("table.csv", "x,y\n1,2\n")).numbers(["wind"]),
    "text among numbers": lambda: read_table(written("table.csv", "x\n1\ntwo\n")).numbers(["x"]),
    "a store that is something else": lambda: lfi.SimulationStore(written("runs.sqlite", "text" * 100), PRIOR),
    # likelihood-free inference
    "a prior without parameters": lambda: lfi.Prior({}),
    "a prior that is a number": lambda: lfi.Prior({"rate": 2.0}),
    "no simulations": lambda: lfi.simulate(failing, PRIOR, 0),
    "all simulations fail": lambda: lfi.simulate(failing, PRIOR, 3, n_jobs=1),
    "an observation of another length": lambda: lfi.KABC().fit(SIMS, PRIOR).posterior([1.0, 2.0]),
    "few valid simulations": lambda: lfi.simulate(flaky, PRIOR, 10, seed=0, n_jobs=1),
    "a method that is not fitted": lambda: lfi.KABC().posterior([1.0]),
    "both regularizations": lambda: lfi.DME(evidence_regularization=-1.0).fit(SIMS, PRIOR),
    "query points outside the prior": lambda: lfi.DME(query_points=[[-1.0]]).fit(SIMS, PRIOR),
    # linear algebra
    "an indefinite matrix": lambda: linalg.cholesky(-np.eye(2), "K"),
}


GOLDEN = Path(__file__).with_name("messages.txt")


def written(name, text):
    """Return the name of a file that holds a text."""
    Path(name).write_text(text, encoding="utf-8")
    return name


def failing(theta, rng):
    raise OSError("no disk")


def flaky(theta, rng):
    if theta[0] > 0.5:
        raise ValueError("too fast")
    return theta


def provoked(call):
    """Return the class and the text of the error that a call raises, or of the first warning that it gives.

    It runs in an empty folder, so that no path of the machine is in the text.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        try:
            call()
        except Exception as error:
            return f"{type(error).__name__}\n{error}\n"
    return f"{caught[0].category.__name__}\n{caught[0].message}\n"


def golden():
    """Return what `messages.txt` has for each case."""
    cases = GOLDEN.read_text(encoding="utf-8").split("\n== ")[1:]
    return dict(case.split("\n", 1) for case in cases)


@pytest.mark.parametrize("case", list(CASES))
def test_message(case):
    assert provoked(CASES[case]).strip() == golden()[case].strip()


def test_no_message_is_kept_without_a_case():
    assert list(golden()) == list(CASES)


if __name__ == "__main__":
    texts = [f"\n== {case}\n{provoked(call)}" for case, call in CASES.items()]
    GOLDEN.write_text("Written by test_messages.py.\n" + "".join(texts), encoding="utf-8")
