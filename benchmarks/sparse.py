"""Many rows, few inducing points: us, GPyTorch's SGPR, scikit-learn's Nyström + ridge, and the operation count.

The yardstick is the time that the machine takes for the same number of operations as plain matrix products, in the
same run. Peers are checked to compute the same quantity before anybody is timed.
"""

import sys
from typing import Any

import numpy as np

from benchmarks.peer import Costs, Field, Peer
from benchmarks.report import plot_times, with_ratios
from benchmarks.timing import best_times, growth, limit_seconds, matrix_products
from decond import kernels
from decond.plotting.display import new_figure
from decond.streaming import SparseModel, Table

COLUMNS = 3
ROWS, POINTS = (10**4, 10**5, 10**6, 10**7), (64, 128, 256, 512)
AT_ROWS, AT_POINTS = 10**5, 256
"""Where the other size is held when one of them grows."""
FIT_ROWS = (10**4,)
QUICK_ROWS, QUICK_POINTS = (2000, 4000), (16, 32)

RECIPE = {"sample": 10_000, "iterations": 100, "full_iterations": 10}
"""How `SparseGP` learns by default, followed by GPyTorch too."""
MOST_FIT_SECONDS = 60.0

VARIANCE, NOISE, NO_MEDIATOR_NOISE = 1.5, 0.3, 1e-6
LENGTHSCALE = np.linspace(1.0, 2.0, COLUMNS)
NYSTROEM_LENGTHSCALE = 0.6
"""Short, so that scikit-learn's rounding of small eigenvalues does not show."""

GRADIENT, GIVEN, FIT = "value and gradient", "fit at given hyperparameters", "fit with learned hyperparameters"


def function(x: np.ndarray) -> np.ndarray:
    """Return a smooth function of all columns."""
    values: np.ndarray = np.sin(3.0 * x[:, 0]) * x[:, 1] + np.cos(x).sum(axis=1)
    return values


def problem(m: int, d: int = COLUMNS) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and noisy targets."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (m, d))
    return x, function(x) + 0.3 * rng.standard_normal(m)


def setting(m: int, n: int) -> dict[str, Any]:
    """Return everything that a system may need to know of a problem."""
    x, z = problem(m)
    x_new = np.random.default_rng(1).uniform(-2.0, 2.0, (1000, COLUMNS))
    numbers = {"variance": VARIANCE, "noise": NOISE, "nystroem_lengthscale": NYSTROEM_LENGTHSCALE, **RECIPE}
    arrays = {"x": x, "z": z, "inducing": x[:n].copy(), "lengthscale": LENGTHSCALE}
    return {**arrays, "x_new": x_new, "f_new": function(x_new), **numbers}


def run(peers: str | None = None, quick: bool = False) -> dict[str, Any]:
    """Let the rows grow, then the points; then whole fits."""
    rows, points = (QUICK_ROWS, QUICK_POINTS) if quick else (ROWS, POINTS)
    at_rows, at_points = (QUICK_ROWS[0], QUICK_POINTS[-1]) if quick else (AT_ROWS, AT_POINTS)
    sizes = [(m, at_points) for m in rows] + [(at_rows, n) for n in points if n != at_points]
    tables: dict[str, list[dict[str, Any]]] = {GRADIENT: [], GIVEN: []}
    for kind, compare, script in (
        (GRADIENT, compare_gradient, {"GPyTorch SGPR": "gpytorch_sparse"}),
        (GIVEN, compare_given, {"Nyström + ridge": "scikit_learn_nystroem"}),
    ):
        field = Field(script, {"GPyTorch SGPR"}, peers)
        for m, n in sizes if kind == GRADIENT else sizes[:2]:
            tables[kind].append(with_ratios({"m": m, "n": n, **compare(m, n, field)}))
            print(kind, tables[kind][-1], flush=True)
    fits = [compare_fit(m, at_points, tables[GRADIENT], peers) for m in (rows[:1] if quick else FIT_ROWS)]
    return {
        "benchmark": "sparse Gaussian process of many rows",
        "notes": NOTES,
        **tables,
        FIT: fits,
        **{f"growth in m, n = {at_points}: {name}": p for name, p in exponents(tables[GRADIENT], "m", at_points)},
        **{
            f"growth in m from {at_rows}, n = {at_points}: {name}": p
            for name, p in exponents([row for row in tables[GRADIENT] if row["m"] >= at_rows], "m", at_points)
        },
        **{f"growth in n, m = {at_rows}: {name}": p for name, p in exponents(tables[GRADIENT], "n", at_rows)},
    }


