"""The paper's likelihood-free figure, with few simulations and the fastest methods: its numbers and its files."""

import json

import numpy as np
import pytest

from decond import lfi
from decond.paper import figure5
from decond.paper.published import PUBLISHED_BARS


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    def rejection(_, seed):
        return lfi.RejectionABC(0.3, adjustment="linear", seed=seed, summary="none")

    def smc(problem, seed):
        return lfi.SMCABC(problem.simulator, 200, problem.batched, n_generations=2, seed=seed, summary="none")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure5, "CURVES", {"K-ABC": (rejection, "band", "-")})
        patch.setattr(figure5, "BARS", {"REJ-ABC": rejection, "SMC-ABC": smc})
        patch.setattr(figure5, "SIMULATIONS", 200)
        patch.setattr(figure5, "PILOT", 120)
        return figure5.write(tmp_path_factory.mktemp("figures") / "made")


def test_the_figure_is_a_picture_and_its_numbers(written):
    paths, numbers = written
    assert [path.name for path in paths] == ["figure5.png", "figure5.json"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert json.loads(paths[1].read_text()) == numbers


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


def test_the_command_prints_both_panels(written):
    from decond.cli.reproduce import _as_tables

    tables = _as_tables(written[1])
    assert [table.title for table in tables] == ["answers", "lotka volterra"]
    assert [table.row_count for table in tables] == [1, 2]
