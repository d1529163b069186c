"""Pictures: each display draws what it holds, in axes of the user or in a figure of its own."""

import io
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from expected import refused
from matplotlib.figure import Figure

from decond.embeddings import MeanEmbedding
from decond.errors import ArgumentTypeError
from decond.estimators import DirectGP, SparseGP
from decond.kernels import RBF, Categorical
from decond.plotting import (
    COLORS,
    CoverageDisplay,
    Curve,
    EmbeddingDisplay,
    FunctionDisplay,
    PairsDisplay,
    PredictiveDisplay,
    RanksDisplay,
    ResidualsDisplay,
)
from decond.plotting.display import new_figure
from decond.plotting.posterior_plot import _write


def drawn(display):
    """Write the picture nowhere, so that everything in it is really drawn."""
    display.figure_.savefig(io.BytesIO())
    return display


# ---- where pictures go ----------------------------------------------------------------------------------

BAND = ([0.1, 0.9], [0.0, 0.8], [0.2, 1.0])
RNG = np.random.default_rng(0)

SINGLE = {
    "function": FunctionDisplay([Curve("x", np.arange(3.0), np.arange(3.0), np.ones(3))]),
    "coverage": CoverageDisplay([0.5, 0.9], {"a": [0.4, 0.8]}, band=BAND),
    "ranks": RanksDisplay({"a": [10, 30]}, {"a": [0.25, 0.75]}),
    "predictive": PredictiveDisplay(RNG.normal(size=(50, 1)), [0.0], ["x1"]),
    "residuals": ResidualsDisplay(RNG.uniform(size=50), RNG.normal(size=50)),
    "embedding": EmbeddingDisplay(RNG.normal(size=(9, 1)), RNG.normal(size=9)),
    "pairs": PairsDisplay(RNG.normal(size=(50, 1)), ["a"]),
}
SEVERAL = {
    "ranks": RanksDisplay({name: [10, 30] for name in "abcde"}, {name: [0.25, 0.75] for name in "abcde"}),
    "predictive": PredictiveDisplay(RNG.normal(size=(50, 5)), np.zeros(5), list("abcde")),
    "pairs": PairsDisplay(RNG.normal(size=(50, 2)), ["a", "b"]),
}


@pytest.mark.parametrize("name", SINGLE)
def test_a_display_draws_into_the_axes_of_the_user(name):
    figure, (mine, other) = plt.subplots(1, 2)
    display = SINGLE[name]
    assert display.plot(ax=mine) is display
    assert display.ax_ is mine
    assert display.figure_ is figure
    assert mine.has_data()
    assert not other.has_data()
    drawn(display)


@pytest.mark.parametrize("name", SEVERAL)
def test_panels_share_one_of_the_axes_or_take_as_many_as_they_need(name):
    display, figure = SEVERAL[name], Figure(layout="constrained")
    mine, other = figure.subplots(1, 2)
    display.plot(ax=mine)
    count = display.axes_.size
    middle = 0.5
    assert not mine.axison
    figure.draw_without_rendering()
    assert all(panel.get_position().x1 < middle for panel in display.axes_.ravel())
    assert not other.has_data()
    given = Figure().subplots(1, count)
    assert list(display.plot(ax=given).axes_.ravel()) == list(given)
    with refused("ax"):
        display.plot(ax=given[:-1])
    with refused("ax"):
        display.plot(ax=Figure().add_axes((0.0, 0.0, 1.0, 1.0)))


def test_pyplot_knows_new_figures_until_they_are_saved(tmp_path):
    display = SINGLE["coverage"].plot()
    number = display.figure_.number
    assert plt.fignum_exists(number)
    assert display.save(tmp_path / "folder" / "picture.png").read_bytes()[:4] == b"\x89PNG"
    assert not plt.fignum_exists(number)
    figure, ax = plt.subplots()
    SINGLE["coverage"].plot(ax=ax).save(tmp_path / "picture.svg")
    assert plt.fignum_exists(figure.number)  # it is the user's


