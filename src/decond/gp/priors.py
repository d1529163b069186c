"""What is believed of f before any data: a Gaussian process, or a linear model in finite features."""

import abc
from typing import Any

import numpy as np

from decond.errors import ArgumentError, ArgumentTypeError
from decond.features.feature_maps import FeatureMap, as_kernel
from decond.kernels.kernel import Kernel
from decond.parameters import Parametrized, parameter, positive

__all__ = ["FunctionPrior", "Prior", "WeightPrior"]


class Prior(Parametrized, abc.ABC):
    """A Gaussian prior of a function, seen through its covariance function and a constant mean.

    >>> from decond.kernels import RBF
    >>> isinstance(FunctionPrior(RBF()), Prior), FunctionPrior(RBF(2.0)).covariance
    (True, RBF(lengthscale=2.0))
    """

    @property
    @abc.abstractmethod
    def covariance(self) -> Kernel:
        """The covariance function of f."""


class FunctionPrior(Prior):
    """f ~ GP(mean, kernel): the kernel models of the cube. `mean` is a number, or one for each target column.

    >>> from decond.kernels import RBF
    >>> FunctionPrior(RBF(2.0))
    FunctionPrior(kernel=RBF(lengthscale=2.0), mean=0.0)
    """

    kernel: Kernel
    mean: Any = parameter(default=0.0, per_column=True)

    def __post_init__(self) -> None:
        """Accept a feature map in place of its kernel."""
        object.__setattr__(self, "kernel", as_kernel(self.kernel, "kernel"))
        super().__post_init__()

    @property
    def covariance(self) -> Kernel:
        """The kernel."""
        return self.kernel


class WeightPrior(Prior):
    """f(x) = mean + wᵀφ(x) with w ~ N(0, γ²I): the linear models of the cube. `variance` is γ².

    >>> from decond.features import Identity
    >>> WeightPrior(Identity(), variance=4.0).covariance([[1.0]], [[2.0]])
    array([[8.]])
    """

    features: FeatureMap
    variance: Any = parameter(default=1.0, constraint=positive)
    mean: Any = parameter(default=0.0, per_column=True)

    def __post_init__(self) -> None:
        """Check that features were given."""
        if not isinstance(self.features, FeatureMap):
            raise ArgumentTypeError(
                "features",
                f"WeightPrior: features is {self.features!r}; a feature map is needed, for example "
                "features.Polynomial(2). For a kernel use FunctionPrior.",
            )
        super().__post_init__()

    @property
    def covariance(self) -> Kernel:
        """The kernel γ² φ(a)·φ(b)."""
        return self.features.kernel(self.variance)


def prior_mean(prior: Prior, targets: int) -> np.ndarray:
    """Return the prior's mean for each target column."""
    mean = np.atleast_1d(prior.mean)  # type: ignore[attr-defined]
    if len(mean) not in (1, targets):
        raise ArgumentError(
            "mean",
            f"mean has {len(mean)} values but there are {targets} target column(s). Give one number, or one for "
            "each column.",
        )
    return np.broadcast_to(mean, targets)
