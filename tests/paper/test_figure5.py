"""The paper's likelihood-free figure, with few simulations and the fastest methods: its numbers and its files."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from decond import lfi
from decond.cli import app
from decond.paper import FIGURES, TABLES, figure5
from decond.paper.figure5 import RATES, Entry, Figure5Settings, MethodSettings, Run, run
from decond.paper.published import Row, compare, figure_notes, published_values, readings
from decond.problems import exponential_gamma

REJECTION = {"quantile": 0.3, "adjustment": "linear", "summary": "none"}
SMC = {"n_generations": 2, "summary": "none"}


def neural(simulator, n, batched, seed):
    raise ImportError("lfi.MDN needs packages; install them with: pip install them")


PLAN = Figure5Settings(
    curves=[Entry("K-ABC", form, lfi.RejectionABC, REJECTION) for form in ("as published", "as improved")],
    bars=[
        Entry("REJ-ABC", "as published", lfi.RejectionABC, REJECTION),
        Entry("SMC-ABC", "as published", lfi.SMCABC, SMC),
        Entry("MDN", "as published", neural, {}),
    ],
    seeds=(0, 1),
    simulations=200,
    pilot=120,
    n_jobs=1,
)


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FIGURES, "figure5", lambda folder, report: figure5.write(folder, report, PLAN))
        patch.delitem(FIGURES, "figure3")  # test_figures_3_and_4.py has it
        folder = tmp_path_factory.mktemp("figures") / "made"
        result = CliRunner().invoke(app, ["reproduce", "all", "--json", "--output", str(folder)])
    assert (result.exit_code, result.stderr) == (0, "")
    return folder, json.loads(result.stdout)


@pytest.fixture(scope="module")
def written(everything):
    folder, printed = everything
    return folder, printed["figures"]["figure5"]


def test_the_figure_is_a_picture_and_its_numbers(written):
    folder, numbers = written
    assert (folder / "figure5.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((folder / "figure5.json").read_text()) == numbers


def test_every_bar_and_curve_of_the_paper_is_run_as_published():
    for panel, entries in (("left", Figure5Settings().curves), ("right", Figure5Settings().bars)):
        known = {reading.algorithm for reading in readings() if reading.panel == panel}
        assert known == {entry.algorithm for entry in entries if entry.form == "as published"}
        assert len({entry.label for entry in entries}) == len(entries)
    assert len(Figure5Settings().seeds) == 5


def test_kernel_methods_are_treated_alike():
    """As published all keep signed weights and the prior's simulations, as improved none does."""
    fixed = MethodSettings().regularization
    for entry in [*Figure5Settings().curves, *Figure5Settings().bars]:
        method = entry.build(exponential_gamma(), 100, 0)
        assert entry.rounds == 1 or entry.form != "as published"
        assert method.summary == "none" or entry.form == "ours" or entry.algorithm.startswith(("MDN", "LFVI", "GPS"))
        if hasattr(method, "robust"):
            assert method.robust == (entry.form == "as improved")
            assert getattr(method, "n_prior", 2000) == 2000
            given = getattr(method, "regularization", fixed)
            assert given == (fixed if "validated" not in entry.algorithm else "learned")


def test_curves_are_scored_against_the_true_posterior(written):
    answer = written[1]["answers"]["K-ABC, as published"]
    distances = [one["total_variation"] for one in answer["runs"]]
    assert answer["total_variation"] == pytest.approx(sum(distances) / 2)
    assert (answer["lowest_total_variation"], answer["highest_total_variation"]) == (min(distances), max(distances))
    assert 0.0 < min(distances) < max(distances) < 0.3
    assert 0.5 < answer["peak"] < 2.5
    assert (answer["published_total_variation"], answer["published_peak"]) == ([0.308], [0.47])
    assert answer["n_simulations"] == 100


def test_readings_have_an_uncertainty():
    assert len(readings()) == 36
    row = Row("figure5", "peak", 0.50, 0.58, "why", uncertainty=0.005)
    assert (row.agrees, row.texts()) == (False, ("0.50", "0.580", "+0.080"))
    assert replace(row, ours=0.505).agrees


def test_a_perfect_curve_has_no_distance():
    density = np.exp(-0.5 * ((RATES - 1.7) / 0.4) ** 2) / (0.4 * np.sqrt(2.0 * np.pi))
    assert Run(np.empty((2, 1)), density, 1, 0, 0.0, []).total_variation(density) == 0.0
    assert Run(np.empty((2, 1)), 0.0 * density, 1, 0, 0.0, []).total_variation(density) == pytest.approx(0.5, 1e-4)


def test_draws_that_are_all_the_same_are_as_far_from_the_truth_as_can_be():
    class Same(lfi.KABC):
        def _posterior(self, observed):
            return lfi.Posterior(self.prior_, lambda n, rng: np.full((n, 1), 1.7))

    entry = Entry("K-ABC", "ours", Same, {})
    plan = Figure5Settings(curves=[entry], bars=[], seeds=(0,), simulations=60, n_jobs=1)
    truth = np.exp(exponential_gamma().log_posterior(RATES))
    assert run(plan).curves[entry.label][0].total_variation(truth) == pytest.approx(1.0, abs=0.01)


