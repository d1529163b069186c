"""How data see the function f: directly, through given weights, as averages of groups, or through a mediator.

An observation is a frozen value that holds data and parameters. `linearize` turns it into numbers, the pair
(M, Σ) of z̃ = Mᵀ f(x) + noise(Σ), as a pure function of what it holds. Where data are not linear in f, an
observation conditions in its own way.
"""

import abc
import functools
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from decond.checks import as_labels, as_rows, as_targets, as_weights, check_choice, check_same_length, frozen
from decond.conditional.smoother import Smoother
from decond.errors import ArgumentError, ArgumentTypeError
from decond.features import as_kernel
from decond.gp.linear_gaussian import (
    Gradient,
    Linearization,
    MediatedLinearization,
    Noise,
    SamplingNoise,
    evidence_and_gradient,
)
from decond.gp.posteriors import FORMS, Posterior, posterior_of
from decond.gp.priors import Prior
from decond.kernels.kernel import Kernel
from decond.linalg import add_to_diagonal, solve_pullback
from decond.parameters import Parametrized, nonnegative, parameter, positive
from decond.threads import threads_for

__all__ = ["Aggregated", "Direct", "Observation", "TaskTransformed", "Transformed"]

Array = NDArray[np.float64]


Targets = ArrayLike | Mapping[Any, float]
"""Targets in one or several columns; those of groups may be labeled, in a dict or Series."""


