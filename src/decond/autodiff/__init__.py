"""Gradients through kernels and features: where JAX runs (and in `decond.lfi.neural`).

Matrix algebra has its adjoints written by hand (`decond.linalg` and the modules above it); what they need from here
is the last step of the chain rule.
"""

from decond.autodiff.distances import traced_squared_distance
from decond.autodiff.pullbacks import (
    Pullback,
    features_pullback,
    gram_above,
    gram_pullback,
    rows_pullback,
    symmetric_gram_pullback,
)
from decond.autodiff.running import device, in_float64
from decond.autodiff.slopes import traced_with_slope

__all__ = [
    "Pullback",
    "device",
    "features_pullback",
    "gram_above",
    "gram_pullback",
    "in_float64",
    "rows_pullback",
    "symmetric_gram_pullback",
    "traced_squared_distance",
    "traced_with_slope",
]
