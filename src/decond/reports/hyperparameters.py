"""Learned hyperparameters by names that users know, and in their units."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from decond.kernels import Categorical, Columns, Linear, Polynomial, White
from decond.reports.fitted_data import FittedData

if TYPE_CHECKING:
    from decond.gp import Model
    from decond.parameters import Parametrized

__all__ = ["Hyperparameter", "candidate_weights", "hyperparameters"]


@dataclass(frozen=True)
class Hyperparameter:
    """One learned number: its name, its value in the user's units, and a 95 % range if it was sampled."""

    name: str
    value: float
    unit: str = ""
    range: tuple[float, float] | None = None


def candidate_weights(estimator: BaseEstimator) -> dict[str, float]:
    """Return the weights of the candidate models by name, the largest first; of estimators without them, none.

    >>> from decond.estimators import AggregateGP
    >>> x, groups = np.arange(12.0), np.repeat(np.arange(6), 2)
    >>> candidate_weights(AggregateGP(n_restarts=0).fit(x, groups, np.arange(6.0)))
    {'the listed rows': 1.0}
    """
    average = getattr(estimator, "average_", None)
    return {} if average is None else dict(average.table())


def hyperparameters(
    estimator: BaseEstimator, data: FittedData, units: Mapping[str, str] | None = None
) -> list[Hyperparameter]:
    """Return the learned hyperparameters that have a meaning in the user's units.

    Parameters
    ----------
    estimator : fitted estimator
    data : FittedData
        What it was fitted on, for the names of columns.
    units : mapping of str to str, optional
        Units by the name of a column or target.

    Returns
    -------
    list of Hyperparameter

    Examples
    --------
    >>> from decond.estimators import DirectGP
    >>> from decond.reports.fitted_data import fitted_data
    >>> x = np.linspace(0, 10, 30)
    >>> gp = DirectGP(n_restarts=0).fit(x[:, None], np.sin(x))
    >>> found = hyperparameters(gp, fitted_data(gp, {"X": x[:, None], "y": np.sin(x)}, "power"), {"power": "kW"})
    >>> [(item.name, item.unit) for item in found][:2]
    [('smooth variation of power (sd)', 'kW'), ('linear trend of power (sd)', 'kW')]
    """
    result = getattr(estimator, "fit_result_", None)
    if result is None:
        return []
    sampled = _sampled_candidate(estimator)
    mediator = [] if data.mediator is None else data.mediator.columns
    found: list[Hyperparameter] = []
    for path, value in result.parameters.items():
        owner, _, name = path.rpartition(".")
        of_mediator = "kernel_y" in owner or "features_y" in owner
        place = _placed(owner, result.model, list(map(str, mediator if of_mediator else data.x.columns)))
        named = _named(name, value, place, data.target, units or {})
        if sampled is not None and path in sampled.values[0]:
            draws = np.array([draw[path] for draw in sampled.values])
            ends = np.quantile(draws, [0.025, 0.975], axis=0, weights=sampled.weights, method="inverted_cdf")
            low, high = (_named(name, end, place, data.target, {}) for end in ends)
            named = [replace(one, range=(a.value, b.value)) for one, a, b in zip(named, low, high, strict=True)]
        found += named
    return _numbered(found)


def _sampled_candidate(estimator: BaseEstimator) -> Any:
    """Return the heaviest candidate of an estimator, if its hyperparameters were sampled; otherwise None."""
    average = getattr(estimator, "average_", None)
    if average is None:
        return None
    candidate = average.candidates[int(np.argmax(average.weights))]
    return candidate if len(candidate.values) >= 40 else None  # 2.5 % of fewer draws is less than one


def _numbered(found: list[Hyperparameter]) -> list[Hyperparameter]:
    """Return each number once (tied ones are there twice); those that share a name are numbered as parts."""
    distinct = list(dict.fromkeys(found))
    often, seen = Counter(item.name for item in distinct), Counter[str]()
    numbered = []
    for item in distinct:
        seen[item.name] += 1
        part = f"{item.name}, part {seen[item.name]}"
        numbered.append(item if often[item.name] == 1 else replace(item, name=part))
    return numbered


class _Place(NamedTuple):
    """Where a parameter stands in a model: its module, and the columns of x or of the mediator that this sees."""

    module: "Model | Parametrized | None"
    columns: Sequence[str]


def _placed(owner: str, module: Any, columns: list[str]) -> _Place:
    """Follow a path such as "prior.kernel.parts.0" to its module; kernels on some columns narrow what it sees."""
    for step in [*owner.split("."), ""]:
        if isinstance(module, Columns):
            columns = [columns[j] for j in module.columns if j < len(columns)]
        if step:
            module = module[int(step)] if step.isdigit() else getattr(module, step, None)
    return _Place(module, columns)


def _named(name: str, value: ArrayLike, place: _Place, target: str, units: Mapping[str, str]) -> list[Hyperparameter]:
    """Return one parameter by name: a lengthscale for each column, deviations instead of variances."""
    if name == "lengthscale":
        count = len(place.columns)
        values = np.broadcast_to(value, count) if np.size(value) in (1, count) else np.empty(0)
        ending = " in the trend" if isinstance(place.module, Linear | Polynomial) else ""
        return [
            Hyperparameter(f"lengthscale of {column}{ending}", float(each), units.get(column, ""))
            for column, each in zip(place.columns, values, strict=False)
        ]
    if name == "variance":
        words, value = _part(place.module), np.sqrt(value)
    else:
        noises = {"individual_noise": "noise in a single row", "mediator_noise": "noise of the mediator"}
        words = {"noise": "noise", **noises}.get(name, "")
    return (
        [Hyperparameter(f"{words} of {target} (sd)", float(np.asarray(value)), units.get(target, ""))]
        if words
        else []
    )


def _part(scaled: object) -> str:
    """Return what a scaled kernel contributes to the function, in words."""
    if isinstance(scaled, White):
        return "scatter of single rows"
    inner = getattr(scaled, "kernel", None)
    inner = inner.kernel if isinstance(inner, Columns) else inner
    if isinstance(inner, Linear):
        return "linear trend"
    return "effect of the labels" if isinstance(inner, Categorical) else "smooth variation"
