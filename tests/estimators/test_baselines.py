"""Cascade, impute and ecological regression: two ordinary regressions in a row, and nothing else."""

import numpy as np
import oracles
import pytest
from expected import refused, says_little

from decond.conditional import MediatorSmoother
from decond.errors import ArgumentTypeError
from decond.estimators import CascadeGP, DirectGP, EcologicalGP, ImputeGP, TaskTransformedGP
from decond.problems import latent_function

pytestmark = pytest.mark.filterwarnings("ignore::decond.gp.BoundWarning")  # some tables here are tiny

PROBLEM = latent_function()
TABLES = (PROBLEM.x, PROBLEM.y, PROBLEM.y_task, PROBLEM.z_task)
GRID = np.linspace(-6, 6, 61)[:, None]
BASELINES = (CascadeGP, ImputeGP, EcologicalGP)


def regression(x, z):
    return DirectGP(uncertainty="plain", n_restarts=1, seed=0).fit(x, z)


@pytest.fixture(scope="module")
def answers():
    return {cls: cls().fit(*TABLES).predict(GRID) for cls in BASELINES}


def test_each_is_two_regressions_in_a_row(answers):
    x, y, y_task, z = TABLES
    outcome = regression(y_task, z)
    np.testing.assert_allclose(answers[CascadeGP], outcome.predict(regression(x, y).predict(GRID)), rtol=1e-10)
    np.testing.assert_allclose(answers[ImputeGP], regression(x, outcome.predict(y)).predict(GRID), rtol=1e-10)
    expected = MediatorSmoother(x, y, y_task, 0).means()[1]
    np.testing.assert_allclose(answers[EcologicalGP], regression(expected, z).predict(GRID), rtol=1e-10)


def test_deconditioning_does_better_on_the_toy(answers):
    """E[x | y] is nearly one-to-one there, which favors ecological regression; the paper's two rivals fall behind."""

    def error(answer):
        return np.sqrt(np.mean((answer - oracles.toy_f(GRID)) ** 2))

    ours = error(TaskTransformedGP(n_restarts=0).fit(*TABLES).predict(GRID))
    assert 1.3 * ours < error(answers[ImputeGP]) < error(answers[CascadeGP])
    assert error(answers[EcologicalGP]) < error(answers[ImputeGP])


LABELS = np.array(list("aabbbccdd"))
TASK_LABELS = np.array(list("dcabda"))
X = np.array([0.1, 0.3, 1.1, 0.9, 1.2, 2.1, 1.9, 3.0, 3.2])[:, None]
Z = np.array([3.0, 2.0, 0.5, 1.0, 5.0, 0.1])
MEANS = np.array([0.3, 1.0, 2.0, 4.0])  # of a, b, c, d


def test_labels():
    index = np.array([0, 0, 1, 1, 1, 2, 2, 3, 3])
    new = np.array([[0.2], [1.0], [2.0], [3.1]])
    cascade = CascadeGP().fit(X, LABELS, TASK_LABELS, Z)
    shares = regression(X, np.eye(4)[index]).predict(new)
    np.testing.assert_array_equal(np.argmax(shares, axis=1), [0, 1, 2, 3])
    np.testing.assert_allclose(cascade.predict(new), shares @ MEANS, rtol=1e-12)
    impute = ImputeGP().fit(X, LABELS, TASK_LABELS, Z)
    np.testing.assert_allclose(impute.predict(new), regression(X, MEANS[index]).predict(new), rtol=1e-10)
    centers = np.array([[0.2], [3.2 / 3], [2.0], [3.1]])
    ecological = EcologicalGP().fit(X, LABELS, TASK_LABELS, Z)
    np.testing.assert_allclose(ecological.predict(new), regression(centers, MEANS).predict(new), rtol=1e-10)


@says_little()
@pytest.mark.parametrize("baseline", BASELINES)
def test_a_second_fit_forgets_the_first(baseline):
    numbers = (X, X + 0.1, X[:6], Z)
    words = (X, LABELS, TASK_LABELS, Z)
    for first, second in ((numbers, words), (words, numbers)):
        again = baseline(n_restarts=0).fit(*first).fit(*second)
        np.testing.assert_array_equal(again.predict(X), baseline(n_restarts=0).fit(*second).predict(X))


@says_little()
@pytest.mark.parametrize("baseline", BASELINES)
def test_labels_beside_numbers_are_refused_where_they_cannot_be_used(baseline):
    mixed = np.column_stack([LABELS, X]).astype(object)
    mixed[:, 1] = X[:, 0]
    with refused("x", ArgumentTypeError):
        baseline().fit(mixed, X, X[:6], Z)
    if baseline is EcologicalGP:
        assert np.isfinite(baseline(n_restarts=0).fit(X, mixed, mixed[:6], Z).predict(X)).all()
        return
    with refused("y", ArgumentTypeError):
        baseline().fit(X, mixed, mixed[:6], Z)


@pytest.mark.parametrize("baseline", BASELINES)
def test_settings_reach_the_regressions(baseline):
    model = baseline(uncertainty="honest", n_restarts=0, seed=4).fit(*(table[:60] for table in TABLES))
    inner = model.outcome_.get_params()
    assert (inner["uncertainty"], inner["n_restarts"], inner["seed"]) == ("honest", 0, 4)
