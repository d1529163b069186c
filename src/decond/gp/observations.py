"""How data see the function f: directly, through given weights, as averages of groups, or through a mediator.

An observation is a frozen value that holds data and parameters. `linearize` turns it into numbers, the pair
(M, Σ) of z̃ = Mᵀ f(x) + noise(Σ), as a pure function of what it holds.
"""

import abc
import functools
from typing import Any

import numpy as np
from scipy import sparse

from decond.checks import as_labels, as_rows, as_weights, check_choice, check_same_length, frozen
from decond.conditional.smoother import Smoother
from decond.errors import ArgumentError, ArgumentTypeError
from decond.features.feature_maps import as_kernel
from decond.gp import linear_gaussian
from decond.gp.linearization import (
    FixedLinearization,
    Gradient,
    Linearization,
    MediatedLinearization,
    SamplingNoise,
)
from decond.gp.posterior import Posterior
from decond.gp.priors import Prior
from decond.kernels.kernel import Kernel
from decond.linalg import add_to_diagonal
from decond.parameters import Parametrized, nonnegative, parameter, positive

__all__ = [
    "Aggregated",
    "Direct",
    "Observation",
    "TaskTransformed",
    "Transformed",
    "as_target_variance",
    "with_known_variance",
]


class Observation(Parametrized, abc.ABC):
    """Data that are linear in f at the rows of `x`, plus Gaussian noise.

    >>> seen = Direct([0.0, 1.0, 2.0], noise=0.5)
    >>> isinstance(seen, Observation), seen.size, seen.linearize().transformation.shape
    (True, 3, (3, 3))
    """

    x: Any

    def __post_init__(self) -> None:
        """Check the points; text stays text, for kernels that take labels."""
        object.__setattr__(self, "x", frozen(as_rows(self.x, "x", labels=True)))
        super().__post_init__()

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """The number m of observed values."""

    @property
    @abc.abstractmethod
    def partner(self) -> str:
        """What the targets are paired with, for messages."""

    def ordered(self, z: Any) -> Any:
        """Return targets in the order of the observed values; row by row, unless a subclass knows labels."""
        return z

    @abc.abstractmethod
    def linearize(self, *, use_features: bool = True) -> Linearization:
        """Return (M, Σ) at the current parameters.

        A pullback needs Gram matrices, so it is there only without the shortcut through finite features.
        """

    def posterior(self, prior: Prior, points: np.ndarray, z: np.ndarray, form: str) -> Posterior:
        """Return the posterior of f given checked points and targets; `condition` checks them."""
        return linear_gaussian.posterior(prior, points, self.linearize(), z, form)

    def log_evidence(self, prior: Prior, points: np.ndarray, z: np.ndarray, form: str) -> float:
        """Return log p(z̃) for checked points and targets."""
        return self.posterior(prior, points, z, form).log_evidence

    def log_evidence_and_gradient(
        self, prior: Prior, points: np.ndarray, z: np.ndarray, with_points: bool
    ) -> tuple[float, Gradient]:
        """Return log p(z̃) and its gradient by path for checked points and targets."""
        linear = self.linearize(use_features=False)
        return linear_gaussian.evidence_and_gradient(prior, points, linear, z, with_points)


class Direct(Observation):
    """z = f(x) + noise: ordinary regression, M = I and Σ = σ²I. `noise` is σ.

    `repeats` says of how many measurements each target is the mean (a number for each row, not necessarily whole):
    its σ² is divided by it. `target_variance` (m,) is a known variance of each target, in addition.

    >>> Direct([0.0, 1.0], noise=0.5, repeats=[1, 2]).linearize().noise_covariance
    array([[0.25 , 0.   ],
           [0.   , 0.125]])
    """

    noise: Any = parameter(default=0.1, constraint=positive)
    repeats: Any = None
    target_variance: Any = None

    def __post_init__(self) -> None:
        """Check that measurements were made."""
        super().__post_init__()
        if self.repeats is not None:
            object.__setattr__(self, "repeats", frozen(_repeats(self.repeats, self.size, self.partner)))
        object.__setattr__(self, "target_variance", as_target_variance(self))

    @property
    def size(self) -> int:
        """One value for each row of x."""
        return len(self.x)

    @property
    def partner(self) -> str:
        """Targets are paired with x."""
        return "x"

    def linearize(self, *, use_features: bool = True) -> Linearization:
        """Return M = I and Σ = σ²I, or σ²/repeats on its diagonal."""
        one = sparse.eye_array(len(self.x), format="csr")
        noise = self.noise**2 if self.repeats is None else self.noise**2 / self.repeats
        return FixedLinearization(one, with_known_variance(noise, self.target_variance), self._pull, identity=True)

    def _pull(self, noise_bar: Any) -> Gradient:
        if self.repeats is None:
            return {"noise": 2.0 * self.noise * _trace(noise_bar)}
        return {"noise": 2.0 * self.noise * float((np.diagonal(noise_bar) / self.repeats).sum())}


