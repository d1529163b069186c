"""Pictures of fitted models."""

import io

import numpy as np
import pandas as pd
import pytest

from decond.plotting import (
    MAX_PANELS,
    new_figure,
    plot_coverage,
    plot_model,
    plot_pairs,
    plot_predictive,
    plot_ranks,
    plot_text,
)


class Plane:
    """A model whose prediction is the sum of its columns."""

    def __init__(self):
        self.asked = []

    def predict(self, x, return_std):
        self.asked.append(x)
        return x.to_numpy().sum(axis=1), np.full(len(x), 0.5)


def table(columns, rows=50):
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.uniform(0, 1, (rows, columns)), columns=[f"c{j}" for j in range(columns)])


def curves(ax):
    return {line.get_label(): line for line in ax.lines}


def test_one_column_is_drawn_with_its_data():
    x = table(1)
    (ax,) = plot_model(Plane(), x, "power", z=x["c0"] + 1.0).axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("c0", "power")
    mean = curves(ax)["mean ± 2 sd"]
    np.testing.assert_allclose(mean.get_xdata()[[0, -1]], [x["c0"].min(), x["c0"].max()])
    np.testing.assert_allclose(mean.get_ydata(), mean.get_xdata())
    np.testing.assert_array_equal(curves(ax)["data"].get_ydata(), x["c0"] + 1.0)


@pytest.mark.parametrize(("columns", "panels"), [(2, 2), (4, 4), (9, MAX_PANELS)])
def test_several_columns_are_drawn_one_at_a_time(columns, panels):
    model, x = Plane(), table(columns)
    figure = plot_model(model, x, "power", z=np.zeros(len(x)))
    drawn = [ax for ax in figure.axes if ax.axison]
    assert [ax.get_xlabel() for ax in drawn] == [f"c{j}" for j in range(panels)]
    assert "data" not in curves(drawn[0])  # the dots would not belong to the median of the other columns
    for j, asked in enumerate(model.asked):
        others = asked.drop(columns=f"c{j}")
        np.testing.assert_allclose(others, np.tile(x.drop(columns=f"c{j}").median(), (len(asked), 1)))
    figure.savefig(io.BytesIO())


def test_a_large_table_is_thinned():
    (ax,) = plot_model(Plane(), table(1, 10_001), "power", z=np.zeros(10_001)).axes
    assert 1000 < len(curves(ax)["data"].get_xdata()) <= 2000


def draws(d, n=2000):
    return np.random.default_rng(0).normal(size=(n, d)) * np.arange(1, d + 1)


@pytest.mark.parametrize("d", [1, 2, 6])
def test_pairs_of_parameters_are_labelled_at_the_edges_only(d):
    names = [f"p{j}" for j in range(d)]
    figure = plot_pairs(draws(d), names, truth=np.zeros(d))
    axes = np.array(figure.axes).reshape(d, d)
    assert [ax.get_xlabel() for ax in axes[-1]] == names
    assert [ax.get_ylabel() for ax in axes[1:, 0]] == names[1:]
    assert not axes[:-1].size or not any(ax.get_xlabel() for ax in axes[:-1].ravel())
    assert all(not axes[i, j].axison for i in range(d) for j in range(i + 1, d))
    figure.savefig(io.BytesIO())


def test_the_contours_of_a_pair_hold_their_shares():
    rows = draws(2, 20_000)
    figure = plot_pairs(rows, ["a", "b"])
    lines = figure.axes[2].collections[-1]
    for path, share in zip(reversed(lines.get_paths()), (0.5, 0.8, 0.95), strict=True):
        assert path.contains_points(rows).mean() == pytest.approx(share, abs=0.02)


def test_a_marginal_keeps_its_mass_and_its_modes():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(-5.0, 0.1, 3000), rng.normal(5.0, 0.1, 3000)])[:, None]
    (curve,) = plot_pairs(rows, ["a"]).axes[0].lines
    x, y = curve.get_data()
    assert np.trapezoid(y, x) == pytest.approx(1.0, abs=0.01)
    assert y[np.abs(x) < 3.0].max() < 1e-6 * y.max()


def test_a_marginal_ends_where_its_draws_end():
    rows = np.random.default_rng(0).uniform(0.0, 1.0, (20_000, 1))
    (curve,) = plot_pairs(rows, ["share"]).axes[0].lines
    x, y = curve.get_data()
    assert x.min() >= 0.0
    assert x.max() <= 1.0
    np.testing.assert_allclose(y, 1.0, atol=0.15)  # at the ends too


def test_draws_that_never_change_can_be_drawn():
    rows = np.column_stack([np.full(50, 3.0), draws(1, 50)])
    plot_pairs(rows, ["a", "b"]).savefig(io.BytesIO())


def test_truth_stretches_the_picture():
    ax = plot_pairs(draws(1), ["a"], truth=[40.0]).axes[0]
    assert ax.get_xlim()[1] > 40.0


def test_wrong_pairs_are_refused():
    with pytest.raises(ValueError, match=r"samples has shape \(5, 2\)"):
        plot_pairs(np.zeros((5, 2)), ["a"])
    with pytest.raises(ValueError, match="truth has 1 values"):
        plot_pairs(np.zeros((5, 2)), ["a", "b"], truth=[1.0])


def test_rank_bars_are_relative_to_uniform():
    figure, (ax,) = new_figure(1)
    plot_ranks(ax, [10, 30], [0.25, 0.75], "rate", "p = 1")
    np.testing.assert_allclose(ax.patches[0].get_data().values, [1.0, 1.0])
    assert (ax.get_title(loc="left"), ax.get_title(loc="right")) == ("rate", "p = 1")
    figure.savefig(io.BytesIO())


def test_long_text_is_cut_and_does_not_squeeze_its_neighbors():
    figure, (left, right) = new_figure(2)
    plot_text(left, "too few simulations", ["word " * 900], width=300, most=5)
    plot_coverage(right, [0.5], {"a": [0.5], "all": [0.4]}, ([0.1, 0.9], [0, 0.8], [0.2, 1.0]), joint="all")
    figure.savefig(io.BytesIO())
    assert left.texts[1].get_text().count("\n") == 4
    assert right.get_position().width > 0.3
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["calibrated", "each parameter", "all"]


def test_predictions_show_the_observation_also_if_it_is_far():
    _, (ax,) = new_figure(1)
    plot_predictive(ax, draws(1)[:, 0], 50.0, "x1")
    assert ax.get_xlim()[1] > 50.0
