"""The sparse representation of a large table, as a model that learning can work on."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from decond.checks import check_choice, frozen
from decond.features.feature_maps import as_kernel
from decond.kernels.kernel import Kernel
from decond.parameters import Constraint, Parametrized, constraints, leaves, parameter, positive, with_leaves
from decond.streaming.evidence import Ridges, collect, log_evidence_and_gradient
from decond.streaming.head import Head, Whitening
from decond.streaming.posterior import ConditionalMeanPosterior, SparsePosterior
from decond.streaming.sources import Source
from decond.streaming.statistics import Statistics

__all__ = ["SparseModel"]


class SparseModel(Parametrized):
    """z = E[f | rows] + noise through inducing points u: the sparse representation of section 8.2 of the paper.

    It is the task-transformed model with x = y = u, one kernel for both functions and a point estimate of the
    mediating one: z ~ N(0, AᵀKA + σ²I) with A = (K + τ²I)⁻¹ k(u, X), K = k(u, u). `noise` is σ; `mediator_noise` is
    τ, tied to σ by default. The rows are no part of the model: it reads them from a `Source`, such as a `Table`.

    >>> from decond.kernels import RBF
    >>> from decond.streaming import Table
    >>> model = SparseModel(RBF(), inducing=[[0.0], [2.0]], noise=0.1)
    >>> data = Table([[0.0], [1.0], [2.0]], [1.0, 0.0, -1.0])
    >>> model.condition(model.statistics(data)).mean([[0.0], [2.0]]).round(2)
    array([ 1., -1.])
    """

    kernel: Kernel
    inducing: Any
    noise: Any = parameter(default=0.1, constraint=positive)
    mediator_noise: Any = parameter(default=None, constraint=positive)

    def __post_init__(self) -> None:
        """Check the inducing points."""
        kernel = as_kernel(self.kernel, "kernel")
        object.__setattr__(self, "kernel", kernel)
        object.__setattr__(self, "inducing", frozen(kernel.points(self.inducing, "inducing")))
        super().__post_init__()

    @property
    def ridges(self) -> Ridges:
        """σ² and τ²."""
        mediator = self.noise if self.mediator_noise is None else self.mediator_noise
        return Ridges(self.noise**2, mediator**2)

    def statistics(self, source: Source) -> Statistics:
        """Return the sums over all rows that this model needs of them; they add up over tables."""
        return collect(self.kernel, self.inducing, self._whitening(), source)

    def condition(self, statistics: Statistics, flat: bool = True, of: str = "latent") -> SparsePosterior:
        """Return the posterior given rows with these statistics; `flat` if targets came as a flat array.

        It is that `of` the "latent" function f, or of the "targets": the conditional mean g that they are values of.
        """
        check_choice(of, "of", ("latent", "targets"))
        return (SparsePosterior if of == "latent" else ConditionalMeanPosterior)(self, statistics, flat)

    def values(self) -> dict[str, Any]:
        """Return all parameters by path."""
        return leaves(self)

    def points(self) -> dict[str, Any]:
        """Return the inducing points, which can be learned as well."""
        return {"inducing": self.inducing}

    def constraints(self) -> dict[str, Constraint]:
        """Return the constraints of the parameters, by path."""
        return constraints(self)

    def with_values(self, values: Mapping[str, Any]) -> "SparseModel":
        """Return the model with the values at these paths replaced."""
        numbers = {path: value for path, value in values.items() if path != "inducing"}
        model: SparseModel = with_leaves(self, numbers)
        return model.replace(inducing=values["inducing"]) if "inducing" in values else model

    def log_evidence(self, z: Source) -> float:
        """Return log p(z), in one pass over rows and targets."""
        whitening = self._whitening()
        statistics = collect(self.kernel, self.inducing, whitening, z)
        return Head(statistics, whitening.prior, self.ridges.noise).log_evidence

    def log_evidence_and_gradient(self, z: Source, *, points: bool = True) -> tuple[float, dict[str, Any]]:
        """Return log p(z) and its gradient by path, in two passes over rows and targets.

        The gradient of the inducing points comes with the others, asked for or not.
        """
        value, slopes = log_evidence_and_gradient(self.kernel, self.inducing, self.ridges, z)
        gradient = {f"kernel.{path}": bar for path, bar in slopes.kernel.items()}
        gradient["inducing"] = slopes.inducing
        gradient["noise"] = 2.0 * self.noise * slopes.noise
        if self.mediator_noise is None:
            gradient["noise"] += 2.0 * self.noise * slopes.mediator
        else:
            gradient["mediator_noise"] = 2.0 * self.mediator_noise * slopes.mediator
        return value, gradient

    def _whitening(self) -> Whitening:
        return Whitening(self.kernel, np.asarray(self.inducing), self.ridges.mediator)