class Observation(Parametrized, abc.ABC):
    """Data about f at the rows of `x`: how they are conditioned on, and their evidence with its gradient.

    A subclass whose data are linear in f, plus Gaussian noise, gives `linearize` and `noise_gradient`. Others
    override `_posterior`, `_log_evidence` and `_log_evidence_and_gradient`.

    >>> seen = Direct([0.0, 1.0, 2.0], noise=0.5)
    >>> isinstance(seen, Observation), seen.size, seen.linearize().transformation.shape
    (True, 3, (3, 3))
    """

    x: Any

    def __post_init__(self) -> None:
        """Check the points; text stays text, for kernels that take labels."""
        self._set(x=as_rows(self.x, "x", labels=True))
        super().__post_init__()

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """The number m of observed values."""

    @property
    @abc.abstractmethod
    def partner(self) -> str:
        """What the targets are paired with, for messages."""

    @property
    def noise_unit(self) -> float:
        """What `noise` is multiplied by to be in units of the targets."""
        return 1.0

    def noise_variance(self, noise: float, mean: Array, variance: Array) -> Any:
        """Return the variance of the noise of a new target of f with this mean and variance, in units of the targets.

        Parameters
        ----------
        noise : float
            In units of the targets.
        mean, variance : ndarray
            Of f at the new target.
        """
        return np.square(noise)

    @abc.abstractmethod
    def linearize(self, *, use_features: bool = True) -> Linearization:
        """Return (M, Σ) at the current parameters; gradients need it without the shortcut through finite features."""

    def noise_gradient(self, noise_bar: Noise) -> Gradient:
        """Return the gradient of the parameters of the noise, by field.

        `noise_bar` is the derivative of the log evidence with respect to every entry of `linearize().noise`: a matrix
        (m, m), or its trace if the noise is the same for all targets. Of the matrix of a direct observation only the
        lower triangle counts.
        """
        raise NotImplementedError(f"{type(self).__name__} has no noise_gradient, so its noise cannot be learned.")

    def ordered(self, z: Targets, name: str = "z") -> Any:
        """Return targets in the order of the observed values; row by row, unless a subclass knows labels.

        Parameters
        ----------
        z : array_like, dict or Series
            Targets.
        name : str
            What messages call them.
        """
        return z

    def condition(self, prior: Prior, z: Targets, form: str = "auto") -> Posterior:
        """Return the posterior of f, see `decond.gp.condition`.

        Parameters
        ----------
        prior : Prior
            Prior of f.
        z : array_like of shape (m,) or (m, t)
            Targets.
        form : {"auto", "function", "inducing", "weight"}
            The algebraic form.
        """
        check_choice(form, "form", FORMS)
        points, targets = self.checked(prior, z)
        with threads_for(max(len(points), len(targets))):
            return self._posterior(prior, points, targets, form)

    def log_evidence(self, prior: Prior, z: Targets, form: str = "auto") -> float:
        """Return log p(z̃), see `decond.gp.log_evidence`.

        Parameters
        ----------
        prior : Prior
            Prior of f.
        z : array_like of shape (m,) or (m, t)
            Targets.
        form : {"auto", "function", "inducing", "weight"}
            The algebraic form.
        """
        check_choice(form, "form", FORMS)
        points, targets = self.checked(prior, z)
        with threads_for(max(len(points), len(targets))):
            return self._log_evidence(prior, points, targets, form)

    def log_evidence_and_gradient(self, prior: Prior, z: Targets, *, points: bool = False) -> tuple[float, Gradient]:
        """Return log p(z̃) and its gradient by path, see `decond.gp.log_evidence_and_gradient`.

        Parameters
        ----------
        prior : Prior
            Prior of f.
        z : array_like of shape (m,) or (m, t)
            Targets.
        points : bool
            Whether to differentiate with respect to x, and y of a mediator, too.
        """
        rows, targets = self.checked(prior, z)
        with threads_for(max(len(rows), len(targets))):
            return self._log_evidence_and_gradient(prior, rows, targets, points)

    def _posterior(self, prior: Prior, points: NDArray[Any], z: Array, form: str) -> Posterior:
        return posterior_of(prior, points, self.linearize(), z, form)

    def _log_evidence(self, prior: Prior, points: NDArray[Any], z: Array, form: str) -> float:
        return posterior_of(prior, points, self.linearize(), z, form).log_evidence

    def _log_evidence_and_gradient(
        self, prior: Prior, points: NDArray[Any], z: Array, with_points: bool
    ) -> tuple[float, Gradient]:
        linear = self.linearize(use_features=False)
        pullback = functools.partial(self._gradient, linear)
        value, gradient = evidence_and_gradient(prior, points, linear, z, with_points, pullback)
        return value, gradient

    def _gradient(
        self,
        linear: Linearization,
        noise_bar: Noise,
        rows_bar: Array | None = None,
        middle_bar: Array | None = None,
        *,
        points: bool = True,
    ) -> Gradient:
        """Return the gradient of the parameters, by field, and with `points` that of a mediator's points.

        `noise_bar` is as for `noise_gradient`. `rows_bar` is the adjoint of W at fixed K and E (that of M,
        taken through Bᵀ); it is overwritten. `middle_bar` is the lower triangle of the adjoint of K - E.
        """
        return self.noise_gradient(noise_bar)

    def checked(self, prior: Prior, z: Targets) -> tuple[NDArray[Any], Array]:
        """Return points that the prior's kernel accepts and targets that fit the observation; raise if they do not.

        Parameters
        ----------
        prior : Prior
            Prior of f.
        z : array_like of shape (m,) or (m, t)
            Targets.
        """
        if not isinstance(prior, Prior):
            raise ArgumentTypeError(
                "prior",
                f"prior is {prior!r}; give a FunctionPrior or WeightPrior, for example FunctionPrior(kernels.RBF()).",
            )
        points = prior.covariance.points(self.x, "x")
        return points, as_targets(self.ordered(z), "z", self.size, self.partner)

    def _set(self, **values: Any) -> None:
        """Replace fields by checked values, arrays read-only."""
        for name, value in values.items():
            object.__setattr__(self, name, frozen(value) if isinstance(value, np.ndarray) else value)

    def _set_repeats(self) -> None:
        """Check how many measurements each target is the mean of."""
        if self.repeats is None:  # type: ignore[attr-defined]
            return
        repeats = as_weights(self.repeats, "repeats", self.size, self.partner)  # type: ignore[attr-defined]
        if np.any(repeats <= 0):
            raise ArgumentError(
                "repeats",
                f"repeats has values down to {repeats.min():g}; it counts measurements of a target. Give 1 or more.",
            )
        self._set(repeats=repeats)

    def _set_target_variance(self) -> None:
        """Check the known variances of the targets."""
        if self.target_variance is None:  # type: ignore[attr-defined]
            return
        variance = as_weights(self.target_variance, "target_variance", self.size, self.partner)  # type: ignore[attr-defined]
        if np.any(variance < 0):
            raise ArgumentError(
                "target_variance",
                f"target_variance has values down to {variance.min():g}; variances are not negative.",
            )
        self._set(target_variance=variance)


