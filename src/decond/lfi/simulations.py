"""Simulations: parameters, what came out, and which of them failed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_row, as_rows, check_same_length, frozen, value_names
from decond.errors import ArgumentError
from decond.parameters import Kept

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Simulations"]


class Simulations(Kept):
    """Every attempt is a row: parameters `theta`, summaries `x`, and whether it is `valid`, else a reason.

    Simulations made elsewhere, from any proposal, come in the same way. Rows of `x` with a NaN or an infinity are
    failed simulations. `raw` holds the raw data sets where summaries were computed from them. `names` are those of
    the parameters, `summary_names` those of the columns of x.

    Parameters
    ----------
    theta : array_like of shape (n, d)
        Parameters, from any proposal.
    x : array_like of shape (n, s)
        Summaries.
    valid : array_like of bool of shape (n,), optional
        Which attempts gave a result.
    reasons : sequence of str, optional
        Why the others did not.
    raw : array_like of shape (n, ...), optional
        Raw data sets.
    names, summary_names : sequence of str, optional
        Names of the columns of theta and of x.

    Examples
    --------
    >>> sims = Simulations(theta=[[1.0], [2.0], [3.0]], x=[[0.5], [np.nan], [1.5]])
    >>> sims.valid, sims.failures
    (array([ True, False,  True]), {'returned NaN or infinity': 1})
    """

    def __init__(
        self,
        theta: ArrayLike,
        x: ArrayLike,
        valid: ArrayLike | None = None,
        reasons: Sequence[str] | None = None,
        raw: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        summary_names: Sequence[str] | None = None,
    ) -> None:
        self.theta: np.ndarray = frozen(as_rows(theta, "theta"))
        n = len(self.theta)
        summaries = np.array(x, dtype=np.float64)
        summaries = summaries[:, None] if summaries.ndim == 1 else summaries
        if summaries.ndim != 2 or summaries.shape[1] == 0:
            raise ArgumentError(
                "x", f"x has shape {summaries.shape}; give one row of summaries for each simulation, (n, s)."
            )
        check_same_length(summaries, "x", n, "theta")
        finite = np.asarray(np.isfinite(summaries).all(axis=1))
        self.valid: np.ndarray = frozen(finite if valid is None else finite & _flags(valid, n))
        summaries[~self.valid] = np.nan
        self.x: np.ndarray = frozen(summaries)
        self.reasons: np.ndarray = frozen(self._reasons(reasons, finite))
        self.raw: np.ndarray | None = None if raw is None else frozen(raw)
        if self.raw is not None:
            check_same_length(self.raw, "raw", n, "theta")
        self.named = names is not None
        default = (f"theta_{i + 1}" for i in range(self.theta.shape[1]))
        self.names = tuple(default if names is None else names)
        if len(self.names) != self.theta.shape[1]:
            raise ArgumentError(
                "names", f"names has {len(self.names)} entries but theta has {self.theta.shape[1]} columns."
            )
        self.summary_names = None if summary_names is None else tuple(summary_names)
        if self.summary_names is not None and len(self.summary_names) != self.x.shape[1]:
            raise ArgumentError(
                "summary_names",
                f"summary_names has {len(self.summary_names)} entries but x has {self.x.shape[1]} columns.",
            )

    @property
    def n_valid(self) -> int:
        """The number of simulations that gave a result."""
        return int(self.valid.sum())

    @property
    def n_failed(self) -> int:
        """The number of simulations that did not."""
        return len(self) - self.n_valid

    @property
    def failures(self) -> dict[str, int]:
        """How often each reason occurred, most frequent first."""
        return dict(Counter(self.reasons[~self.valid].tolist()).most_common())

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp] | list[int] | slice) -> Self:
        """Return some of the rows, chosen by numbers or by True and False."""
        fields = self._fields()
        for name in ("theta", "x", "valid", "reasons", "raw"):
            fields[name] = None if fields[name] is None else fields[name][rows]
        return type(self)(**fields)

    def columns(self, kept: NDArray[np.bool_]) -> Self:
        """Return the same simulations with some of the columns of x."""
        names = self.summary_names and [
            name for name, is_kept in zip(self.summary_names, kept, strict=True) if is_kept
        ]
        return type(self)(**{**self._fields(), "x": self.x[:, kept], "summary_names": names})

    def _fields(self) -> dict[str, Any]:
        names = self.names if self.named else None
        return {
            "theta": self.theta,
            "x": self.x,
            "valid": self.valid,
            "reasons": self.reasons,
            "raw": self.raw,
            "names": names,
            "summary_names": self.summary_names,
        }

    def observed_row(self, observed: ArrayLike | Mapping[str, float], iid: bool = False) -> np.ndarray:
        """Return an observation as a row (1, s), its values in the order of x where both have names.

        Parameters
        ----------
        observed : array_like of shape (s,) or mapping
            The observation; with `iid` of shape (t, s).
        iid : bool
            Whether there are several rows, one for each independent observation.

        Examples
        --------
        >>> sims = Simulations([[1.0]], [[0.5, 2.0]], summary_names=["mean", "sd"])
        >>> sims.observed_row({"sd": 2.5, "mean": 0.7}), sims.observed_row([0.7, 2.5])
        (array([[0.7, 2.5]]), array([[0.7, 2.5]]))
        """
        given: Any = observed
        if not iid and np.ndim(given) == 2 and len(given) > 1:
            raise ArgumentError(
                "observed",
                f"observed has {len(given)} rows. If they are independent observations at the same parameters, add "
                "iid=True; if each belongs to parameters of its own, call once for each row.",
            )
        row = as_rows(given, "observed", missing=True) if iid else as_row(observed, "observed", missing=True)
        names = value_names(observed)
        if names is None or self.summary_names is None or len(names) != row.shape[1]:
            return row
        if sorted(names) != sorted(self.summary_names):
            raise ArgumentError(
                "observed",
                f"observed has the names {', '.join(names)}, but the simulator returns "
                f"{', '.join(self.summary_names)}. Give the same names, or, in Python, values without names in that "
                "order.",
            )
        return row[:, [names.index(name) for name in self.summary_names]]

    def ordered_as(self, names: Sequence[str] | None) -> Self:
        """Return the same with the columns of x in the order of `names`; as it is, where either side has no names.

        >>> sims = Simulations([[1.0]], [[0.5, 2.0]], summary_names=["mean", "sd"])
        >>> sims.ordered_as(["sd", "mean"]).x
        array([[2. , 0.5]])
        """
        mine = self.summary_names
        if names is None or mine is None or mine == tuple(names):
            return self
        if sorted(mine) != sorted(names) or len(set(mine)) < len(mine):
            raise ArgumentError(
                "names",
                f"these simulations have the summaries {', '.join(mine)}, but the others have {', '.join(names)}. "
                "Give the same names, each once, in any order.",
            )
        x, own = self.x[:, [mine.index(name) for name in names]], self.names if self.named else None
        return type(self)(self.theta, x, self.valid, self.reasons.tolist(), self.raw, own, names)

    def frame(self) -> "pd.DataFrame":
        """Return a pandas frame: parameters by name, summaries x1, x2, …, valid, reason."""
        import pandas as pd

        columns = dict(zip(self.names, self.theta.T, strict=True))
        columns.update({f"x{j + 1}": column for j, column in enumerate(self.x.T)})
        return pd.DataFrame({**columns, "valid": self.valid, "reason": self.reasons})

    def __add__(self, other: "Simulations") -> Self:
        """Return the rows of both; named columns of x are put in the order of the first."""
        for name in ("theta", "x"):
            mine, theirs = getattr(self, name).shape[1], getattr(other, name).shape[1]
            if mine != theirs:
                raise ArgumentError(
                    "other", f"{name} has {mine} columns here and {theirs} there; they cannot be put together."
                )
        if self.named and other.named and self.names != other.names:
            raise ArgumentError(
                "other",
                f"the parameters are called {', '.join(self.names)} here and {', '.join(other.names)} there; bring "
                "the columns into one order first.",
            )
        other = other.ordered_as(self.summary_names)
        raw = None
        if self.raw is not None and other.raw is not None:
            raw = _stacked(self.raw, other.raw)
        return type(self)(
            np.concatenate([self.theta, other.theta]),
            np.concatenate([self.x, other.x]),
            np.concatenate([self.valid, other.valid]),
            np.concatenate([self.reasons, other.reasons]).tolist(),
            raw,
            self.names if self.named else other.names if other.named else None,
            self.summary_names or other.summary_names,
        )

    def __len__(self) -> int:
        """Return the number of attempts."""
        return len(self.theta)

    def __repr__(self) -> str:
        """Show the counts."""
        shape = f"{self.theta.shape[1]} parameters, {self.x.shape[1]} summaries"
        return f"Simulations({len(self)} attempts, {self.n_failed} failed; {shape})"

    def _reasons(self, reasons: Sequence[str] | None, finite: np.ndarray) -> np.ndarray:
        given = np.array([""] * len(self.theta) if reasons is None else list(reasons), dtype=object)
        check_same_length(given, "reasons", len(self.theta), "theta")
        given[self.valid] = ""
        unexplained = ~self.valid & (given == "")
        given[unexplained & ~finite] = "returned NaN or infinity"
        given[unexplained & finite] = "marked as failed"
        return given


def _stacked(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return data sets of both, as an array of objects where their shapes differ."""
    if first.dtype != object and second.dtype != object and first.shape[1:] == second.shape[1:]:
        return np.concatenate([first, second])
    together = np.empty(len(first) + len(second), dtype=object)
    together[:] = [*first, *second]
    return together


def _flags(valid: ArrayLike, n: int) -> np.ndarray:
    flags = np.asarray(valid)
    if flags.shape != (n,) or flags.dtype != np.bool_:
        raise ArgumentError(
            "valid", f"valid has shape {flags.shape} and type {flags.dtype}; give {n} values True or False."
        )
    return flags
