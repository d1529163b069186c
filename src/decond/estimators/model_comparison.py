"""Several estimators on two tables that share a mediator: one table, one picture.

Where the truth is not known, task rows are held out, and every function of x explains them through the same weights.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import ndtri
from sklearn.base import BaseEstimator, clone

from decond.checks import as_count, as_rows, as_values, check_column_names, column_names
from decond.comparison import (
    Comparison,
    Lines,
    Rows,
    Run,
    checked_seeds,
    chosen_by_label,
    concluded,
)
from decond.conditional import MediatorSmoother
from decond.conditional.mediator import label_columns, linked_mediators, ranges_apart
from decond.errors import ArgumentError, ArgumentTypeError
from decond.estimators.baselines import CascadeGP, EcologicalGP, ImputeGP
from decond.estimators.defaults import plain_kernel
from decond.estimators.dual import DualEmbedding
from decond.estimators.task_transformed import TaskTransformedGP
from decond.estimators.task_transformed_features import TaskTransformedFeatures
from decond.estimators.task_transformed_ridge import TaskTransformedRidge
from decond.plotting.regression_plot import Curve, mean_and_std, rows_along
from decond.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compare"]

MODELS: dict[str, tuple[type[BaseEstimator], dict[str, Any]]] = {
    "honest": (TaskTransformedGP, {}),
    "plain": (TaskTransformedGP, {"uncertainty": "plain"}),
    "features": (TaskTransformedFeatures, {}),
    "ridge": (TaskTransformedRidge, {}),
    "dual": (DualEmbedding, {}),
    "cascade": (CascadeGP, {}),
    "impute": (ImputeGP, {}),
    "ecological": (EcologicalGP, {}),
}
"""Names that `compare` and the command line accept: estimators, and options of theirs."""

BAND = float(ndtri(0.975))
"""Standard deviations on either side of a mean that hold 95 % of a normal distribution."""

ERROR, INSIDE, HELD_OUT_ERROR = "RMSE", "truth inside 95 %", "held-out RMSE"


def compare(
    x: ArrayLike,
    y: ArrayLike,
    y_task: ArrayLike,
    z_task: ArrayLike,
    models: str | Sequence[str] | Mapping[str, Any] = "all",
    truth: Callable[[np.ndarray], ArrayLike] | tuple[ArrayLike, ArrayLike] | None = None,
    *,
    folds: int = 5,
    cross_validate: bool | None = None,
    seeds: int | Sequence[int] = 1,
    progress: bool | None = None,
) -> Comparison:
    """Fit several estimators to pairs (x, y) and task rows (y, z), and return one table and one picture.

    **Where the truth is known**: the root mean square error of f, and the fraction of the truth inside the 95 % band
    of models that have one. **Where it is not**: task rows are held out in folds. Their z is predicted as
    E[f(X) | y] = Σ_i a_i(y) f(x_i), with each model's f and the same weights a(y) for all models, which are learned
    from the pairs alone; so it is the functions that are compared. For a mediator of labels, whole labels are held
    out, and a(y) is the mean over their rows.

    A model that cannot be fitted is a row with the reason among its notes.

    Parameters
    ----------
    x : array_like of shape (n, d)
        Rows of the pairs.
    y : array_like of shape (n, e)
        Their mediator.
    y_task : array_like of shape (m, e)
        The mediator of the task rows.
    z_task : array_like of shape (m,)
        Their target.
    models : "all", sequence of str, or mapping
        Names (honest, plain, features, ridge, dual, cascade, impute, ecological), or names or estimators by label.
    truth : callable or (x, f), optional
        f as a function of rows of x, looked at where the pairs are; or rows of x and f there. Where these values have
        noise, the error has it too, and the fraction inside says little.
    folds : int
        In how many parts task rows are held out.
    cross_validate : bool, optional
        Whether to hold out task rows; by default where the truth is not known.
    seeds : int or sequence of int
        Of models and folds: how many, or which. The table holds means over them.
    progress : bool, optional
        Show a bar; by default on a terminal only.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from decond.problems import latent_function
    >>> p = latent_function()
    >>> found = compare(p.x, p.y, p.y_task, p.z_task, ["plain", "cascade"], truth=p.f)
    >>> found.best, found.frame["RMSE"].between(0.0, 3.0).all()
    ('plain', np.True_)
    """
    tables = Tables.checked(x, y, y_task, z_task)
    chosen = _chosen_models(models)
    known = None if truth is None else _truth(tables, truth)
    held_out = None
    if known is None if cross_validate is None else cross_validate:
        held_out = HeldOut(tables.x_rows, *tables.mediators, tables.z, as_count(folds, "folds"))
    runs: list[Run] = []
    chosen_seeds = checked_seeds(seeds)
    with progress_bar("comparing", len(chosen) * len(chosen_seeds), progress) as report:
        for seed in chosen_seeds:
            for label, model in chosen.items():
                report(len(runs), words=f"comparing: {label}")
                runs.append(_run(label, _built(model, seed), tables, known, held_out, seed))
        report(len(runs), words="comparing")
    return _concluded(tables, known, held_out, runs)


class Tables(NamedTuple):
    """Pairs and task rows; x as a frame with names."""

    x: "pd.DataFrame"
    y: Any
    y_task: Any
    z: np.ndarray
    x_rows: np.ndarray
    mediators: tuple[np.ndarray, np.ndarray]
    given: Any
    """x as it was given."""
    warnings: list[str]
    """Warnings about the tables, which hold for all models."""

    @classmethod
    def checked(cls, x: ArrayLike, y: ArrayLike, y_task: ArrayLike, z_task: ArrayLike) -> "Tables":
        """Raise unless the tables can be linked and there is one target.

        Parameters
        ----------
        x, y : array_like of shape (n, d) and (n, e)
            The pairs.
        y_task, z_task : array_like of shape (m, e) and (m,)
            The task rows.
        """
        import pandas as pd

        rows = as_rows(x, "x", labels=True)
        mediators = linked_mediators(rows, y, y_task)
        z = as_values(z_task, "z_task", len(mediators[1]), "y_task")
        if z.ndim > 1:
            raise ArgumentError(
                "z_task", f"z_task has {z.shape[1]} columns; compare takes one target. Compare each in its turn."
            )
        names = ["x"] if rows.shape[1] == 1 else [f"x{j + 1}" for j in range(rows.shape[1])]
        frame = x if isinstance(x, pd.DataFrame) else pd.DataFrame(rows, columns=names).infer_objects()
        return cls(frame, y, y_task, z, rows, mediators, x, ranges_apart(*mediators, columns=column_names(y)))


class Truth(NamedTuple):
    """Rows of x, and f there."""

    x: "pd.DataFrame"
    f: np.ndarray

    def curve(self) -> Curve:
        """Return f of a single column."""
        at = self.x.iloc[:, 0].to_numpy(dtype=np.float64)
        order = np.argsort(at)
        return Curve(str(self.x.columns[0]), at[order], self.f[order])


def _truth(tables: Tables, truth: Callable[[np.ndarray], ArrayLike] | tuple[ArrayLike, ArrayLike]) -> Truth:
    """Return rows and values of f; raise unless there is one value for each row."""
    import pandas as pd

    if callable(truth):
        rows, values = tables.x, np.ravel(truth(tables.x_rows))
    elif isinstance(truth, tuple | list) and len(truth) == 2:
        check_column_names(truth[0], "truth[0]", column_names(tables.given))
        given = as_rows(truth[0], "truth[0]", labels=True)
        if given.shape[1] != tables.x_rows.shape[1]:
            raise ArgumentError(
                "truth[0]", f"the x of truth has {given.shape[1]} column(s), but x has {tables.x_rows.shape[1]}."
            )
        rows = pd.DataFrame(given, columns=list(tables.x.columns)).infer_objects()
        values = np.ravel(truth[1])
    else:
        raise ArgumentTypeError(
            "truth", f"truth is {type(truth).__name__}; give a function of rows of x, or rows and values (x, f)."
        )
    values = as_values(values, "truth", len(rows), "its rows")
    return Truth(rows, values)


def _chosen_models(models: str | Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Return estimators, or their names, by label; raise if a name is unknown."""
    return chosen_by_label(models, "model", list(MODELS), BaseEstimator, "an estimator such as TaskTransformedGP()")


