"""Models side by side on random problems with known truth (`zoo_problems`), with right and with wrong facts.

A fact is what a target is: of a mediator of numbers, f at one latent input or E[f(X) | y]; of groups, the mean over
the listed rows or over more rows than are listed. Two small sets follow: multiplicative noise, and little noise.

Settings are chosen on seeds below 1000; seeds from 1000 are for reporting.
"""

import contextlib
import functools
import inspect
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np

from benchmarks.zoo_problems import KINDS, MULTIPLICATIVE, SMALL_NOISE, Problem, multiplicative, small_noise
from benchmarks.zoo_problems import problem as draw_problem
from decond.estimators import AggregateGP, CascadeGP, EcologicalGP, ImputeGP, TaskTransformedGP
from decond.gp import condition

Fit = Callable[[Problem], Any]
Row = dict[str, Any]

RIGHT, WRONG, PLAIN, CASCADE = "default, right facts", "default, wrong facts", "plain", "cascade"
FIRST_SEED = 1000
NOTES = [
    "RMSE and width (mean error bar) are in units of the spread of f; coverage is of ± 2 standard deviations.",
    "Ratios are of means over problems that neither model failed on; seconds are those of the processor.",
    "Learned noise is relative to the true one, of problems where the model's resolution is above 1. Below 1 error "
    "bars cannot be relied on, so coverage is also given without these problems.",
    "The best start is the optimum, of those that a search found from its starts, that errs least.",
]


def fit_right_facts(problem: Problem) -> Any:
    """Fit the default model, and say what a target is."""
    if problem.kind in ("single", MULTIPLICATIVE):
        return _mediated(problem, targets="single")
    if problem.kind == "mean":
        return _mediated(problem)
    return _grouped(problem) if problem.group_sizes is None else _grouped(problem, group_sizes=problem.group_sizes)


def fit_wrong_facts(problem: Problem) -> Any:
    """Fit the default model, and say the opposite of what a target is."""
    if problem.kind == "mean":
        return _mediated(problem, targets="single")
    if not problem.has_groups:
        return _mediated(problem)
    return _grouped(problem, group_sizes=np.inf) if problem.group_sizes is None else _grouped(problem)


def fit_plain(problem: Problem) -> Any:
    """Fit the paper's model; of groups, the mean over the listed rows with hyperparameters of maximal evidence."""
    if problem.has_groups:
        return AggregateGP(uncertainty="plain").fit(problem.x, problem.y, _by_label(problem))
    return _mediated(problem, uncertainty="plain")


def fit_cascade(problem: Problem) -> Any:
    """Predict y from x, then z from y."""
    return CascadeGP().fit(problem.x, problem.y, problem.y_task, problem.z)


def fit_impute(problem: Problem) -> Any:
    """Impute z at the pairs, then regress it on x."""
    return ImputeGP().fit(problem.x, problem.y, problem.y_task, problem.z)


def fit_ecological(problem: Problem) -> Any:
    """Regress z on E[x | y]."""
    return EcologicalGP().fit(problem.x, problem.y, problem.y_task, problem.z)


MODELS: dict[str, Fit] = {
    RIGHT: fit_right_facts,
    WRONG: fit_wrong_facts,
    PLAIN: fit_plain,
    CASCADE: fit_cascade,
    "impute": fit_impute,
    "on E[x|y]": fit_ecological,
}


@dataclass(frozen=True)
class Limits:
    """Where a score counts as bad or good."""

    low_coverage: float = 0.75
    noise_factor: float = 1.5
    """A learned noise is close to the truth within this factor."""
    resolution: float = 1.0
    """A learned noise is compared only above this resolution: below it, noise and f cannot be told apart."""
    lost: float = 1.5
    """A fit is lost to a bad start if it errs by more than this times the best one."""
    matters: float = 0.8
    """Facts matter where right ones bring the RMSE to this share of the RMSE with wrong ones, or lower."""


