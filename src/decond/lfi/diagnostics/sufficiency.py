"""Are there enough simulations? What half of them would have given tells."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from decond.lfi.diagnostics.calibration import Calibration
from decond.lfi.diagnostics.trials import Plan, Progress, run_trials, whole_seed
from decond.lfi.methods.base import Method
from decond.lfi.prior import Prior
from decond.lfi.simulations import Simulations

__all__ = ["Sufficiency", "enough_simulations"]

LOSS = 1.1
"""Simulations are too few if half of them give errors that are larger by this factor."""

FEWEST = 10
"""Trials below which nothing is said."""


@dataclass(frozen=True, repr=False)
class Sufficiency:
    """How much worse the posteriors are if made from half of the simulations.

    `ratio` is the error with half of them, divided by that with all: the continuous ranked probability score of the
    true parameters, averaged over the trials, and over the parameters in the geometric mean. `error` is the standard
    error of the ratio.

    >>> Sufficiency(n_simulations=500, ratio=1.3, error=0.05, n=60).sentences[0]
    'With half of the 500 simulations, errors change by +30 ± 5 % (60 trials): more of them would help.'
    """

    n_simulations: int
    ratio: float
    error: float
    n: int

    @property
    def passed(self) -> bool:
        """Whether half of the simulations did almost as well, as far as the trials can tell."""
        return self.n < FEWEST or self.ratio <= LOSS or self.ratio - 2.0 * self.error <= 1.0

    @property
    def unclear(self) -> bool:
        """Whether the trials are too few to tell."""
        return self.passed and (self.n < FEWEST or self.ratio + 2.0 * self.error > 1.0 + 2.0 * (LOSS - 1.0))

    @property
    def verdict(self) -> str:
        """Say "fine" or "too few simulations"."""
        return "fine" if self.passed else "too few simulations"

    @property
    def sentences(self) -> list[str]:
        """The numbers behind the verdict."""
        if not self.passed:
            end = "more of them would help"
        elif self.unclear:
            end = "too few trials to tell whether more would help"
        else:
            end = "more would help little"
        return [
            f"With half of the {self.n_simulations} simulations, errors change by {self._change} ({self.n} trials): "
            f"{end}."
        ]

    @property
    def _change(self) -> str:
        return f"{100.0 * (self.ratio - 1.0):+.0f} ± {100.0 * self.error:.0f} %"

    def __repr__(self) -> str:
        """Show the verdict."""
        return f"Sufficiency({self.verdict}; errors {self._change} with half of {self.n_simulations} simulations)"


def enough_simulations(
    method: Method,
    sims: Simulations,
    prior: Prior,
    n: int = 60,
    *,
    seed: Any = 0,
    n_draws: int = 999,
    folds: int = 3,
    test: Simulations | None = None,
    calibration: Calibration | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Sufficiency:
    """Return how errors grow if the method sees half of the simulations.

    The same truths are judged twice, with all and with half of the simulations, none of them seen by the fits; as in
    `simulation_based_calibration`, simulations that come from rounds need `test`. A `calibration` of the same method
    and simulations spares the fits with all of them.

    >>> from scipy import stats
    >>> from decond.lfi import RejectionABC
    >>> prior = Prior({"mean": stats.norm(0, 1)})
    >>> theta = prior.sample(600, seed=0)
    >>> sims = Simulations(theta, theta + np.random.default_rng(1).standard_normal(theta.shape))
    >>> method = RejectionABC(quantile=0.2, adjustment="linear")
    >>> enough_simulations(method, sims, prior, n=30, n_draws=99, folds=2).verdict
    'fine'
    """
    start = whole_seed(seed)
    known: dict[int, np.ndarray] = {}
    if calibration is not None:
        known = dict(zip(calibration.rows.tolist(), calibration.scores, strict=True))
        start, n = calibration.seed, min(n, calibration.n)
    shares = (0.5,) if known else (1.0, 0.5)
    passes = []
    for step, share in enumerate(shares):
        plan = Plan(n, n_draws, folds, test, share, None if seconds is None else seconds / len(shares), start)

        def report(done: int, total: int, step: int = step) -> None:
            if progress is not None:
                progress(step * total + done, len(shares) * total)

        passes.append({trial.row: trial.score for trial in run_trials(method, sims, prior, plan, report)})
    whole, half = known or passes[0], passes[-1]
    rows = [row for row in half if row in whole]
    ratio, error = _ratio(
        np.array([whole[row] for row in rows]), np.array([half[row] for row in rows]), np.random.default_rng(start)
    )
    return Sufficiency(len(sims), ratio, error, len(rows))


def _ratio(whole: np.ndarray, half: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Return the ratio of mean scores, and its standard error by the bootstrap over trials."""

    def ratio(rows: np.ndarray) -> float:
        means = np.log(half[rows].mean(axis=0)) - np.log(whole[rows].mean(axis=0))
        return float(np.exp(means.mean()))

    n = len(whole)
    resampled = [ratio(rng.integers(0, n, n)) for _ in range(200)]
    return ratio(np.arange(n)), float(np.std(resampled))
