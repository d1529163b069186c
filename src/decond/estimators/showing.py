"""How estimators are shown: a picture of what they predict, and scikit-learn's diagram with what was learned."""

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from decond.errors import ArgumentError
from decond.notebook import card, definitions, number
from decond.parameters import Parametrized

if TYPE_CHECKING:
    from decond.plotting import FunctionDisplay

__all__ = ["Shown"]


class Shown:
    """What an estimator shows of itself; comes before scikit-learn's base classes.

    >>> from decond.estimators import DirectGP
    >>> from decond.kernels import RBF
    >>> gp = DirectGP(RBF(1.0), optimize=False).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0])
    >>> gp.plot().ax_.get_xlabel()
    'x'
    """

    def plot(self, x: Any = None, z: Any = None, ax: Any = None, **options: Any) -> "FunctionDisplay":
        """Draw what is predicted over the range of rows x: a panel for each column, with a band of error bars.

        Without x, over the range of the rows that the model was fitted on, if it keeps them. Short for
        `plotting.FunctionDisplay.from_estimator`, which takes the same options; returns the display.
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
        return None if rows is None or rows.dtype.kind != "f" else np.array([rows.min(axis=0), rows.max(axis=0)])

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's diagram and, once fitted, what was learned."""
        return f"{super()._repr_html_inner()}{self._learned_html()}"  # type: ignore[misc]

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Return the same for notebooks, if scikit-learn is set to show diagrams."""
        shown: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in shown:
            shown["text/html"] += self._learned_html()
        return shown

    def _learned_html(self) -> str:
        """Return kernels that were given, which the diagram cuts short, and what was learned."""
        me: Any = self
        entries = {
            f"{name} given": repr(value)
            for name, value in me.get_params(deep=False).items()
            if isinstance(value, Parametrized)
        }
        posterior, result = getattr(self, "posterior_", None), getattr(self, "fit_result_", None)
        if posterior is not None:
            entries["kernel"] = repr(posterior.prior.covariance)
        if hasattr(self, "noise_"):
            entries["noise"] = number(me.noise_)
        if result is not None:
            entries["log evidence"] = number(result.log_evidence)
            entries["search"] = f"{result.status}: {result.message}"
        words = "not fitted" if posterior is None else "fitted"
        return card(type(self).__name__, words, definitions(entries)) if entries else ""
