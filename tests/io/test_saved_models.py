"""Every estimator: saved, loaded, and asked again, in this process and in another."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from decond import estimators, features, kernels
from decond.estimators import AggregateGP, DirectGP, DualEmbedding, TaskTransformedGP, TaskTransformedRidge
from decond.io import load, save
from decond.problems import latent_function

PROBLEM = latent_function(30, 40)
TABLES = (PROBLEM.x, PROBLEM.y, PROBLEM.y_task, PROBLEM.z_task)
X, Z = PROBLEM.x, PROBLEM.x[:, 0] ** 2
DAYS = [f"day {i % 10}" for i in range(30)]
DAY_NAMES = sorted(set(DAYS))
DAY_MEANS = pd.Series(np.linspace(0, 1, 10), index=DAY_NAMES)
LABELED = (X, DAYS, DAY_NAMES, DAY_MEANS.to_numpy())
QUERY = np.linspace(-6.0, 6.0, 17)[:, None]

FITTED = {
    "TaskTransformedGP": lambda: TaskTransformedGP(n_restarts=0).fit(*TABLES),
    "TaskTransformedGP, plain": lambda: TaskTransformedGP(uncertainty="plain", n_restarts=0).fit(*TABLES),
    "TaskTransformedGP, as given": lambda: TaskTransformedGP(
        2.0 * kernels.Matern52(1.5) + kernels.Linear(), kernels.RBF(0.7), noise=0.3, optimize=False
    ).fit(*TABLES),
    "TaskTransformedGP, labels": lambda: TaskTransformedGP(n_restarts=0).fit(*LABELED),
    "TaskTransformedGP, single": lambda: TaskTransformedGP(targets="single", drift=0.1).fit(
        *TABLES, z_std=np.full(40, 0.1)
    ),
    "TaskTransformedGP, sizes by label": lambda: TaskTransformedGP(n_restarts=0).fit(
        *LABELED, group_sizes=dict.fromkeys(DAY_NAMES, 24.0)
    ),
    "AggregateGP, sizes": lambda: AggregateGP(n_restarts=0).fit(
        X, DAYS, DAY_MEANS, z_std=0.1 + DAY_MEANS, group_sizes=np.inf
    ),
    "AggregateGP": lambda: AggregateGP(n_restarts=0).fit(X, DAYS, DAY_MEANS),
    "AggregateGP, weights": lambda: AggregateGP(n_restarts=0, uncertainty="plain").fit(
        X, np.arange(30) % 7, np.arange(7.0), weights=np.linspace(1, 2, 30)
    ),
    "TaskTransformedFeatures": lambda: estimators.TaskTransformedFeatures(n_features=12).fit(*TABLES),
    "TaskTransformedFeatures, as given": lambda: (
        estimators.TaskTransformedFeatures(
            features.RandomFourier(kernels.RBF(), 10),
            features.RandomFourier(2.0 * kernels.RBF(0.5), 10),
            optimize=False,
        )
        .partial_fit(None, None, PROBLEM.y_task, np.column_stack([PROBLEM.z_task, PROBLEM.z_task**2]))
        .partial_fit(X, PROBLEM.y)
    ),
    "TransformedGP": lambda: estimators.TransformedGP(n_restarts=0).fit(X, np.eye(30)[:, :20], Z[:20]),
    "DirectGP": lambda: DirectGP(n_restarts=0).fit(X, Z),
    "DirectGP, two targets": lambda: DirectGP(n_restarts=0).fit(X, np.column_stack([Z, 100.0 * X])),
    "SparseGP": lambda: estimators.SparseGP(n_inducing=6).fit(X, Z),
    "SparseGP, as given": lambda: estimators.SparseGP(inducing=X[:5], optimize=False).fit(X, Z).partial_fit(X + 1, Z),
    "InstrumentalVariablesGP": lambda: estimators.InstrumentalVariablesGP(n_restarts=0).fit(X, PROBLEM.y, Z),
    "TaskTransformedRidge": lambda: TaskTransformedRidge().fit(*TABLES),
    "TaskTransformedRidge, linear": lambda: TaskTransformedRidge(
        features.Polynomial(3), features.RandomFourier(kernels.RBF(), 50)
    ).fit(*TABLES),
    "CascadeGP": lambda: estimators.CascadeGP(n_restarts=0).fit(*TABLES),
    "CascadeGP, labels": lambda: estimators.CascadeGP(n_restarts=0).fit(*LABELED),
    "ImputeGP": lambda: estimators.ImputeGP(n_restarts=0).fit(*TABLES),
    "EcologicalGP": lambda: estimators.EcologicalGP(n_restarts=0).fit(*TABLES),
    "DualEmbedding": lambda: DualEmbedding(n_features=12).fit(*TABLES),
    "DualEmbedding, labels": lambda: DualEmbedding(n_features=12).fit(
        X, DAYS, DAY_NAMES, np.column_stack([DAY_MEANS, DAY_MEANS**2])
    ),
}

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # what the fits of these small tables warn of


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return every fitted model with the file that it was saved to."""
    folder = tmp_path_factory.mktemp("models")
    models = {}
    for name, fit in FITTED.items():
        models[name] = (fit(), folder / f"{name}.decond")
        save(*models[name])
    return models