class Transformed(Observation):
    """z̃ = Mᵀ f(x) + noise with given M (n, m) and Σ = `scale` · `noise_covariance` + `noise`² I (Table C.1).

    `noise_covariance` is a number, a vector (a diagonal) or a matrix (m, m); None is zero. Where it is known only up
    to a factor, `scale` can be learned; so can `noise`, a standard deviation. `sampling` (m,) says which share of the
    prior variance of f under the weights of column j is noise of target j (see `SamplingNoise`); None is none of it.
    `repeats` (m,) says of how many measurements each target is the mean: `noise`² is divided by it.
    `target_variance` (m,) is a known variance of each target, in addition.

    >>> Transformed([0.0, 1.0], [[1.0], [2.0]], noise=0.5).linearize().noise_covariance
    array([[0.25]])
    """

    transformation: Any
    noise_covariance: Any = None
    noise: Any = parameter(default=0.0, constraint=nonnegative)
    scale: Any = parameter(default=1.0, constraint=positive)
    sampling: Any = None
    repeats: Any = None
    target_variance: Any = None

    def __post_init__(self) -> None:
        """Check shapes and that some noise was given."""
        super().__post_init__()
        transformation = as_rows(self.transformation, "transformation")
        check_same_length(transformation, "transformation", len(self.x), "x")
        object.__setattr__(self, "transformation", frozen(transformation))
        covariance = _noise_covariance(self.noise_covariance, self.size)
        if np.ndim(covariance) == 0 and covariance == 0.0 and self.noise == 0.0:
            raise ArgumentError(
                "noise",
                "noise_covariance and noise are both zero; a noiseless observation cannot be conditioned on stably. "
                "Give a small noise, for example noise=1e-3 times the spread of the targets.",
            )
        object.__setattr__(self, "noise_covariance", covariance)
        if self.sampling is not None:
            object.__setattr__(
                self, "sampling", frozen(as_weights(self.sampling, "sampling", self.size, self.partner))
            )
        if self.repeats is not None:
            object.__setattr__(self, "repeats", frozen(_repeats(self.repeats, self.size, self.partner)))
        object.__setattr__(self, "target_variance", as_target_variance(self))

    @property
    def size(self) -> int:
        """One value for each column of M."""
        return self.transformation.shape[1]

    @property
    def partner(self) -> str:
        """Targets are paired with the columns of M."""
        return "the columns of transformation"

    def linearize(self, *, use_features: bool = True) -> Linearization:
        """Return M and Σ."""
        noise = self.scale * self.noise_covariance
        own = self.noise**2 if self.repeats is None else self.noise**2 / self.repeats
        if np.ndim(noise) == 2:
            add_to_diagonal(noise, own)
        else:
            noise = noise + own
        shares = None if self.sampling is None else sparse.diags_array(self.sampling)
        sampling = None if shares is None else SamplingNoise(self.transformation, shares)
        noise = with_known_variance(noise, self.target_variance)
        return FixedLinearization(self.transformation, noise, self._pull, sampling)

    def _pull(self, noise_bar: Any) -> Gradient:
        trace = _trace(noise_bar)
        parts = (trace, np.diagonal(noise_bar) if np.ndim(noise_bar) else None, noise_bar)
        scale_bar = np.sum(parts[np.ndim(self.noise_covariance)] * self.noise_covariance)
        own = trace if self.repeats is None else float((np.diagonal(noise_bar) / self.repeats).sum())
        return {"noise": 2.0 * self.noise * own, "scale": float(scale_bar)}