ALONE = """
import sys
from decond.plotting import FunctionDisplay
assert "matplotlib" not in sys.modules, "plotting is light to import"
display = FunctionDisplay.from_predictions([0, 1], [2, 3], [1, 1])
display.figure_.savefig(sys.argv[1])
assert "matplotlib.pyplot" not in sys.modules, "nobody asked for pyplot"
sys.ps1 = ">>> "  # somebody sits at a prompt
display.plot()
import matplotlib.pyplot
assert matplotlib.pyplot.fignum_exists(display.figure_.number), "a prompt shows what pyplot knows"
"""


def test_pictures_need_no_pyplot(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE, tmp_path / "a.png"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.png").stat().st_size > 0


# ---- names of the user ----------------------------------------------------------------------------------

HOSTILE = "cost_$_a_$^"
"""What matplotlib would read as a formula, and a wrong one."""

NAMED = {
    "function": FunctionDisplay([Curve(HOSTILE, np.arange(3.0), np.arange(3.0))], target_name=HOSTILE),
    "coverage": CoverageDisplay([0.5, 0.9], {HOSTILE: [0.4, 0.8]}, joint=HOSTILE),
    "ranks": RanksDisplay({HOSTILE: [10, 30]}, {HOSTILE: [0.25, 0.75]}, notes={HOSTILE: HOSTILE}),
    "predictive": PredictiveDisplay(RNG.normal(size=(50, 1)), [0.0], [HOSTILE], notes=[HOSTILE]),
    "embedding": EmbeddingDisplay(np.array([[HOSTILE], ["b"]], dtype=object), [0.5, 0.5]),
    "pairs": PairsDisplay(RNG.normal(size=(50, 2)), [HOSTILE, HOSTILE]),
}


def written(figure):
    """Return every text of a picture, as it is read there."""
    stream = io.StringIO()
    with plt.rc_context({"svg.fonttype": "none"}):
        figure.savefig(stream, format="svg")
    return stream.getvalue()


@pytest.mark.parametrize("name", NAMED)
def test_dollar_signs_in_names_are_no_formula(name):
    display = NAMED[name].plot()
    assert f">{HOSTILE}<" in written(display.figure_)


WRONG = {
    "z": lambda: FunctionDisplay([Curve("x", np.arange(3.0), np.arange(3.0))], rows=[np.arange(3.0)], z=[1.0, 2.0]),
    "std": lambda: FunctionDisplay.from_predictions([0.0, 1.0], [1.0, 1.0], [0.1]),
    "samples": lambda: PairsDisplay(np.zeros((5, 2)), ["a"]),
    "truth": lambda: PairsDisplay(np.zeros((5, 2)), ["a", "b"], truth=[1.0]),
    "simulated": lambda: PredictiveDisplay(np.zeros((5, 1)), [50.0, 1.0], ["x1"]),
    "residuals": lambda: ResidualsDisplay([1.0], [1.0, 2.0]),
    "points": lambda: EmbeddingDisplay([[0.0]], [1.0, 2.0]),
}


@pytest.mark.parametrize("argument", WRONG)
def test_what_does_not_belong_together_is_refused(argument):
    with refused(argument):
        WRONG[argument]()


# ---- functions ------------------------------------------------------------------------------------------


class Plane:
    """A model whose prediction is the sum of its columns."""

    def __init__(self):
        self.asked = []

    def predict(self, x, return_std):
        self.asked.append(x)
        return x.to_numpy().sum(axis=1), np.full(len(x), 0.5)


class PlainPlane:
    """The same for arrays, without error bars."""

    def predict(self, x):
        assert isinstance(x, np.ndarray)
        return x.sum(axis=1)


def rows_of(columns, rows=50):
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.uniform(0, 1, (rows, columns)), columns=[f"c{j}" for j in range(columns)])