def test_bars_count_simulations_failures_and_coverage(written):
    numbers = written[1]
    assert numbers["true_log_theta_1"] == pytest.approx(-4.60517, abs=1e-5)
    assert len(numbers["published"]) == len(readings())
    truth = np.log([0.01, 0.5, 1.0, 0.01])
    assert list(numbers["lotka_volterra"]) == ["REJ-ABC, as published", "SMC-ABC, as published"]
    for bar in numbers["lotka_volterra"].values():
        assert (bar["published_low"], bar["published_high"]) == tuple(
            published_values("right", bar["algorithm"], end)[0] for end in ("low", "high")
        )
        assert bar["n_simulations"] == 200
        ends = np.array([answer["intervals"] for answer in bar["runs"]])  # seeds, parameters, ends
        covered = (ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1])
        assert [answer["covered"] for answer in bar["runs"]] == covered.tolist()
        assert bar["times_covered"] == covered[:, 0].sum()
        assert bar["coverage_of_all_parameters"] == covered.mean()
        np.testing.assert_allclose([bar["low"], bar["high"]], np.median(ends[:, 0], axis=0))
        assert bar["width"] == pytest.approx(np.mean(ends[:, 0, 1] - ends[:, 0, 0]))
        for answer in bar["runs"]:
            assert 0 < answer["n_failed"] < 60
            assert any("failed" in note for note in answer["notes"])


SMALL = replace(PLAN, curves=PLAN.curves[:1], bars=PLAN.bars[1:2], simulations=80, pilot=50)


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_numbers_are_reported_one_by_one_and_do_not_depend_on_the_number_of_processes(n_jobs):
    told = []
    found = run(replace(SMALL, n_jobs=n_jobs), lambda ended, total: told.append((ended, total)))
    assert told == [(ended, 4) for ended in range(1, 5)]
    again = run(SMALL)
    for name, bars in again.bars.items():
        for ours, theirs in zip(bars, found.bars[name], strict=True):
            np.testing.assert_array_equal(ours.interval, theirs.interval)
    (label,) = again.curves
    for ours, theirs in zip(again.curves[label], found.curves[label], strict=True):
        np.testing.assert_array_equal(ours.density, theirs.density)


def test_all_figures_come_with_one_table_of_published_and_reproduced(everything):
    folder, printed = everything
    names = ["figure4.png", "figure4.json", "figure5.png", "figure5.json", "figures.md", "figures.json"]
    assert printed["files"] == [str(folder / name) for name in names]
    assert json.loads((folder / "figures.json").read_text()) == {
        "rows": printed["comparison"],
        "notes": figure_notes(),
    }
    rows = {row["quantity"]: row for row in printed["comparison"]}
    ours = printed["figures"]["figure5"]["lotka_volterra"]["SMC-ABC, as published"]
    row = rows["log θ₁, 97.5 %: SMC-ABC"]
    assert (row["figure"], row["published"], row["ours"]) == ("figure5", -4.262, ours["high"])
    assert row["difference"] == pytest.approx(ours["high"] + 4.262, abs=1e-3)
    for fact in (f"{ours['width'] / 0.706:.1f} times", f"{ours['times_covered']} of 2 runs", "200 simulations"):
        assert fact in row["explanation"]
    page = (folder / "figures.md").read_text()
    for row in printed["comparison"]:
        assert f"| {row['quantity']} |" in page
        assert row["explanation"] in page
    assert (
        page.index("## Figure 1") < page.index("## Figure 4") < page.index("](figure4.png)") < page.index("](figure5")
    )
    assert "## Figure 3" not in page


def test_every_published_number_is_in_the_table_and_every_difference_has_a_reason(written):
    rows = compare("figure5", written[1])
    published = [row for row in rows if row.published is not None]
    assert len(published) == 2 * (2 + 3)
    known = [row for row in rows if row.ours is not None]
    assert len(known) == 2 * (2 + 2)
    assert all(row.form for row in rows)
    assert all(row.agrees or row.why for row in known)


def test_a_method_that_is_not_installed_is_left_out_with_what_to_install(written):
    assert written[1]["left_out"] == {
        "MDN, as published": "lfi.MDN needs packages; install them with: pip install them"
    }
    row = next(row for row in compare("figure5", written[1]) if row.quantity == "log θ₁, 2.5 %: MDN")
    assert (row.ours, row.why) == (None, written[1]["left_out"]["MDN, as published"])


def test_an_interval_that_collapsed_is_called_so(written):
    numbers = json.loads(json.dumps(written[1]))
    first = numbers["lotka_volterra"]["SMC-ABC, as published"]["runs"][0]["intervals"][0]
    first[1] = first[0] + 0.001
    row = next(row for row in compare("figure5", numbers) if row.quantity == "log θ₁, 97.5 %: SMC-ABC")
    assert "1 collapsed" in row.why
    assert "collapsed" not in {one.quantity: one.why for one in compare("figure5", written[1])}[row.quantity]


def test_tables_show_what_each_method_used_and_covered(everything):
    folder, printed = everything
    numbers = printed["figures"]["figure5"]
    left, right = TABLES["figure5"](numbers)
    assert [len(left.rows), len(right.rows)] == [2, 2]
    bar = numbers["lotka_volterra"]["SMC-ABC, as published"]
    name, form, simulations, ends, width, covers, *_, settings = right.rows[1]
    assert (name, form, simulations, width) == ("SMC-ABC", "as published", "200", f"{bar['width']:.2f}")
    assert settings.startswith("SMCABC(")
    assert settings.endswith(")")  # its generations are a setting; it has no rounds
    assert left.rows[0][-1].endswith("), 1 round")
    assert ends == f"{bar['low']:.3f} to {bar['high']:.3f}"
    assert covers == f"{bar['times_covered']} of 2"
    page = (folder / "figures.md").read_text()
    assert all(line in page for table in (left, right) for line in table.as_markdown())
