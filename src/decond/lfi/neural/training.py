"""One training loop for all neural methods: Adam on minibatches, in float64, bounded in steps and in seconds.

Steps run in chunks. What is compiled depends on the model and on the shape of a minibatch, not on the number of rows,
so that rounds of different sizes share compiled code. Models are Equinox modules; make them inside `in_float64`.
"""

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from decond.lfi.summaries import Standardizer
from decond.progress import progress_bar

if TYPE_CHECKING:
    import equinox as eqx
    import jax
    import optax

__all__ = ["Loss", "Trained", "TrainingSettings", "in_float64", "network_inputs", "train"]

Loss = Callable[[Any, tuple[Any, ...], Any, Any], Any]
"""``loss(model, rows, fixed, noise)``: the mean loss of rows of the data. Give a function of a module, not a closure:
code is compiled once for each function, and what it needs besides the model comes in `fixed`. The noise, a row of
standard normal numbers for each row, is drawn by NumPy: to compile and run JAX's own takes longer than the rest."""


@dataclass(frozen=True)
class TrainingSettings:
    """What all trainings have in common."""

    chunk: int = 100
    """Steps that run between two looks at the clock and at the held-out rows. Rule of thumb."""
    largest_norm: float = 10.0
    """Norm to which a gradient is cut, so that one wild row does not undo the steps before it. Rule of thumb."""
    last_rate: float = 0.02
    """The learning rate falls along a cosine (Loshchilov & Hutter 2017) to this share of its first value, so that the
    last steps settle."""


class Trained(NamedTuple):
    """A trained model, and how the training went.

    Attributes
    ----------
    model : object
        The model after the last step; with held-out rows, the one with the smallest loss on them.
    losses : ndarray
        Mean loss of the steps of each chunk.
    held_out_losses : ndarray
        Loss on the held-out rows after each chunk; empty without them.
    steps : int
        Steps that were made.
    finished : bool
        False if the time ran out before the steps did.
    """

    model: Any
    losses: np.ndarray
    held_out_losses: np.ndarray
    steps: int
    finished: bool


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Have JAX compute in float64 inside, whatever the caller's settings are.

    By default JAX hands every call to a thread of its own. Where several threads call it side by side, each would
    then wait for another one to wake up. Once a process has trained a network, code runs on the thread that calls it.

    >>> import jax
    >>> with in_float64():
    ...     one = jax.numpy.ones(1)
    >>> one.dtype.name
    'float64'
    """
    import jax

    jax.config.update("jax_cpu_enable_async_dispatch", False)
    with jax.enable_x64(True):
        yield


def network_inputs(scale: Standardizer, rows: np.ndarray) -> np.ndarray:
    """Return standardized rows, far values drawn in as by a logarithm: none bends much, and none is lost.

    Parameters
    ----------
    scale : Standardizer
        The units of the columns.
    rows : ndarray of shape (n, k)
        Data, or parameters.

    Examples
    --------
    >>> scale = Standardizer(np.array([[-1.0], [0.0], [1.0]]))
    >>> near, far, farther = network_inputs(scale, np.array([[0.1], [1e3], [1e6]]))[:, 0]
    >>> bool(near < 0.2), bool(far < farther < 20.0)
    (True, True)
    """
    return np.arcsinh(scale.apply(rows))


def train(
    model: "eqx.Module",
    loss: Loss,
    data: Sequence[np.ndarray],
    *,
    seed: int = 0,
    fixed: object = None,
    noise: int = 0,
    steps: int = 2000,
    batch: int = 100,
    rate: float = 1e-3,
    held_out: float = 0.0,
    patience: int = 5,
    seconds: float = 60.0,
) -> Trained:
    """Return the model trained by Adam.

    Parameters
    ----------
    model : object
        An Equinox module; its floating-point arrays are learned.
    loss : callable
        The mean loss of some rows, see `Loss`.
    data : sequence of np.ndarray
        Arrays with one row for each example.
    seed : int, optional
        Seed of minibatches, of held-out rows and of the noise.
    fixed : object, optional
        Arrays, or modules, that the loss needs besides; they are not learned.
    noise : int, optional
        How many standard normal numbers the loss gets for each row; they are zero for held-out rows.
    steps : int, optional
        Most steps, rounded up to whole chunks of 100.
    batch : int, optional
        Rows of a minibatch.
    rate : float, optional
        Learning rate of the first step; it falls along a cosine.
    held_out : float, optional
        Share of the rows on which the loss is watched instead of learned from; 0 for none.
    patience : int, optional
        Chunks without a smaller held-out loss after which training stops.
    seconds : float, optional
        Time after which no further chunk begins.

    Examples
    --------
    >>> import equinox as eqx, jax
    >>> def squared_error(model, rows, fixed, noise):
    ...     x, y = rows
    ...     return ((jax.vmap(model)(x) - y) ** 2).mean()
    >>> x = np.linspace(-1, 1, 50)[:, None]
    >>> with in_float64():
    ...     line = eqx.nn.Linear(1, 1, key=jax.random.key(0))
    >>> line = train(line, squared_error, (x, 2 * x + 1), steps=300, rate=0.1).model
    >>> line.weight.round(2).item(), line.bias.round(2).item()
    (2.0, 1.0)
    """
    import equinox as eqx

    ends, rng = time.monotonic() + seconds, np.random.default_rng(seed)
    settings = TrainingSettings()
    size = settings.chunk
    n_chunks = -(-steps // size)
    falling = 0.5 * (1.0 + np.cos(np.pi * np.arange(n_chunks * size) / (n_chunks * size)))
    rates = rate * (settings.last_rate + (1.0 - settings.last_rate) * falling)
    losses: list[float] = []
    scores: list[float] = []
    best, stalled = model, False
    with in_float64(), progress_bar("training", n_chunks * size) as report:
        learned, watched = _split(data, held_out, rng)
        minibatches = _minibatches(len(learned[0]), batch, rng)
        state = _adam().init(eqx.filter(model, eqx.is_inexact_array))
        for chunk_rates in np.split(rates, n_chunks):
            if time.monotonic() > ends or stalled:
                break
            rows = np.stack([next(minibatches) for _ in range(size)])
            batches = tuple(array[rows] for array in learned)
            drawn = rng.standard_normal((*rows.shape, noise))
            model, state, value = _compiled_chunk()(loss, model, state, fixed, (batches, chunk_rates, drawn))
            losses.append(float(value))
            report(size * len(losses))
            if not len(watched[0]):
                best = model
                continue
            score = float(_compiled_loss()(loss, model, watched, fixed, noise))
            if not scores or score < min(scores):
                best = model
            scores.append(score if np.isfinite(score) else np.inf)
            stalled = len(scores) - 1 - int(np.argmin(scores)) >= patience
    finished = stalled or len(losses) == n_chunks
    return Trained(best, np.array(losses), np.array(scores), size * len(losses), finished)


def _split(
    data: Sequence[np.ndarray], held_out: float, rng: np.random.Generator
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Return the rows to learn from and those to watch; these are repeated up to a power of two, for few shapes."""
    arrays = [np.asarray(array, dtype=np.float64) for array in data]
    order = rng.permutation(len(arrays[0]))
    n_watched = int(held_out * len(order))
    repeated = np.resize(order[:n_watched], 1 << max(n_watched - 1, 0).bit_length()) if n_watched else order[:0]
    return tuple(array[order[n_watched:]] for array in arrays), tuple(array[repeated] for array in arrays)