class Direct(Observation):
    """z = f(x) + noise: ordinary regression, M = I and Σ = σ²I.

    Parameters
    ----------
    x : array_like of shape (m, d)
        The rows.
    noise : float
        σ.
    repeats : array_like of shape (m,), optional
        Of how many measurements each target is the mean, not necessarily whole: its σ² is divided by it.
    target_variance : array_like of shape (m,), optional
        A known variance of each target, in addition.

    Examples
    --------
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
        self._set_repeats()
        self._set_target_variance()

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
        return Linearization(one, with_known_variance(noise, self.target_variance), identity=True)

    def noise_gradient(self, noise_bar: Noise) -> Gradient:
        """Return the gradient of σ."""
        return {"noise": 2.0 * self.noise * _mean_trace(noise_bar, self.repeats)}


class Transformed(Observation):
    """z̃ = Mᵀ f(x) + noise with given M and Σ = `scale` · `noise_covariance` + `noise`² I (Table C.1 of the paper).

    Parameters
    ----------
    x : array_like of shape (n, d)
        The rows.
    transformation : array_like of shape (n, m)
        M.
    noise_covariance : float or array_like of shape (m,) or (m, m), optional
        A variance, a diagonal or a matrix; None is zero.
    noise : float
        A standard deviation, which can be learned.
    scale : float
        A factor of the covariance, which can be learned where that is known only up to one.
    repeats : array_like of shape (m,), optional
        Of how many measurements each target is the mean: `noise`² is divided by it.
    target_variance : array_like of shape (m,), optional
        A known variance of each target, in addition.

    Examples
    --------
    >>> Transformed([0.0, 1.0], [[1.0], [2.0]], noise=0.5).linearize().noise_covariance
    array([[0.25]])
    """

    transformation: Any
    noise_covariance: Any = None
    noise: Any = parameter(default=0.0, constraint=nonnegative)
    scale: Any = parameter(default=1.0, constraint=positive)
    repeats: Any = None
    target_variance: Any = None

    def __post_init__(self) -> None:
        """Check shapes and that some noise was given."""
        super().__post_init__()
        transformation = as_rows(self.transformation, "transformation")
        check_same_length(transformation, "transformation", len(self.x), "x")
        self._set(transformation=transformation)
        covariance = _noise_covariance(self.noise_covariance, self.size)
        if np.ndim(covariance) == 0 and covariance == 0.0 and self.noise == 0.0:
            raise ArgumentError(
                "noise",
                "noise_covariance and noise are both zero; a noiseless observation cannot be conditioned on stably. "
                "Give a small noise, for example noise=1e-3 times the spread of the targets.",
            )
        self._set(noise_covariance=covariance)
        self._set_repeats()
        self._set_target_variance()

    @property
    def size(self) -> int:
        """One value for each column of M."""
        return int(self.transformation.shape[1])

    @property
    def partner(self) -> str:
        """Targets are paired with the columns of M."""
        return "the columns of transformation"

    def linearize(self, *, use_features: bool = True) -> Linearization:
        """Return M and Σ."""
        noise = with_known_variance(
            self.scale * self.noise_covariance,
            self.noise**2 if self.repeats is None else self.noise**2 / self.repeats,
        )
        return Linearization(self.transformation, with_known_variance(noise, self.target_variance))

    def noise_gradient(self, noise_bar: Noise) -> Gradient:
        """Return the gradients of the noise and of the scale of its covariance."""
        full = np.ndim(self.noise_covariance)
        weighed = noise_bar if full == 2 else np.diagonal(noise_bar) if full == 1 else _trace(noise_bar)
        own = _mean_trace(noise_bar, self.repeats)
        return {"noise": 2.0 * self.noise * own, "scale": float(np.sum(weighed * self.noise_covariance))}


class Aggregated(Observation):
    """z̃ = averages of f over groups of rows + noise: one value for each distinct label, in sorted order.

    Σ = diag(noise² / repeats + individual_noise² Σ_i w_ij²).

    Parameters
    ----------
    x : array_like of shape (n, d)
        The listed rows.
    groups : array_like of shape (n,)
        The label of the group of each row.
    noise : float
        Standard deviation of the noise of each average.
    individual_noise : float
        Standard deviation of a noise of each row, which averages out.
    weights : array_like of shape (n,), optional
        Positive weights of the rows, which are scaled to sum to one in each group.
    group_sizes : float, dict or array_like of shape (m,), optional
        How many rows each group really has, of which those listed are a random sample: one number for all, infinity,
        or one for each label, by dict or in sorted order. The average over the listed rows then differs from the
        group's by the error of a sample mean from a finite population, see `SamplingNoise`. None: all are listed.
    repeats : array_like of shape (m,), optional
        Of how many measurements each target is the mean, in the order of the labels.
    target_variance : array_like of shape (m,), optional
        A known variance of each target, in addition.

    Examples
    --------
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
        self._set(groups=groups, weights=weights)
        if self.repeats is None:
            self._set(repeats=np.ones(self.size))
        self._set_repeats()
        if self.group_sizes is not None:
            self._set(group_sizes=self._checked_sizes())
        self._set_target_variance()

    def _checked_sizes(self) -> Array:
        """Return the size of every group, in the order of the labels."""
        sizes = self.group_sizes
        if np.ndim(sizes) == 0 and not isinstance(sizes, dict):
            sizes = np.full(self.size, sizes)
        given = np.asarray(self.ordered(sizes, "group_sizes"))
        if given.shape != (self.size,) or given.dtype.kind not in "iuf" or np.any(np.isnan(given)):
            raise ArgumentError(
                "group_sizes",
                f"group_sizes has shape {given.shape}; give one number, infinity, or one number for each of the "
                f"{self.size} distinct labels of groups.",
            )
        listed = np.unique(self.groups, return_counts=True)[1]
        if np.any(given < listed):
            first = int(np.argmax(given < listed))
            raise ArgumentError(
                "group_sizes",
                f"group_sizes says that group {self.labels[first]} has {given[first]:g} rows, but {listed[first]} "
                "are listed. Count all rows of each group, listed or not; leave it out if all are listed.",
            )
        return given.astype(np.float64)

    @property
    def unlisted(self) -> Array:
        """The fraction of the rows of each group that is not listed, in the order of the labels."""
        if self.group_sizes is None:
            return np.zeros(self.size)
        return np.asarray(1.0 - np.unique(self.groups, return_counts=True)[1] / self.group_sizes)

    @property
    def labels(self) -> NDArray[Any]:
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
        averaging, squares = self._averaging()
        noise = self.noise**2 / self.repeats + self.individual_noise**2 * squares
        unlisted = self.unlisted
        sampling = SamplingNoise.of_groups(averaging, 1.0 / squares, unlisted) if unlisted.any() else None
        return Linearization(averaging, with_known_variance(noise, self.target_variance), sampling)

    def noise_gradient(self, noise_bar: Noise) -> Gradient:
        """Return the gradients of the two noises."""
        return {
            "noise": 2.0 * self.noise * _mean_trace(noise_bar, self.repeats),
            "individual_noise": 2.0 * self.individual_noise * (np.diagonal(noise_bar) @ self._averaging()[1]),
        }

    def _averaging(self) -> tuple[sparse.csr_array, Array]:
        """Return M, and Σ_i w_ij² of its columns."""
        labels, index = np.unique(self.groups, return_inverse=True)
        weights = self.weights / np.bincount(index, self.weights)[index]
        shape = (len(self.x), len(labels))
        averaging = sparse.csr_array((weights, (np.arange(len(self.x)), index)), shape=shape)
        return averaging, np.asarray(np.bincount(index, weights**2), dtype=np.float64)

    def ordered(self, z: Targets, name: str = "z") -> Any:
        """Return targets in the order of the labels; a dict, or a Series indexed by label, is matched by label.

        Parameters
        ----------
        z : array_like, dict or Series
            Targets.
        name : str
            What messages call them.
        """
        index = z.keys() if isinstance(z, dict) else getattr(z, "index", None)
        if index is None or callable(index):
            return z
        counted = not isinstance(z, dict) and list(index) == list(range(len(index)))
        if counted and set(index) != set(self.labels.tolist()):
            raise ArgumentError(
                name,
                f"{name} is a pandas object whose rows are numbered, not labeled by group. Give it the labels as its "
                f"index, such as table.set_index('group')['z'], or as an array in sorted order of the labels, from "
                f"{self.labels[0]} to {self.labels[-1]}.",
            )
        known = np.empty(len(index), dtype=object)
        known[:] = list(index)
        given = as_labels(known, f"the labels of {name}", len(index), name).tolist()
        rows = {label: i for i, label in enumerate(given)}
        if set(rows) != set(self.labels.tolist()) or len(index) != self.size:
            lacking, unknown = set(self.labels.tolist()) - set(rows), set(rows) - set(self.labels.tolist())
            found = [f"no value for {_few(lacking)}"] if lacking else []
            found += [f"values for {_few(unknown)}, which groups do not have"] if unknown else []
            problem = f"{name} has {' and '.join(found) or 'labels more than once'}"
            raise ArgumentError(
                name,
                f"{problem}; every label of groups needs exactly one target. Leave out rows of groups without a "
                "target, or give a plain array in sorted order.",
            )
        values = list(z.values()) if isinstance(z, dict) else np.asarray(z)
        return np.array([values[rows[label]] for label in self.labels.tolist()])


