"""What all estimators share: scikit-learn's conventions, columns, answers from a posterior, how they are shown."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data

from decond.checks import (
    Seed,
    as_count,
    as_labels,
    as_rows,
    as_targets,
    check_answer,
    check_column_names,
    check_size,
    check_text,
    column_names,
)
from decond.errors import ArgumentError
from decond.messages import card, number
from decond.parameters import Parametrized

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from decond.plotting import FunctionDisplay

__all__ = ["IndirectRegressor", "ProbabilisticRegressor"]


class IndirectRegressor(RegressorMixin, BaseEstimator):
    """Base of all estimators: remembers columns, refuses others at prediction, and draws what it predicts.

    >>> from decond.estimators import DirectGP
    >>> from decond.kernels import RBF
    >>> gp = DirectGP(RBF(1.0), optimize=False).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0])
    >>> gp.plot().ax_.get_xlabel()
    'x'
    """

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that there may be several target columns."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _remember_columns(self, x: ArrayLike, name: str) -> np.ndarray:
        """Return x as rows, and keep the number and names of its columns."""
        rows = as_rows(x, name, labels=True)
        self.n_features_in_ = rows.shape[1]
        names = column_names(x)
        check_size(rows, name, names)
        check_text(rows, name, names)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return rows

    def _known_columns(self, x: ArrayLike) -> np.ndarray:
        """Return x as rows with the columns that the model was fitted on."""
        check_is_fitted(self)
        known = getattr(self, "feature_names_in_", None)
        check_column_names(x, "x", None if known is None else list(known))
        rows = as_rows(x, "x", labels=True)
        if rows.shape[1] != self.n_features_in_:
            raise ArgumentError(
                "x",
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input. Give the same columns as in fit, in the same order.",
            )
        return rows

    def _validated(self, *tables: Any, **options: Any) -> Any:
        """Return tables as scikit-learn checks them, as float64."""
        try:
            return validate_data(self, *tables, dtype=np.float64, **options)
        except OverflowError:
            raise ArgumentError("X", "X has whole numbers that are too large for float64.") from None

    def _fitted_columns(self) -> dict[str, Any]:
        names = getattr(self, "feature_names_in_", None)
        return {"n_features_in": self.n_features_in_, "feature_names_in": None if names is None else list(names)}

    def _check_same_columns(self, other: "IndirectRegressor") -> None:
        """Raise unless another model has read the same columns, in the same order."""
        mine, theirs = (model._fitted_columns() for model in (self, other))
        if mine != theirs:
            words = [state["feature_names_in"] or f"{state['n_features_in']} column(s)" for state in (theirs, mine)]
            raise ArgumentError(
                "other",
                f"the other model has read {words[0]}, this one {words[1]}; merge models of the same columns, in the "
                "same order.",
            )

    def _restore_columns(self, state: dict[str, Any]) -> None:
        self.n_features_in_, names = as_count(state["n_features_in"], "n_features_in"), state["feature_names_in"]
        if names is not None:
            as_labels(names, "feature_names_in", self.n_features_in_, "x")
            self.feature_names_in_ = np.array(names, dtype=object)

    def plot(
        self, x: ArrayLike | None = None, z: ArrayLike | None = None, ax: "Axes | None" = None, **options: Any
    ) -> "FunctionDisplay":
        """Draw what is predicted, a panel for each column, with a band of error bars.

        Parameters
        ----------
        x : array_like of shape (n, d), optional
            Rows over whose range to draw; by default those that the model was fitted on, if it keeps them.
        z : array_like of shape (n,), optional
            Values to draw at these rows.
        ax : matplotlib.axes.Axes, optional
            Where to draw.
        **options
            As for `plotting.FunctionDisplay.from_estimator`.

        Returns
        -------
        FunctionDisplay
        """
        from decond.plotting import FunctionDisplay

        check_is_fitted(self)
        rows = self._rows_seen() if x is None else x
        if rows is None:
            name = type(self).__name__
            raise ArgumentError(
                "x", f"{name} cannot tell over which x to draw. Give rows over whose range to draw: plot(x)."
            )
        return FunctionDisplay.from_estimator(self, rows, z, ax=ax, **options)

    def _rows_seen(self) -> Any:
        """Return the rows of x that the model was fitted on; None if it cannot tell them."""
        return None

    def _range_seen(self) -> Any:
        """Return the least and the largest value of each column of x, (2, d); None if they cannot be told."""
        rows = self._rows_seen()
        return None if rows is None else rows_range(rows)

    def _html_repr(self) -> str:
        """Return scikit-learn's diagram and, once fitted, what was learned, for notebooks."""
        return f"{estimator_html_repr(self)}{self._learned_html()}"

    def _learned_html(self) -> str:
        """Return kernels that were given, which the diagram cuts short, and what was learned."""
        import pandas as pd

        entries = {
            f"{name} given": repr(value)
            for name, value in self.get_params(deep=False).items()
            if isinstance(value, Parametrized)
        }
        posterior, result = getattr(self, "posterior_", None), getattr(self, "fit_result_", None)
        if posterior is not None:
            entries["kernel"] = repr(posterior.prior.covariance)
        if hasattr(self, "noise_"):
            entries["noise"] = number(self.noise_)
        if result is not None:
            entries["log evidence"] = number(result.log_evidence)
            entries["search"] = f"{result.status}: {result.message}"
        words = "not fitted" if posterior is None else "fitted"
        return card(type(self).__name__, words, pd.DataFrame({"": entries})) if entries else ""


def rows_range(rows: np.ndarray) -> np.ndarray | None:
    """Return the least and the largest value of each column, (2, d); None if some column is not of numbers."""
    return np.array([rows.min(axis=0), rows.max(axis=0)]) if rows.dtype.kind == "f" else None


