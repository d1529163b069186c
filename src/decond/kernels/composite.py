"""Kernels made of kernels: scaled, sum, product, power, and a choice of columns."""

import functools
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decond.checks import as_count
from decond.errors import ArgumentError
from decond.kernels.kernel import Kernel, Pull, Pullback, Spectrum, no_gradient
from decond.parameters import Gradient, added, below, parameter, positive, short

__all__ = ["Columns", "Power", "Product", "Scaled", "Sum"]


class _Wrapper(Kernel):
    """A kernel around one other."""

    kernel: Kernel

    @property
    def accepts_labels(self) -> bool:  # type: ignore[override]
        """Labels are welcome where the inner kernel takes them."""
        return self.kernel.accepts_labels

    @property
    def has_variance(self) -> bool:  # type: ignore[override]
        """Whether the inner kernel has one."""
        return self.kernel.has_variance

    def with_lengthscales(self, scales: NDArray[np.float64]) -> Kernel:
        """Return it around the inner kernel at these lengthscales."""
        return self.replace(kernel=self.kernel.with_lengthscales(scales))


class Scaled(_Wrapper):
    """A kernel multiplied by a positive number; made by ``2.0 * kernel``.

    >>> from decond.kernels import RBF
    >>> (2.0 * RBF()).diag([[0.0]])
    array([2.])
    """

    has_variance = True
    variance: Any = parameter(default=1.0, constraint=positive)

    def _gram(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
        return self.variance * self.kernel._gram(a, b)

    def _gram_with_pullback(self, a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.float64], Pull]:
        gram, pull_inner = self.kernel._gram_with_pullback(a, b)

        def _pull(adjoint: NDArray[np.float64], points: bool) -> Pullback:
            inner = pull_inner(adjoint, points)  # linear in the adjoint, so that the scale may wait
            slopes = {path: self.variance * slope for path, slope in inner.parameters.items()}
            parameters = {**below("kernel", slopes), "variance": float(np.vdot(adjoint, gram))}
            return Pullback(parameters, self.variance * inner.a, self.variance * inner.b)

        return self.variance * gram, _pull

    def diagonal(self, a: NDArray[Any]) -> NDArray[np.float64]:
        """Return the scaled diagonal."""
        return self.variance * self.kernel.diagonal(a)

    def _spectrum(self, n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> Spectrum:
        """Return the inner spectrum with its variance scaled."""
        inner = self.kernel._spectrum(n, dimension, rng, orthogonal)

        def _pull(adjoint: NDArray[np.float64], variance_bar: float) -> Gradient:
            slopes = inner.pull(adjoint, self.variance * variance_bar)
            return {**below("kernel", slopes), "variance": variance_bar * inner.variance}

        return Spectrum(inner.frequencies, _pull, self.variance * inner.variance, learned=True)

    def rescaled(self, factor: float) -> Kernel:
        """Return it with its variance multiplied."""
        return self.replace(variance=factor * self.variance)

    def __repr__(self) -> str:
        """Show the expression that makes it."""
        return f"{short(self.variance)} * {_factor(self.kernel)}"


class _Combination(Kernel):
    """A kernel around several others."""

    parts: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        """Accept any sequence of kernels."""
        object.__setattr__(self, "parts", tuple(self.parts))
        super().__post_init__()

    @property
    def accepts_labels(self) -> bool:  # type: ignore[override]
        """Labels are welcome where every part takes them (pick columns to mix labels with numbers)."""
        return all(part.accepts_labels for part in self.parts)

    def with_lengthscales(self, scales: NDArray[np.float64]) -> Kernel:
        """Return it with every part at these lengthscales."""
        return self.replace(parts=tuple(part.with_lengthscales(scales) for part in self.parts))


class Sum(_Combination):
    """The sum of kernels; made by ``k1 + k2``.

    >>> from decond.kernels import Constant
    >>> (Constant(1.0) + Constant(2.0)).diag([[0.0]])
    array([3.])
    """

    def _gram(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
        return functools.reduce(operator.add, (part._gram(a, b) for part in self.parts))

    def _gram_with_pullback(self, a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.float64], Pull]:
        grams, pulls = zip(*(part._gram_with_pullback(a, b) for part in self.parts), strict=True)

        def _pull(adjoint: NDArray[np.float64], points: bool) -> Pullback:
            return _sum_of_parts([pull_part(adjoint, points) for pull_part in pulls])

        return functools.reduce(operator.add, grams), _pull

    def diagonal(self, a: NDArray[Any]) -> NDArray[np.float64]:
        """Return the sum of diagonals."""
        return functools.reduce(operator.add, (part.diagonal(a) for part in self.parts))

    def _spectrum(self, n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> Spectrum:
        """Draw each frequency from one part, chosen in proportion to its variance."""
        spectra = [part._spectrum(n, dimension, rng, orthogonal) for part in self.parts]
        total = functools.reduce(operator.add, (spectrum.variance for spectrum in spectra))
        weights = np.array([spectrum.variance / total for spectrum in spectra])
        chosen = rng.choice(len(spectra), size=n, p=weights)
        stacked = np.stack([spectrum.frequencies for spectrum in spectra])
        learned = any(spectrum.learned for spectrum in spectra)

        def _pull(adjoint: NDArray[np.float64], variance_bar: float) -> Gradient:
            if learned:
                raise no_gradient(self, "variances")
            bars = [np.where(chosen[:, None] == i, adjoint, 0.0) for i in range(len(spectra))]
            return _slopes_of_parts([one.pull(bar, variance_bar) for one, bar in zip(spectra, bars, strict=True)])

        return Spectrum(stacked[chosen, np.arange(n)], _pull, total, learned)

    @property
    def has_variance(self) -> bool:  # type: ignore[override]
        """Whether every part has one."""
        return all(part.has_variance for part in self.parts)

    def rescaled(self, factor: float) -> Kernel:
        """Return it with every part rescaled."""
        if not self.has_variance:
            return super().rescaled(factor)
        return self.replace(parts=tuple(part.rescaled(factor) for part in self.parts))

    def __repr__(self) -> str:
        """Show the expression that makes it."""
        return " + ".join(map(repr, self.parts))


class Product(_Combination):
    """The product of kernels; made by ``k1 * k2``.

    >>> from decond.kernels import Constant
    >>> (Constant(3.0) * Constant(2.0)).diag([[0.0]])
    array([6.])
    """

    def _gram(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
        return functools.reduce(operator.mul, (part._gram(a, b) for part in self.parts))

    def _gram_with_pullback(self, a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.float64], Pull]:
        grams, pulls = zip(*(part._gram_with_pullback(a, b) for part in self.parts), strict=True)

        def _pull(adjoint: NDArray[np.float64], points: bool) -> Pullback:
            bars = [functools.reduce(operator.mul, grams[:i] + grams[i + 1 :], adjoint) for i in range(len(grams))]
            return _sum_of_parts([pull_part(bar, points) for pull_part, bar in zip(pulls, bars, strict=True)])

        return functools.reduce(operator.mul, grams), _pull

    def diagonal(self, a: NDArray[Any]) -> NDArray[np.float64]:
        """Return the product of diagonals."""
        return functools.reduce(operator.mul, (part.diagonal(a) for part in self.parts))

    def _spectrum(self, n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> Spectrum:
        """Add the frequencies of the parts: a product of kernels is a convolution of spectra."""
        spectra = [part._spectrum(n, dimension, rng, orthogonal) for part in self.parts]
        frequencies = functools.reduce(operator.add, (spectrum.frequencies for spectrum in spectra))
        variance = functools.reduce(operator.mul, (spectrum.variance for spectrum in spectra))

        def _pull(adjoint: NDArray[np.float64], variance_bar: float) -> Gradient:
            others = [variance_bar * variance / spectrum.variance for spectrum in spectra]
            return _slopes_of_parts([one.pull(adjoint, bar) for one, bar in zip(spectra, others, strict=True)])

        return Spectrum(frequencies, _pull, variance, any(spectrum.learned for spectrum in spectra))

    @property
    def has_variance(self) -> bool:  # type: ignore[override]
        """Whether any factor has one."""
        return any(part.has_variance for part in self.parts)

    def rescaled(self, factor: float) -> Kernel:
        """Return it with the first factor rescaled that has a variance."""
        if not self.has_variance:
            return super().rescaled(factor)
        parts = list(self.parts)
        chosen = next(i for i, part in enumerate(parts) if part.has_variance)
        parts[chosen] = parts[chosen].rescaled(factor)
        return self.replace(parts=tuple(parts))

    def __repr__(self) -> str:
        """Show the expression that makes it."""
        return " * ".join(map(_factor, self.parts))


class Power(_Wrapper):
    """A kernel raised to a positive whole power; made by ``k ** 2``.

    >>> from decond.kernels import Constant
    >>> (Constant(3.0) ** 2).diag([[0.0]])
    array([9.])
    """

    exponent: int = 2

    def __post_init__(self) -> None:
        """Check the exponent."""
        as_count(self.exponent, "Power: exponent")
        super().__post_init__()

    def _gram(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
        return self.kernel._gram(a, b) ** self.exponent

    def _gram_with_pullback(self, a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.float64], Pull]:
        gram, pull_inner = self.kernel._gram_with_pullback(a, b)

        def _pull(adjoint: NDArray[np.float64], points: bool) -> Pullback:
            inner = pull_inner(self.exponent * gram ** (self.exponent - 1) * adjoint, points)
            return inner._replace(parameters=below("kernel", inner.parameters))

        return gram**self.exponent, _pull

    def diagonal(self, a: NDArray[Any]) -> NDArray[np.float64]:
        """Return the power of the diagonal."""
        return self.kernel.diagonal(a) ** self.exponent

    def _spectrum(self, n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> Spectrum:
        """Return the spectrum of the repeated product."""
        product = Product((self.kernel,) * self.exponent)._spectrum(n, dimension, rng, orthogonal)

        def _pull(adjoint: NDArray[np.float64], variance_bar: float) -> Gradient:
            slopes = product.pull(adjoint, variance_bar)
            return added(*({f"kernel.{path.split('.', 2)[2]}": slope} for path, slope in slopes.items()))

        return product._replace(pull=_pull)

    def rescaled(self, factor: float) -> Kernel:
        """Return the power of the inner kernel, rescaled by the root."""
        if not self.has_variance:
            return super().rescaled(factor)
        return self.replace(kernel=self.kernel.rescaled(factor ** (1.0 / self.exponent)))

    def __repr__(self) -> str:
        """Show the expression that makes it."""
        return f"{_atom(self.kernel)} ** {self.exponent}"


class Columns(_Wrapper):
    """A kernel that sees some columns of the points only; made by ``k.on([0, 2])``.

    >>> from decond.kernels import Linear
    >>> Linear().on([1])([[5.0, 2.0]], [[7.0, 3.0]])
    array([[6.]])
    """

    columns: tuple[int, ...] = (0,)

    @property
    def accepts_labels(self) -> bool:  # type: ignore[override]
        """Labels may stand in the other columns; the chosen ones are checked when picked."""
        return True

    def __post_init__(self) -> None:
        """Check that the columns are whole numbers."""
        whole = all(isinstance(c, int | np.integer) and not isinstance(c, bool) and c >= 0 for c in self.columns)
        if not self.columns or not whole:
            raise ArgumentError(
                "columns",
                f"on(columns={list(self.columns)!r}): columns are whole numbers counted from 0; give at least one.",
            )
        object.__setattr__(self, "columns", tuple(int(c) for c in self.columns))
        super().__post_init__()

    def _gram(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
        return self.kernel._gram(self._pick(a), self._pick(b))

    def _gram_with_pullback(self, a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.float64], Pull]:
        gram, pull_inner = self.kernel._gram_with_pullback(self._pick(a), self._pick(b))

        def _pull(adjoint: NDArray[np.float64], points: bool) -> Pullback:
            inner = pull_inner(adjoint, points)
            bars = np.zeros(a.shape), np.zeros(b.shape)
            for i, column in enumerate(self.columns):
                bars[0][:, column] += inner.a[:, i]
                bars[1][:, column] += inner.b[:, i]
            return Pullback(below("kernel", inner.parameters), *bars)

        return gram, _pull

    def diagonal(self, a: NDArray[Any]) -> NDArray[np.float64]:
        """Return the diagonal on the chosen columns."""
        return self.kernel.diagonal(self._pick(a))

    def _spectrum(self, n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> Spectrum:
        """Return the inner spectrum with zero frequency in the other columns."""
        inner = self.kernel._spectrum(n, len(self.columns), rng, orthogonal)
        placement = np.eye(dimension)[list(self.columns)]

        def _pull(adjoint: NDArray[np.float64], variance_bar: float) -> Gradient:
            return below("kernel", inner.pull(adjoint @ placement.T, variance_bar))

        return inner._replace(frequencies=inner.frequencies @ placement, pull=_pull)

    def rescaled(self, factor: float) -> Kernel:
        """Return the inner kernel, rescaled, on the same columns."""
        if not self.has_variance:
            return super().rescaled(factor)
        return self.replace(kernel=self.kernel.rescaled(factor))

    def with_lengthscales(self, scales: NDArray[np.float64]) -> Kernel:
        """Return it with the lengthscales of its own columns."""
        return self.replace(kernel=self.kernel.with_lengthscales(scales[list(self.columns)]))

    def _pick(self, a: NDArray[Any]) -> NDArray[Any]:
        if max(self.columns) >= a.shape[1]:
            raise ArgumentError(
                "columns",
                f"on(columns={list(self.columns)}): the points have only {a.shape[1]} column(s), counted from 0. "
                "Pick columns that exist.",
            )
        picked = a[:, list(self.columns)]
        return self.kernel.points(picked, f"columns {list(self.columns)}") if a.dtype.kind in "OUS" else picked

    def __repr__(self) -> str:
        """Show the expression that makes it."""
        return f"{_atom(self.kernel)}.on({list(self.columns)})"


def _slopes_of_parts(slopes: list[Gradient]) -> Gradient:
    """Return the slopes of all parts, by their paths in the whole."""
    return added(*(below(f"parts.{i}", found) for i, found in enumerate(slopes)))


def _sum_of_parts(pulled: list[Pullback]) -> Pullback:
    """Return the gradients of all parts: those of parameters side by side, those of points added."""
    parameters = _slopes_of_parts([part.parameters for part in pulled])
    return Pullback(parameters, sum(part.a for part in pulled), sum(part.b for part in pulled))  # type: ignore[arg-type]


def _factor(kernel: Kernel) -> str:
    """Return a kernel as a factor of a product: sums go into brackets."""
    return f"({kernel!r})" if isinstance(kernel, Sum) else repr(kernel)


def _atom(kernel: Kernel) -> str:
    """Return a kernel as something that binds tighter than a product or a power."""
    return f"({kernel!r})" if isinstance(kernel, Scaled | Sum | Product | Power) else repr(kernel)
