"""Covariance functions, in the units of your data.

`lengthscale` is one number or one for each column. Numbers scale kernels, ``+``, ``*`` and ``**`` compose
them, and ``.on(columns)`` lets a kernel see some columns only.

>>> k = 2.0 * RBF(lengthscale=0.5).on([0]) + Linear().on([1])
>>> k([[0.0, 1.0], [1.0, 2.0]]).round(3)
array([[3.   , 2.271],
       [2.271, 6.   ]])
"""

from decond.kernels.composite import Columns, Power, Product, Scaled, Sum
from decond.kernels.kernel import Kernel, Pullback
from decond.kernels.nonstationary import Categorical, Constant, Linear, Polynomial, Precomputed, White
from decond.kernels.stationary import (
    RBF,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    Stationary,
    median_heuristic,
)

__all__ = [
    "RBF",
    "Categorical",
    "Columns",
    "Constant",
    "Kernel",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Periodic",
    "Polynomial",
    "Power",
    "Precomputed",
    "Product",
    "Pullback",
    "RationalQuadratic",
    "Scaled",
    "Stationary",
    "Sum",
    "White",
    "median_heuristic",
]