def _minibatches(n: int, size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield numbers of rows: all rows in random order, again and again, cut into minibatches of one size."""
    queue = np.empty(0, dtype=np.int64)
    while True:
        while len(queue) < size:
            queue = np.concatenate([queue, rng.permutation(n)])
        yield queue[:size]
        queue = queue[size:]


@functools.cache
def _adam() -> Any:
    import optax

    return optax.chain(optax.clip_by_global_norm(TrainingSettings().largest_norm), optax.scale_by_adam())


@functools.cache
def _compiled_chunk() -> Callable[..., Any]:
    """Return the compiled steps of one chunk."""
    import equinox as eqx
    import jax

    @eqx.filter_jit
    def _chunk(
        loss: Loss, model: "eqx.Module", state: "optax.OptState", fixed: object, inputs: tuple[Any, ...]
    ) -> Any:
        learned, rest = eqx.partition(model, eqx.is_inexact_array)

        def _value(learned: "eqx.Module", rows: tuple[Any, ...], noise: "jax.Array") -> Any:
            return loss(eqx.combine(learned, rest), rows, fixed, noise)

        def _step(carry: tuple[Any, Any], inputs: tuple[Any, ...]) -> Any:
            learned, state = carry
            rows, rate, noise = inputs
            value, slope = jax.value_and_grad(_value)(learned, rows, noise)
            slope = jax.tree.map(lambda leaf: jax.numpy.where(jax.numpy.isfinite(leaf), leaf, 0.0), slope)
            updates, state = _adam().update(slope, state)
            return (jax.tree.map(lambda old, update: old - rate * update, learned, updates), state), value

        (learned, state), values = jax.lax.scan(_step, (learned, state), inputs)
        return eqx.combine(learned, rest), state, values.mean()

    return _chunk


@functools.cache
def _compiled_loss() -> Callable[..., Any]:
    """Return the compiled loss on held-out rows, without noise."""
    import equinox as eqx
    import jax

    @eqx.filter_jit
    def _held_out_loss(loss: Loss, model: "eqx.Module", rows: tuple[Any, ...], fixed: object, noise: int) -> Any:
        return loss(model, rows, fixed, jax.numpy.zeros((len(rows[0]), noise)))

    return _held_out_loss
