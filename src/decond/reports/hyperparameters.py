"""Learned hyperparameters in words and in the user's units."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from decond.kernels import Categorical, Columns, Linear, Polynomial, White
from decond.notebook import number

__all__ = ["Hyperparameter", "Names", "candidate_weights", "hyperparameters", "sampled_values"]


@dataclass(frozen=True)
class Names:
    """What columns are called; their ranges and units make sentences plainer where they are known."""

    x: Sequence[str]
    y: Sequence[str] = ()
    z: str = "z"
    ranges: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)

    def with_unit(self, value: float, name: str) -> str:
        """Return a value with the unit of a column, if it has one.

        Parameters
        ----------
        value : float
        name : str
            The column, or the target.

        Returns
        -------
        str
        """
        return f"{number(value, 3)} {self.units.get(name, '')}".rstrip()


@dataclass(frozen=True)
class Hyperparameter:
    """One learned number: its name, its value in the user's units, a sentence about it, a 95 % range if sampled."""

    name: str
    value: float
    sentence: str
    range: tuple[float, float] | None = None


def sampled_values(estimator: Any) -> Any:
    """Return the heaviest candidate of an estimator, if its hyperparameters were sampled; otherwise None."""
    average = getattr(estimator, "average_", None)
    if average is None:
        return None
    candidate = average.candidates[int(np.argmax(average.weights))]
    return candidate if len(candidate.values) >= 40 else None  # 2.5 % of fewer draws is less than one


def candidate_weights(estimator: Any) -> dict[str, float]:
    """Return the weights of the candidate models by name, the largest first; of estimators without them, none.

    >>> from decond.estimators import AggregateGP
    >>> x, groups = np.arange(12.0), np.repeat(np.arange(6), 2)
    >>> candidate_weights(AggregateGP(n_restarts=0).fit(x, groups, np.arange(6.0)))
    {'the listed rows': 1.0}
    """
    average = getattr(estimator, "average_", None)
    return {} if average is None else dict(average.table())


def hyperparameters(result: Any, names: Names, sampled: Any = None) -> list[Hyperparameter]:
    """Return the hyperparameters of a fit that can be said in words.

    Parameters
    ----------
    result : FitResult
    names : Names
        What columns are called.
    sampled : candidate model, optional
        Has draws of the hyperparameters: their 95 % ranges are returned as well.

    Returns
    -------
    list of Hyperparameter

    Examples
    --------
    >>> import numpy as np
    >>> from decond.estimators import DirectGP
    >>> x = np.linspace(0, 10, 30)
    >>> result = DirectGP(n_restarts=0).fit(x[:, None], np.sin(x)).fit_result_
    >>> found = hyperparameters(result, Names(["wind"], z="power", ranges={"wind": 10.0}, units={"wind": "m/s"}))
    >>> [item.name for item in found][:2]
    ['smooth variation of power (sd)', 'linear trend of power (sd)']
    """
    found: list[Hyperparameter] = []
    for path, value in result.parameters.items():
        place, name = _placed(path.rpartition(".")[0], result.model, names), path.rpartition(".")[2]
        said = _in_words(name, value, place, names)
        if sampled is not None and path in sampled.values[0]:
            draws = np.array([draw[path] for draw in sampled.values])
            ends = np.quantile(draws, [0.025, 0.975], axis=0, weights=sampled.weights, method="inverted_cdf")
            low, high = (_in_words(name, end, place, names) for end in ends)
            said = [replace(one, range=(a.value, b.value)) for one, a, b in zip(said, low, high, strict=True)]
        found += said
    return _numbered(found)


def _numbered(found: list[Hyperparameter]) -> list[Hyperparameter]:
    """Return each number once (tied ones are there twice); those that share a name are numbered as parts."""
    distinct = list(dict.fromkeys(found))
    often = Counter(item.name for item in distinct)
    seen: Counter[str] = Counter()
    numbered = []
    for item in distinct:
        seen[item.name] += 1
        part = f"part {seen[item.name]}"
        alone = often[item.name] == 1
        numbered.append(item if alone else replace(item, name=f"{item.name}, {part}"))
    return numbered