def test_one_column_is_drawn_with_its_data():
    x = rows_of(1)
    display = drawn(FunctionDisplay.from_estimator(Plane(), x, x["c0"] + 1.0, target_name="power"))
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("c0", "power")
    at, mean = display.line_.get_data()
    np.testing.assert_allclose(at[[0, -1]], [x["c0"].min(), x["c0"].max()])
    np.testing.assert_allclose(mean, at)
    assert display.line_.get_label() == "mean ± 2 sd"
    np.testing.assert_allclose(
        display.band_.get_datalim(display.ax_.transData).intervaly, [at[0] - 1.0, at[-1] + 1.0]
    )
    np.testing.assert_array_equal(display.points_.get_ydata(), x["c0"] + 1.0)


@pytest.mark.parametrize(("columns", "panels"), [(2, 2), (4, 4), (9, 6)])
def test_several_columns_are_drawn_one_at_a_time(columns, panels):
    model, x = Plane(), rows_of(columns)
    display = FunctionDisplay.from_estimator(model, x, np.zeros(len(x)))
    assert [ax.get_xlabel() for ax in display.axes_] == [f"c{j}" for j in range(panels)]
    assert display.points_ is None  # the dots would not belong to the median of the other columns
    for j, asked in enumerate(model.asked):
        others = asked.drop(columns=f"c{j}")
        np.testing.assert_allclose(others, np.tile(x.drop(columns=f"c{j}").median(), (len(asked), 1)))


def test_columns_can_be_named_and_text_is_held():
    x = rows_of(3).assign(site=["here"] * 30 + ["there"] * 20)

    class Sited(Plane):
        def predict(self, x, return_std):
            assert set(x["site"]) == {"here"}
            return super().predict(x.drop(columns="site"), return_std)

    assert len(FunctionDisplay.from_estimator(Sited(), x).axes_) == 3
    display = FunctionDisplay.from_estimator(Sited(), x, columns=["c2", 0])
    assert [ax.get_xlabel() for ax in display.axes_] == ["c2", "c0"]
    with refused("columns"):
        FunctionDisplay.from_estimator(Sited(), x, columns=["site"])


def test_arrays_and_models_without_error_bars_are_welcome():
    x = np.random.default_rng(0).uniform(size=(20, 2))
    display = drawn(FunctionDisplay.from_estimator(PlainPlane(), x))
    assert [ax.get_xlabel() for ax in display.axes_] == ["x1", "x2"]
    assert display.line_.get_label() == "mean"
    assert display.band_ is None
    assert FunctionDisplay.from_estimator(PlainPlane(), x[:, 0]).ax_.get_xlabel() == "x"
    with refused("x"):
        FunctionDisplay.from_estimator(PlainPlane(), [])


def test_two_models_share_a_picture():
    x = rows_of(2)
    first = FunctionDisplay.from_estimator(Plane(), x)
    options = {"label": "naive", "color": COLORS["cascade"], "line_kwargs": {"ls": "--", "lw": 3}}
    second = FunctionDisplay.from_estimator(Plane(), x, ax=first.axes_, **options)
    assert (second.line_.get_linestyle(), second.line_.get_linewidth()) == ("--", 3)
    assert second.line_.get_color() == COLORS["cascade"]
    words = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert words == ["mean ± 2 sd", "naive ± 2 sd"]


