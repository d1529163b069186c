"""What a fitted model can say about itself: resolution, and whether the other setting predicts targets better."""

from typing import Any, NamedTuple

import numpy as np

__all__ = ["FitCheck", "compare_settings"]


class FitCheck(NamedTuple):
    """What `check` of a fitted estimator found.

    Attributes
    ----------
    resolution : float
        How much f varies within what a target averages over, in units of its error bar; nan if there is nothing to
        resolve, because each target is about one value of x.
    hint : str
        What to try instead, if the other setting predicts held-out targets clearly better, or if standardized
        residuals are far from normal; empty otherwise.
    advantage : float
        Held-out log density of the targets under the other setting less that under this one; nan without another one.
    standard_error : float
        Standard error of the advantage.

    Examples
    --------
    >>> found = FitCheck(resolution=0.5, hint="", advantage=1.0, standard_error=2.0)
    >>> found.is_reliable, found.prefers_other
    (False, False)
    """

    resolution: float
    hint: str
    advantage: float
    standard_error: float

    @property
    def is_reliable(self) -> bool:
        """Whether the error bars of f can be relied on: the resolution is not below one."""
        return not self.resolution < 1.0

    @property
    def prefers_other(self) -> bool:
        """Whether the other setting is clearly better: by more than two standard errors, and by more than 4.

        Smaller differences of held-out log densities are not reliable (Sivula, Magnusson & Vehtari 2020,
        arXiv:2008.10296).
        """
        return self.advantage > max(4.0, 2.0 * self.standard_error)


def compare_settings(model: Any, other: tuple[str, Any] | None) -> FitCheck:
    """Return the check of a fitted model, given words about the other setting and a model fitted with it."""
    found = FitCheck(model._resolution_if_any(), "", float("nan"), float("nan"))
    if other is not None:
        words, fitted = other
        difference = fitted._left_out().log_density - model._left_out().log_density
        error = float(np.sqrt(len(difference)) * difference.std(ddof=1))
        found = found._replace(advantage=float(difference.sum()), standard_error=error)
        if found.prefers_other:
            return found._replace(hint=words)
    if model._has_gaussian_targets() and _is_far_from_normal(np.ravel(model.standardized_residuals())):
        return found._replace(hint=NOT_NORMAL)
    return found


NOT_NORMAL = (
    "The standardized residuals of the targets are far from normal: if the noise grows with z, fit the logarithm of "
    "z; if single targets are outliers, look at them."
)


def _is_far_from_normal(residuals: np.ndarray, fewest: int = 20, level: float = 1e-4) -> bool:
    """Tell whether skewness and kurtosis of residuals refute a normal distribution (D'Agostino & Pearson 1973)."""
    from scipy.stats import normaltest

    if len(residuals) < fewest or np.ptp(residuals) == 0.0:
        return False
    return bool(normaltest(residuals).pvalue < level)