@dataclass(frozen=True)
class _Place:
    """Where a parameter stands in a model: its module, and the columns of x or of the mediator that this sees."""

    module: Any
    columns: Sequence[str]
    of_mediator: bool


def _placed(owner: str, model: Any, names: Names) -> _Place:
    """Follow a path such as "prior.kernel.parts.0" to its module; kernels on some columns narrow what it sees."""
    of_mediator = "kernel_y" in owner or "features_y" in owner
    columns = list(names.y if of_mediator else names.x)
    for step in owner.split(".") if owner else ():
        if isinstance(model, Columns):
            columns = [columns[j] for j in model.columns if j < len(columns)]
        model = model[int(step)] if step.isdigit() else getattr(model, step, None)
    if isinstance(model, Columns):
        columns = [columns[j] for j in model.columns if j < len(columns)]
    return _Place(model, columns, of_mediator)


def _in_words(name: str, value: Any, place: _Place, names: Names) -> list[Hyperparameter]:
    """Return one parameter by words: a lengthscale for each column, deviations instead of variances."""
    if name == "lengthscale":
        count = len(place.columns)
        values = np.broadcast_to(value, count) if np.size(value) in (1, count) else np.empty(0)
        return [
            _about_lengthscale(column, float(v), place, names)
            for column, v in zip(place.columns, values, strict=False)
        ]
    if name == "variance":
        return [_about_variance(_part(place.module), float(np.sqrt(value)), names)]
    noises = {
        "noise": ("noise", "A single target scatters by about ± {} around what the function says."),
        "individual_noise": ("noise in a single row", "A single row scatters by about ± {} around the function."),
        "mediator_noise": ("noise of the mediator", "The ridge on the mediator is worth a scatter of about ± {}."),
    }
    if name not in noises:
        return []
    words, sentence = noises[name]
    said = sentence.format(names.with_unit(float(value), names.z))
    return [Hyperparameter(f"{words} of {names.z} (sd)", float(value), said)]


def _about_lengthscale(column: str, value: float, place: _Place, names: Names) -> Hyperparameter:
    about, name = names.with_unit(value, column), f"lengthscale of {column}"
    if isinstance(place.module, Linear | Polynomial):
        said = f"The trend of {names.z} along {column} is counted in steps of {about}."
        return Hyperparameter(f"{name} in the trend", value, said)
    if place.of_mediator:
        said = f"Mediators closer than about {about} in {column} go with similar x."
        return Hyperparameter(name, value, said)
    span = names.ranges.get(column)
    if span is not None and value > span:
        spans = names.with_unit(span, column)
        said = f"Nearly straight in {column}: {names.z} would bend over about {about}, and the rows span {spans}."
        return Hyperparameter(name, value, said)
    within = "" if span is None else f"; the rows span {names.with_unit(span, column)}"
    said = f"Rows closer than about {about} in {column} have similar {names.z}{within}."
    return Hyperparameter(name, value, said)


def _about_variance(part: str, deviation: float, names: Names) -> Hyperparameter:
    about = names.with_unit(deviation, names.z)
    sentences = {
        "linear trend": f"A straight trend makes up about ± {about} of {names.z}.",
        "effect of the labels": f"Labels shift {names.z} by about ± {about}.",
        "scatter of single rows": f"Single rows scatter by about ± {about} of {names.z}.",
        "smooth variation": f"The smooth part of {names.z} varies by about ± {about}.",
    }
    return Hyperparameter(f"{part} of {names.z} (sd)", deviation, sentences[part])


def _part(scaled: Any) -> str:
    """Return what a scaled kernel contributes to the function, in words."""
    if isinstance(scaled, White):
        return "scatter of single rows"
    inner = getattr(scaled, "kernel", None)
    inner = inner.kernel if isinstance(inner, Columns) else inner
    if isinstance(inner, Linear):
        return "linear trend"
    return "effect of the labels" if isinstance(inner, Categorical) else "smooth variation"
