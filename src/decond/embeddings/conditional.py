"""The conditional mean operator: E[f(X) | Y = y] for every f at once."""

from typing import Any, Self

import numpy as np

from decond.checks import as_number, as_row, check_same_length, frozen
from decond.embeddings.mean import MeanEmbedding, weights_expectation
from decond.errors import ArgumentError
from decond.features.base import FeatureMap, as_kernel
from decond.kernels.base import Kernel
from decond.notebook import card, definitions
from decond.smoother import Smoother

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

    def _repr_html_(self) -> str:
        """Show the same as a table, for notebooks."""
        kernels = {"kernel of x": repr(self.kernel_x), "kernel of y": repr(self.kernel_y)}
        settings = {name.replace("_", " "): getattr(self, name) for name in self.settings}
        return card(type(self).__name__, self._fitted_on(), definitions({**kernels, **settings}))

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

    def fit(self, x: Any, y: Any) -> Self:
        """Estimate the operator from paired rows."""
        x_rows, y_rows = frozen(self.kernel_x.points(x, "x")), frozen(self.kernel_y.points(y, "y"))
        check_same_length(y_rows, "y", len(x_rows), "x")
        self.smoother_ = Smoother(self.kernel_y, y_rows, len(y_rows) * self.regularization, "L + nλI")
        self.x_: np.ndarray = x_rows
        self.y_: np.ndarray = y_rows
        return self

    def weights(self, y_query: Any) -> np.ndarray:
        """Return (L + nλI)⁻¹ ℓ(y_query), shape (n, q): one column of weights on x for each query."""
        return fitted(self, "smoother_").weights(query_rows(self.kernel_y, y_query, "y_query", self.y_))

    def expectation(self, f_values: Any, y_query: Any) -> np.ndarray:
        """Return estimates of E[f(X) | Y = y] at the queries, given f at the pairs' x."""
        return weights_expectation(self.weights(y_query), f_values, "f_values", "x")

    def embedding(self, y_query_row: Any) -> MeanEmbedding:
        """Return the embedding of X given Y = y, a `MeanEmbedding` on x."""
        row = as_row(y_query_row, "y_query_row", labels=self.kernel_y.accepts_labels)
        weights = self.weights(row)[:, 0]
        return MeanEmbedding(self.kernel_x, self.x_, weights)


def fitted(operator: Any, attribute: str) -> Any:
    """Return a fitted attribute, or raise an error that says to call fit first."""
    if not hasattr(operator, attribute):
        raise RuntimeError(f"this {type(operator).__name__} is not fitted yet; call .fit(...) with data first.")
    return getattr(operator, attribute)


def query_rows(kernel: Kernel, value: Any, name: str, data: np.ndarray) -> np.ndarray:
    """Return checked query rows with as many columns as the data."""
    rows = kernel.points(value, name)
    if rows.shape[1] != data.shape[1]:
        raise ArgumentError(
            name,
            f"{name} has {rows.shape[1]} column(s) but the operator was fitted on {data.shape[1]}. Points are rows: "
            f"give shape (q, {data.shape[1]}).",
        )
    return rows


def check_regularization(value: Any, name: str) -> float:
    """Return a positive regularization."""
    remedy = "Small values such as 1e-6 come close to none; exact zero makes the inverse meaningless."
    return as_number(value, name, minimum=0.0, strict=True, remedy=remedy)