@dataclass(frozen=True)
class Job:
    """What is done to every problem, in a process of its own if there are several."""

    draw: Callable[[int], Problem]
    models: Mapping[str, Fit]
    check: bool = False
    """Whether to compare the default models with the other setting, by ``model.check()``."""

    def __call__(self, seed: int) -> list[Row]:
        """Return the scores of every model on one problem, and print them as they come."""
        _warm_up()
        drawn = self.draw(seed)
        rows, fitted = {}, {}
        for name, fit in self.models.items():
            scores, fitted[name] = score(drawn, fit)
            rows[name] = {"kind": drawn.kind, "seed": seed, "model": name, **scores}
            print(_line(rows[name]), flush=True)
        if self.check:
            for name, other in ((RIGHT, WRONG), (WRONG, RIGHT)):
                if fitted.get(name) is not None and fitted.get(other) is not None:
                    rows[name]["hint"] = _hint(fitted[name], fitted[other])
                    print(f"{name}: hint {rows[name]['hint'] or 'none'}", flush=True)
        return list(rows.values())


def score(problem: Problem, fit: Fit) -> tuple[Row, Any]:
    """Fit a model to a problem and return its scores and the model; of one that raises, the message and None.

    Parameters
    ----------
    problem : Problem
        Tables and truth.
    fit : callable
        Returns a fitted model for a problem.

    Returns
    -------
    row : dict
        ``rmse`` and ``width`` (mean error bar) in units of the spread of f, ``coverage`` of ±2 standard deviations,
        ``noise`` relative to the true one, ``resolution`` and processor ``seconds`` of the fit; with small noise also
        ``best_start``, the ``rmse`` of the best optimum. What a model does not have is left out. ``failure`` is the
        message of what was raised.
    model : object or None
    """
    row: Row = {}
    model = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            start = time.process_time()
            model = fit(problem)
            row["seconds"] = time.process_time() - start
            row |= _accuracy(model, problem) | _noise(model, problem)
            if problem.kind == SMALL_NOISE:
                row |= _best_start(model, problem)
        except Exception as error:
            row["failure"] = " ".join(f"{type(error).__name__}: {error}".split())
    return row, model


def run_kind(
    kind: str,
    draws: int = 20,
    first_seed: int = FIRST_SEED,
    check: bool = False,
    n_jobs: int = 1,
    models: Mapping[str, Fit] | None = None,
) -> list[Row]:
    """Return the scores of every model on every problem of one of the four kinds."""
    job = Job(functools.partial(draw_problem, kind), models or MODELS, check)
    return _run_jobs(job, range(first_seed, first_seed + draws), n_jobs)


def run_multiplicative(draws: int = 8, first_seed: int = FIRST_SEED, n_jobs: int = 1) -> list[Row]:
    """Return scores with noise proportional to f and one latent input for each target."""
    job = Job(multiplicative, {name: MODELS[name] for name in (RIGHT, PLAIN, CASCADE)})
    return _run_jobs(job, range(first_seed, first_seed + draws), n_jobs)


def run_small_noise(draws: int = 20, first_seed: int = FIRST_SEED, n_jobs: int = 1) -> list[Row]:
    """Return scores for few complete groups with two inputs and noise of 2 %."""
    return _run_jobs(Job(small_noise, MODELS), range(first_seed, first_seed + draws), n_jobs)