def test_one_of_several_targets_is_drawn_with_its_data():
    x = np.linspace(0.0, 3.0, 9)[:, None]
    z = np.column_stack([x, x**2])
    gp = DirectGP(RBF(1.0), optimize=False).fit(x, z)
    display = drawn(gp.plot(x, z, target=1))
    np.testing.assert_array_equal(display.points_.get_ydata(), z[:, 1])
    np.testing.assert_allclose(display.line_.get_ydata()[-1], gp.predict([[3.0]])[0, 1])
    with refused("target"):
        gp.plot(x)
    one = DirectGP(RBF(1.0), optimize=False).fit(x, z[:, 0])
    display = FunctionDisplay.from_estimator(one, x, pd.DataFrame({"power": z[:, 0]}))
    np.testing.assert_array_equal(display.points_.get_ydata(), z[:, 0])


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize(
    ("z", "argument"),
    [(np.zeros(49), "z"), (np.zeros((49, 1)), "z"), (0.0, "z"), (np.zeros((50, 2)), "target")],
)
def test_data_that_do_not_fit_the_rows_are_refused_before_a_figure_is_made(columns, z, argument):
    before = plt.get_fignums()
    with refused(argument):
        FunctionDisplay.from_estimator(Plane(), rows_of(columns), z)
    assert plt.get_fignums() == before


def test_a_large_table_is_thinned():
    display = FunctionDisplay.from_estimator(Plane(), rows_of(1, 10_001), np.zeros(10_001))
    assert 1000 < len(display.points_.get_xdata()) <= 2000


# ---- pairs ----------------------------------------------------------------------------------------------


def draws(d, n=2000):
    return np.random.default_rng(0).normal(size=(n, d)) * np.arange(1, d + 1)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_pairs_of_parameters_are_labelled_at_the_edges_only(d):
    names = [f"p{j}" for j in range(d)]
    axes = PairsDisplay(draws(d, 500), names, truth=np.zeros(d)).plot().axes_
    assert [ax.get_xlabel() for ax in axes[-1]] == names
    assert [ax.get_ylabel() for ax in axes[1:, 0]] == names[1:]
    assert not any(ax.get_xlabel() for ax in axes[:-1].ravel())
    assert all(not axes[i, j].axison for i in range(d) for j in range(i + 1, d))


def test_the_contours_of_a_pair_hold_their_shares():
    rows = draws(2, 20_000)
    display = PairsDisplay(rows, ["a", "b"]).plot()
    for path, share in zip(reversed(display.contours_[1, 0].get_paths()), (0.5, 0.8, 0.95), strict=True):
        assert path.contains_points(rows).mean() == pytest.approx(share, abs=0.02)


def test_a_marginal_keeps_its_mass_and_its_modes():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(-5.0, 0.1, 3000), rng.normal(5.0, 0.1, 3000)])[:, None]
    x, y = PairsDisplay(rows, ["a"]).plot().lines_[0].get_data()
    assert np.trapezoid(y, x) == pytest.approx(1.0, abs=0.01)
    assert y[np.abs(x) < 3.0].max() < 1e-6 * y.max()


def test_a_marginal_ends_where_its_draws_end():
    rows = np.random.default_rng(0).uniform(0.0, 1.0, (20_000, 1))
    x, y = PairsDisplay(rows, ["share"]).plot().lines_[0].get_data()
    assert x.min() >= 0.0
    assert x.max() <= 1.0
    np.testing.assert_allclose(y, 1.0, atol=0.15)  # at the ends too


def test_draws_that_never_change_can_be_drawn():
    drawn(PairsDisplay(np.column_stack([np.full(50, 3.0), draws(1, 50)]), ["a", "b"]).plot())


def test_truth_stretches_the_picture():
    display = PairsDisplay(draws(1), ["a"], truth=[40.0]).plot()
    assert display.ax_.get_xlim()[1] > 40.0
    assert len(display.truth_lines_) == 1


# ---- diagnostics ----------------------------------------------------------------------------------------


def test_rank_bars_are_relative_to_uniform():
    display = RanksDisplay({"rate": [10, 30]}, {"rate": [0.25, 0.75]}, notes={"rate": "p = 1"}, wrong=["rate"])
    ax = drawn(display.plot()).ax_
    np.testing.assert_allclose(display.bars_[0].get_data().values, [1.0, 1.0])
    assert display.bars_[0].get_facecolor()[:3] == pytest.approx((213 / 255, 94 / 255, 0.0))
    assert (ax.get_title(loc="left"), ax.get_title(loc="right")) == ("rate", "p = 1")


