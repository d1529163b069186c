"""The conditional mean operator: E[f(X) | Y = y] for every f at once."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from decond.checks import as_number, as_row, as_values, as_weights, check_same_length, frozen
from decond.conditional.smoother import Smoother
from decond.embeddings.covariance import CovarianceOperator, CrossCovarianceOperator
from decond.embeddings.mean_embedding import MeanEmbedding, weights_expectation
from decond.errors import ArgumentError
from decond.features import FeatureMap, as_kernel
from decond.kernels.kernel import Kernel
from decond.linalg import LowRankPlusNoise, gaussian_log_density, pivoted_cholesky

__all__ = ["ConditionalMeanOperator"]


class Operator:
    """Base of operators that are estimated from pairs: how they are shown."""

    settings: tuple[str, ...] = ("regularization",)
    """What can be chosen besides the kernels."""
    kernel_x: Kernel
    kernel_y: Kernel

    def __repr__(self) -> str:
        """Show kernels, settings and what it was fitted on."""
        chosen = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.settings)
        return f"{type(self).__name__}({self.kernel_x!r}, {self.kernel_y!r}, {chosen}; {self._fitted_on()})"

    def _fitted_on(self) -> str:
        if not hasattr(self, "x_"):
            return "not fitted"
        prior = getattr(self, "y_prior_", None)
        return f"fitted on {len(self.x_)} pairs" + ("" if prior is None else f" and {len(prior)} prior draws")


class ConditionalMeanOperator(Operator):
    """Ĉ_X|Y = Φ (L + nλI)⁻¹ Ψᵀ, estimated from pairs (x, y) (Definition 3.3, Theorem 3.3 of the paper).

    `regularization` is the paper's λ. `kernel_y` may be a feature map; with fewer features than pairs the
    parametric form Ψᵀ (ΨΨᵀ + nλI)⁻¹ ψ(y) is used, which costs O(n q²) instead of O(n³).

    >>> from decond.kernels import RBF
    >>> y = np.linspace(0, 6, 50)
    >>> cmo = ConditionalMeanOperator(RBF(), RBF(), regularization=1e-6).fit(np.sin(y), y)
    >>> cmo.expectation(np.sin(y), [[1.0]]).round(3)  # E[X | Y = 1]
    array([0.841])
    """

    def __init__(
        self, kernel_x: Kernel | FeatureMap, kernel_y: Kernel | FeatureMap, regularization: float = 1e-3
    ) -> None:
        self.kernel_x, self.kernel_y = as_kernel(kernel_x, "kernel_x"), as_kernel(kernel_y, "kernel_y")
        self.regularization = check_regularization(regularization, "regularization")

    def fit(self, x: ArrayLike, y: ArrayLike) -> Self:
        """Estimate the operator from paired rows.

        Parameters
        ----------
        x : array_like of shape (n, d)
            First half of the pairs.
        y : array_like of shape (n, e)
            Second half of the pairs.

        Returns
        -------
        self
        """
        x_rows, y_rows = frozen(self.kernel_x.points(x, "x")), frozen(self.kernel_y.points(y, "y"))
        check_same_length(y_rows, "y", len(x_rows), "x")
        self.smoother_ = Smoother(self.kernel_y, y_rows, len(y_rows) * self.regularization, "L + nλI")
        self.x_: np.ndarray = x_rows
        self.y_: np.ndarray = y_rows
        return self

    def weights(self, y_query: ArrayLike) -> np.ndarray:
        """Return (L + nλI)⁻¹ ℓ(y_query), shape (n, q): one column of weights on x for each query."""
        return fitted(self, "smoother_").weights(query_rows(self.kernel_y, y_query, "y_query", self.y_))

    def expectation(self, f_values: ArrayLike, y_query: ArrayLike) -> np.ndarray:
        """Return estimates of E[f(X) | Y = y] at the queries, given f at the pairs' x.

        Parameters
        ----------
        f_values : array_like of shape (n,) or (n, t)
            f, or several functions, at the pairs' x.
        y_query : array_like of shape (q, e)
            Where to condition.

        Returns
        -------
        ndarray of shape (q,) or (q, t)
        """
        return weights_expectation(self.weights(y_query), f_values, "f_values", "x")

    def embedding(self, y_query_row: ArrayLike) -> MeanEmbedding:
        """Return the embedding of X given Y = y, a `MeanEmbedding` on x."""
        row = as_row(y_query_row, "y_query_row", labels=self.kernel_y.accepts_labels)
        weights = self.weights(row)[:, 0]
        return MeanEmbedding(self.kernel_x, self.x_, weights)

    def covariance(self, y_query: ArrayLike, weights: ArrayLike | None = None) -> CovarianceOperator:
        """Return Ĉ_XX|Y μ_Y = Φ diag(A w) Φᵀ, the second-order embedding of X, for μ_Y = Σ_j w_j ℓ(y_j, ·).

        The third-order operator Ĉ_XX|Y of the kernel Bayes' rules (section 7 and Table F.1 of the paper). One row y
        gives E[k(X, ·) ⊗ k(X, ·) | Y = y]; draws of a prior of Y give the evidence operator Ĉ_XX|Y μ̃_Y.

        Parameters
        ----------
        y_query : array_like of shape (m, d_y)
            Points of Y.
        weights : array_like of shape (m,), optional
            Their weights w, by default 1/m.

        Returns
        -------
        CovarianceOperator
            On x, with weights A w on its diagonal, A = (L + nλI)⁻¹ ℓ(y_query).

        Examples
        --------
        >>> from decond.kernels import RBF
        >>> y = np.linspace(0, 6, 50)
        >>> x = np.sin(y)
        >>> cmo = ConditionalMeanOperator(RBF(), RBF(), regularization=1e-6).fit(x, y)
        >>> round(cmo.covariance([1.0]).expectation(x, x), 3)  # E[X² | Y = 1] = sin(1)²
        0.708
        """
        averaged = self._averaged_weights(y_query, weights)
        return CovarianceOperator(self.kernel_x, self.x_, averaged)

    def cross_covariance(self, y_query: ArrayLike, weights: ArrayLike | None = None) -> CrossCovarianceOperator:
        """Return Ĉ_XY|Y μ_Y = Φ diag(A w) Ψᵀ, the embedding of (X, Y), for μ_Y = Σ_j w_j ℓ(y_j, ·).

        The third-order operator Ĉ_XY|Y of KBR(b) (section 7 and Table F.1 of the paper). One row y gives
        E[k(X, ·) ⊗ ℓ(Y, ·) | Y = y]; draws of a prior of Y give the joint operator Ĉ_XY|Y μ̃_Y.

        Parameters
        ----------
        y_query : array_like of shape (m, d_y)
            Points of Y.
        weights : array_like of shape (m,), optional
            Their weights w, by default 1/m.

        Returns
        -------
        CrossCovarianceOperator
            On the pairs (x, y), with weights A w, A = (L + nλI)⁻¹ ℓ(y_query).

        Examples
        --------
        >>> from decond.kernels import RBF
        >>> y = np.linspace(0, 6, 50)
        >>> cmo = ConditionalMeanOperator(RBF(), RBF(), regularization=1e-6).fit(np.sin(y), y)
        >>> round(cmo.cross_covariance([2.0]).expectation(np.sin(y), y), 2)  # E[X Y | Y = 2] = 2 sin(2)
        1.82
        """
        averaged = self._averaged_weights(y_query, weights)
        return CrossCovarianceOperator(self.kernel_x, self.kernel_y, self.x_, self.y_, averaged)

    def log_evidence(self, f_values: ArrayLike | None = None) -> float:
        """Return Σ_t log N(f_t(x); 0, L + nλI): how probable functions of x are, as functions of y plus noise.

        The marginal likelihood of Theorem 5.3 in the special case of Theorem 6.2, with M = I and Σ = nλI, as
        section 7 of the paper suggests: the conditional mean is the posterior mean of this Gaussian process.
        It depends on the amplitude of `kernel_y` and compares operators on the same targets.

        Parameters
        ----------
        f_values : array_like of shape (n,) or (n, t), optional
            Functions f_t at the pairs' x. By default they are coordinates of the features k(x_i, ·) in an
            orthonormal basis of their span, so that the sum depends on x through K only:
            -½ tr[(L + nλI)⁻¹K] - ½ r log|2π(L + nλI)|, with r coordinates. These are the functions whose conditional
            means the operator is made of, and once the amplitude of `kernel_y` is chosen by the evidence as well,
            r changes nothing but a common factor.

        Returns
        -------
        float
            The log evidence, summed over functions.

        Examples
        --------
        >>> from decond.kernels import RBF
        >>> y = np.linspace(0, 6, 50)
        >>> narrow, good = (ConditionalMeanOperator(RBF(), RBF(l), 1e-4).fit(np.sin(y), y) for l in (0.1, 1.0))
        >>> good.log_evidence() > narrow.log_evidence()
        True
        """
        smoother = fitted(self, "smoother_")
        targets = feature_coordinates(self.kernel_x, self.x_) if f_values is None else f_values
        columns = as_values(targets, "f_values", len(self.x_), "x")
        if smoother.features is None:
            return gaussian_log_density(smoother.factor, columns)
        variance = self.kernel_y.variance * np.eye(smoother.rank)  # type: ignore[attr-defined]
        evidence = LowRankPlusNoise(smoother.features.T, variance, smoother.ridge, "L + nλI")
        return evidence.log_density(columns.reshape(len(columns), -1))

    def _averaged_weights(self, y_query: ArrayLike, weights: ArrayLike | None) -> np.ndarray:
        """Return A w (n,): the weights on x of the embedding Ĉ_X|Y μ_Y."""
        transformation = self.weights(y_query)
        return transformation @ as_weights(weights, "weights", transformation.shape[1], "y_query")


def feature_coordinates(kernel: Kernel, x: np.ndarray, tolerance: float = 1e-8) -> np.ndarray:
    """Return coordinates F (n, r) of the features k(x_i, ·) in an orthonormal basis of their span: F Fᵀ = K.

    Coordinates are left out once they explain less than `tolerance` of any feature's squared norm.

    Parameters
    ----------
    kernel : Kernel
        k.
    x : ndarray of shape (n, d)
        Checked rows.
    tolerance : float
        What may stay unexplained, relative to the largest squared norm.

    Returns
    -------
    ndarray of shape (n, r)

    Examples
    --------
    >>> from decond.kernels import Linear
    >>> feature_coordinates(Linear(), np.array([[1.0], [-2.0]]))
    array([[-1.],
           [ 2.]])
    """
    gram = kernel.gram(x, x)
    return pivoted_cholesky(np.diagonal(gram), lambda i: gram[i], len(gram), tolerance)[1]


def fitted(operator: object, attribute: str) -> Any:
    """Return a fitted attribute, or raise an error that says to call fit first.

    Parameters
    ----------
    operator : object
        What should have been fitted.
    attribute : str
        What fitting leaves.

    Returns
    -------
    object
    """
    if not hasattr(operator, attribute):
        raise RuntimeError(f"this {type(operator).__name__} is not fitted yet; call .fit(...) with data first.")
    return getattr(operator, attribute)


def query_rows(kernel: Kernel, value: ArrayLike, name: str, data: np.ndarray) -> np.ndarray:
    """Return checked query rows with as many columns as the data.

    Parameters
    ----------
    kernel : Kernel
        What accepts the rows.
    value : array_like of shape (q, d)
        What the user gave.
    name : str
        The name of the argument, for errors.
    data : ndarray of shape (n, d)
        Rows that were fitted.

    Returns
    -------
    ndarray of shape (q, d)
    """
    rows = kernel.points(value, name)
    if rows.shape[1] != data.shape[1]:
        raise ArgumentError(
            name,
            f"{name} has {rows.shape[1]} column(s) but the operator was fitted on {data.shape[1]}. Points are rows: "
            f"give shape (q, {data.shape[1]}).",
        )
    return rows


def check_regularization(value: float, name: str) -> float:
    """Return a positive regularization.

    Parameters
    ----------
    value : float
        What the user gave.
    name : str
        The name of the argument, for errors.

    Returns
    -------
    float
    """
    remedy = "Small values such as 1e-6 come close to none; exact zero makes the inverse meaningless."
    return as_number(value, name, minimum=0.0, strict=True, remedy=remedy)
