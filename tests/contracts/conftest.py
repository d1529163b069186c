"""Every kernel and feature map of the library, in points of three columns. A new one belongs in these lists."""

import numpy as np
import pytest

from decond import features, kernels

KERNELS = {
    "rbf": kernels.RBF(0.8),
    "rbf per column": kernels.RBF([0.5, 1.0, 2.0]),
    "matern12": kernels.Matern12(0.8),
    "matern32": kernels.Matern32([0.5, 1.0, 2.0]),
    "matern52": kernels.Matern52(0.8),
    "rational quadratic": kernels.RationalQuadratic(0.8, alpha=1.7),
    "periodic": kernels.Periodic([0.9, 1.1, 1.3], period=[1.0, 2.0, 3.0]),
    "periodic, one for all columns": kernels.Periodic(0.9, period=2.0),
    "rational quadratic per column": kernels.RationalQuadratic([0.5, 1.0, 2.0], alpha=0.6),
    "matern12 per column": kernels.Matern12([0.5, 1.0, 2.0]),
    "linear about a center": kernels.Linear(1.3, center=[0.1, -0.2, 0.3]),
    "linear": kernels.Linear([0.5, 1.0, 2.0]),
    "polynomial": kernels.Polynomial(3, offset=0.7, lengthscale=1.5),
    "constant": kernels.Constant(1.7),
    "white": kernels.White(0.6),
    "categorical": kernels.Categorical(),
    "scaled": 2.5 * kernels.RBF(0.8),
    "sum": kernels.RBF(0.8) + kernels.Linear(1.2),
    "sum of scaled": 2.0 * kernels.RBF(0.8) + 0.5 * kernels.Matern32(2.0) ** 2,
    "plus a number": kernels.RBF(0.8) + 1.0,
    "product": kernels.RBF(0.8) * kernels.Matern52(1.1),
    "product of scaled": kernels.Matern52(1.1) * (2.5 * kernels.RBF([0.5, 1.0, 2.0])),
    "power": kernels.Matern32(0.8) ** 3,
    "power of scaled": (0.7 * kernels.Matern32(0.8)) ** 3,
    "columns": kernels.RBF([0.8, 0.3]).on([0, 2]) + kernels.Linear().on(1),
    "columns that overlap": kernels.RBF(0.8).on([0, 1]) * kernels.Periodic(1.2).on([1, 2]),
    "columns of scaled": (1.3 * kernels.RBF(0.8)).on([0, 2]),
    "fourier features": features.RandomFourier(kernels.Matern32(0.8), 7, seed=1).kernel(1.4),
    "fourier features of a product": features.RandomFourier(
        1.3 * (kernels.RBF([0.8, 1.0]).on([0, 2]) * (0.7 * kernels.Matern32(1.1)) ** 2), 7, seed=1
    ).kernel(1.4),
    "fourier features of a sum": features.RandomFourier(kernels.RBF(0.8) + kernels.Matern52(1.1), 7, seed=1).kernel(),
    "nystrom features": features.Nystrom(
        kernels.RBF(0.9), [[0.0, 0.1, 0.2], [1.0, 0.5, -1.0], [-1.0, 2.0, 0.3]]
    ).kernel(0.8),
    "polynomial features": features.Polynomial(2, offset=0.6).kernel(0.8),
    "identity features": features.Identity().kernel(2.0),
}

FEATURES = {name: kernel.features for name, kernel in KERNELS.items() if hasattr(kernel, "features")}


@pytest.fixture(params=list(KERNELS), scope="session")
def kernel(request):
    return KERNELS[request.param]


@pytest.fixture(params=list(FEATURES), scope="session")
def feature_map(request):
    return FEATURES[request.param]


@pytest.fixture(scope="session")
def points():
    """Nine rows, of which two are equal and one is at the origin."""
    rows = np.random.default_rng(3).standard_normal((9, 3))
    rows[4] = rows[1]
    rows[7] = 0.0
    return rows