def run(
    kinds: Iterable[str] | None = None,
    draws: int = 20,
    first_seed: int = FIRST_SEED,
    check: bool = False,
    n_jobs: int = 1,
    models: Mapping[str, Fit] | Iterable[str] | None = None,
) -> dict[str, Any]:
    """Compare models on problems of every kind, and on the two small sets.

    Parameters
    ----------
    kinds : iterable of str, optional
        Some of the four kinds, "multiplicative" and "small noise"; all by default.
    draws : int
        Problems of each kind; the small sets have sizes of their own, 8 and 20.
    first_seed : int
        Seed of the first problem of each kind.
    check : bool
        Whether to count hints, of the four kinds: what ``model.check()`` says of right against wrong facts.
    n_jobs : int
        Processes, each with one BLAS thread if there are several.
    models : mapping from name to callable, or iterable of names, optional
        What is compared on the four kinds; `MODELS` by default.

    Returns
    -------
    dict
        A table of `summary` for each kind, a table of hints if `check`, and a table of failures if there are any.
    """
    chosen = dict(models) if isinstance(models, Mapping) else {name: MODELS[name] for name in models or MODELS}
    sets: dict[str, Callable[..., list[Row]]] = {
        **{kind: functools.partial(run_kind, kind, draws, check=check, models=chosen) for kind in KINDS},
        MULTIPLICATIVE: run_multiplicative,
        SMALL_NOISE: run_small_noise,
    }
    rows = {kind: sets[kind](first_seed=first_seed, n_jobs=n_jobs) for kind in kinds or sets}
    result: dict[str, Any] = {"benchmark": f"zoo of random problems, seeds from {first_seed}", "notes": NOTES}
    result |= {kind: summary(table) for kind, table in rows.items()}
    if check:
        result["hints"] = [{"kind": kind, **hints(table)} for kind, table in rows.items() if kind in KINDS]
    failures = [
        {
            name: row[key]
            for name, key in (("kind", "kind"), ("seed", "seed"), ("model", "model"), ("raised", "failure"))
        }
        for table in rows.values()
        for row in table
        if "failure" in row
    ]
    return result | ({"failures": failures} if failures else {})


def summary(rows: Sequence[Row], limits: Limits | None = None) -> list[Row]:
    """Return one line for each model with means over problems; what no problem has a value for is left out."""
    limits = limits or Limits()
    by_model = {name: [row for row in rows if row["model"] == name] for name in dict.fromkeys(_column(rows, "model"))}
    return [_summary_line(name, of_model, by_model, limits) for name, of_model in by_model.items()]


def hints(rows: Sequence[Row], limits: Limits | None = None) -> Row:
    """Count hints: false ones with right facts, and those with wrong facts where right facts are much better."""
    limits = limits or Limits()
    right, wrong = ({row["seed"]: row for row in rows if row["model"] == name} for name in (RIGHT, WRONG))
    asked = [row for row in right.values() if "hint" in row]
    matter = [
        row
        for seed, row in wrong.items()
        if "hint" in row and "rmse" in right.get(seed, {}) and right[seed]["rmse"] <= limits.matters * row["rmse"]
    ]
    return {
        "right facts": len(asked),
        "false hints": sum(bool(row["hint"]) for row in asked),
        "wrong facts": sum("hint" in row for row in wrong.values()),
        "facts matter": len(matter),
        "hints where facts matter": sum(bool(row["hint"]) for row in matter),
        "hints with wrong facts": sum(bool(row.get("hint")) for row in wrong.values()),
    }


def _summary_line(name: str, rows: list[Row], by_model: Mapping[str, list[Row]], limits: Limits) -> Row:
    coverage = _column(rows, "coverage")
    line: Row = {"model": name, "problems": len(_column(rows, "rmse")), "failures": len(_column(rows, "failure"))}
    line["RMSE"] = _mean(_column(rows, "rmse"))
    line |= {f"RMSE / {other}": _ratio(rows, by_model.get(other, []), "rmse") for other in (PLAIN, CASCADE)}
    line["coverage"] = _mean(coverage)
    if coverage:
        line[f"coverage < {limits.low_coverage}"] = sum(value < limits.low_coverage for value in coverage)
    resolved = [row for row in rows if row.get("resolution", 0.0) > limits.resolution]
    line[f"coverage, resolution > {limits.resolution:g}"] = _mean(_column(resolved, "coverage"))
    line["width"] = _mean(_column(rows, "width"))
    line["resolution"] = _median(_column(rows, "resolution"))
    told = _column(resolved, "noise")
    if told:
        close = [1.0 / limits.noise_factor <= value <= limits.noise_factor for value in told]
        line |= {
            "noise of": len(told),
            "noise": _median(told),
            f"within {limits.noise_factor}": float(np.mean(close)),
        }
    starts = [row["rmse"] / row["best_start"] for row in rows if "best_start" in row]
    if starts:
        line |= {"largest RMSE / best start": max(starts), f"> {limits.lost}": sum(r > limits.lost for r in starts)}
    line["seconds"] = _mean(_column(rows, "seconds"))
    line["seconds / plain"] = _ratio(rows, by_model.get(PLAIN, []), "seconds")
    return {key: value for key, value in line.items() if value is not None}


