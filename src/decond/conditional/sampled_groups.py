"""Groups of which only some rows are listed: a model of the rows that are not.

x in group j is c_j + u. The spread u is pooled over the groups; the center c_j is shrunk toward the mean of all
groups, as in a random-effects model. A target is then the mean of f over the listed rows and over the distribution of
the others, and the uncertainty of c_j is noise with the variance that the prior of f gives it.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from decond.conditional.mediator import varying_columns
from decond.conditional.residual_density import ResidualDensity

__all__ = ["UnlistedRows", "unlisted_rows"]


class UnlistedRows(NamedTuple):
    """Weights (n, m) of the listed rows in the mean of each group, and the share of their variance that is noise."""

    weights: np.ndarray
    sampling: np.ndarray


def unlisted_rows(x: np.ndarray, group: np.ndarray, sizes: np.ndarray) -> UnlistedRows | None:
    """Return the random-effects model of the rows that are not listed; None where it cannot be estimated.

    Parameters
    ----------
    x : ndarray of shape (n, d)
        Listed rows, numbers.
    group : ndarray of int of shape (n,)
        The group of each row, from 0.
    sizes : ndarray of shape (m,)
        How many rows each group has, possibly infinity.

    Returns
    -------
    UnlistedRows or None
        None if x does not vary, or not within groups.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> found = unlisted_rows(x, np.array([0, 0, 1, 1]), np.array([np.inf, np.inf]))
    >>> (found.weights.T @ x).ravel().round(1)
    array([ 0.5, 10.5])
    """
    x = x[:, varying_columns(x)]
    counts = np.bincount(group)
    if x.shape[1] == 0 or not np.any(counts > 1):
        return None
    means = np.array([np.bincount(group, column) for column in x.T]).T / counts[:, None]
    freedom = np.maximum(1.0 - 1.0 / counts, 0.0)[group]
    residual = (x - means[group])[freedom > 0.0] / np.sqrt(freedom[freedom > 0.0])[:, None]
    within = np.mean(residual**2, axis=0)
    if np.any(within <= 1e-12 * x.var(axis=0)):
        return None
    center, uncertainty = _shrunk_centers(means, counts, within)
    density = ResidualDensity(residual, np.zeros((len(residual), 1)), np.ones(len(residual)))
    stretch = np.sqrt(1.0 + uncertainty / within)
    logs = np.empty((len(x), len(counts)))
    for j in range(len(counts)):
        logs[:, j] = density.log_density((x - center[j]) / stretch[j], np.zeros((1, 1))) - np.log(stretch[j]).sum()
    logs -= logsumexp(logs + np.log(counts), axis=1)[:, None]  # rows of x stand for their surroundings
    logs -= logs.max(axis=0)
    others = np.exp(logs)
    others /= others.sum(axis=0)
    listed = np.zeros_like(others)
    listed[np.arange(len(x)), group] = 1.0 / counts[group]
    unlisted = 1.0 - counts / sizes
    about_center = np.mean(uncertainty / (uncertainty + within), axis=1)
    left = np.where(np.isfinite(sizes), np.maximum(sizes - counts, 1.0), np.inf)
    sampling = unlisted**2 * (about_center + (1.0 - about_center) / left)
    return UnlistedRows((1.0 - unlisted) * listed + unlisted * others, sampling)


def _shrunk_centers(means: np.ndarray, counts: np.ndarray, within: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return posterior means and variances (m, d) of the centers, column by column.

    The variance between groups is that of the listed means less what sampling adds to it.
    """
    sampling = within / counts[:, None]
    overall = means.mean(axis=0)
    between = np.maximum(means.var(axis=0, ddof=1) - sampling.mean(axis=0), 1e-12 * within)
    reliability = between / (between + sampling)
    return overall + reliability * (means - overall), reliability * sampling
