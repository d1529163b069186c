"""Instrumental variables: the effect of a treatment from rows in which it is confounded.

Two-stage kernel instrumental-variable regression is the algebra of task-transformed regression in other words: the
instrument is the mediator, the first stage learns the treatment given the instrument, and the second the outcome.
"""

from typing import Any, Self

from decond.estimators.task_transformed import TaskTransformedGP

__all__ = ["InstrumentalVariablesGP"]


class InstrumentalVariablesGP(TaskTransformedGP):
    """The structural function f of outcome = f(treatment) + error, error correlated with the treatment.

    An instrument moves the treatment, is independent of the error, and acts on the outcome through the treatment
    only: then E[outcome | instrument] = E[f(treatment) | instrument], which can be solved for f. An ordinary
    regression of the outcome on the treatment would be biased. Parameters are those of `TaskTransformedGP`,
    `kernel_x` being the kernel of the treatment and `kernel_y` that of the instrument.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> instrument, confounder = rng.uniform(-3, 3, 200), rng.standard_normal(200)
    >>> treatment = instrument + confounder
    >>> outcome = np.sin(treatment) + 2 * confounder + 0.1 * rng.standard_normal(200)
    >>> iv = InstrumentalVariablesGP().fit(treatment, instrument, outcome)
    >>> iv.predict([[0.0]]).shape
    (1,)
    """

    _outcome_needs_only_x = False  # the error tells of the treatment: only means given the instrument can be trusted

    def fit(
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
        return self._fit_tables((treatment, instrument, second, outcome), names, progress)