class Aggregated(Observation):
    """z̃ = averages of f over groups of rows + noise: one value for each distinct label, in sorted order.

    `weights` (positive, one for each row) make weighted averages; they are scaled to sum to one in each group.
    Two noises, both standard deviations: `noise` of each average and `individual_noise` of each row, which
    averages out: Σ = diag(noise² + individual_noise² Σ_i w_ij²).

    `group_sizes` says how many rows each group really has, of which those listed are a random sample (a few readings
    of a day, a few pixels of a cell): a number for all, one for each label by dict or in sorted order, or infinity.
    The average over the listed rows then differs from the group's by chance, with the variance of a sample mean from
    a finite population, as the prior of f tells it (see `SamplingNoise`). None says that all rows are listed.
    `repeats` says of how many measurements each target is the mean, in the order of the labels: noise² is divided by
    it. `target_variance` is a known variance of each target, in addition.

    >>> daily = Aggregated([0.0, 1.0, 2.0], groups=["a", "a", "b"], noise=0.1)
    >>> daily.linearize().transformation.toarray()
    array([[0.5, 0. ],
           [0.5, 0. ],
           [0. , 1. ]])
    """

    groups: Any
    noise: Any = parameter(default=0.1, constraint=positive)
    individual_noise: Any = parameter(default=0.0, constraint=nonnegative)
    weights: Any = None
    group_sizes: Any = None
    repeats: Any = None
    target_variance: Any = None

    def __post_init__(self) -> None:
        """Check groups and weights."""
        super().__post_init__()
        groups = as_labels(self.groups, "groups", len(self.x), "x")
        if groups.dtype == object and len({isinstance(label, str) for label in groups}) > 1:
            raise ArgumentTypeError(
                "groups", "groups has text and numbers as labels, which have no order. Convert all to text."
            )
        weights = as_weights(self.weights, "weights", len(self.x), "x")
        if np.any(weights <= 0):
            raise ArgumentError(
                "weights",
                f"weights has values down to {weights.min():g}; weights of an average are positive. Drop the rows "
                "that should not count.",
            )
        object.__setattr__(self, "groups", frozen(groups))
        object.__setattr__(self, "weights", frozen(weights))
        repeats = np.ones(self.size) if self.repeats is None else self.repeats
        object.__setattr__(self, "repeats", frozen(_repeats(repeats, self.size, self.partner)))
        if self.group_sizes is not None:
            object.__setattr__(self, "group_sizes", frozen(self._checked_sizes()))
        object.__setattr__(self, "target_variance", as_target_variance(self))

    def _checked_sizes(self) -> np.ndarray:
        """Return the size of every group, in the order of the labels."""
        listed = np.unique(self.groups, return_counts=True)[1]
        sizes = self.group_sizes
        if np.ndim(sizes) == 0 and not isinstance(sizes, dict):
            sizes = np.full(self.size, sizes)
        try:
            given = np.asarray(self.ordered(sizes, "group_sizes"), dtype=np.float64)
        except (TypeError, ValueError) as error:
            if isinstance(error, ArgumentError):
                raise
            raise ArgumentError(
                "group_sizes", f"group_sizes is {self.group_sizes!r}; give a number of rows, infinity, or a dict."
            ) from error
        if given.shape != (self.size,) or np.any(np.isnan(given)):
            raise ArgumentError(
                "group_sizes",
                f"group_sizes has shape {given.shape}; give one number, infinity, or one number for each of the "
                f"{self.size} distinct labels of groups.",
            )
        if np.any(given < listed):
            first = int(np.argmax(given < listed))
            raise ArgumentError(
                "group_sizes",
                f"group_sizes says that group {self.labels[first]} has {given[first]:g} rows, but {listed[first]} "
                "are listed. Count all rows of each group, listed or not; leave it out if all are listed.",
            )
        return given

    @property
    def unlisted(self) -> np.ndarray:
        """The share of the rows of each group that is not listed, in the order of the labels."""
        if self.group_sizes is None:
            return np.zeros(self.size)
        return 1.0 - np.unique(self.groups, return_counts=True)[1] / self.group_sizes

    @property
    def labels(self) -> np.ndarray:
        """The distinct labels, in the order of the targets."""
        return np.unique(self.groups)

    @property
    def size(self) -> int:
        """One value for each label."""
        return len(self.labels)

    @property
    def partner(self) -> str:
        """Targets are paired with the labels."""
        return "the distinct labels of groups"

    def linearize(self, *, use_features: bool = True) -> Linearization:
        """Return the averaging matrix and the two noises."""
        labels, index = np.unique(self.groups, return_inverse=True)
        shares = self.weights / np.bincount(index, self.weights)[index]
        shape = (len(self.x), len(labels))
        averaging = sparse.csr_array((shares, (np.arange(len(self.x)), index)), shape=shape)
        spread = np.bincount(index, shares**2)
        noise = self.noise**2 / self.repeats + self.individual_noise**2 * spread
        noise = with_known_variance(noise, self.target_variance)
        unlisted = self.unlisted
        sampling = SamplingNoise.of_groups(averaging, 1.0 / spread, unlisted) if unlisted.any() else None
        return FixedLinearization(averaging, noise, functools.partial(self._pull, spread), sampling)

    def _pull(self, spread: np.ndarray, noise_bar: Any) -> Gradient:
        diagonal = np.diagonal(noise_bar)
        return {
            "noise": 2.0 * self.noise * (diagonal / self.repeats).sum(),
            "individual_noise": 2.0 * self.individual_noise * (diagonal @ spread),
        }

    def ordered(self, z: Any, name: str = "z") -> Any:
        """Return targets in the order of the labels; a dict, or a Series indexed by label, is matched by label."""
        index = z.keys() if isinstance(z, dict) else getattr(z, "index", None)
        if index is None or callable(index):
            return z
        counted = not isinstance(z, dict) and list(index) == list(range(len(z)))
        if counted and not any(label in index for label in self.labels):
            return z  # rows are only numbered
        known = np.empty(len(index), dtype=object)
        known[:] = list(index)
        given = as_labels(known, f"the labels of {name}", len(index), name).tolist()
        rows = {label: i for i, label in enumerate(given)}
        if set(rows) != set(self.labels.tolist()) or len(index) != self.size:
            raise ArgumentError(
                name,
                f"{name} is labeled by {list(index)[:5]}, but groups has the labels {list(self.labels)[:5]}; "
                "every label of groups needs exactly one target. Use the same labels, or give a plain array in "
                "sorted order.",
            )
        values = list(z.values()) if isinstance(z, dict) else np.asarray(z)
        return np.array([values[rows[label]] for label in self.labels.tolist()])


