"""Small computations whose values must not change: `python tests/golden/cases.py` writes them to values.json.

They are what no oracle has: searches, samplers and random draws, by seed. Formulas are compared with plain NumPy
elsewhere. Each case imports what it needs of decond itself, so that a renamed module changes one line here. Values
agree to `TOLERANCE`, except where a case says why it cannot.
"""

import functools
import json
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

VALUES = Path(__file__).with_name("values.json")
TOLERANCE = 1e-8
SEARCHED = 1e-6
"""For searches that amplify rounding: a change of the data in the last digit moves their answers by 1e-9 to 4e-8."""


class Case(NamedTuple):
    """What to compute, and how closely its values agree, relative to the largest entry of each array."""

    compute: Callable[[], Mapping[str, Any]]
    tolerance: float

    def run(self) -> dict[str, np.ndarray]:
        """Return the values as arrays; which warnings are given is not what this is about."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = self.compute()
        return {name: np.asarray(value, dtype=np.float64) for name, value in values.items()}


CASES: dict[str, Case] = {}


def case(compute=None, *, tolerance=TOLERANCE, **options):
    """Register a function; options are passed to it, and a `name` replaces its own."""
    if compute is None:
        return functools.partial(case, tolerance=tolerance, **options)
    name = options.pop("name", compute.__name__)
    assert name not in CASES
    CASES[name] = Case(functools.partial(compute, **options), tolerance)
    return compute


# ---- data ----------------------------------------------------------------------------------------------------


def rows(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


@functools.cache
def tables(n=24, m=18):
    """Pairs (x, y) and task rows (y, z) of a curve."""
    y, y_task = np.sort(2.0 * rows(1, n, 1), axis=0), 1.5 * rows(2, m, 1)
    x = np.sin(y) + 0.5 * y + 0.3 * rows(3, n, 1)
    x_task = np.sin(y_task) + 0.5 * y_task
    return x, y, y_task, np.cos(1.5 * x_task[:, 0]) + 0.2 * rows(4, m)


@functools.cache
def groups():
    """Rows of two columns in labeled groups, and the mean of each group."""
    x, labels = rows(5, 30, 2), np.arange(30) % 10
    f = np.sin(x[:, 0]) + 0.3 * x[:, 1]
    return x, labels, np.array([f[labels == label].mean() for label in range(10)]) + 0.05 * rows(6, 10)


QUERY = np.linspace(-2.0, 2.0, 7)[:, None]
QUERY_2D = np.column_stack([np.linspace(-2.0, 2.0, 6), np.linspace(1.0, -1.0, 6)])


def answers(model, query=QUERY):
    """What a fitted regressor says."""
    mean, std = model.predict(query, return_std=True)
    return {
        "mean": mean,
        "std": std,
        "covariance": model.predict(query, return_cov=True)[1],
        "sample": model.sample(query, 3, seed=5),
        "log_marginal_likelihood": model.log_marginal_likelihood(),
    }


# ---- random features, searches and samplers ------------------------------------------------------------------


@case
def fourier_features():
    from decond import features, kernels

    x = rows(12, 5, 3)
    chosen = {
        "fourier rbf": features.RandomFourier(kernels.RBF([0.5, 1.0, 2.0]), 4, seed=1),
        "fourier matern": features.RandomFourier(kernels.Matern32(0.8), 4, seed=1),
        "fourier orthogonal": features.RandomFourier(kernels.RBF(0.8), 4, seed=1, orthogonal=True),
    }
    return {name: phi(x) for name, phi in chosen.items()}


@case
def bayesian_mean_embedding_learned():
    from decond import BayesianMeanEmbedding

    found = {}
    for objective in ("predictive", "gaussian"):
        model = BayesianMeanEmbedding(objective=objective).fit(rows(24, 30, 1))
        found[objective], found[f"{objective} std"] = model.predict(QUERY, return_std=True)
    return found


@functools.cache
def averages():
    """Weights (n, m) of the rows of x in the targets."""
    x, _, _, z = tables()
    found = np.exp(rows(30, len(x), len(z)))
    return found / found.sum(axis=0)


@case
def latent_inputs():
    from decond.gp import FunctionPrior, LatentInput, condition, log_evidence_and_gradient
    from decond.kernels import RBF, Matern52

    x, _, _, z = tables()
    prior, observation = (
        FunctionPrior(0.8 * RBF(0.7) + 0.4 * Matern52(1.3), mean=0.2),
        LatentInput(x, averages(), 0.3),
    )
    posterior = condition(prior, observation, z)
    evidence, gradient = log_evidence_and_gradient(prior, observation, z, points=True)
    return {
        "log evidence beside gradient": evidence,
        "log evidence of posterior": posterior.log_evidence,
        "mean": posterior.mean(QUERY),
        "covariance": posterior.covariance(QUERY),
        "sample": posterior.sample(QUERY, 2, seed=3),
        "leave one out": np.array(posterior.leave_one_out()),
        **{f"gradient {path}": value for path, value in gradient.items()},
    }


# ---- estimators ----------------------------------------------------------------------------------------------


def task_transformed(**settings):
    from decond import TaskTransformedGP
    from decond.kernels import RBF

    given = {} if settings.get("optimize", True) else {"kernel_x": RBF(0.7), "kernel_y": RBF(0.9), "noise": 0.3}
    return answers(TaskTransformedGP(**given, **settings).fit(*tables()))


case(task_transformed, name="task full given", uncertainty="plain", optimize=False)
case(task_transformed, name="task map given", uncertainty="plain", mediator="map", optimize=False)
case(task_transformed, name="task honest given", optimize=False)
case(task_transformed, name="task full learned", uncertainty="plain", n_restarts=1)
case(task_transformed, name="task map learned", uncertainty="plain", mediator="map", n_restarts=1)
case(task_transformed, name="task means", tolerance=SEARCHED, n_restarts=1)
case(task_transformed, name="task single", tolerance=SEARCHED, targets="single", n_restarts=1)


def aggregate(z_std=None, group_sizes=None, **settings):
    from decond import AggregateGP
    from decond.kernels import RBF

    given = {} if settings.get("optimize", True) else {"kernel": RBF(0.9), "noise": 0.2}
    return answers(AggregateGP(**given, **settings).fit(*groups(), z_std=z_std, group_sizes=group_sizes), QUERY_2D)


case(aggregate, name="aggregate given", uncertainty="plain", optimize=False)
case(
    aggregate,
    name="aggregate given known errors",
    uncertainty="plain",
    optimize=False,
    z_std=np.linspace(0.05, 0.3, 10),
)
case(aggregate, name="aggregate learned", uncertainty="plain", n_restarts=1)
case(aggregate, name="aggregate complete", n_restarts=1)
case(aggregate, name="aggregate sampled", group_sizes=12, n_restarts=1)


def task_labels(group_sizes=None):
    from decond import TaskTransformedGP

    x, labels, z = groups()
    y, y_task = [f"g{label}" for label in labels], [f"g{label}" for label in range(10)]
    return answers(TaskTransformedGP(n_restarts=1).fit(x, y, y_task, z, group_sizes=group_sizes), QUERY_2D)


case(task_labels, name="task labels")
case(task_labels, name="task labels sampled", group_sizes=np.inf)


def transformed(**settings):
    from decond import TransformedGP
    from decond.kernels import RBF

    x, _, _, z = tables()
    given = {} if settings.get("optimize", True) else {"kernel": RBF(0.9), "noise": 0.2}
    model = TransformedGP(uncertainty="plain", **given, **settings)
    return answers(model.fit(x, averages(), z, 0.1 * np.eye(len(z))))


case(transformed, name="transformed given", optimize=False)
case(transformed, name="transformed learned", n_restarts=1)


def direct(**settings):
    from decond import DirectGP
    from decond.kernels import RBF

    x, _, _, _ = tables()
    given = {} if settings.get("optimize", True) else {"kernel": RBF(0.9), "noise": 0.2}
    return answers(DirectGP(**given, **settings).fit(x, np.sin(x[:, 0]) + 0.1 * rows(40, len(x))))


case(direct, name="direct given", uncertainty="plain", optimize=False)
case(direct, name="direct learned", uncertainty="plain")
case(direct, name="direct honest")


@case
def ridge():
    from decond import TaskTransformedRidge, features
    from decond.kernels import RBF

    chosen = {
        "default": TaskTransformedRidge(),
        "kernels": TaskTransformedRidge(RBF(0.7), RBF(0.9), 1e-2, 1e-2),
        "features": TaskTransformedRidge(features.Polynomial(2), features.Polynomial(3), 1e-2, 1e-2),
    }
    return {name: model.fit(*tables()).predict(QUERY) for name, model in chosen.items()}


def baseline(kind):
    import decond

    return {"mean": getattr(decond, kind)().fit(*tables()).predict(QUERY)}


case(baseline, name="cascade", kind="CascadeGP")
case(baseline, name="impute", kind="ImputeGP")


@case
def instrumental_variables():
    from decond import InstrumentalVariablesGP
    from decond.kernels import RBF

    x, y, _, _ = tables()
    model = InstrumentalVariablesGP(RBF(0.7), RBF(0.9), noise=0.3, uncertainty="plain", optimize=False)
    return answers(model.fit(x, y, np.cos(x[:, 0])))


@case
def dual_embedding():
    from decond import DualEmbedding

    model = DualEmbedding(n_features=10, regularization=1e-2).fit(*tables())
    return {"mean": model.predict(QUERY)}


# ---- large tables --------------------------------------------------------------------------------------------


@functools.cache
def large_table():
    x = rows(50, 300, 2)
    return x, np.sin(2.0 * x[:, 0]) + 0.3 * x[:, 1] + 0.1 * rows(51, 300)


def sparse(learned):
    from decond import SparseGP
    from decond.kernels import RBF

    x, z = large_table()
    if learned == "hyperparameters":
        given = {"inducing": rows(52, 9, 2), "kernel": RBF([0.7, 0.9]), "noise": 0.2}
        return answers(SparseGP(**given, learn_inducing=False).fit(x, z), QUERY_2D)
    return answers(SparseGP(n_inducing=4).fit(x[:, :1], z))


case(sparse, name="sparse hyperparameters learned", tolerance=SEARCHED, learned="hyperparameters")
case(sparse, name="sparse learned", learned="everything")


@case
def sparse_evidence():
    from decond.kernels import RBF
    from decond.streaming import SparseModel, Table

    model = SparseModel(1.5 * RBF([0.7, 0.9]), rows(52, 9, 2), noise=0.2)
    evidence, gradient = model.log_evidence_and_gradient(Table(*large_table()))
    return {"log evidence": evidence} | {f"gradient {path}": value for path, value in gradient.items()}


def feature_model(how, mediator="full"):
    from decond import TaskTransformedFeatures
    from decond.features import RandomFourier
    from decond.kernels import RBF

    x, y, y_task, z = tables(200, 150)
    maps = RandomFourier(RBF(0.7), 6, seed=0), RandomFourier(RBF(0.9), 6, seed=1)
    if how == "given":
        model = TaskTransformedFeatures(*maps, noise=0.3, mediator=mediator, optimize=False).fit(x, y, y_task, z)
    elif how == "merged":
        model = TaskTransformedFeatures(*maps, noise=0.3, optimize=False).partial_fit(x, y)
        other = TaskTransformedFeatures(*maps, noise=0.3, optimize=False)
        model.merge(other.partial_fit(None, None, y_task, z))
    else:
        model = TaskTransformedFeatures(n_features=8).fit(x, y, y_task, z)
    return answers(model)


case(feature_model, name="feature model given", how="given")
case(feature_model, name="feature model map", how="given", mediator="map")
case(feature_model, name="feature model merged", how="merged")
case(feature_model, name="feature model learned", how="learned")


# ---- likelihood-free inference -------------------------------------------------------------------------------


def draw(theta, rng):
    """Ten draws with mean theta[0] and standard deviation theta[1]."""
    return theta[0] + theta[1] * rng.standard_normal(10)


def summarize(raw):
    return np.array([raw.mean(), np.log(raw.std())])


def simulator(theta, rng):
    return summarize(draw(theta, rng))


def failing_simulator(theta, rng):
    if theta[0] > 1.0:
        raise ValueError("too large")
    return simulator(theta, rng)


@functools.cache
def inference_problem():
    """A prior of two parameters, 120 simulations and an observation with its raw data."""
    from scipy import stats

    from decond import lfi

    prior = lfi.Prior({"mean": stats.norm(0.0, 1.5), "scale": stats.gamma(3.0, scale=0.4)})
    theta = np.column_stack([1.5 * rows(60, 120), np.exp(0.5 * rows(61, 120))])
    raw = theta[:, :1] + theta[:, 1:] * rows(62, 120, 10)
    sims = lfi.Simulations(theta, np.array([summarize(data) for data in raw]), raw=raw, names=prior.names)
    return prior, sims, 0.5 + 0.8 * rows(63, 10)


def beliefs(posterior):
    return {
        "mean": posterior.mean(),
        "cov": posterior.cov(),
        "quantile": posterior.quantile([0.1, 0.5, 0.9]),
        "sample": posterior.sample(100, seed=0),
        "log_evidence": np.nan if posterior.log_evidence is None else posterior.log_evidence,
    }


def inference(method, **settings):
    from decond import lfi

    prior, sims, observed = inference_problem()
    fitted = getattr(lfi, lfi.METHODS[method])(seed=0, **settings).fit(sims, prior)
    return beliefs(fitted.posterior(observed if method == "k2abc" else summarize(observed)))


case(inference, name="lfi residual", method="residual")
case(inference, name="lfi dme", method="dme", n_prior=200)
case(
    inference,
    name="lfi dme given",
    method="dme",
    n_prior=200,
    regularization=1e-3,
    evidence_regularization=1e-3,
    optimum="local",
)
case(inference, name="lfi dme Algorithm 8.1", method="dme", n_prior=200, objective="evidence", robust=False)
case(inference, name="lfi kelfi", method="kelfi", n_prior=200)
case(inference, name="lfi kelfi given", method="kelfi", n_prior=200, regularization=1e-3, optimum="local")
for variant_name, regularizer_name in (("a", "I"), ("a", "II"), ("b", "I"), ("b", "II")):
    case(
        inference,
        name=f"lfi kbr {variant_name} {regularizer_name}",
        method="kbr",
        n_prior=100,
        variant=variant_name,
        regularizer=regularizer_name,
    )
case(inference, name="lfi kabc", method="kabc")
case(inference, name="lfi k2abc", method="k2abc")
case(inference, name="lfi gpsabc", method="gpsabc", simulator=simulator, n_simulations=130, n_samples=200)
case(inference, name="lfi rejection", method="rejection", quantile=0.2)
case(inference, name="lfi rejection adjusted", method="rejection", quantile=0.4, adjustment="linear")
case(inference, name="lfi mcmc", method="mcmc", simulator=simulator, n_simulations=400)
case(inference, name="lfi smc", method="smc", simulator=simulator, n_simulations=400, n_generations=3)
COMPILED = 1e-4  # networks are compiled, for the processor that they run on
case(inference, name="lfi mdn", method="mdn", rounds=0, steps=50, tolerance=COMPILED)
case(inference, name="lfi lfvi", method="lfvi", rounds=0, steps=50, tolerance=COMPILED)


@case
def dme_given_kernels():
    from decond import lfi
    from decond.kernels import RBF

    prior, sims, observed = inference_problem()
    method = lfi.DME(
        RBF(0.5), RBF(0.5), 1e-3, 1e-3, coordinates="raw", summary="none", query_points=prior.sample(80, seed=3)
    )
    posterior = method.fit(sims, prior).posterior(summarize(observed))
    return beliefs(posterior) | {"weights": posterior.embedding.weights, "points": posterior.embedding.points}


def rounds(method):
    from decond import lfi

    prior, _, observed = inference_problem()
    posterior = lfi.infer(simulator, prior, summarize(observed), n_simulations=100, rounds=2, method=method, seed=1)
    return beliefs(posterior) | {"theta": posterior.simulations.theta, "x": posterior.simulations.x}


case(rounds, name="infer auto", method="auto")
case(rounds, name="infer dme", method="dme")


@case
def stored_simulations():
    from decond import lfi

    prior, _, _ = inference_problem()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "runs.sqlite"
        calls = [
            lfi.simulate(failing_simulator, prior, n=n, seed=4, n_jobs=1, store=store, progress=False)
            for n in (20, 30, 30)
        ]
        proposed = lfi.simulate(
            failing_simulator, prior, seed=4, n_jobs=1, store=store, progress=False, proposal=calls[0].theta[:5]
        )
    found = {}
    for name, sims in zip(("first", "more", "again", "proposed"), [*calls, proposed], strict=True):
        found |= {f"{name} theta": sims.theta, f"{name} x": sims.x, f"{name} valid": sims.valid}
    return found


@case
def simulations_from_raw_data():
    from decond import lfi

    prior, _, _ = inference_problem()
    sims = lfi.simulate(draw, prior, n=10, seed=4, summarize=summarize, progress=False)
    return {"theta": sims.theta, "x": sims.x, "raw": sims.raw}


# ---- the file ------------------------------------------------------------------------------------------------


def stored() -> dict[str, dict[str, np.ndarray]]:
    """Return the values of every case, as they were written."""
    found = json.loads(VALUES.read_text())
    return {
        name: {key: np.array(value, dtype=np.float64) for key, value in values.items()}
        for name, values in found.items()
    }


def main() -> None:
    """Compute every case and write its values, one line an array."""
    lines = []
    for name, chosen in CASES.items():
        values = [f"  {json.dumps(key)}: {json.dumps(value.tolist())}" for key, value in chosen.run().items()]
        lines.append(f"{json.dumps(name)}: {{\n" + ",\n".join(values) + "\n}")
    VALUES.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
