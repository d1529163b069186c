"""`compare` of estimators: errors and coverage against plain NumPy, for estimators whose function is known."""

import numpy as np
import pandas as pd
import pytest
from expected import refused, warned
from sklearn.base import BaseEstimator, RegressorMixin

from decond import estimators
from decond.comparison import ComparisonDisplay, Lines, Rows
from decond.errors import ArgumentError, ArgumentTypeError, DataWarning
from decond.estimators import compare
from decond.estimators.model_comparison import (
    ERROR,
    HELD_OUT_ERROR,
    INSIDE,
    HeldOut,
)
from decond.plotting import Curve
from decond.problems import latent_function


class Line(RegressorMixin, BaseEstimator):
    """z = slope · x whatever the data are, with error bars if `std` is given."""

    def __init__(self, slope=1.0, std=0.0):
        self.slope, self.std = slope, std

    def fit(self, x, y, y_task, z_task):
        self.slope_ = self.slope
        return self

    def predict(self, X, return_std=False, return_cov=False):
        mean = self.slope_ * np.asarray(X, dtype=float)[:, 0]
        if return_std:
            return mean, np.full(len(mean), self.std)
        return (mean, self.std**2 * np.eye(len(mean))) if return_cov else mean


class BareLine(RegressorMixin, BaseEstimator):
    """z = x, without error bars."""

    def fit(self, x, y, y_task, z_task):
        self.fitted_ = True
        return self

    def predict(self, X):
        return np.asarray(X, dtype=float)[:, 0]


class Function:
    """A given function of one column."""

    def __init__(self, f):
        self.f = f

    def predict(self, X):
        return self.f(np.asarray(X, dtype=float)[:, 0])


