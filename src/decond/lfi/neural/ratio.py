"""The log ratio log p(x | θ) / p(x) from a classifier that tells pairs from shuffled pairs (Tran et al. 2017).

A pair is (θ_i, x_i), as simulated; a shuffled pair is (θ_j, x_i). Parameters have the same distribution in both, so
it cancels: simulations may come from any proposal.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from decond.lfi.neural.float64 import in_float64
from decond.lfi.neural.inputs import network_inputs
from decond.lfi.neural.training import Loss, Trained, train
from decond.lfi.summaries import Standardizer

__all__ = ["LOSSES", "LogRatio", "RatioNetwork", "fit_ratio"]

MEMBERS = 3
"""Networks whose mean is the log ratio."""

UNITS = 48
"""Hidden units in each of two layers."""

SHUFFLES = 3
"""Shuffled pairs for each pair."""

PENALTY = 0.1
"""Of the squared weights, divided by the number of simulations; against over-fitting, besides held-out rows."""

RATE, BATCH = 4e-3, 64
"""First learning rate of Adam, and pairs in a minibatch: a power of two below the number of simulations, if fewer."""

AT_ONCE = 2048
"""Rows at which the ratio is evaluated at once; code is compiled for this number only."""

HELD_OUT, LEAST_HELD_OUT = 0.15, 5
"""Share of the rows that early stopping watches, and the fewest of them: more than there are shuffles."""


class RatioNetwork(eqx.Module):
    """A few small networks of the same inputs, side by side; each estimates the log ratio.

    >>> with in_float64():
    ...     network = RatioNetwork(1, 2, jax.random.key(0))
    ...     network(jnp.zeros((5, 1)), jnp.zeros((5, 2))).shape
    (3, 5)
    """

    weights: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]

    def __init__(self, dim: int, width: int, key: Any) -> None:
        sizes = (dim + width, UNITS, UNITS, 1)
        keys = jax.random.split(key, len(sizes) - 1)
        layers = list(zip(keys, sizes[:-1], sizes[1:], strict=True))
        self.weights = tuple(
            jax.random.normal(key, (MEMBERS, inputs, outputs)) / math.sqrt(inputs) for key, inputs, outputs in layers
        )
        self.biases = tuple(jnp.zeros((MEMBERS, 1, outputs)) for _, _, outputs in layers)

    def __call__(self, phi: jax.Array, x: jax.Array) -> jax.Array:
        """Return the estimates (members, n) at rows of parameters and of data."""
        values = jnp.concatenate([phi, x], axis=1)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values = jax.nn.silu(values @ weight + bias)
        return (values @ self.weights[-1] + self.biases[-1])[:, :, 0]


def log_loss(network: RatioNetwork, rows: tuple[Any, ...], penalty: Any, key: Any) -> Any:
    """Return the logistic loss; it is smallest at the log ratio."""
    pairs, shuffled = _pairs_and_shuffled(network, *rows)
    return _total(network, jax.nn.softplus(-pairs), jax.nn.softplus(shuffled), penalty)


def hinge_loss(network: RatioNetwork, rows: tuple[Any, ...], penalty: Any, key: Any) -> Any:
    """Return the hinge loss; it is smallest at the sign of the log ratio."""
    pairs, shuffled = _pairs_and_shuffled(network, *rows)
    return _total(network, jax.nn.relu(1.0 - pairs), jax.nn.relu(1.0 + shuffled), penalty)


def _pairs_and_shuffled(network: RatioNetwork, phi: Any, x: Any) -> tuple[Any, Any]:
    """Return the estimates at the pairs, and at shuffled pairs: rows are in random order, so a shift shuffles."""
    shifted = [jnp.roll(phi, shift, axis=0) for shift in range(SHUFFLES + 1)]
    values = network(jnp.concatenate(shifted), jnp.tile(x, (SHUFFLES + 1, 1)))
    return values[:, : len(phi)], values[:, len(phi) :]


def _total(network: RatioNetwork, pairs: Any, shuffled: Any, penalty: Any) -> Any:
    """Return the sum over the members, each with as much weight on pairs as on shuffled pairs; biases are free."""
    squares = sum((weight**2).sum() for weight in network.weights)
    return (pairs.mean(axis=1) + shuffled.mean(axis=1)).sum() + penalty * squares


LOSSES: dict[str, Loss] = {"log": log_loss, "hinge": hinge_loss}


class LogRatio:
    """A trained ratio with the units of its data: ``at(phi, x)`` for rows of working coordinates, one row of data."""

    def __init__(self, trained: Trained, phi_scale: Standardizer, x_scale: Standardizer) -> None:
        self.trained = trained
        self._phi_scale, self._x_scale = phi_scale, x_scale

    def at(self, phi: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the mean of the members' log ratios at rows (n, d), given one row of data (1, s)."""
        padded = np.zeros((-(-len(phi) // AT_ONCE) * AT_ONCE, phi.shape[1]))
        padded[: len(phi)] = network_inputs(self._phi_scale, phi)
        given = network_inputs(self._x_scale, x)[0]
        with in_float64():
            blocks = np.split(padded, len(padded) // AT_ONCE)
            values = [np.asarray(_evaluated(self.trained.model, block, given)) for block in blocks]
        return np.concatenate(values)[: len(phi)]


@eqx.filter_jit
def _evaluated(network: RatioNetwork, phi: Any, x: Any) -> Any:
    return network(phi, jnp.broadcast_to(x, (len(phi), len(x)))).mean(axis=0)


def fit_ratio(phi: np.ndarray, x: np.ndarray, *, loss: str, steps: int, seed: int, seconds: float) -> LogRatio:
    """Return the log ratio learned from working coordinates (n, d) and data (n, s), with early stopping.

    >>> rng = np.random.default_rng(0)
    >>> phi = rng.standard_normal((400, 1))
    >>> x = phi + rng.standard_normal((400, 1))
    >>> ratio = fit_ratio(phi, x, loss="log", steps=500, seed=0, seconds=30.0)
    >>> low, high = ratio.at(np.array([[0.0], [1.0]]), np.ones((1, 1)))
    >>> bool(abs(high - low - 0.5) < 0.2)  # exact: 0.5
    True
    """
    phi_scale, x_scale = Standardizer(phi), Standardizer(x)
    with in_float64():
        network = RatioNetwork(phi.shape[1], x.shape[1], jax.random.key(seed))
    rows = (network_inputs(phi_scale, phi), network_inputs(x_scale, x))
    share = max(HELD_OUT, (LEAST_HELD_OUT + 0.5) / len(phi))
    trained = train(
        network,
        LOSSES[loss],
        rows,
        seed=seed,
        fixed=np.array(PENALTY / len(phi)),
        steps=steps,
        batch=min(BATCH, 1 << (int((1.0 - share) * len(phi)).bit_length() - 1)),
        rate=RATE,
        held_out=share,
        seconds=seconds,
    )
    return LogRatio(trained, phi_scale, x_scale)