def _built(model: str | BaseEstimator, seed: int) -> Any:
    """Return an estimator of its own for one run, with the seed of that run if it takes one."""
    kind, options = MODELS[model] if isinstance(model, str) else (None, {})
    own: Any = kind(**options) if kind else clone(model)
    return own.set_params(seed=seed) if "seed" in own.get_params() else own


def _run(
    label: str, model: BaseEstimator, tables: Tables, known: Truth | None, held_out: "HeldOut | None", seed: int
) -> Run:
    """Fit one estimator and score it; whatever it raises is the reason why its row, or a part of it, is empty."""
    begin = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            model.fit(tables.x, tables.y, tables.y_task, tables.z)
        row: dict[str, Any] = {"seconds": time.perf_counter() - begin}
        if known is not None:
            row |= _scores(model, known)
    except Exception as error:  # one model may not take the others down; the error is kept
        return Run.failed(label, seed, error)
    messages = (str(warning.message) for warning in caught)
    scores = (
        {} if held_out is None else {"held-out rows": lambda: {HELD_OUT_ERROR: held_out.error(model, tables, seed)}}
    )
    return Run(label, seed, model, row).scored([text for text in messages if text not in tables.warnings], scores)


def _scores(model: BaseEstimator, known: Truth) -> dict[str, float]:
    mean, std = mean_and_std(model, known.x)
    error = mean - known.f
    inside = np.nan if std is None else float(np.mean(np.abs(error) <= BAND * std))
    return {ERROR: float(np.sqrt(np.mean(error**2))), INSIDE: inside}


