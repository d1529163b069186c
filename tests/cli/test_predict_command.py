"""`decond predict`: from a model and a table to predictions."""

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import decond, invoke, refusal

from decond.estimators import DirectGP, SparseGP, TaskTransformedFeatures, TaskTransformedGP, TaskTransformedRidge
from decond.io import load, save
from decond.kernels import RBF

pytestmark = pytest.mark.usefixtures("folder")

PREDICT = ("predict", "model.decond", "new.csv")


@pytest.fixture
def rows(folder):
    """Save a model of two columns, and return the rows that it was fitted on, which are new.csv too."""
    x = pd.DataFrame({"moisture": [11.2, 20.0, 44.1], "depth": [1.0, 2.0, 3.0]})
    save(DirectGP(RBF(10.0), optimize=False).fit(x, [1.0, 2.0, 3.0]), "model.decond")
    x.to_csv("new.csv", index=False)
    return x


@pytest.mark.parametrize("name", ["out.csv", "out.tsv.gz", "out.parquet"])
def test_every_format_has_the_predictions(rows, name):
    decond(*PREDICT, "-o", name)
    found = pd.read_parquet(name) if name == "out.parquet" else pd.read_csv(name, sep=None, engine="python")
    assert list(found) == ["moisture", "depth", "mean", "sd"]
    assert set(map(str, found.dtypes)) == {"float64"}
    np.testing.assert_allclose(found["mean"], load("model.decond").predict(rows), rtol=1e-12)


def test_intervals_hold_new_targets(rows):
    decond(*PREDICT, "--level", 0.9)
    found = pd.read_csv("predictions.csv")
    low, high = load("model.decond").predict_interval(rows, 0.9)
    np.testing.assert_allclose(found[["low", "high"]], np.column_stack([low, high]), rtol=1e-12)
    assert ((found["low"] < found["mean"] - 1.64 * found["sd"]) & (found["mean"] < found["high"])).all()


def test_predictions_are_summarized_for_machines(rows):
    printed = json.loads(decond(*PREDICT, "--json"))
    found = pd.read_csv("predictions.csv")
    assert (printed["predictions"], printed["rows"], printed["model"]) == ("predictions.csv", 3, "DirectGP")
    assert printed["mean"]["average"] == pytest.approx(found["mean"].mean())
    assert printed["sd"]["most"] == pytest.approx(found["sd"].max())


def test_labels_pass_as_they_are(rows):
    Path("new.csv").write_text("site,moisture,depth\n007,20,1\nNA,21,2\n")
    decond(*PREDICT)
    assert pd.read_csv("predictions.csv", dtype=str, keep_default_na=False)["site"].tolist() == ["007", "NA"]


def test_predictions_need_the_columns_of_the_fit_and_a_whole_model(rows):
    contents = ("Moisture,depth\n5,1\n", "moisture,depth,mean\n5,1,1\n", "moisture,depth\n")
    for content, named in zip(contents, ("'moisture'", "'mean'", "new.csv"), strict=True):
        Path("new.csv").write_text(content)
        assert named in refusal(*PREDICT)
    rows.to_csv("new.csv", index=False)
    content = Path("model.decond").read_bytes()
    Path("model.decond").write_bytes(content[: len(content) // 2])
    assert "model.decond" in refusal(*PREDICT)
    assert not Path("predictions.csv").exists()


def test_a_model_of_another_version_predicts_with_a_warning(rows):
    with zipfile.ZipFile("model.decond") as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents["header.json"] = re.sub(rb'"decond": "[^"]*"', b'"decond": "0.99.0"', contents["header.json"])
    with zipfile.ZipFile("model.decond", "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    result = invoke(*PREDICT)
    assert (result.exit_code, result.stdout) == (0, "wrote predictions.csv\n")
    assert result.stderr.startswith("Warning: model.decond")
    assert "0.99.0" in result.stderr


def test_models_without_error_bars_predict_means_alone():
    x = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 0.0]])
    model = TaskTransformedRidge().fit(x, [0.0, 1.0, 2.0], [0.5, 1.5], [1.0, 2.0])
    save(model, "model.decond")  # fitted on arrays: columns have no names
    pd.DataFrame({"a": [1.0], "b": [2.0], "c": [3.0]}).to_csv("new.csv", index=False)
    assert "new.csv" in refusal(*PREDICT)  # three columns for two
    new = pd.DataFrame({"a": [1.0], "b": [2.0]})
    new.to_csv("new.csv", index=False)
    decond(*PREDICT)
    found = pd.read_csv("predictions.csv")
    assert list(found) == ["a", "b", "mean"]
    np.testing.assert_allclose(found["mean"], model.predict(new.to_numpy()))
    assert "--level" in refusal(*PREDICT, "--level", 0.9, "--force")