def _few(labels: set[Any]) -> str:
    """Return some labels, in order, for a message."""
    shown = sorted(map(str, labels))
    return f"{', '.join(shown[:3])}{', …' if len(shown) > 3 else ''}"


class TaskTransformed(Observation):
    """z̃ = E[f(X) | Y = ỹ] + noise, with p(x | y) known through pairs (x, y) only (Theorem 5.3 of the paper).

    Parameters
    ----------
    x : array_like of shape (n, d)
        Rows of the pairs.
    y : array_like of shape (n, e)
        Their mediator.
    y_task : array_like of shape (m, e)
        Mediator of the targets.
    kernel_y : Kernel or FeatureMap
        The covariance ℓ of the mediating function g.
    noise : float
        σ.
    mediator : {"full", "map"}
        "full" keeps the uncertainty of g in Σ = L̃̃ + σ²I - L̃ᵀ(L + τ²I)⁻¹L̃; "map" replaces g by its mean, Σ = σ²I,
        which gives the deconditional mean embedding.
    mediator_noise : float, optional
        τ; None ties it to σ as in the paper (λ = τ²/n and ε = σ²/m).
    target_variance : array_like of shape (m,), optional
        A known variance of each target, in addition.

    Examples
    --------
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
        self._set(kernel_y=kernel, y=y, y_task=y_task)
        self._set_target_variance()

    @property
    def size(self) -> int:
        """One value for each task row."""
        return len(self.y_task)

    @property
    def partner(self) -> str:
        """Targets are paired with y_task."""
        return "y_task"

    def linearize(self, *, use_features: bool = True) -> MediatedLinearization:
        """Return A and Σ."""
        tau = self.noise if self.mediator_noise is None else self.mediator_noise
        smoother = Smoother(self.kernel_y, self.y, tau**2, "L + τ²I", use_features=use_features)
        noise = with_known_variance(self.noise**2, self.target_variance)
        return MediatedLinearization(smoother, self.y_task, noise, self.mediator == "full")

    def _gradient(
        self,
        linear: Any,
        noise_bar: Any,
        rows_bar: Any = None,
        middle_bar: Array | None = None,
        *,
        points: bool = True,
    ) -> Gradient:
        """Carry adjoints on to L̃, L, L̃̃ and the noises, and from there to the parameters of ℓ and to y.

        With T = R⁻ᵀ W_bar (= (L + τ²I)⁻¹ A_bar): L̃_bar = T and L_bar = -T Aᵀ, less `middle_bar` where L̃ is shared
        (there E is L + τ²I).
        """
        cross_bar, gram_bar = solve_pullback(linear.smoother.factor, linear.transformation, rows_bar)
        if linear.shared is not None:
            gram_bar -= middle_bar
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


def with_known_variance(noise: Noise, target_variance: Noise | None) -> Any:
    """Return a noise with known variances added.

    Parameters
    ----------
    noise : float or ndarray of shape (m,) or (m, m)
        A variance, a diagonal or a matrix, which is overwritten.
    target_variance : float or ndarray of shape (m,), optional
        What is added.
    """
    if target_variance is None:
        return noise
    if np.ndim(noise) == 2:
        matrix = np.asarray(noise)
        add_to_diagonal(matrix, target_variance)
        return matrix
    return noise + target_variance


def _trace(noise_bar: Noise) -> float:
    """Return the trace of an adjoint that is given in full, or already as its trace."""
    return float(noise_bar) if np.ndim(noise_bar) == 0 else float(np.trace(noise_bar))


def _mean_trace(noise_bar: Noise, repeats: Array | None) -> float:
    """Return the trace of an adjoint with its entries divided by the number of measurements."""
    return _trace(noise_bar) if repeats is None else float((np.diagonal(noise_bar) / repeats).sum())


def _noise_covariance(value: ArrayLike | None, size: int) -> float | Array:
    """Return a noise covariance as a number, a vector or a symmetric matrix, checked."""
    covariance = np.asarray(0.0 if value is None else value, dtype=np.float64)
    accepted = f"a number, a vector ({size},) or a matrix ({size}, {size})"

    def refuse(reason: str) -> NoReturn:
        raise ArgumentError("noise_covariance", f"noise_covariance {reason}")

    if covariance.shape not in ((), (size,), (size, size)):
        refuse(f"has shape {covariance.shape}; give {accepted}.")
    diagonal = np.diagonal(covariance) if covariance.ndim == 2 else covariance
    if not np.isfinite(covariance).all() or np.any(diagonal < 0):
        refuse(f"has negative or non-finite variances; give {accepted} of variances.")
    if covariance.ndim == 2 and not np.allclose(covariance, covariance.T, rtol=1e-8, atol=0.0):
        refuse("is not symmetric; average it with its transpose if that is rounding.")
    if covariance.ndim == 2 and np.linalg.eigvalsh(covariance)[0] < -1e-10 * np.trace(covariance):
        refuse("has negative eigenvalues, so it is not a covariance. Check how it was computed.")
    return covariance if covariance.ndim else float(covariance)