def _concluded(tables: Tables, known: Truth | None, held_out: "HeldOut | None", runs: list[Run]) -> Comparison:
    measured = [*([ERROR, INSIDE] if known else []), *([HELD_OUT_ERROR] if held_out else [])]
    notes = [f"{len(tables.x)} pairs and {len(tables.z)} task rows.", *tables.warnings]
    if held_out is not None:
        notes.append(
            "Held-out z is predicted by E[f(X) | y], with the same weights for all models, from the pairs alone."
        )
    return concluded(
        "two tables",
        runs,
        [*measured, "seconds"],
        measured[0] if measured else "",
        notes,
        lambda frame, models: _panels(tables, known, models, frame, measured),
        lambda reasons, _: ArgumentError("models", f"no model could be fitted: {reasons}"),
    )


def _panels(
    tables: Tables, known: Truth | None, found: dict[str, Any], frame: "pd.DataFrame", measured: list[str]
) -> list[Rows | Lines]:
    """Return functions along the first few columns of x, what was measured, and the seconds."""
    numbers = [name for name in tables.x.columns if tables.x[name].dtype.kind in "biuf"][:3]
    panels: list[Rows | Lines] = []
    columns = tables.x.shape[1]
    some = "each column" if len(numbers) == columns else f"{len(numbers)} of {columns} columns, each"
    note = f"{some} alone, the others at their median" if columns > 1 else ""
    for name in numbers:
        rows = rows_along(tables.x, name, 200)
        curves = {
            label: Curve(str(name), rows[name].to_numpy(), *mean_and_std(model, rows))
            for label, model in found.items()
        }
        panels.append(Lines("f", curves, known.curve() if known and columns == 1 else None, note))
        note = ""
    shown = [name for name in measured if name in frame and frame[name].notna().any()]
    panels += [Rows(name, frame[name].to_dict(), 0.95 if name == INSIDE else None) for name in shown]
    return [*panels, Rows("seconds", frame["seconds"].to_dict(), log=True)]


