"""One call, one page: is this posterior to be trusted?"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from decond.checks import as_number, value_names
from decond.errors import ArgumentError
from decond.lfi.diagnostics.calibration import Calibration, simulation_based_calibration
from decond.lfi.diagnostics.predictive import compare, posterior_predictive_check, share_as_remote
from decond.lfi.diagnostics.report import Report
from decond.lfi.diagnostics.sufficiency import Sufficiency, enough_simulations
from decond.lfi.diagnostics.trials import Progress, check_method, from_prior, whole_seed
from decond.lfi.methods.base import Method, summarized_observation
from decond.lfi.prior import Prior
from decond.lfi.simulations import Simulations
from decond.progress import progress_bar

__all__ = ["diagnose"]

CALIBRATION_TIME = 0.7
"""Share of the time that goes to calibration; the rest is for the fits with half of the simulations."""


def diagnose(
    method: Method,
    sims: Simulations,
    prior: Prior,
    observed: Any,
    simulator: Callable[..., Any] | None = None,
    *,
    test: Simulations | None = None,
    n: int = 200,
    n_predictive: int = 200,
    seconds: float = 300.0,
    level: float = 0.01,
    seed: Any = 0,
    truth: Any = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Return a report on the posterior of `observed`: one page of plots, and a verdict in words.

    The words, and when they are said:

    - "observation outside the simulations": fewer than 0.5 % of the simulations lie as far from their nearest fellow
      as the observation does from its nearest simulation, in units of the simulations' spread.
    - "too few simulations": with half of them the errors of held-out posteriors grow by more than 10 % (and two
      standard errors), or the posterior rests on fewer than ten effective simulations for each parameter.
    - "biased", "over-confident", "under-confident", "not calibrated": the ranks of n true parameters among draws of
      their posteriors fail a test of uniformity at `level`, see `simulation_based_calibration`. The first three words
      need a bias or a width that is wrong by three standard errors; "too few trials" means fewer than 20.
    - "observation unlike the predictions": fewer than `level` of the data simulated at draws of the posterior are as
      unusual as the observation. This needs the simulator, called with `options` of `lfi.simulate`.
    - "fine": none of these. Stated uncertainties are right on average then; they may be larger than need be.

    Calibration needs simulations from the prior. Where those given come from rounds, give others as `test`, or the
    simulator, which is then run n times at draws of the prior; without either, that part is left out, and a sentence
    says so.

    For a method that takes raw data sets (`takes_raw`) the observation is one, and `options` have the function
    `summarize` that made the summaries of the simulations; the other checks look at these.

    Refitting for the trials ends after about `seconds`, with the trials done by then. `progress` is called with the
    numbers of posteriors done and planned; without it a bar shows them on a terminal.

    >>> from scipy import stats
    >>> from decond.lfi import RejectionABC
    >>> prior = Prior({"mean": stats.norm(0, 1)})
    >>> theta = prior.sample(600, seed=0)
    >>> sims = Simulations(theta, theta + np.random.default_rng(1).standard_normal(theta.shape))
    >>> method = RejectionABC(quantile=0.2, adjustment="linear")
    >>> report = diagnose(method, sims, prior, [1.0], n=30)
    >>> report.verdict
    'fine'
    """
    check_method(method)
    as_number(seconds, "seconds", minimum=0.0, strict=True)
    row = _summaries(method, observed, sims, options)
    names = sims.summary_names or (None if method.takes_raw else value_names(observed))
    known = None if truth is None else prior.rows(truth, "truth")[0]
    posterior = copy.copy(method).fit(sims, prior).posterior(observed)
    if simulator is None:
        check = compare(sims, row, level, names)
    else:
        check = posterior_predictive_check(
            posterior, simulator, row, n_predictive, level=level, names=names, **options
        )
    judged, why_not = _test_simulations(sims, prior, simulator, test, n, seed, options)
    if judged is not None and test is None:
        judged = judged.ordered_as(names)
    calibration = sufficiency = None
    if not why_not:
        with progress_bar("judging the posterior", shown=None if progress is None else False) as report:
            told = progress if progress is not None else report
            trials = {"test": judged, "seed": seed, "level": level}
            calibration, sufficiency = _refitted(method, sims, prior, n, seconds, told, trials)
    remote = share_as_remote(sims, row)
    return Report(posterior, calibration, sufficiency, check, simulator is not None, remote, why_not, known)


def _refitted(
    method: Method,
    sims: Simulations,
    prior: Prior,
    n: int,
    seconds: float,
    progress: Progress,
    trials: dict[str, Any],
) -> tuple[Calibration, Sufficiency]:
    """Return how the method does on held-out simulations, fitted to all others and to half of them."""
    time = CALIBRATION_TIME * seconds
    calibration = simulation_based_calibration(method, sims, prior, n, seconds=time, progress=progress, **trials)
    sufficiency = enough_simulations(
        method,
        sims,
        prior,
        test=trials["test"],
        calibration=calibration,
        seconds=seconds - time,
        progress=progress,
    )
    return calibration, sufficiency


def _summaries(method: Method, observed: Any, sims: Simulations, options: dict[str, Any]) -> np.ndarray:
    """Return the summaries of the observation, as a row."""
    if not method.takes_raw:
        return sims.observed_row(observed)
    summarize = options.get("summarize")
    if summarize is None:
        raise ArgumentError(
            "summarize",
            f"{type(method).__name__} takes the raw data set observed, and its summaries are compared with those of "
            "the simulations. Give summarize=..., the function that made them.",
        )
    return sims.observed_row(summarized_observation(observed, summarize))


def _test_simulations(
    sims: Simulations,
    prior: Prior,
    simulator: Any,
    test: Simulations | None,
    n: int,
    seed: Any,
    options: dict[str, Any],
) -> tuple[Simulations | None, str]:
    """Return the simulations to judge by (None for folds of those given), or a sentence on why there are none."""
    if test is not None:
        return test, ""
    different = from_prior(sims, prior)
    if not different:
        return None, ""
    if simulator is None:
        return None, (
            f"Calibration was not judged: the simulations are not draws of the prior ({different}). Give test "
            "simulations at draws of the prior, or the simulator."
        )
    from decond.lfi.simulation import simulate

    return simulate(simulator, prior, n, **{"round": "diagnose", "seed": whole_seed(seed), **options}), ""