class TaskTransformed(Observation):
    """z̃ = E[f(X) | Y = ỹ] + noise, with p(x | y) known through pairs (x, y) only (Theorem 5.3 of the paper).

    `kernel_y` is the covariance ℓ of the mediating function g. ``mediator="full"`` keeps the uncertainty of g in
    Σ = L̃̃ + σ²I - L̃ᵀ(L + τ²I)⁻¹L̃; ``"map"`` replaces g by its mean, Σ = σ²I, which gives the deconditional
    mean embedding. `noise` is σ; `mediator_noise` is τ, by default tied to σ as in the paper (λ = τ²/n and
    ε = σ²/m).

    >>> from decond.kernels import RBF
    >>> seen = TaskTransformed(x=[0.0, 1.0], y=[0.0, 1.0], y_task=[0.5], kernel_y=RBF(), noise=0.1)
    >>> seen.linearize().transformation.round(3).ravel()
    array([0.546, 0.546])
    """

    y: Any
    y_task: Any
    kernel_y: Kernel
    noise: Any = parameter(default=0.1, constraint=positive)
    mediator: str = "full"
    mediator_noise: Any = parameter(default=None, constraint=positive)
    target_variance: Any = None

    def __post_init__(self) -> None:
        """Check both tables."""
        super().__post_init__()
        check_choice(self.mediator, "mediator", ("full", "map"))
        kernel = as_kernel(self.kernel_y, "kernel_y")
        y, y_task = kernel.points(self.y, "y"), kernel.points(self.y_task, "y_task")
        check_same_length(y, "y", len(self.x), "x")
        if y_task.shape[1] != y.shape[1]:
            raise ArgumentError(
                "y_task",
                f"y_task has {y_task.shape[1]} column(s) but y has {y.shape[1]}; the mediator links the two tables, "
                "so both need the same columns.",
            )
        object.__setattr__(self, "kernel_y", kernel)
        object.__setattr__(self, "y", frozen(y))
        object.__setattr__(self, "y_task", frozen(y_task))
        object.__setattr__(self, "target_variance", as_target_variance(self))

    @property
    def size(self) -> int:
        """One value for each task row."""
        return len(self.y_task)

    @property
    def partner(self) -> str:
        """Targets are paired with y_task."""
        return "y_task"

    def linearize(self, *, use_features: bool = True) -> Linearization:
        """Return A and Σ."""
        tau = self.noise if self.mediator_noise is None else self.mediator_noise
        smoother = Smoother(self.kernel_y, self.y, tau**2, "L + τ²I", use_features=use_features)
        noise = with_known_variance(self.noise**2, self.target_variance)
        return MediatedLinearization(smoother, self.y_task, noise, self.mediator == "full", self._parameter_pullback)

    def _parameter_pullback(
        self, noise_bar: Any, cross_bar: np.ndarray, gram_bar: np.ndarray, points: bool
    ) -> Gradient:
        """Sum the contributions of L, L̃, L̃̃ to the parameters of kernel_y (and to y), and those of the noises."""
        within = self.kernel_y.symmetric_pullback(self.y, gram_bar, points=points)
        across = self.kernel_y.pullback(self.y, self.y_task, cross_bar, points=points)
        parts = [within.parameters, across.parameters]
        if self.mediator == "full":
            parts.append(self.kernel_y.symmetric_pullback(self.y_task, noise_bar, points=False).parameters)
        gradient = {f"kernel_y.{path}": sum(part[path] for part in parts) for path in parts[0]}
        if points:
            gradient["y"] = within.a + within.b + across.a
        gradient["noise"] = 2.0 * self.noise * _trace(noise_bar)
        ridge_bar = float(np.trace(gram_bar))
        if self.mediator_noise is None:
            gradient["noise"] += 2.0 * self.noise * ridge_bar
        else:
            gradient["mediator_noise"] = 2.0 * self.mediator_noise * ridge_bar
        return gradient


