"""Several methods of likelihood-free inference on one problem: equal simulations, one table, one picture."""

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from decond.checks import as_count
from decond.comparison_table import Comparison, averaged, checked_seeds, said
from decond.lfi.compared import (
    Given,
    built,
    checked_budget,
    chosen_methods,
    given_problem,
    takes_raw,
)
from decond.lfi.exceptions import ComparisonError, SimulationError
from decond.lfi.inference import check_on_few, infer
from decond.lfi.judging import Judge
from decond.lfi.methods.base import Method, summarized_observation
from decond.lfi.methods.rejection import RejectionABC
from decond.lfi.posterior import Posterior
from decond.lfi.prior import Prior
from decond.lfi.simulate import simulate
from decond.lfi.simulations import Simulations
from decond.lfi.store import SimulationStore
from decond.plotting import ComparisonDisplay, Rows
from decond.progress import progress_bar

__all__ = ["compare"]

NEEDS_RAW = (
    "Left out: it compares raw data sets, and there are only summaries. Give a simulator and an observation of raw "
    "data, and summarize, which makes the summaries."
)
SHOWN_PARAMETERS = 4
"""Parameters whose intervals a picture shows at most."""


def compare(
    simulator: Any,
    prior: Prior | None = None,
    observed: Any = None,
    methods: str | Sequence[str | Method] | Mapping[str, str | Method] = "all",
    n_simulations: int = 1000,
    *,
    seeds: int | Sequence[int] = 1,
    rounds: int = 3,
    reference: Any = None,
    true_parameters: Any = None,
    calibrate: bool | None = None,
    batched: bool = False,
    summarize: Callable[[Any], Any] | None = None,
    n_jobs: int | None = None,
    timeout: float | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Run several methods on one simulator and one observation, and return one table and one picture.

    Every method may use `n_simulations` at most. Draws of the prior are simulated once for each seed, and all methods
    share them; what methods simulate beyond them, in rounds or by themselves, is their own. `seconds` is what a
    method would take alone: its own time, and its part of that of the shared simulations.

    **Accuracy**, where the true posterior is known: for one parameter the total variation between its density and
    that of the method, from draws (0 is perfect, but the exact posterior itself gets about 0.015; 1 is hopeless); for
    several the accuracy of a classifier that tells draws of both apart (C2ST: 0.5 is perfect, 1 is hopeless).
    **Calibration**, where it is not: the share of held-out simulations whose parameters lie in the 95 % interval of a
    posterior that was fitted without them, in one round on draws of the prior, for the first seed only. Methods that
    run the simulator themselves are not judged: they would have to do so for each.

    A method that fails, or whose extra is not installed, is a row with the reason among its notes.

    Args:
        simulator: As `lfi.infer` takes it; or a problem such as `problems.exponential_gamma()`, which has everything.
        prior: The prior.
        observed: The observation; with `summarize` as the simulator returns it.
        methods: "all", names (see `lfi.METHODS`; also "lfvi_hinge") and methods, or a mapping from labels to them.
        n_simulations: How many simulations each method may use, all counted.
        seeds: Of simulations and methods: how many, or which. The table holds means over them.
        rounds: For methods that simulate in rounds.
        reference: The true posterior: its log density at rows of parameters, up to a constant, or draws of it (at
            least 200).
        true_parameters: What the observation was made with, a row or a dict; the table says how often 95 % intervals
            hold it.
        calibrate: Whether to judge calibration; by default where there is no reference.
        batched: Whether the simulator takes many rows at once.
        summarize: Turns what the simulator returns into summaries. Methods that compare raw data sets need it.
        n_jobs: How many simulations run at once, as in `lfi.simulate`.
        timeout: Seconds after which a simulation counts as failed.
        progress: Show a bar; by default on a terminal only.

    >>> from scipy import stats
    >>> prior = Prior({"mean": stats.norm(0, 2)})
    >>> def simulator(theta, rng):
    ...     return theta + 0.5 * rng.standard_normal(theta.shape)
    >>> exact = stats.norm(16 / 17, 2 / 17**0.5)
    >>> found = compare(simulator, prior, [1.0], ["rejection", "residual"], 100, batched=True, reference=exact.logpdf)
    >>> found.best, list(found.frame.columns[:2])
    ('residual', ['total variation', 'mean low'])
    """
    given = given_problem(simulator, prior, observed, reference, true_parameters, batched, summarize)
    chosen = chosen_methods(methods)
    given = given.checked(raw=any(map(takes_raw, chosen.values())))
    budget = checked_budget(n_simulations, given.prior)
    rounds, chosen_seeds = as_count(rounds, "rounds"), checked_seeds(seeds)
    judge = Judge.of(given.prior, given.reference, given.true_parameters, calibrate)
    options = {"batched": given.batched, "summarize": given.summarize, "n_jobs": n_jobs, "timeout": timeout}
    runs: list[Run] = []
    total = len(chosen) * len(chosen_seeds)
    with TemporaryDirectory() as folder, progress_bar("comparing", total, progress) as report:
        for seed in chosen_seeds:
            report(len(runs), words="comparing: simulating")
            shared = Shared.simulated(given, budget, seed, options, Path(folder) / f"{seed}.sqlite")
            for label, method in chosen.items():
                report(len(runs), words=f"comparing: {label}")
                runs.append(_run(label, method, shared, rounds, judge, first=seed == chosen_seeds[0]))
        report(len(runs), words="comparing")
    return _concluded(given, judge, runs, budget)


# ---- running -------------------------------------------------------------------------------------------------


class Shared(NamedTuple):
    """Simulations at draws of the prior that all methods of one seed may use, in a closed store."""

    given: Given
    seed: int
    options: dict[str, Any]
    path: Path
    sims: Simulations
    seconds: float

    @classmethod
    def simulated(cls, given: Given, budget: int, seed: int, options: dict[str, Any], path: Path) -> "Shared":
        """Run them, the first few alone, so that an observation of another kind is refused early."""
        begin = time.perf_counter()
        seen = given.observed
        if given.summarize is not None:
            seen = summarized_observation(seen, given.summarize)
        simulator, prior, like = given.simulator, given.prior, RejectionABC()
        with SimulationStore(path, prior) as store, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # each method says what it makes of failures
            run = {**options, "store": store}
            try:
                check_on_few(like, simulator, prior, seen, budget, seed, run)
                sims = simulate(simulator, prior, budget, seed=seed, round=0, **run)
            except SimulationError as error:
                if not error.failures:
                    raise
                raise SimulationError(_without_store(str(error)), failures=error.failures) from None
            like.check_observation(seen, sims)
        return cls(given, seed, options, path, sims, time.perf_counter() - begin)

    def cost_of(self, sims: Simulations | None) -> float:
        """Return the seconds of those simulations that are among the shared ones."""
        if sims is None:
            return 0.0
        mine = {row.tobytes() for row in self.sims.theta}
        return self.seconds * sum(row.tobytes() in mine for row in sims.theta) / len(self.sims)

    @contextlib.contextmanager
    def own_copy(self) -> Iterator[Path]:
        """Yield the file of a store that holds the shared simulations and may be added to."""
        copied = self.path.with_suffix(".own.sqlite")
        copied.write_bytes(self.path.read_bytes())
        try:
            yield copied
        finally:
            copied.unlink()


def _without_store(message: str) -> str:
    """Leave out what is advised about the store, which is gone after a comparison."""
    return message.split(" The store keeps failures", 1)[0]


class Run(NamedTuple):
    """What one method gave with one seed."""

    label: str
    seed: int
    posterior: Posterior | None
    row: dict[str, Any]
    error: Exception | None = None


def _run(label: str, method: str | Method, shared: Shared, rounds: int, judge: Judge, first: bool) -> Run:
    """Run one method and judge it; whatever it raises is the reason why its row, or a part of it, is empty."""
    begin = time.perf_counter()
    given = shared.given
    try:
        with warnings.catch_warnings(record=True) as caught, shared.own_copy() as store:
            warnings.simplefilter("always", UserWarning)
            own = built(method, shared.seed)
            if own.takes_raw and given.summarize is None:
                return Run(label, shared.seed, None, {"notes": NEEDS_RAW})
            posterior = infer(
                given.simulator,
                given.prior,
                given.observed,
                len(shared.sims),
                rounds,
                own,
                seed=shared.seed,
                store=store,
                **shared.options,
            )
            row: dict[str, Any] = judge.intervals(posterior)
            row["seconds"] = time.perf_counter() - begin + shared.cost_of(posterior.simulations)
    except Exception as error:  # one method may not take the others down; the error is kept
        return Run(label, shared.seed, None, {"notes": f"did not run: {error}"}, error)
    parts = {"accuracy": lambda: judge.accuracy(posterior)}
    if first and judge.calibrates:
        parts["calibration"] = lambda: judge.calibration(built(method, shared.seed), shared.sims, shared.seed)
    judged, failed, told = _judged(parts)
    notes = [*told, *(str(warning.message) for warning in caught)]
    return Run(label, shared.seed, posterior, {**judged, **row, **_counts(posterior), "notes": said(notes)}, failed)


def _judged(
    parts: Mapping[str, Callable[[], dict[str, Any]]],
) -> tuple[dict[str, Any], Exception | None, list[str]]:
    """Return what judging gives, the last error, and what there is to say; a part that fails leaves the others."""
    row: dict[str, Any] = {}
    failed, notes = None, []
    for name, judged in parts.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of refits; said of the method itself already
                row |= judged()
        except Exception as error:  # the method has run; only this is not known of it
            failed = error
            notes.append(f"{name} is not judged: {error}")
    return row, failed, [row.pop("said", ""), *notes]


def _counts(posterior: Posterior) -> dict[str, int]:
    sims = posterior.simulations
    return {} if sims is None else {"simulations": len(sims), "failed": sims.n_failed}


# ---- the table and the picture -------------------------------------------------------------------------------


def _concluded(given: Given, judge: Judge, runs: list[Run], budget: int) -> Comparison:
    import pandas as pd

    found = {run.label: run.posterior for run in reversed(runs) if run.posterior is not None}
    errors = {run.label: run.error for run in reversed(runs) if run.error is not None}
    if not found:
        reasons = "; ".join(f"{run.label} {run.row['notes']}" for run in runs)
        raise ComparisonError(f"no method gave a posterior: {reasons}", errors)
    table = pd.DataFrame([{"method": run.label, "seed": run.seed, **run.row} for run in runs])
    table = table[["method", "seed", *(name for name in judge.columns if name in table), "notes"]]
    frame = averaged(table, judge.measure)
    notes = [f"Each method had {budget} simulations at most.", *judge.notes]
    display = ComparisonDisplay(list(frame.index), _panels(frame, judge, given.prior), given.prior.dim)
    ordered = {label: found[label] for label in frame.index if label in found}
    return Comparison(given.name, frame, table, display, judge.measure, ordered, errors, notes)


def _meaning(judge: Judge) -> str:
    """Return what is drawn in the panels of parameters."""
    exact = ["band: exact"] if judge.reference is not None else []
    truth = ["line: true value"] if judge.true_parameters is not None else []
    return ", ".join(["95 % intervals", *exact, *truth])


def _panels(frame: Any, judge: Judge, prior: Prior) -> list[Rows]:
    """Return intervals of the first few parameters, the measure or the calibration, and the seconds."""
    panels = []
    for j, name in enumerate(prior.names[:SHOWN_PARAMETERS]):
        ends = frame[[f"{name} low", f"{name} median", f"{name} high"]]
        truth = None if judge.true_parameters is None else float(judge.true_parameters[j])
        spans = dict(zip(frame.index, ends.to_numpy(), strict=True))
        panels.append(Rows(name, spans, truth, judge.exact_span(j), note=_meaning(judge) if j == 0 else ""))
    for column, ideal, start in judge.shown:
        if column in frame and frame[column].notna().any():
            panels.append(Rows(column, frame[column].to_dict(), ideal, start=start))
    return [*panels, Rows("seconds", frame["seconds"].to_dict(), log=True)]
