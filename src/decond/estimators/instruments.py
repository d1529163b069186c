"""Instrumental variables: the effect of a treatment from rows in which it is confounded.

Two-stage kernel instrumental-variable regression is the algebra of task-transformed regression in other words: the
instrument is the mediator, the first stage learns the treatment given the instrument, and the second the outcome.
"""

from typing import Any, Self

from decond.estimators.task_transformed import TaskTransformedGP
from decond.threads import threads_by_rows

__all__ = ["InstrumentalVariablesGP"]


class InstrumentalVariablesGP(TaskTransformedGP):
    """The structural function f of outcome = f(treatment) + error, error correlated with the treatment.

    An instrument moves the treatment, is independent of the error, and acts on the outcome through the treatment
    only: then E[outcome | instrument] = E[f(treatment) | instrument], which can be solved for f. An ordinary
    regression of the outcome on the treatment would be biased. Parameters are those of `TaskTransformedGP`
    without `targets` and `drift`: the model is always one of means given the instrument. `kernel_x` is the kernel of
    the treatment, `kernel_y` that of the instrument.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> instrument, confounder = rng.uniform(-3, 3, 200), rng.standard_normal(200)
    >>> treatment = instrument + 0.5 * confounder
    >>> outcome = 2 * np.sin(treatment) + confounder + 0.1 * rng.standard_normal(200)
    >>> iv = InstrumentalVariablesGP().fit(treatment, instrument, outcome)
    >>> iv.predict([[0.0]]).shape
    (1,)
    """

    def __init__(
        self,
        kernel_x: Any = None,
        kernel_y: Any = None,
        noise: float | None = None,
        mean: str = "constant",
        mediator: str = "full",
        uncertainty: str = "honest",
        optimize: bool = True,
        n_restarts: int = 4,
        seed: int = 0,
    ) -> None:
        # The error is correlated with the treatment, so only means given the instrument can be used.
        super().__init__(
            kernel_x,
            kernel_y,
            noise,
            mean,
            mediator,
            uncertainty=uncertainty,
            optimize=optimize,
            n_restarts=n_restarts,
            seed=seed,
        )

    @threads_by_rows
    def fit(  # type: ignore[override]
        self,
        treatment: Any,
        instrument: Any,
        outcome: Any,
        instrument_of_outcome: Any = None,
        progress: Any = None,
    ) -> Self:
        """Learn f from rows of (treatment, instrument) and of (instrument, outcome).

        With one table both are the same rows. With two tables, `outcome` belongs to the rows of
        `instrument_of_outcome`.
        """
        one_table = instrument_of_outcome is None
        second = instrument if one_table else instrument_of_outcome
        names = ("treatment", "instrument", "instrument" if one_table else "instrument_of_outcome", "outcome")
        return self._fit_tables((treatment, instrument, second, outcome), names, None, None, progress)

    def _with_other_setting(self) -> None:
        """Return nothing: targets are always means given the instrument."""
        return
