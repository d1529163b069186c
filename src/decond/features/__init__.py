"""Finite feature maps: rows of points in, rows of features out.

A feature map can stand wherever an operator takes a kernel; work is then done with matrices of the size of the
features where that is cheaper. `phi.kernel(variance)` is its kernel.
"""

from decond.features.feature_maps import (
    FeatureKernel,
    FeatureMap,
    Identity,
    Nystrom,
    Polynomial,
    RandomFourier,
    as_kernel,
)

__all__ = ["FeatureKernel", "FeatureMap", "Identity", "Nystrom", "Polynomial", "RandomFourier", "as_kernel"]
