"""The paper's likelihood-free figure, with few simulations and the fastest methods: its numbers and its files."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from decond import lfi
from decond.cli import app
from decond.paper import FIGURES, figure5
from decond.paper.comparison import NOTES, compare
from decond.paper.published import PUBLISHED_BARS


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    def rejection(_, seed):
        return lfi.RejectionABC(0.3, adjustment="linear", seed=seed, summary="none")

    def smc(problem, seed):
        return lfi.SMCABC(problem.simulator, 200, problem.batched, n_generations=2, seed=seed, summary="none")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure5, "CURVES", {"K-ABC": (rejection, "band", "-")})
        patch.setattr(figure5, "BARS", {"REJ-ABC": rejection, "SMC-ABC": smc})
        patch.setattr(figure5, "SIMULATIONS", 200)
        patch.setattr(figure5, "PILOT", 120)
        patch.delitem(FIGURES, "figure3")  # tests/unit/test_paper.py has it
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


def test_curves_are_scored_against_the_true_posterior(written):
    answer = written[1]["answers"]["K-ABC"]
    assert 0.0 < answer["total_variation"] < 0.3
    assert 0.5 < answer["peak"] < 2.5
    assert (answer["published_total_variation"], answer["published_peak"]) == (0.308, 0.47)
    assert answer["n_simulations"] == 100


def test_a_perfect_curve_has_no_distance():
    density = np.exp(-0.5 * ((figure5.GRID - 1.7) / 0.4) ** 2) / (0.4 * np.sqrt(2.0 * np.pi))
    assert figure5.Curve(density, 1, 0.0, []).score(density, None)["total_variation"] == 0.0
    assert figure5.Curve(0.0 * density, 1, 0.0, []).score(density, None)["total_variation"] == pytest.approx(
        0.5, 1e-4
    )


def test_bars_count_simulations_and_failures(written):
    numbers = written[1]
    assert numbers["true_log_theta_1"] == pytest.approx(-4.60517, abs=1e-5)
    assert numbers["published_bars"]["DME"] == [-4.744, -4.313]
    for name, bar in numbers["lotka_volterra"].items():
        assert -5.0 <= bar["low"] < bar["high"] <= 2.0
        assert (bar["published_low"], bar["published_high"]) == PUBLISHED_BARS[name]
        assert bar["n_simulations"] == 200
        assert 0 < bar["n_failed"] < 60
        assert len(bar["covered"]) == len(bar["intervals"]) == 4
        assert any("failed" in note for note in bar["notes"])


def test_all_figures_come_with_one_table_of_published_and_reproduced(everything):
    folder, printed = everything
    names = ["figure4.png", "figure4.json", "figure5.png", "figure5.json", "figures.md", "figures.json"]
    assert printed["files"] == [str(folder / name) for name in names]
    assert json.loads((folder / "figures.json").read_text()) == {"rows": printed["comparison"], "notes": NOTES}
    rows = {row["quantity"]: row for row in printed["comparison"]}
    ours = printed["figures"]["figure5"]["lotka_volterra"]["SMC-ABC"]
    row = rows["log θ₁, 97.5 %: SMC-ABC"]
    assert (row["figure"], row["published"], row["ours"]) == ("figure5", -4.262, ours["high"])
    assert row["difference"] == pytest.approx(ours["high"] + 4.262, abs=1e-3)
    assert f"Ours is {ours['width'] / 0.706:.1f} times as wide: 200 simulations here" in row["explanation"]
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
    assert len(published) == 2 * (1 + len(PUBLISHED_BARS))
    assert all(row.agrees or row.why for row in rows)
    missing = {row.quantity: row for row in rows if row.ours is None}
    assert "which decond does not have" in missing["log θ₁, 2.5 %: MDN"].why


def test_an_interval_that_collapsed_is_called_so(written):
    numbers = json.loads(json.dumps(written[1]))
    bar = numbers["lotka_volterra"]["SMC-ABC"]
    bar |= {"high": bar["low"], "width": 0.0, "notes": ["only 1 of the first 1000 draws are distinct.", "33 failed."]}
    row = next(row for row in compare("figure5", numbers) if row.quantity == "log θ₁, 97.5 %: SMC-ABC")
    assert row.why.startswith("Ours collapsed onto a point: only 1 of the first 1000 draws are distinct: 200 sim")


def test_the_command_prints_both_panels(written):
    from decond.cli.reproduce import _as_tables

    tables = _as_tables(written[1])
    assert [table.title for table in tables] == ["answers", "lotka volterra"]
    assert [table.row_count for table in tables] == [1, 2]
