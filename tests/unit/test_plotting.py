"""Pictures of fitted models."""

import io

import numpy as np
import pandas as pd
import pytest

from decond.plotting import MAX_PANELS, plot_model


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
