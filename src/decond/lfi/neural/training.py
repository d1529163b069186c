"""One training loop for all neural methods: Adam on minibatches, in float64, bounded in steps and in seconds.

Steps run in chunks. What is compiled depends on the model and on the shape of a minibatch, not on the number of rows,
so that rounds of different sizes share compiled code. Models are Equinox modules; make them inside `in_float64`.
"""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from decond.lfi.neural.float64 import in_float64
from decond.progress import progress_bar

__all__ = ["Loss", "Trained", "train"]

Loss = Callable[[Any, tuple[Any, ...], Any, Any], Any]
"""``loss(model, rows, fixed, noise)``: the mean loss of rows of the data. Give a function of a module, not a closure:
code is compiled once for each function, and what it needs besides the model comes in `fixed`. The noise, a row of
standard normal numbers for each row, is drawn by NumPy: to compile and run JAX's own takes longer than the rest."""

CHUNK = 100
"""Steps that run between two looks at the clock and at the held-out rows."""

LARGEST_SLOPE = 10.0
"""Norm to which a gradient is cut, so that one wild row does not undo the steps before it."""

LAST_RATE = 0.02
"""The learning rate falls along a cosine to this share of its first value, so that the last steps settle."""


class Trained(NamedTuple):
    """A trained model, and how the training went.

    Attributes:
        model: The model after the last step; with held-out rows, the one with the smallest loss on them.
        losses: Mean loss of the steps of each chunk.
        held_out_losses: Loss on the held-out rows after each chunk; empty without them.
        steps: Steps that were made.
        finished: False if the time ran out before the steps did.
    """

    model: Any
    losses: np.ndarray
    held_out_losses: np.ndarray
    steps: int
    finished: bool


def train(
    model: Any,
    loss: Loss,
    data: Sequence[np.ndarray],
    *,
    seed: Any = 0,
    fixed: Any = None,
    noise: int = 0,
    steps: int = 2000,
    batch: int = 100,
    rate: float = 1e-3,
    held_out: float = 0.0,
    patience: int = 5,
    seconds: float = 60.0,
) -> Trained:
    """Return the model trained by Adam.

    Args:
        model: An Equinox module; its floating-point arrays are learned.
        loss: The mean loss of some rows, see `Loss`.
        data: Arrays with one row for each example.
        seed: Seed of minibatches, of held-out rows and of the noise.
        fixed: Arrays, or modules, that the loss needs besides; they are not learned.
        noise: How many standard normal numbers the loss gets for each row; they are zero for held-out rows.
        steps: Most steps, rounded up to whole chunks of 100.
        batch: Rows of a minibatch.
        rate: Learning rate of the first step; it falls along a cosine.
        held_out: Share of the rows on which the loss is watched instead of learned from; 0 for none.
        patience: Chunks without a smaller held-out loss after which training stops.
        seconds: Time after which no further chunk begins.

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

    ends = time.monotonic() + seconds
    rng = np.random.default_rng(seed)
    chunks = -(-steps // CHUNK)
    with in_float64(), progress_bar("training", chunks * CHUNK) as report:
        learned, watched = _split(data, held_out, rng)
        chosen = _minibatches(len(learned[0]), batch, rng)
        state = _adam().init(eqx.filter(model, eqx.is_inexact_array))
        record = _Record(model, patience)
        for rates in np.split(rate * _shares(chunks * CHUNK), chunks):
            if time.monotonic() > ends or record.stalled:
                break
            rows = np.stack([next(chosen) for _ in range(CHUNK)])
            batches = tuple(array[rows] for array in learned)
            drawn = rng.standard_normal((*rows.shape, noise))
            model, state, value = _chunk()(loss, model, state, fixed, (batches, rates, drawn))
            score = _held_out_loss()(loss, model, watched, fixed, noise) if len(watched[0]) else None
            record.add(model, float(value), None if score is None else float(score))
            report(CHUNK * len(record.losses))
    finished = record.stalled or len(record.losses) == chunks
    return Trained(
        record.model, np.array(record.losses), np.array(record.scores), CHUNK * len(record.losses), finished
    )


class _Record:
    """What training kept: the losses so far, and the model that counts."""

    def __init__(self, model: Any, patience: int) -> None:
        self.model, self._patience = model, patience
        self.losses: list[float] = []
        self.scores: list[float] = []

    def add(self, model: Any, loss: float, score: float | None) -> None:
        """Take in a chunk; without held-out rows the newest model counts."""
        if score is None or not self.scores or score < min(self.scores):
            self.model = model
        self.losses.append(loss)
        if score is not None:
            self.scores.append(score if np.isfinite(score) else np.inf)

    @property
    def stalled(self) -> bool:
        """Whether the held-out loss has not fallen for long."""
        return bool(self.scores) and len(self.scores) - 1 - int(np.argmin(self.scores)) >= self._patience


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
    """Yield numbers of rows: all rows in random order, again and again, cut into pieces of one size."""
    queue = np.empty(0, dtype=np.int64)
    while True:
        while len(queue) < size:
            queue = np.concatenate([queue, rng.permutation(n)])
        yield queue[:size]
        queue = queue[size:]


def _shares(steps: int) -> np.ndarray:
    falling = 0.5 * (1.0 + np.cos(np.pi * np.arange(steps) / steps))
    return LAST_RATE + (1.0 - LAST_RATE) * falling


@functools.cache
def _adam() -> Any:
    import optax

    return optax.chain(optax.clip_by_global_norm(LARGEST_SLOPE), optax.scale_by_adam())


@functools.cache
def _chunk() -> Callable[..., Any]:
    """Return the compiled steps of one chunk."""
    import equinox as eqx
    import jax

    @eqx.filter_jit
    def chunk(loss: Loss, model: Any, state: Any, fixed: Any, inputs: Any) -> Any:
        learned, rest = eqx.partition(model, eqx.is_inexact_array)

        def value_of(learned: Any, rows: Any, noise: Any) -> Any:
            return loss(eqx.combine(learned, rest), rows, fixed, noise)

        def step(carry: Any, inputs: Any) -> Any:
            learned, state = carry
            rows, rate, noise = inputs
            value, slope = jax.value_and_grad(value_of)(learned, rows, noise)
            slope = jax.tree.map(lambda part: jax.numpy.where(jax.numpy.isfinite(part), part, 0.0), slope)
            updates, state = _adam().update(slope, state)
            return (jax.tree.map(lambda old, update: old - rate * update, learned, updates), state), value

        (learned, state), values = jax.lax.scan(step, (learned, state), inputs)
        return eqx.combine(learned, rest), state, values.mean()

    return chunk


@functools.cache
def _held_out_loss() -> Callable[..., Any]:
    """Return the compiled loss on held-out rows, without noise."""
    import equinox as eqx
    import jax

    @eqx.filter_jit
    def held_out_loss(loss: Loss, model: Any, rows: Any, fixed: Any, noise: int) -> Any:
        return loss(model, rows, fixed, jax.numpy.zeros((len(rows[0]), noise)))

    return held_out_loss
