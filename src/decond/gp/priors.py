"""What is believed of f before any data: a Gaussian process, or a linear model in finite features."""

import abc
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decond.errors import ArgumentError, ArgumentTypeError
from decond.features import FeatureMap, as_kernel
from decond.kernels.kernel import Kernel
from decond.parameters import Parametrized, parameter, positive

__all__ = ["FunctionPrior", "Prior", "WeightPrior"]


class Prior(Parametrized, abc.ABC):
    """A Gaussian prior of a function, seen through its covariance function and a constant mean.

    >>> from decond.kernels import RBF
    >>> isinstance(FunctionPrior(RBF()), Prior), FunctionPrior(RBF(2.0)).covariance
    (True, RBF(lengthscale=2.0))
    """

    _scope = "prior."
    """Where the parameters of the covariance are found."""

    @property
    @abc.abstractmethod
    def covariance(self) -> Kernel:
        """The covariance function of f."""

    @property
    def feature_map(self) -> FeatureMap | None:
        """The finite features that f is linear in, if there are any."""
        return None

    def mean_of(self, targets: int) -> NDArray[np.float64]:
        """Return the prior mean for each of so many target columns."""
        mean = np.atleast_1d(self.mean)  # type: ignore[attr-defined]
        if len(mean) not in (1, targets):
            raise ArgumentError(
                "mean",
                f"mean has {len(mean)} values but there are {targets} target column(s). Give one number, or one for "
                "each column.",
            )
        return np.broadcast_to(mean, targets)

    def gradient(self, covariance_bar: Mapping[str, Any], mean_bar: NDArray[np.float64]) -> dict[str, Any]:
        """Return a gradient by path.

        Parameters
        ----------
        covariance_bar : mapping of str to float or ndarray
            Derivatives with respect to the parameters of the covariance.
        mean_bar : ndarray of shape (t,)
            Derivatives with respect to the mean of each target column; one mean shared by all gets their sum.
        """
        found = {self._scope + path: bar for path, bar in covariance_bar.items()}
        mean = self.mean  # type: ignore[attr-defined]
        if np.ndim(mean) == 0:
            return {**found, "prior.mean": float(mean_bar.sum())}
        return {**found, "prior.mean": mean_bar if len(mean) == len(mean_bar) else mean_bar.sum(keepdims=True)}


class FunctionPrior(Prior):
    """f ~ GP(mean, kernel): the kernel models of the cube.

    Parameters
    ----------
    kernel : Kernel or FeatureMap
        Covariance of f.
    mean : float or array_like of shape (t,)
        A constant, or one for each target column.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> FunctionPrior(RBF(2.0))
    FunctionPrior(kernel=RBF(lengthscale=2.0), mean=0.0)
    """

    kernel: Kernel
    mean: Any = parameter(default=0.0, per_column=True)

    _scope = "prior.kernel."

    def __post_init__(self) -> None:
        """Accept a feature map in place of its kernel."""
        object.__setattr__(self, "kernel", as_kernel(self.kernel, "kernel"))
        super().__post_init__()

    @property
    def covariance(self) -> Kernel:
        """The kernel."""
        return self.kernel


class WeightPrior(Prior):
    """f(x) = mean + wᵀφ(x) with w ~ N(0, γ²I): the linear models of the cube.

    Parameters
    ----------
    features : FeatureMap
        φ.
    variance : float
        γ².
    mean : float or array_like of shape (t,)
        A constant, or one for each target column.

    Examples
    --------
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
    def feature_map(self) -> FeatureMap:
        """The features."""
        return self.features

    @property
    def covariance(self) -> Kernel:
        """The kernel γ² φ(a)·φ(b)."""
        return self.features.kernel(self.variance)