def test_a_missing_model_names_the_nearest_one(rows):
    assert "model.decond?" in refusal("predict", "models.decond", "new.csv")


# ---- predictions beyond the data -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moisture", "depth", "count", "columns"),
    [
        ([200.0, -50.0], [1.0, 2.0], 2, ["moisture 11.2 to 44.1"]),
        ([11.2, 44.1], [3.0, 3.1], 1, ["depth 1 to 3"]),
        ([11.0, 44.1], [3.0, 3.1], 2, ["moisture 11.2 to 44.1", "depth 1 to 3"]),
        ([11.2, 44.1], [1.0, 3.0], 0, []),
    ],
)
def test_rows_outside_the_range_of_the_data_are_counted(rows, moisture, depth, count, columns):
    pd.DataFrame({"moisture": moisture, "depth": depth}).to_csv("new.csv", index=False)
    notes = json.loads(decond(*PREDICT, "--json"))["notes"]
    assert len(notes) == bool(count)
    for note in notes:
        assert note.startswith(f"{count} of 2 rows")
        assert ", ".join(columns) in note
        assert invoke(*PREDICT, "--force").stderr == f"Warning: {note}\n"


def sparse(x, rng):
    return SparseGP(n_inducing=5, optimize=False).fit(x, rng.standard_normal(len(x)))


def features(x, rng):
    z = rng.standard_normal(len(x))
    return TaskTransformedFeatures(n_features=5, optimize=False, lengthscales="given").fit(x, z, z, z)


@pytest.mark.parametrize("fit", [sparse, features])
def test_models_that_keep_sums_know_the_range_of_their_rows(fit):
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"flow": rng.uniform(2.0, 30.0, 40), "depth": rng.uniform(0.0, 1.0, 40)})
    save(fit(x, rng), "model.decond")
    pd.DataFrame({"flow": [12.0, 31.0], "depth": [0.5, 0.5]}).to_csv("new.csv", index=False)
    assert f"flow {x['flow'].min():.4g} to {x['flow'].max():.4g}" in invoke(*PREDICT).stderr
    x.to_csv("new.csv", index=False)
    assert invoke(*PREDICT, "--force").stderr == ""


def test_rows_that_come_later_widen_the_range():
    rng = np.random.default_rng(0)
    gp = sparse(rng.uniform(0.0, 1.0, (30, 1)), rng)
    other = gp.unread().partial_fit([[7.0], [8.0]], [0.0, 0.0])
    gp.partial_fit([[3.0], [-2.0]], [0.0, 0.0]).merge(other)
    save(gp, "model.decond")
    assert gp._range_seen().tolist() == load("model.decond")._range_seen().tolist() == [[-2.0], [8.0]]
    z = rng.standard_normal(30)
    model = TaskTransformedFeatures(n_features=5).fit(rng.uniform(0.0, 1.0, 30), z, z, z).partial_fit([4.0], [0.0])
    maps = {"kernel_x": model.features_x_, "kernel_y": model.features_y_}
    only_task = TaskTransformedFeatures(**maps).partial_fit(None, None, [9.0], [0.0])  # has no rows of x
    assert model.merge(only_task)._range_seen()[1].tolist() == [4.0]


def test_points_that_a_model_puts_beyond_the_rows_do_not_widen_the_range():
    rng = np.random.default_rng(0)
    y = rng.uniform(0.0, 5.0, 40)
    x = y + rng.standard_normal(40)
    gp = TaskTransformedGP(targets="single", n_restarts=0).fit(x, y, y[:20] + 0.1, x[:20])
    save(gp, "model.decond")
    for model in (gp, load("model.decond")):
        assert model._range_seen().tolist() == [[x.min()], [x.max()]]