NOTES = [
    f"Seconds of the best of several rounds in turn; m rows of {COLUMNS} columns, n inducing points, float64, all "
    "cores for everybody.",
    "Value and gradient: Matern-3/2 with a lengthscale for each column; gradient with respect to all of these, "
    "variance, noise and inducing points. Ours has τ = σ, as in the paper; with τ = 1e-6 it is the model of "
    "GPyTorch's SGPR but for the trace term, which costs O(mn) in addition. Without it, its value agrees with ours "
    "to 1e-6 and its gradient to 1e-4 of the largest entry. Limit: 4mn² operations, one product and a symmetric one "
    "for the value, one product for the gradient; where k(u, u) + τ²I is well-conditioned, ours needs 3mn².",
    "Fit at given hyperparameters: RBF; us, sums over the rows and the posterior; scikit-learn, "
    "make_pipeline(Nystroem, Ridge).fit. Predictions agree to 1e-4. Limit: mn² operations, one symmetric product.",
    "Fit with learned hyperparameters and inducing points: `SparseGP(n_inducing=n).fit`, and GPyTorch's SGPR by the "
    "same recipe from the first n rows and our benchmark's start: L-BFGS-B, 100 iterations on 10,000 rows, then 10 "
    "on all if there are more than twice as many. RMSE is against the noiseless function; GB is the peak of "
    "a process of its own, imports and rows included.",
]


def compare_gradient(m: int, n: int, field: Field) -> dict[str, Any]:
    """Return seconds of one evidence with gradient."""
    known = setting(m, n)
    model = SparseModel(VARIANCE * kernels.Matern32(LENGTHSCALE), known["inducing"], NOISE)
    comparable = model.replace(mediator_noise=NO_MEDIATOR_NOISE)
    table = Table(known["x"], known["z"])
    operations = 4.0 * m * n**2
    with field.ready(known, Costs(operations, m * n)) as (peers, absent):
        for peer in peers.values():
            check_gradient(peer, comparable, table)
        return {**_timed(lambda: model.log_evidence_and_gradient(table), operations, peers), **absent}


def check_gradient(peer: Peer, model: SparseModel, table: Table) -> None:
    """Refuse to time a peer that computes something else."""
    theirs = peer.ask("check")
    value, gradient = model.log_evidence_and_gradient(table)
    np.testing.assert_allclose(theirs["value"], value, rtol=1e-6)
    paths = {"lengthscale": "kernel.kernel.lengthscale", "variance": "kernel.variance"}
    for name in ("lengthscale", "variance", "noise", "inducing"):
        ours = np.asarray(gradient[paths.get(name, name)])
        np.testing.assert_allclose(theirs[name], ours, rtol=1e-4, atol=1e-4 * np.abs(ours).max(), err_msg=name)


def compare_given(m: int, n: int, field: Field) -> dict[str, Any]:
    """Return seconds of a fit that learns nothing."""
    known = setting(m, n)
    table = Table(known["x"], known["z"])
    kernel = kernels.RBF(NYSTROEM_LENGTHSCALE)

    def fit(points: np.ndarray = known["inducing"]) -> Any:
        model = SparseModel(kernel, points, NOISE, mediator_noise=0.0)
        return model.condition(model.statistics(table))

    operations = 1.0 * m * n**2
    with field.ready(known, Costs(operations, m * n)) as (peers, absent):
        for peer in peers.values():
            peer.ask()
            theirs = peer.ask("predict")
            ours = fit(np.array(theirs["components"])).mean(known["x_new"])
            np.testing.assert_allclose(theirs["mean"], ours, rtol=1e-4, atol=1e-4)
        return {**_timed(fit, operations, peers), **absent}