def answers(model):
    found = [model.predict(QUERY)]
    if hasattr(model, "sample"):
        found += [*model.predict(QUERY, return_std=True), *model.predict(QUERY, return_cov=True)]
        found += [model.sample(QUERY, 2, seed=0), np.array(model.log_marginal_likelihood())]
    return found


def test_every_estimator_is_tried():
    assert {name.partition(",")[0] for name in FITTED} == set(estimators.__all__)


@pytest.mark.parametrize("name", FITTED)
def test_a_loaded_model_answers_bit_for_bit(saved, name):
    model, path = saved[name]
    loaded = load(path)
    assert type(loaded) is type(model)
    for before, after in zip(answers(model), answers(loaded), strict=True):
        assert before.tobytes() == after.tobytes()
    assert repr(loaded) == repr(model)  # the parameters


@pytest.mark.parametrize("name", FITTED)
def test_saving_again_gives_the_same_file(saved, name, tmp_path):
    _, path = saved[name]
    save(load(path), tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_another_process_predicts_the_same_bits(saved):
    code = """
import sys, numpy as np
from decond.io import load
query = np.linspace(-6.0, 6.0, 17)[:, None]
for path in sys.argv[1:]:
    print(load(path).predict(query).tobytes().hex())
"""
    paths = [str(path) for _, path in saved.values()]
    result = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True)
    for line, (model, _) in zip(result.stdout.split(), saved.values(), strict=True):
        assert line == model.predict(QUERY).tobytes().hex()


def test_names_of_columns_are_kept_and_checked(tmp_path):
    table = pd.DataFrame({"wind": X[:, 0], "height": PROBLEM.y[:, 0]})
    save(DirectGP(kernels.RBF(), optimize=False).fit(table, Z), tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert list(loaded.feature_names_in_) == ["wind", "height"]
    with pytest.raises(ValueError, match="feature names"):  # scikit-learn's own
        loaded.predict(table[["height", "wind"]])


def test_an_unfitted_estimator_cannot_be_saved(tmp_path):
    for name in estimators.__all__:
        with pytest.raises(NotFittedError):
            save(getattr(estimators, name)(), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_what_grows_with_the_square_of_the_rows_waits_until_it_is_asked(tmp_path):
    x = np.linspace(0.0, 9.0, 2000)[:, None]
    save(DirectGP(kernels.RBF(), optimize=False).fit(x, np.sin(x[:, 0])), tmp_path / "m")
    tracemalloc.start()
    try:
        loaded = load(tmp_path / "m")
        assert tracemalloc.get_traced_memory()[1] < 2000 * 2000  # half a byte for each entry of the Gram matrix
    finally:
        tracemalloc.stop()
    assert abs(loaded.predict([[1.0]])[0] - np.sin(1.0)) < 0.01