def _ratio(rows: Sequence[Row], others: Sequence[Row], key: str) -> float | None:
    """Return the ratio of means over problems for which both models have a value."""
    known = {row["seed"]: row[key] for row in others if key in row}
    pairs = [(row[key], known[row["seed"]]) for row in rows if key in row and row["seed"] in known]
    if not pairs:
        return None
    ours, theirs = np.mean(pairs, axis=0)
    return float(ours / theirs)


def _column(rows: Sequence[Row], key: str) -> list[Any]:
    return [row[key] for row in rows if key in row]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None


def _run_jobs(job: Job, seeds: Iterable[int], n_jobs: int) -> list[Row]:
    if n_jobs == 1:
        return [row for seed in seeds for row in job(seed)]
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        tables = joblib.Parallel(n_jobs=n_jobs)(joblib.delayed(job)(seed) for seed in seeds)
    return [row for table in tables for row in table]


@functools.cache
def _warm_up() -> None:
    """Fit once in this process before anything is timed."""
    score(draw_problem("complete", 0), fit_plain)
    score(draw_problem("single", 0), fit_plain)


def _hint(model: Any, other: Any) -> str:
    """Return the hint of ``model.check()``, which need not fit the other setting again."""
    model._with_other_setting = lambda: ("see the other facts", other)
    hint: str = model.check().hint
    return hint


def _mediated(problem: Problem, **settings: Any) -> Any:
    return TaskTransformedGP(**settings).fit(problem.x, problem.y, problem.y_task, problem.z)


def _grouped(problem: Problem, **facts: Any) -> Any:
    return AggregateGP().fit(problem.x, problem.y, _by_label(problem), **facts)


def _by_label(problem: Problem) -> dict[str, float]:
    return dict(zip(problem.y_task.tolist(), problem.z.tolist(), strict=True))


def _accuracy(model: Any, problem: Problem) -> Row:
    spread = float(problem.f_test.std())
    if "return_std" not in inspect.signature(model.predict).parameters:  # a baseline
        return {"rmse": _rmse(model.predict(problem.x_test), problem) / spread}
    mean, std = model.predict(problem.x_test, return_std=True)
    return {
        "rmse": _rmse(mean, problem) / spread,
        "coverage": float(np.mean(np.abs(mean - problem.f_test) <= 2.0 * std)),
        "width": float(np.mean(std) / spread),
    }


def _rmse(mean: np.ndarray, problem: Problem) -> float:
    return float(np.sqrt(np.mean((mean - problem.f_test) ** 2)))


def _best_start(model: Any, problem: Problem) -> Row:
    """Return the error of the best optimum that the search found, of models that keep their optima."""
    result = getattr(model, "fit_result_", None)
    if result is None or not result.optima:
        return {}
    errors = []
    for values in result.optima:
        found = result.model.with_values(values)
        posterior = condition(found.prior, found.observation, model.average_.z)
        errors.append(_rmse(posterior.mean(problem.x_test) + model.offset_, problem))
    return {"best_start": min(errors) / float(problem.f_test.std())}


def _noise(model: Any, problem: Problem) -> Row:
    row = {}
    if hasattr(model, "noise_") and np.isfinite(problem.noise):
        row["noise"] = float(model.noise_ / problem.noise)
    if hasattr(model, "resolution"):
        with contextlib.suppress(ValueError):  # there is none if the weights of the paper's model do not sum to one
            row["resolution"] = float(model.resolution())
    return row


def _line(row: Row) -> str:
    head = f"{row['kind']:<15}{row['seed']:>5}  {row['model']:<21}"
    values = [f"{key} {row[key]:.3g}" for key in ("rmse", "coverage", "width", "noise", "resolution") if key in row]
    values += [f"{row['seconds']:.1f} s"] if "seconds" in row else []
    return head + "  ".join([*values, *([f"FAILED {row['failure']}"] if "failure" in row else [])])