def _repeats(value: Any, size: int, partner: str) -> np.ndarray:
    """Return how many measurements each target is the mean of, checked."""
    repeats = as_weights(value, "repeats", size, partner)
    if np.any(repeats <= 0):
        raise ArgumentError(
            "repeats",
            f"repeats has values down to {repeats.min():g}; it counts measurements of a target. Give 1 or more.",
        )
    return repeats


def as_target_variance(observation: Any) -> np.ndarray | None:
    """Return the known variances of the targets of an observation, checked and read-only."""
    if observation.target_variance is None:
        return None
    variance = as_weights(observation.target_variance, "target_variance", observation.size, observation.partner)
    if np.any(variance < 0):
        raise ArgumentError(
            "target_variance", f"target_variance has values down to {variance.min():g}; variances are not negative."
        )
    return frozen(variance)


def with_known_variance(noise: Any, target_variance: np.ndarray | None) -> Any:
    """Return a noise (a variance, a vector of them, or a matrix) with known variances of the targets added."""
    if target_variance is None:
        return noise
    if np.ndim(noise) == 2:
        add_to_diagonal(noise, target_variance)
        return noise
    return noise + target_variance


def _trace(noise_bar: Any) -> float:
    """Return the trace of an adjoint that is given in full, or already as its trace."""
    return float(noise_bar) if np.ndim(noise_bar) == 0 else float(np.trace(noise_bar))


def _noise_covariance(value: Any, size: int) -> Any:
    """Return a noise covariance as a number, a vector or a symmetric matrix, checked."""
    covariance = np.asarray(0.0 if value is None else value, dtype=np.float64)
    accepted = f"a number, a vector ({size},) or a matrix ({size}, {size})"
    if covariance.shape not in ((), (size,), (size, size)):
        raise ArgumentError("noise_covariance", f"noise_covariance has shape {covariance.shape}; give {accepted}.")
    diagonal = np.diagonal(covariance) if covariance.ndim == 2 else covariance
    if not np.isfinite(covariance).all() or np.any(diagonal < 0):
        raise ArgumentError(
            "noise_covariance",
            f"noise_covariance has negative or non-finite variances; give {accepted} of variances.",
        )
    if covariance.ndim == 2 and not np.allclose(covariance, covariance.T, rtol=1e-8, atol=0.0):
        raise ArgumentError(
            "noise_covariance",
            "noise_covariance is not symmetric; average it with its transpose if that is rounding.",
        )
    if covariance.ndim == 2 and np.linalg.eigvalsh(covariance)[0] < -1e-10 * np.trace(covariance):
        raise ArgumentError(
            "noise_covariance",
            "noise_covariance has negative eigenvalues, so it is no covariance. Check how it was computed.",
        )
    return frozen(covariance) if covariance.ndim else float(covariance)