@pytest.fixture
def labeled():
    """Return twelve rows in four groups, and a noisy mean of each group."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 1)), np.repeat(["a", "b", "c", "d"], 3)
    z = np.array([x[y == label, 0].mean() for label in "abcd"]) + 0.1 * rng.standard_normal(4)
    return x, y, np.array(list("abcd")), z


def test_errors_against_the_truth_are_those_of_plain_numpy(labeled):
    x = labeled[0][:, 0]
    found = compare(
        *labeled, {"right": Line(1.0, 0.1), "wrong": Line(3.0, 0.5), "bare": BareLine()}, truth=lambda x: x[:, 0]
    )
    assert found.measure == ERROR
    assert found.frame.loc["wrong", ERROR] == pytest.approx(np.sqrt(np.mean((2.0 * x) ** 2)))
    assert found.frame.loc["right", ERROR] == 0.0
    assert found.frame.loc["wrong", INSIDE] == pytest.approx(np.mean(np.abs(2.0 * x) <= 1.96 * 0.5))
    assert found.frame.loc["right", INSIDE] == 1.0
    assert np.isnan(found.frame.loc["bare", INSIDE])
    assert list(found.frame.index)[-1] == "wrong"
    lines = [line.get_label() for line in found.plot().ax_.lines]
    assert set(lines) == {"right", "wrong", "bare", "truth"}


def test_held_out_targets_are_means_over_the_rows_of_their_label(labeled):
    x, y, y_task, z = labeled
    found = compare(*labeled, {"line": Line(2.0), "bare": BareLine()}, folds=2)
    means = np.array([x[y == label, 0].mean() for label in y_task])
    assert found.frame.loc["line", HELD_OUT_ERROR] == pytest.approx(np.sqrt(np.mean((z - 2.0 * means) ** 2)))
    assert found.frame.loc["bare", HELD_OUT_ERROR] == pytest.approx(np.sqrt(np.mean((z - means) ** 2)))
    assert found.best == "bare"


def test_all_pairs_of_a_label_are_averaged():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4800, 1)), np.repeat([f"day {i}" for i in range(200)], 24)
    z = x[:, 0].reshape(200, 24).mean(axis=1) + 0.01 * rng.standard_normal(200)
    found = compare(x, y, [f"day {i}" for i in range(200)], z, {"true": Line(1.0, 0.2)})
    assert found.frame.loc["true", HELD_OUT_ERROR] == pytest.approx(0.01, rel=0.15)


def test_truth_has_the_columns_of_the_pairs():
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"a": rng.normal(size=30), "b": rng.normal(5.0, 1.0, 30)})
    task = (rng.normal(size=30), rng.normal(size=20), rng.normal(size=20))
    found = compare(x, *task, {"line": Line()}, truth=(x, x["a"]))
    assert found.frame.loc["line", ERROR] == 0.0
    for wrong in (x.rename(columns={"b": "c"}), x[["b", "a"]]):
        with refused("truth[0]"):
            compare(x, *task, {"line": Line()}, truth=(wrong, x["a"]))


def test_a_model_stays_where_only_held_out_rows_fail(labeled):
    class Shy(BareLine):
        def fit(self, x, y, y_task, z_task):
            if len(z_task) < 4:
                raise ValueError("too few rows")
            return super().fit(x, y, y_task, z_task)

    found = compare(*labeled, {"shy": Shy(), "bare": BareLine()})
    assert "too few rows" in found.frame.loc["shy", "notes"]
    assert isinstance(found.errors["shy"], ValueError)
    assert np.isfinite(found.frame.loc["shy", "seconds"])
    assert list(found.found) == ["bare", "shy"]


def test_one_label_cannot_be_held_out():
    with refused("y_task"):
        compare(np.arange(4.0), list("aaaa"), list("aa"), [1.0, 2.0], {"line": Line()})


def test_expectations_given_numbers_find_the_conditional_mean():
    rng = np.random.default_rng(0)
    y, y_task = rng.uniform(-3, 3, (400, 1)), np.linspace(-2.5, 2.5, 40)[:, None]
    x = np.sin(y) + 0.3 * rng.standard_normal((400, 1))
    expected = np.sin(y_task[:, 0]) ** 2 + 0.09  # E[x² | y]
    held_out = HeldOut(x, y, y_task, np.zeros(40), folds=2)
    frame = pd.DataFrame(x)
    assert np.sqrt(np.mean((held_out.expectation(Function(lambda x: x**2), frame) - expected) ** 2)) < 0.07
    assert held_out.expectation(Function(lambda x: 0.0 * x + 7.0), frame) == pytest.approx(7.0)


def test_whole_labels_are_held_out():
    y_task = np.array([["a"], ["b"], ["a"], ["c"]], dtype=object)
    held_out = HeldOut(np.zeros((3, 1)), np.array([["a"], ["b"], ["c"]], dtype=object), y_task, np.zeros(4), folds=3)
    parts = held_out._parts(seed=0)
    assert all(part[0] == part[2] for part in parts)
    assert np.sum(parts, axis=0).tolist() == [1, 1, 1, 1]


def test_estimators_of_decond_by_name():
    p = latent_function(60, 60)
    frame, mediator = pd.DataFrame({"wind": p.x[:, 0]}), pd.DataFrame({"pressure": p.y[:, 0]})
    task = pd.DataFrame({"pressure": p.y_task[:, 0]})
    found = compare(frame, mediator, task, p.z_task, ["ridge", "plain"], truth=(p.x, p.f(p.x)))
    alone = estimators.TaskTransformedRidge().fit(p.x, p.y, p.y_task, p.z_task).predict(p.x)
    assert found.frame.loc["ridge", ERROR] == pytest.approx(np.sqrt(np.mean((alone - p.f(p.x)[:, 0]) ** 2)))
    assert found.best == "plain"
    assert isinstance(found.found["plain"], estimators.TaskTransformedGP)


def test_a_model_that_fails_is_a_row_with_the_reason(labeled):
    found = compare(*labeled, {"many": "features", "line": Line()}, truth=lambda x: x[:, 0])
    assert list(found.errors) == ["many"]
    assert list(found.found) == ["line"]
    with refused("models"):
        compare(*labeled, ["features"], truth=lambda x: x[:, 0])


@pytest.mark.parametrize(
    ("arguments", "named", "error"),
    [
        ({"models": ["cascde"]}, "models", ArgumentError),
        ({"models": {}}, "models", ArgumentError),
        ({"models": {"mine": Line}}, "models['mine']", ArgumentTypeError),
        ({"truth": 3.0}, "truth", ArgumentTypeError),
        ({"truth": lambda x: x[:3, 0]}, "truth", ArgumentError),
        ({"truth": (np.zeros((2, 2)), [0.0, 1.0])}, "truth[0]", ArgumentError),
        ({"folds": 1}, "folds", ArgumentError),
        ({"seeds": "two"}, "seeds", ArgumentError),
        ({"seeds": [0.5]}, "seeds", ArgumentError),
    ],
)
def test_wrong_input_is_refused(labeled, arguments, named, error):
    with refused(named, error):
        compare(*labeled, **{"models": {"line": Line()}, **arguments})


def test_one_target_at_a_time(labeled):
    x, y, y_task, z = labeled
    with refused("z_task"):
        compare(x, y, y_task, np.column_stack([z, z]))


# ---- the picture ---------------------------------------------------------------------------------------------


def flat(height, column="t"):
    return Curve(column, np.linspace(0.0, 1.0, 5), np.full(5, height))


def test_the_best_curves_are_in_the_picture():
    curves = {"best": flat(54.0), "second": flat(44.0), "wild": flat(900.0)}
    low, high = ComparisonDisplay(list(curves), [Lines("f", curves)]).plot().ax_.get_ylim()
    assert low < 44.0 < 54.0 < high < 100.0


def test_values_stand_clear_of_dots_and_of_the_line_which_is_named():
    values = {"few": 0.93, "many": 0.949, "most": 1.0}
    display = ComparisonDisplay(list(values), [Rows("inside", values, 0.95), Rows("s", values, log=True)])
    ax, seconds = display.plot().axes_
    assert ax.get_title("left") == "line: 0.95, the best"
    assert seconds.get_title("left") == ""
    display.figure_.draw_without_rendering()
    for panel in (ax, seconds):
        assert [text.get_text() for text in panel.texts] == ["0.93", "0.949", "1"]
        rightmost = panel.transData.transform((1.0, 0.0))[0]
        assert all(text.get_window_extent().x0 > rightmost + 5.0 for text in panel.texts)
        assert all(text.get_window_extent().x0 > panel.bbox.x1 for text in panel.texts)


def test_the_number_of_columns_is_that_of_the_models(labeled):
    _, y, y_task, z = labeled
    x = np.random.default_rng(1).normal(size=(12, 5))
    found = compare(x, y, y_task, z, ["ridge"], truth=lambda x: x[:, 0])
    assert found.plot().ax_.get_title("left").startswith("3 of 5 columns")


def test_mediators_that_do_not_meet_are_said_once_for_all_models():
    p = latent_function()
    y, y_task = pd.DataFrame({"pressure": p.y[:, 0]}), pd.DataFrame({"pressure": p.y_task[:, 0] + 100.0})
    with warned(DataWarning, argument="y_task") as caught:
        found = compare(p.x, y, y_task, p.z_task, {"one": "ridge", "other": "ridge"}, progress=False)
    [warning] = caught
    assert found.notes.count(str(warning.message)) == 1
    assert "pressure" in str(warning.message)
    assert not found.frame["notes"].str.contains("pressure").any()