def compare_fit(m: int, n: int, evaluated: list[dict[str, Any]], peers: str | None) -> dict[str, Any]:
    """Return seconds, accuracy and memory of one whole fit; GPyTorch's only if it would not take too long."""
    known = setting(m, n)
    row: dict[str, Any] = {"m": m, "n": n, "decond": "", "GPyTorch SGPR": _reason_not_to_fit(m, n, evaluated)}
    for name, script, interpreter in (
        ("decond", "decond_sparse", sys.executable),
        ("GPyTorch SGPR", "gpytorch_sparse", peers),
    ):
        if row[name] or interpreter is None:
            continue
        with Peer(script, known, interpreter) as peer:
            answer = peer.ask("fit")
            row[name] = peer.best["fit"]
            row[f"{name}: RMSE"], row[f"{name}: GB"] = answer["rmse"], peer.peak
    print(FIT, row, flush=True)
    return with_ratios(row)


def _reason_not_to_fit(m: int, n: int, evaluated: list[dict[str, Any]]) -> str:
    """Foretell GPyTorch's fit from its evaluations: of the sample, and of all rows where there are more."""
    seconds = {row["m"]: row["GPyTorch SGPR"] for row in evaluated if row["n"] == n}
    if isinstance(seconds[m], str):
        return str(seconds[m])
    more = 0.0 if m <= 2 * RECIPE["sample"] else seconds[m] * RECIPE["full_iterations"]
    expected = 1.2 * (seconds[min(seconds)] * RECIPE["iterations"] + more)
    return "too slow" if expected > MOST_FIT_SECONDS else ""


def exponents(rows: list[dict[str, Any]], size: str, at: int) -> list[tuple[str, float]]:
    """Return the exponent of growth of every system that ran at three sizes or more, the other size held."""
    other = "n" if size == "m" else "m"
    found = []
    for name in ("decond", "GPyTorch SGPR"):
        timed = [(row[size], row[name]) for row in rows if row[other] == at and isinstance(row[name], float)]
        if len(timed) > 2:
            found.append((name, growth(*zip(*timed, strict=True))))
    return found


def plot(result: dict[str, Any]) -> Any:
    """Draw seconds against the rows, and against the points."""
    figure, axes = new_figure(4, size=(13.0, 3.6))
    rows = result[GRADIENT]
    at_points = rows[0]["n"]
    at_rows = next(row["m"] for row in rows if row["n"] != at_points)
    by_points = sorted((row for row in rows if row["m"] == at_rows), key=lambda row: int(row["n"]))
    plot_times(axes[0], [row for row in rows if row["n"] == at_points], "m", f"{GRADIENT}, n = {at_points}")
    plot_times(axes[1], by_points, "n", f"{GRADIENT}, m = {at_rows:,}")
    plot_times(
        axes[2],
        [row for row in result[GIVEN] if row["n"] == at_points],
        "m",
        f"fit, nothing learned, n = {at_points}",
    )
    plot_times(axes[3], result[FIT], "m", f"fit, all learned, n = {at_points}")
    return figure


def _timed(ours: Any, operations: float, peers: dict[str, Peer]) -> dict[str, float]:
    """Return seconds by system; what runs for long was warm before."""
    functions = {"decond": ours, "limit": matrix_products(operations)}
    clocks = {name: peer.clock for name, peer in peers.items()}
    times = best_times(functions, clocks, repeats=15, budget=12.0, warm_up=operations < 1e12)
    return {**times, "limit": limit_seconds(times["limit"], operations)}
