"""The paper's regression figures: their numbers, and files that can be opened."""

import json

import numpy as np
import oracles
import pytest

from decond.gp import log_evidence_and_gradient
from decond.paper import FIGURES, figures_3_and_4
from decond.paper.published import Row, compare, tabulated, write_comparison

REGRESSION = ("figure3", "figure4")  # figure 5 takes minutes; test_figure5.py has its parts


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures") / "made"
    return {name: (*FIGURES[name](folder), folder) for name in REGRESSION}


@pytest.mark.parametrize("name", REGRESSION)
def test_a_figure_is_a_picture_and_its_numbers(written, name):
    paths, numbers, folder = written[name]
    assert paths == [folder / f"{name}.png", folder / f"{name}.json"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert json.loads(paths[1].read_text()) == numbers


def test_figure_3_has_the_known_numbers(written):
    answers = written["figure3"][1]["answers"]
    assert answers["learned"]["negative_log_evidence"] == pytest.approx(105.72771406, abs=5e-7)
    assert answers["initial"]["negative_log_evidence"] == pytest.approx(1548.0821503, abs=5e-7)
    assert answers["learned"]["coverage_2sd"] == pytest.approx(0.976, abs=2e-3)
    errors = {"learned": 0.168, "initial": 0.518, "learned, MAP mediator": 0.137, "impute": 0.836, "cascade": 1.191}
    for name, error in errors.items():
        assert answers[name]["rmse"] == pytest.approx(error, abs=1.5e-3)
    found = answers["learned"]["hyperparameters"]
    np.testing.assert_allclose(list(found.values()), [1.03741465, 0.35222978, 0.40144024], rtol=1e-4)


def test_figure_3_agrees_with_every_known_number(written):
    rows = compare("figure3", written["figure3"][1])
    assert len(rows) == 11
    assert all(row.agrees for row in rows), [row for row in rows if not row.agrees]
    assert rows[0].as_dict()["explanation"] == ""
    assert all(row.published is None and row.as_dict()["reference"] == row.reference for row in rows)


def test_reasons_have_a_column_where_there_are_any(written, tmp_path):
    _, headings, cells = tabulated(compare("figure3", written["figure3"][1]))
    assert headings == ["number", "reference", "ours", "difference"]
    assert {len(line) for line in cells} == {4}
    assert tabulated(compare("figure4", written["figure4"][1])).headings[-1] == "why"
    rows = [Row("figure3", "rmse", None, 0.5, reference=0.5), Row("figure4", "rmse", None, 0.5, "because")]
    page = write_comparison(tmp_path, rows, {})[0].read_text()
    assert "| number | reference | ours | difference |\n|---|---:|---:|---:|\n| rmse | 0.5 | 0.50 | +0.00 |\n" in page
    assert (
        "| number | published | ours | difference | why |\n|---|---:|---:|---:|---:|\n| rmse | – | 0.5 | – | 1 |"
        in page
    )


def test_figure_4_explains_why_nothing_can_be_compared(written):
    rows = compare("figure4", written["figure4"][1])
    assert len(rows) == 8
    assert all(row.published is None and row.difference is None and row.why for row in rows)
    assert rows[-1].quantity == "noise: everything learned"
    assert "0.25" in rows[-1].why


@pytest.mark.parametrize(("ours", "agrees"), [(0.1684, True), (0.1671, True), (0.1692, False), (None, False)])
def test_rows_agree_within_the_last_published_digit(ours, agrees):
    row = Row("figure5", "rmse", 0.168, ours, "because")
    assert row.agrees is agrees
    assert row.as_dict()["explanation"] == ("" if agrees else "because")


def test_figure_4_starts_from_the_known_draws():
    for ours, theirs in zip(figures_3_and_4.sparse_toy(), oracles.sparse_toy_data(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_figure_4_learning_improves_on_random_points(written):
    answers = written["figure4"][1]["answers"]
    errors = {name: answer["rmse_within_data"] for name, answer in answers.items()}
    evidences = {name: answer["negative_log_evidence"] for name, answer in answers.items()}
    assert errors["jointly"] < 0.15
    assert errors["points"] < 0.15 < 0.4 < errors["random"]
    assert evidences["jointly"] < evidences["points"] < evidences["random"]
    assert (answers["points"]["lengthscale"], answers["points"]["noise"]) == (1.0, 0.25)
    assert answers["jointly"]["lengthscale"] == pytest.approx(1.0, abs=0.15)
    assert answers["jointly"]["noise"] == pytest.approx(0.25, abs=0.05)
    assert len(written["figure4"][1]["slips_of_the_published_panels"]) == 2


def test_figure_4_points_are_at_an_optimum():
    z = figures_3_and_4.sparse_toy()[1]
    model = figures_3_and_4.panels()["points"].model
    slopes = log_evidence_and_gradient(model.prior, model.observation, z, points=True)[1]
    np.testing.assert_allclose(slopes["observation.x"] + slopes["observation.y"], 0.0, atol=1e-2)
