"""Kernels made of kernels: scaled, sum, product, power, and a choice of columns."""

import functools
import operator
from typing import Any

import numpy as np

from decond.backend import namespace
from decond.checks import as_count
from decond.errors import ArgumentError
from decond.kernels.base import Kernel, Spectrum
from decond.kernels.stationary import check_concrete
from decond.parameters import parameter, positive, short

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

    def with_lengthscales(self, scales: np.ndarray) -> Kernel:
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

    def gram(self, a: Any, b: Any) -> Any:
        """Return the scaled Gram matrix."""
        return self.variance * self.kernel.gram(a, b)

    def diagonal(self, a: Any) -> Any:
        """Return the scaled diagonal."""
        return self.variance * self.kernel.diagonal(a)

    def spectrum(self, n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> Spectrum:
        """Return the inner spectrum with its variance scaled."""
        inner = self.kernel.spectrum(n, dimension, rng, orthogonal)
        return Spectrum(inner.frequencies, self.variance * inner.variance)

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

    def with_lengthscales(self, scales: np.ndarray) -> Kernel:
        """Return it with every part at these lengthscales."""
        return self.replace(parts=tuple(part.with_lengthscales(scales) for part in self.parts))


class Sum(_Combination):
    """The sum of kernels; made by ``k1 + k2``.

    >>> from decond.kernels import Constant
    >>> (Constant(1.0) + Constant(2.0)).diag([[0.0]])
    array([3.])
    """

    def gram(self, a: Any, b: Any) -> Any:
        """Return the sum of Gram matrices."""
        return functools.reduce(operator.add, (part.gram(a, b) for part in self.parts))

    def diagonal(self, a: Any) -> Any:
        """Return the sum of diagonals."""
        return functools.reduce(operator.add, (part.diagonal(a) for part in self.parts))

    def spectrum(self, n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> Spectrum:
        """Draw each frequency from one part, chosen in proportion to its variance."""
        spectra = [part.spectrum(n, dimension, rng, orthogonal) for part in self.parts]
        total = functools.reduce(operator.add, (spectrum.variance for spectrum in spectra))
        check_concrete(self, "variances", total)
        shares = np.array([spectrum.variance / total for spectrum in spectra])
        chosen = rng.choice(len(spectra), size=n, p=shares)
        frequencies = [spectrum.frequencies for spectrum in spectra]
        stacked = namespace(*frequencies).stack(frequencies)
        return Spectrum(stacked[chosen, np.arange(n)], total)

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

    def gram(self, a: Any, b: Any) -> Any:
        """Return the product of Gram matrices."""
        return functools.reduce(operator.mul, (part.gram(a, b) for part in self.parts))

    def diagonal(self, a: Any) -> Any:
        """Return the product of diagonals."""
        return functools.reduce(operator.mul, (part.diagonal(a) for part in self.parts))

    def spectrum(self, n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> Spectrum:
        """Add the frequencies of the parts: a product of kernels is a convolution of spectra."""
        spectra = [part.spectrum(n, dimension, rng, orthogonal) for part in self.parts]
        frequencies = functools.reduce(operator.add, (spectrum.frequencies for spectrum in spectra))
        return Spectrum(frequencies, functools.reduce(operator.mul, (spectrum.variance for spectrum in spectra)))

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

    def gram(self, a: Any, b: Any) -> Any:
        """Return the power of the Gram matrix, entry by entry."""
        return self.kernel.gram(a, b) ** self.exponent

    def diagonal(self, a: Any) -> Any:
        """Return the power of the diagonal."""
        return self.kernel.diagonal(a) ** self.exponent

    def spectrum(self, n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> Spectrum:
        """Return the spectrum of the repeated product."""
        return Product((self.kernel,) * self.exponent).spectrum(n, dimension, rng, orthogonal)

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

    def gram(self, a: Any, b: Any) -> Any:
        """Return the Gram matrix on the chosen columns."""
        return self.kernel.gram(self._pick(a), self._pick(b))

    def diagonal(self, a: Any) -> Any:
        """Return the diagonal on the chosen columns."""
        return self.kernel.diagonal(self._pick(a))

    def spectrum(self, n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> Spectrum:
        """Return the inner spectrum with zero frequency in the other columns."""
        inner = self.kernel.spectrum(n, len(self.columns), rng, orthogonal)
        placement = np.eye(dimension)[list(self.columns)]
        return Spectrum(inner.frequencies @ placement, inner.variance)

    def rescaled(self, factor: float) -> Kernel:
        """Return the inner kernel, rescaled, on the same columns."""
        if not self.has_variance:
            return super().rescaled(factor)
        return self.replace(kernel=self.kernel.rescaled(factor))

    def with_lengthscales(self, scales: np.ndarray) -> Kernel:
        """Return it with the lengthscales of its own columns."""
        return self.replace(kernel=self.kernel.with_lengthscales(scales[list(self.columns)]))

    def _pick(self, a: Any) -> Any:
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


def _factor(kernel: Kernel) -> str:
    """Return a kernel as a factor of a product: sums go into brackets."""
    return f"({kernel!r})" if isinstance(kernel, Sum) else repr(kernel)


def _atom(kernel: Kernel) -> str:
    """Return a kernel as something that binds tighter than a product or a power."""
    return f"({kernel!r})" if isinstance(kernel, Scaled | Sum | Product | Power) else repr(kernel)