def test_long_text_is_cut_and_does_not_squeeze_its_neighbors():
    figure, (left, right) = new_figure(2, (6.0, 2.5))
    _write(left, "too few simulations", ["word " * 900], width=300, most=5)
    CoverageDisplay([0.5], {"a": [0.5], "all": [0.4]}, band=BAND, joint="all").plot(right)
    figure.savefig(io.BytesIO())
    assert left.texts[1].get_text().count("\n") == 4
    assert right.get_position().width > 0.3
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["calibrated", "each parameter", "all"]


def test_predictions_show_the_observation_also_if_it_is_far():
    display = PredictiveDisplay(draws(1), [50.0], ["x1"]).plot()
    assert display.ax_.get_xlim()[1] > 50.0


def test_residuals_are_those_of_leaving_one_out():
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 6.0, 40)[:, None]
    z = 5.0 + 3.0 * np.sin(x[:, 0]) + 0.3 * rng.standard_normal(40)
    gp = DirectGP(9.0 * RBF(1.0), noise=0.3, optimize=False).fit(x, z)
    display = drawn(ResidualsDisplay.from_estimator(gp))
    rest = DirectGP(9.0 * RBF(1.0), noise=0.3, mean="zero", optimize=False).fit(x[1:], z[1:] - z.mean())
    mean, std = rest.predict(x[:1], return_std=True)
    expected = (z[0] - z.mean() - mean[0]) / np.hypot(std[0], 0.3)
    assert display.residuals[0] == pytest.approx(expected, rel=1e-8)
    inside = 100.0 * np.mean(np.abs(display.residuals) <= 1.96)
    assert display.ax_.get_title() == f"95 % intervals hold {inside:.0f} % of 40 targets"
    side = display.bars_.get_data()
    assert np.sum(side.values * np.diff(side.edges)) == pytest.approx(1.0)  # no residual is beyond the histogram


def test_models_that_keep_sums_have_no_residuals():
    with refused("estimator", ArgumentTypeError):
        ResidualsDisplay.from_estimator(SparseGP())


# ---- embeddings -----------------------------------------------------------------------------------------


def test_stems_show_weights_of_either_sign():
    embedding = MeanEmbedding(RBF(0.5), [[0.0], [1.0], [2.0]], [0.7, 0.5, -0.2])
    display = drawn(embedding.plot(samples=4))
    np.testing.assert_array_equal(display.weights_["positive"].get_ydata(), [0.7, 0.5])
    np.testing.assert_array_equal(display.weights_["negative"].get_xydata(), [[2.0, -0.2]])
    np.testing.assert_array_equal(display.samples_.get_xdata(), embedding.herd(4)[:, 0])
    assert "1 negative" in display.ax_.get_title()


def test_a_plane_of_points_has_markers_of_the_size_of_their_weights():
    points = [[0.0, 0.0, 9.0], [1.0, 1.0, 9.0], [2.0, 1.0, 9.0]]
    display = drawn(MeanEmbedding(RBF(0.5), points, [1.0, 0.5, -0.5]).plot(samples=[[0.0, 0.0, 9.0]]))
    np.testing.assert_allclose(display.weights_["positive"].get_sizes(), [120.0, 60.0])
    np.testing.assert_allclose(display.weights_["negative"].get_offsets(), [[2.0, 1.0]])
    assert display.ax_.get_ylabel() == "column 1 of the points"


def test_labels_have_a_stem_each():
    labels = np.array([["north"], ["south"], ["north"]], dtype=object)
    display = drawn(MeanEmbedding(Categorical(), labels, [0.5, -0.1, 0.25]).plot())
    np.testing.assert_array_equal(display.weights_["positive"].get_xydata(), [[0.0, 0.75]])
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["north", "south"]