class ProbabilisticRegressor(IndirectRegressor):
    """Base of the estimators with error bars: every answer is a view of `posterior_`.

    Fitted attributes: `posterior_` (of the centered targets), `offset_` (what was subtracted), `scale_` (what they
    were divided by; one unless there are several target columns), `noise_` (σ, after that division).
    """

    posterior_: Any
    offset_: Any
    scale_: Any
    noise_: Any

    def predict(
        self, X: ArrayLike, return_std: bool = False, return_cov: bool = False, include_noise: bool = False
    ) -> Any:
        """Return E[f] at the rows of X; also its standard deviation, or its covariance between the rows.

        Parameters
        ----------
        X : array_like of shape (q, d)
            Where to predict.
        return_std, return_cov : bool
            Return the standard deviation (q,), or the covariance (q, q), as well: how well f itself is known. It
            shrinks as rows are added.
        include_noise : bool
            Return the deviation, or the covariance, of new targets instead: that of f and the noise of a target,
            which no number of rows takes away.

        Returns
        -------
        mean : ndarray of shape (q,) or (q, t)
        std or cov : ndarray
            Only if asked for.
        """
        check_is_fitted(self)
        posterior, rows = self.posterior_, self._known_columns(X)
        if return_std and return_cov:
            raise ArgumentError(
                "return_cov", "return_std and return_cov are both True; ask for one of them at a time."
            )
        if return_std:
            mean, variance = posterior.moments(rows)
            mean = self._in_units(mean)
            variance = variance[:, None] if variance.ndim < mean.ndim else variance
            variance = np.broadcast_to(variance * np.square(self.scale_), mean.shape)
            variance = check_answer(variance, "X")
            return mean, np.sqrt(variance + self._noise_variance(mean, variance) if include_noise else variance)
        mean = self._in_units(posterior.mean(rows))
        if return_cov:
            covariance = posterior.covariance(rows)
            covariance = covariance[:, :, None] if mean.ndim == 2 and covariance.ndim == 2 else covariance
            covariance = check_answer(covariance * np.square(self.scale_), "X")
            if include_noise:
                diagonal = np.diag_indices(len(mean))
                covariance[diagonal] += self._noise_variance(mean, covariance[diagonal])
            return mean, covariance
        return mean

    def predict_interval(
        self, X: ArrayLike, level: float = 0.95, include_noise: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the central interval in which a new target at each row of X lies with this probability.

        A target of groups or of a mediator is a mean: its noise is less than that of a single measurement. Known
        errors of targets (`z_std`) come on top of it.

        Parameters
        ----------
        X : array_like of shape (q, d)
            Where to predict.
        level : float
            The probability, between zero and one.
        include_noise : bool
            Whether it is about new targets, with the noise of those in the fit; otherwise about f.

        Returns
        -------
        lower, upper : ndarray of shape (q,) or (q, t)

        Examples
        --------
        >>> from decond.estimators import DirectGP
        >>> from decond.kernels import RBF
        >>> gp = DirectGP(RBF(1.0), noise=0.1, mean="zero", optimize=False).fit([[0.0], [1.0]], [0.0, 1.0])
        >>> [end.round(2) for end in gp.predict_interval([[9.0]], level=0.9)]
        [array([-1.65]), array([1.65])]
        """
        if not 0.0 < level < 1.0:
            raise ArgumentError("level", f"level is {level}; it is a probability between zero and one, such as 0.95.")
        mean, std = self.predict(X, return_std=True, include_noise=include_noise)
        half = float(norm.ppf(0.5 + 0.5 * level)) * std
        return mean - half, mean + half

    def score_log_density(self, X: ArrayLike, z: ArrayLike) -> float:
        """Return the log density of new measurements z at the rows of X, on average over the rows.

        Their predictions are normal, with the deviation that `predict` gives with ``include_noise=True``. Of several
        target columns it is the sum. Larger is better; unlike R² it also judges the error bars.

        Parameters
        ----------
        X : array_like of shape (q, d)
            Rows.
        z : array_like of shape (q,) or (q, t)
            What was measured there.

        Returns
        -------
        float
        """
        mean, std = self.predict(X, return_std=True, include_noise=True)
        measured = as_targets(z, "z", len(mean), "X")
        if measured.size != mean.size:
            raise ArgumentError(
                "z", f"z has shape {measured.shape} but predictions have {mean.shape}; give the same target columns."
            )
        return float(norm.logpdf(measured.reshape(mean.shape), mean, std).sum() / len(mean))

    def _noise_variance(self, mean: np.ndarray, variance: np.ndarray) -> Any:
        """Return the variance of the noise of a measurement where f has this mean and variance, in their units."""
        return np.square(self.noise_ * self.scale_)

    def sample(self, X: ArrayLike, n: int = 1, seed: Seed = None) -> np.ndarray:
        """Return joint draws of f.

        Parameters
        ----------
        X : array_like of shape (q, d)
            Where to draw f.
        n : int
            How many draws.
        seed : int or numpy.random.Generator, optional
            Seed of the draws.

        Returns
        -------
        ndarray of shape (n, q) or (n, q, t)
        """
        check_is_fitted(self)
        posterior, rows = self.posterior_, self._known_columns(X)
        return self._in_units(posterior.sample(rows, n, seed), axes=2)

    def _in_units(self, values: np.ndarray, axes: int = 1) -> np.ndarray:
        """Return values in the units of the targets; one column of targets is one column of values (..., 1)."""
        columns = values[..., None] if np.ndim(self.offset_) and values.ndim == axes else values
        return check_answer(np.asarray(columns * self.scale_ + self.offset_), "X")
