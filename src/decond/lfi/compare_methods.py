"""Several methods of likelihood-free inference on one problem: equal simulations, one table, one picture."""

import contextlib
import copy
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from decond.checks import as_count
from decond.comparison import Comparison, Rows, Run, checked_seeds, chosen_by_label, concluded
from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi.diagnostics.accuracy import Scorer
from decond.lfi.exceptions import ComparisonError, SimulationError
from decond.lfi.methods.distance_abc import RejectionABC
from decond.lfi.methods.method import Method, summarized_observation
from decond.lfi.posterior_draws import Observation
from decond.lfi.prior import Prior
from decond.lfi.rounds import METHODS, Simulator, check_budget, check_on_few, infer, method_named
from decond.lfi.simulation import SimulationOptions, SimulationStore, simulate_with
from decond.lfi.simulations import Simulations
from decond.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compare", "method_by_label", "method_variants", "methods_by_label"]


def compare(
    simulator: Any,
    prior: Prior | None = None,
    observed: Observation | None = None,
    methods: str | Sequence[str | Method] | Mapping[str, str | Method] = "all",
    n_simulations: int = 1000,
    *,
    seeds: int | Sequence[int] = 1,
    rounds: int = 3,
    reference: ArrayLike | Callable[[np.ndarray], ArrayLike] | None = None,
    true_parameters: ArrayLike | Mapping[str, float] | None = None,
    calibrate: bool | None = None,
    batched: bool = False,
    summarize: Callable[..., ArrayLike] | None = None,
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
    run the simulator themselves are left out: they would have to do so for each.

    A method that fails, or whose extra is not installed, is a row with the reason among its notes.

    Parameters
    ----------
    simulator : object
        As `lfi.infer` takes it; or a problem such as `problems.exponential_gamma()`, which has everything.
    prior : Prior, optional
        The prior.
    observed : array_like or dict, optional
        The observation; with `summarize` as the simulator returns it.
    methods : str, sequence of str or Method or dict, optional
        "all", names (see `lfi.METHODS`; also "lfvi_hinge") and methods, or a mapping from labels to them.
    n_simulations : int, optional
        How many simulations each method may use, all counted.
    seeds : int or sequence of int, optional
        Of simulations and methods: how many, or which. The table holds means over them.
    rounds : int, optional
        For methods that simulate in rounds.
    reference : array_like or callable, optional
        The true posterior: its log density at rows of parameters, up to a constant, or draws of it (at least
        200).
    true_parameters : array_like or dict, optional
        What the observation was made with, a row or a dict; the table says how often 95 % intervals hold it.
    calibrate : bool, optional
        Whether to check calibration; by default where there is no reference.
    batched : bool, optional
        Whether the simulator takes many rows at once.
    summarize : callable, optional
        Turns what the simulator returns into summaries. Methods that compare raw data sets need it.
    n_jobs : int, optional
        How many simulations run at once, as in `lfi.simulate`.
    timeout : float, optional
        Seconds after which a simulation counts as failed.
    progress : bool, optional
        Show a bar; by default on a terminal only.

    Returns
    -------
    Comparison
        The table, the picture and the posteriors.

    Examples
    --------
    >>> from scipy import stats
    >>> prior = Prior({"mean": stats.norm(0, 2)})
    >>> def simulator(theta, rng):
    ...     return theta + 0.5 * rng.standard_normal(theta.shape)
    >>> exact = stats.norm(16 / 17, 2 / 17**0.5)
    >>> found = compare(simulator, prior, [1.0], ["rejection", "residual"], 100, batched=True, reference=exact.logpdf)
    >>> found.best, list(found.frame.columns[:2])
    ('residual', ['total variation', 'mean low'])
    """
    chosen = methods_by_label(methods)
    raw = any(method == "k2abc" or getattr(method, "takes_raw", False) for method in chosen.values())
    given = _Given.of(simulator, prior, observed, reference, true_parameters, batched, summarize, raw)
    budget = check_budget(n_simulations, given.prior)
    rounds, chosen_seeds = as_count(rounds, "rounds"), checked_seeds(seeds)
    scorer = Scorer.of(given.prior, given.reference, given.true_parameters, calibrate)
    options = SimulationOptions(n_jobs, None, timeout, given.batched, given.summarize)
    runs: list[Run] = []
    with (
        TemporaryDirectory() as folder,
        progress_bar("comparing", len(chosen) * len(chosen_seeds), progress) as report,
    ):
        for seed in chosen_seeds:
            report(len(runs), words="comparing: simulating")
            shared = _Shared.simulated(given, budget, seed, options, Path(folder) / f"{seed}.sqlite")
            for label, method in chosen.items():
                report(len(runs), words=f"comparing: {label}")
                runs.append(shared.run(label, method, rounds, scorer, calibrate=seed == chosen_seeds[0]))
        report(len(runs), words="comparing")
    notes = [f"Each method had {budget} simulations at most.", *scorer.notes]
    return concluded(
        given.name,
        runs,
        scorer.columns,
        scorer.measure,
        notes,
        lambda frame, _: _panels(frame, scorer),
        lambda reasons, errors: ComparisonError(f"no method gave a posterior: {reasons}", errors),
    )


# ---- what is compared --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Given:
    """The problem, from arguments or from an object that has it all."""

    name: str
    simulator: Simulator
    prior: Prior
    observed: Observation
    batched: bool
    summarize: Callable[..., ArrayLike] | None
    reference: ArrayLike | Callable[[np.ndarray], ArrayLike] | None
    true_parameters: ArrayLike | Mapping[str, float] | None

    @classmethod
    def of(
        cls,
        simulator: Any,
        prior: Prior | None,
        observed: Observation | None,
        reference: ArrayLike | Callable[[np.ndarray], ArrayLike] | None,
        truth: ArrayLike | Mapping[str, float] | None,
        batched: bool,
        summarize: Callable[..., ArrayLike] | None,
        raw: bool,
    ) -> "_Given":
        """Return the problem, with raw data sets where methods compare these, or raise if something is missing.

        Parameters
        ----------
        simulator : object
            The simulator, or an object that has everything.
        prior : Prior, optional
            The prior.
        observed : array_like or dict, optional
            The observation.
        reference : object
            The true posterior.
        truth : object
            The true parameters.
        batched : bool
            Whether the simulator takes many rows at once.
        summarize : callable, optional
            Turns what the simulator returns into summaries.
        raw : bool
            Whether a method compares raw data sets.
        """
        problem, name = simulator, str(getattr(simulator, "__name__", "simulator"))
        if all(hasattr(problem, part) for part in ("simulator", "prior", "observed", "batched")):
            repeated = {"prior": prior is not None, "batched": batched, "summarize": summarize is not None}
            if any(repeated.values()):
                first = next(argument for argument, is_given in repeated.items() if is_given)
                raise ArgumentError(
                    first, "a problem has a prior, and says how its simulator is called; leave these arguments out."
                )
            simulator, prior, batched = problem.simulator, problem.prior, problem.batched
            name = str(getattr(problem, "name", "problem"))
            if observed is None:
                observed = problem.observed
                reference = getattr(problem, "log_posterior", None) if reference is None else reference
                truth = getattr(problem, "true_parameters", None) if truth is None else truth
                if raw and getattr(problem, "observed_raw", None) is not None:
                    simulator, observed, summarize = problem.raw_simulator, problem.observed_raw, problem.summarize
        if not isinstance(prior, Prior):
            raise ArgumentTypeError("prior", f"prior is {type(prior).__name__}; give an lfi.Prior.")
        if observed is None:
            raise ArgumentTypeError(
                "observed", "observed is missing; give the observation, a row like those that the simulator returns."
            )
        return cls(name, simulator, prior, observed, batched, summarize, reference, truth)


def method_variants() -> dict[str, tuple[str, dict[str, str]]]:
    """Return the names of all methods that `compare` knows: those of `lfi.METHODS`, and some with other options.

    >>> list(method_variants())[-2:]
    ['lfvi', 'lfvi_hinge']
    """
    return {**{name: (name, {}) for name in METHODS}, "lfvi_hinge": ("lfvi", {"loss": "hinge"})}


def methods_by_label(
    methods: str | Sequence[str | Method] | Mapping[str, str | Method],
) -> dict[str, str | Method]:
    """Return methods, or their names, by label; raise if a name is unknown."""
    return chosen_by_label(methods, "method", list(method_variants()), Method, "an lfi.Method such as lfi.DME()")


def method_by_label(method: str | Method, seed: int) -> Method:
    """Return a method of its own for one run.

    Parameters
    ----------
    method : str or Method
        The method, which is copied, or its name.
    seed : int
        The seed of that run.
    """
    if isinstance(method, Method):
        own = copy.copy(method)
    else:
        base, options = method_variants()[method]
        own = method_named(base)
        vars(own).update(options)
    own.seed = seed
    return own


# ---- running -----------------------------------------------------------------------------------------------------


class _Shared(NamedTuple):
    """Simulations at draws of the prior that all methods of one seed may use, in a closed store."""

    given: _Given
    seed: int
    options: SimulationOptions
    path: Path
    sims: Simulations
    seconds: float

    @classmethod
    def simulated(cls, given: _Given, budget: int, seed: int, options: SimulationOptions, path: Path) -> "_Shared":
        """Run them, the first few alone, so that an observation of another kind is refused early.

        Parameters
        ----------
        given : _Given
            The problem.
        budget : int
            How many simulations.
        seed : int
            Their seed.
        options : SimulationOptions
            How simulations are run.
        path : Path
            The file of the store.
        """
        begin = time.perf_counter()
        seen = given.observed
        if given.summarize is not None:
            seen = summarized_observation(seen, given.summarize)
        simulator, prior, like = given.simulator, given.prior, RejectionABC()
        with SimulationStore(path, prior) as store, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # each method warns of failures itself
            run = replace(options, store=store)
            try:
                check_on_few(like, simulator, prior, seen, budget, seed, run)
                sims = simulate_with(run, simulator, prior, budget, seed=seed, round=0)
            except SimulationError as error:
                if not error.failures:
                    raise
                text = str(error).split(" The store keeps failures", 1)[0]  # it is gone after a comparison
                raise SimulationError(text, failures=error.failures) from None
            like.check_observation(seen, sims)
        return cls(given, seed, options, path, sims, time.perf_counter() - begin)

    def run(self, label: str, method: str | Method, rounds: int, scorer: Scorer, calibrate: bool) -> Run:
        """Run one method and score it; whatever it raises is the reason why its row, or some of it, is empty.

        Parameters
        ----------
        label : str
            What the method is called.
        method : str or Method
            The method, or its name.
        rounds : int
            Rounds of simulations.
        scorer : Scorer
            Scores posteriors.
        calibrate : bool
            Whether calibration may be checked.
        """
        begin, given, seed = time.perf_counter(), self.given, self.seed
        try:
            with warnings.catch_warnings(record=True) as caught, self._own_copy() as store:
                warnings.simplefilter("always", UserWarning)
                own = method_by_label(method, seed)
                if own.takes_raw and given.summarize is None:
                    text = (
                        "Left out: it compares raw data sets, and there are only summaries. Give a simulator and an "
                        "observation of raw data, and summarize, which makes the summaries."
                    )
                    return Run(label, seed, None, {"notes": text})
                posterior = infer(
                    given.simulator,
                    given.prior,
                    given.observed,
                    len(self.sims),
                    rounds,
                    own,
                    seed=seed,
                    **vars(replace(self.options, store=store)),
                )
                row: dict[str, Any] = scorer.intervals(posterior)
                row["seconds"] = time.perf_counter() - begin + self._cost_of(posterior.simulations)
        except Exception as error:  # one method may not take the others down; the error is kept
            return Run.failed(label, seed, error)
        if posterior.simulations is not None:
            row |= {"simulations": len(posterior.simulations), "failed": posterior.simulations.n_failed}
        scores = {"accuracy": lambda: scorer.accuracy(posterior)}
        if calibrate and scorer.calibrates:
            scores["calibration"] = lambda: scorer.calibration(method_by_label(method, seed), self.sims, seed)
        return Run(label, seed, posterior, row).scored([str(warning.message) for warning in caught], scores)

    def _cost_of(self, sims: Simulations | None) -> float:
        """Return the seconds of those simulations that are among the shared ones."""
        if sims is None:
            return 0.0
        mine = {row.tobytes() for row in self.sims.theta}
        return self.seconds * sum(row.tobytes() in mine for row in sims.theta) / len(self.sims)

    @contextlib.contextmanager
    def _own_copy(self) -> Iterator[Path]:
        """Yield the file of a store that holds the shared simulations and may be added to."""
        copied = self.path.with_suffix(".own.sqlite")
        copied.write_bytes(self.path.read_bytes())
        try:
            yield copied
        finally:
            copied.unlink()


# ---- the table and the picture -----------------------------------------------------------------------------------


def _panels(frame: "pd.DataFrame", scorer: Scorer) -> list[Rows]:
    """Return intervals of the first four parameters, the measure or the calibration, and the seconds."""
    reference, truth = scorer.reference, scorer.true_parameters
    marks = [
        "95 % intervals",
        *(["band: exact"] if reference is not None else []),
        *(["line: true value"] if truth is not None else []),
    ]
    panels, dim = [], scorer.prior.dim
    some = f"first 4 of {dim} parameters: " if dim > 4 else ""
    for j, name in enumerate(scorer.prior.names[:4]):
        ends = frame[[f"{name} low", f"{name} median", f"{name} high"]]
        panels.append(
            Rows(
                name,
                dict(zip(frame.index, ends.to_numpy(), strict=True)),
                None if truth is None else float(truth[j]),
                None if reference is None else reference.interval(j),
                note=some + ", ".join(marks) if j == 0 else "",
            )
        )
    for column, ideal in scorer.drawn:
        if column in frame and frame[column].notna().any():
            panels.append(Rows(column, frame[column].to_dict(), ideal))
    return [*panels, Rows("seconds", frame["seconds"].to_dict(), log=True)]
