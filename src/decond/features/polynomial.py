"""Explicit features: the points themselves, and all monomials up to a degree."""

import itertools
import math
from typing import Any

import numpy as np

from decond.backend import namespace
from decond.checks import as_count
from decond.features.base import FeatureMap
from decond.parameters import parameter, positive

__all__ = ["Identity", "Polynomial"]


class Identity(FeatureMap):
    """The points themselves: linear models.

    >>> Identity()([[1.0, 2.0]])
    array([[1., 2.]])
    """

    def transform(self, a: Any) -> Any:
        """Return the points."""
        return a


class Polynomial(FeatureMap):
    """Monomials with the weights that make φ(a)·φ(b) = (a·b + offset)^degree.

    >>> Polynomial(degree=2, offset=1.0)([[3.0]])
    array([[1.        , 4.24264069, 9.        ]])
    """

    degree: int = 2
    offset: Any = parameter(default=1.0, constraint=positive)

    def __post_init__(self) -> None:
        """Check the degree."""
        as_count(self.degree, "Polynomial: degree")
        super().__post_init__()

    def transform(self, a: Any) -> Any:
        """Return √(multinomial · offset^j₀) Π a_i^j_i for all exponents j that sum to the degree."""
        xp = namespace(a, self.offset)
        columns = []
        for exponents in _exponents(a.shape[1] + 1, self.degree):
            weight = math.factorial(self.degree) / math.prod(math.factorial(j) for j in exponents)
            column = xp.sqrt(weight * self.offset ** exponents[0]) * xp.ones(a.shape[0])
            for i, j in enumerate(exponents[1:]):
                if j:
                    column = column * a[:, i] ** j
            columns.append(column)
        return xp.stack(columns, axis=1)


def _exponents(terms: int, degree: int) -> list[tuple[int, ...]]:
    """Return all tuples of `terms` whole numbers that sum to `degree`, the constant term first."""
    picks = itertools.combinations_with_replacement(range(terms), degree)
    return [tuple(np.bincount(pick, minlength=terms).tolist()) for pick in picks]