class HeldOut:
    """Expectations E[f(X) | y] = Σ_i a_i(y) f(x_i) with weights from the pairs alone, and folds of task rows.

    For labels a(y) is the mean over the rows of the label, and whole labels are held out. Otherwise it is the
    smoother that predicts a Gaussian kernel of x best, as the honest estimator chooses it; what its weights lack to
    one is spread over all pairs.

    Parameters
    ----------
    x : ndarray of shape (n, d)
        Rows of the pairs; of many with a mediator of numbers, a random part is used.
    y, y_task : ndarray of shape (n, e) and (m, e)
        Mediator of pairs and of task rows.
    z : ndarray of shape (m,)
        Targets.
    folds : int
        Number of folds.
    """

    def __init__(
        self, x: NDArray[Any], y: NDArray[Any], y_task: NDArray[Any], z: NDArray[np.float64], folds: int
    ) -> None:
        self.z = z
        if folds < 2:
            raise ArgumentError("folds", f"folds is {folds}; give at least 2, or cross_validate=False.")
        if len(label_columns(y)) == y.shape[1]:
            self._average_labels(y, y_task)
        else:
            self._smooth(x, y, y_task)
        if len(np.unique(self._units[self.known])) < 2:
            raise ArgumentError(
                "y_task",
                "the two tables share one label only, so none can be held out. Give truth=..., or "
                "cross_validate=False to compare the functions without errors.",
            )
        self.folds = min(folds, len(np.unique(self._units)))

    def _average_labels(self, y: NDArray[Any], y_task: NDArray[Any]) -> None:
        """Set weights that average the rows of each label; labels that no pair has are not known."""
        numbers: dict[tuple[object, ...], int] = {}
        self._units = np.array([numbers.setdefault(tuple(row), len(numbers)) for row in y_task])
        labels = np.array([numbers.get(tuple(row), -1) for row in y])
        self._pairs = np.flatnonzero(labels >= 0)
        labels = labels[self._pairs]
        counts = np.bincount(labels, minlength=len(numbers))
        self.known = counts[self._units] > 0
        entries, shape = (np.arange(len(labels)), labels), (len(labels), len(numbers))
        self._weights = sparse.csc_array((1.0 / counts[labels], entries), shape=shape)[:, self._units]

    def _smooth(self, x: NDArray[Any], y: NDArray[Any], y_task: NDArray[Any], most_pairs: int = 2000) -> None:
        """Set the weights of a kernel smoother; each column sums to one."""
        self._pairs = np.sort(np.random.default_rng(0).permutation(len(x))[:most_pairs])
        x, y = x[self._pairs], y[self._pairs]
        weights = MediatorSmoother(x, y, y_task, seed=0).expectation(plain_kernel(x, 1.0).kernel).weights
        self._units, self.known = np.arange(len(y_task)), weights.any(axis=0)
        self._weights = weights + (1.0 - weights.sum(axis=0)) / len(x)

    def expectation(self, model: BaseEstimator, x: "pd.DataFrame") -> NDArray[np.float64]:
        """Return E[f(X) | y] at all task rows.

        Parameters
        ----------
        model : estimator
            A fitted one, whose predictions are f.
        x : DataFrame of shape (n, d)
            Rows of the pairs.
        """
        return np.asarray(self._weights.T @ np.asarray(model.predict(x.iloc[self._pairs]), dtype=np.float64))

    def error(self, model: BaseEstimator, tables: Tables, seed: int) -> float:
        """Return the root mean square error of held-out targets.

        Parameters
        ----------
        model : estimator
            What is fitted to the rest of the task rows.
        tables : Tables
            Pairs and task rows.
        seed : int
            Seed of the folds.
        """
        squares = []
        for held in self._parts(seed):
            fitted = clone(model).fit(tables.x, tables.y, _rows(tables.y_task, ~held), self.z[~held])
            squares.append((self.z - self.expectation(fitted, tables.x))[held & self.known] ** 2)
        return float(np.sqrt(np.mean(np.concatenate(squares))))

    def _parts(self, seed: int) -> list[NDArray[np.bool_]]:
        """Return masks of task rows, each held out once."""
        order = np.random.default_rng(seed).permutation(np.unique(self._units))
        return [np.isin(self._units, part) for part in np.array_split(order, self.folds)]


def _rows(table: Any, mask: NDArray[np.bool_]) -> Any:
    """Return some rows of an array, a frame or a list."""
    if isinstance(table, list | tuple):
        return [row for row, taken in zip(table, mask, strict=True) if taken]
    return table[mask] if not hasattr(table, "iloc") else table.iloc[np.flatnonzero(mask)]
