"""Learned hyperparameters in words and in the user's units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from decond.kernels import Categorical, Columns, Linear
from decond.reports.document import number

__all__ = ["Hyperparameter", "Names", "hyperparameters"]

NOISES = {
    "noise": ("noise", "a single target scatters by about ± {} around what the function says"),
    "individual_noise": ("noise in a single row", "a single row scatters by about ± {} around the function"),
    "mediator_noise": ("noise of the mediator", "the ridge on the mediator is worth a scatter of about ± {}"),
}
"""Names of noises, and sentences about them."""

FLAT = 2.0
"""A lengthscale longer than this many times the range of its column leaves the function almost unchanged."""


@dataclass(frozen=True)
class Names:
    """What columns are called; their ranges and units make sentences plainer where they are known."""

    x: Sequence[str]
    y: Sequence[str] = ()
    z: str = "z"
    ranges: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)

    def with_unit(self, value: float, name: str) -> str:
        """Return a value with the unit of a column."""
        return " ".join([number(value, 3), *([self.units[name]] if self.units.get(name) else [])])


@dataclass(frozen=True)
class Hyperparameter:
    """One learned number: its name, its value in the user's units, and a sentence about it."""

    name: str
    value: float
    sentence: str


def hyperparameters(result: Any, names: Names) -> list[Hyperparameter]:
    """Return the hyperparameters of a `FitResult` that can be said in words.

    >>> import numpy as np
    >>> from decond.estimators import DirectGP
    >>> x = np.linspace(0, 10, 30)
    >>> result = DirectGP(n_restarts=0).fit(x[:, None], np.sin(x)).fit_result_
    >>> found = hyperparameters(result, Names(["wind"], z="power", ranges={"wind": 10.0}, units={"wind": "m/s"}))
    >>> [item.name for item in found][:2]
    ['smooth variation of power (sd)', 'linear trend of power (sd)']
    """
    found: dict[str, Hyperparameter] = {}
    for path, value in result.parameters.items():
        for item in _in_words(path, value, result.model, names):
            found[item.name] = item
    return list(found.values())


def _in_words(path: str, value: Any, model: Any, names: Names) -> list[Hyperparameter]:
    """Return one parameter by words: a lengthscale for each column, deviations instead of variances."""
    owner, _, name = path.rpartition(".")
    if name == "lengthscale":
        of_mediator = "kernel_y" in path
        columns = names.y if of_mediator else names.x
        values = np.broadcast_to(value, len(columns)) if np.size(value) in (1, len(columns)) else np.empty(0)
        return [
            Hyperparameter(
                f"lengthscale of {column}", float(v), _about_lengthscale(column, float(v), of_mediator, names)
            )
            for column, v in zip(columns, values, strict=False)
        ]
    if name == "variance":
        return [_about_variance(_part(_find(model, owner)), float(np.sqrt(value)), names)]
    if name in NOISES:
        words, sentence = NOISES[name]
        text = sentence.format(names.with_unit(float(value), names.z))
        return [Hyperparameter(f"{words} of {names.z} (sd)", float(value), _sentence(text))]
    return []


def _about_lengthscale(column: str, value: float, of_mediator: bool, names: Names) -> str:
    about = names.with_unit(value, column)
    if of_mediator:
        return _sentence(f"what the mediator {column} tells of x changes over about {about}")
    span = names.ranges.get(column)
    if span is not None and value > FLAT * span:
        spans = names.with_unit(span, column)
        return f"{names.z} hardly changes with {column}: it would over about {about}, and the rows span {spans}."
    within = "" if span is None else f"; the rows span {names.with_unit(span, column)}"
    return f"{names.z} changes over about {about} of {column}{within}."


def _about_variance(part: str, deviation: float, names: Names) -> Hyperparameter:
    sentences = {
        "linear trend": f"a straight trend makes up about ± {{}} of {names.z}",
        "effect of the labels": f"labels shift {names.z} by about ± {{}}",
        "smooth variation": f"the smooth part of {names.z} varies by about ± {{}}",
    }
    text = sentences[part].format(names.with_unit(deviation, names.z))
    return Hyperparameter(f"{part} of {names.z} (sd)", deviation, _sentence(text))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _find(model: Any, path: str) -> Any:
    """Return the module at a path such as "prior.kernel.parts.0"."""
    for step in path.split("."):
        model = model[int(step)] if step.isdigit() else getattr(model, step)
    return model


def _part(scaled: Any) -> str:
    """Return what a scaled kernel contributes to the function, in words."""
    inner = getattr(scaled, "kernel", None)
    inner = inner.kernel if isinstance(inner, Columns) else inner
    if isinstance(inner, Linear):
        return "linear trend"
    return "effect of the labels" if isinstance(inner, Categorical) else "smooth variation"
