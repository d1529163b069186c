"""Networks that MDN and LFVI train: data in, a mixture of Gaussians out; or parameters and data in, a log ratio out.

The Bayesian mixture density network (Papamakarios & Murray 2016) has tanh layers that give the weights, the means and
the factors U of the precisions UᵀU of K Gaussians. Each weight of the network has a Gaussian of its own, learned by
stochastic variational inference with local reparameterization.

The log ratio log p(x | θ) / p(x) comes from a classifier that tells pairs (θ_i, x_i), as simulated, from shuffled
pairs (θ_j, x_i) (Tran et al. 2017). Parameters have the same distribution in both, so it cancels: simulations may
come from any proposal.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from decond.lfi.neural.gaussian_mixture import GaussianMixture
from decond.lfi.neural.training import Trained, in_float64, network_inputs, train
from decond.lfi.summaries import Standardizer
from decond.linalg import cholesky

__all__ = [
    "ConditionalMixture",
    "LogRatio",
    "MixtureNetwork",
    "NetworkSettings",
    "RatioNetwork",
    "UncertainLayer",
    "fit_mixture",
    "fit_ratio",
]

Noise = jax.Array | None


@dataclass(frozen=True)
class NetworkSettings:
    """Sizes of the networks and their training; rules of thumb."""

    first_scale: float = 0.02
    """Standard deviation of every uncertain weight before training."""
    mixture_rate: float = 5e-3
    """First learning rate of mixture networks."""
    members: int = 3
    """Ratio networks whose mean is the log ratio."""
    units: int = 48
    """Hidden units of a ratio network, in each of two layers."""
    shuffles: int = 3
    """Shuffled pairs for each pair."""
    penalty: float = 0.1
    """Of the squared weights, divided by the number of simulations; against over-fitting, besides held-out rows."""
    ratio_rate: float = 4e-3
    """First learning rate of ratio networks."""
    batch: int = 64
    """Pairs in a minibatch; if there are fewer simulations, a power of two below their number."""
    rows_at_once: int = 2048
    """Rows at which the ratio is evaluated at once; code is compiled for this number only."""
    held_out: float = 0.15
    """Share of the rows that early stopping watches."""
    least_held_out: int = 5
    """The fewest of them: more than there are shuffles."""


# ---- the mixture density network ---------------------------------------------------------------------------------


class UncertainLayer(eqx.Module):
    """A linear layer whose weights are independent Gaussians; the last column is the bias.

    >>> with in_float64():
    ...     layer = UncertainLayer(2, 3, np.random.default_rng(0))
    ...     layer(jnp.zeros((5, 2))).shape
    (5, 3)
    """

    mean: jax.Array
    log_scale: jax.Array

    def __init__(self, n_inputs: int, n_outputs: int, rng: np.random.Generator) -> None:
        weights = rng.standard_normal((n_outputs, n_inputs)) / math.sqrt(n_inputs)
        self.mean = jnp.asarray(np.column_stack([weights, np.zeros(n_outputs)]))
        self.log_scale = jnp.asarray(np.full(self.mean.shape, math.log(NetworkSettings().first_scale)))

    def __call__(self, rows: jax.Array, noise: Noise = None) -> jax.Array:
        """Return outputs with the weights at their means or, with noise for each output, drawn for every row."""
        inputs = jnp.concatenate([rows, jnp.ones((len(rows), 1))], axis=1)
        outputs = inputs @ self.mean.T
        if noise is None:
            return outputs
        variance = inputs**2 @ jnp.exp(2.0 * self.log_scale).T
        return outputs + jnp.sqrt(variance) * noise

    def divergence(self) -> jax.Array:
        """Return the Kullback–Leibler divergence of the weights from their prior, N(0, 1/inputs).

        The paper's experiments have N(0, 100); with a few hundred simulations or fewer, that drowns what they tell.
        """
        precision = self.mean.shape[1]
        variance = precision * jnp.exp(2.0 * self.log_scale)
        return 0.5 * (variance + precision * self.mean**2 - jnp.log(variance) - 1.0).sum()


class MixtureOutputs(NamedTuple):
    """Logits (n, k), means (n, k, d), upper triangular factors (n, k, d, d) and the logs of their diagonals."""

    logits: jax.Array
    means: jax.Array
    factors: jax.Array
    log_diagonals: jax.Array


class MixtureNetwork(eqx.Module):
    """Tanh layers and a linear one that gives a mixture of Gaussians for each row.

    Several Gaussians start at different means: from the same one, they could not part.

    >>> with in_float64():
    ...     network = MixtureNetwork(3, 2, (10,), 4, np.random.default_rng(0))
    ...     network(jnp.zeros((5, 3))).means.shape
    (5, 4, 2)
    """

    layers: tuple[UncertainLayer, ...]
    components: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __init__(
        self, n_inputs: int, dim: int, hidden: tuple[int, ...], components: int, rng: np.random.Generator
    ) -> None:
        n_outputs = components * (1 + dim + dim * (dim + 1) // 2)
        sizes = (n_inputs, *hidden, n_outputs)
        layers = [UncertainLayer(n, m, rng) for n, m in itertools.pairwise(sizes)]
        if components > 1:
            biases = rng.standard_normal(components * dim)
            apart = layers[-1].mean.at[components : components * (1 + dim), -1].set(biases)
            layers[-1] = eqx.tree_at(lambda layer: layer.mean, layers[-1], apart)
        self.layers = tuple(layers)
        self.components, self.dim = components, dim

    @property
    def widths(self) -> list[int]:
        """The number of outputs of each layer, all of which take noise."""
        return [len(layer.mean) for layer in self.layers]

    def __call__(self, rows: jax.Array, noise: Noise = None) -> MixtureOutputs:
        """Return the mixtures given rows, with weights at their means or, with noise, drawn."""
        ends = np.cumsum(self.widths)[:-1]
        noises = [None] * len(self.layers) if noise is None else jnp.split(noise, ends, axis=1)
        for layer, drawn in zip(self.layers[:-1], noises[:-1], strict=True):
            rows = jnp.tanh(layer(rows, drawn))
        flat = self.layers[-1](rows, noises[-1])
        k, d = self.components, self.dim
        logits, means, diagonal, upper = jnp.split(flat, np.cumsum([k, k * d, k * d]), axis=1)
        log_diagonals = diagonal.reshape(-1, k, d)
        factors = jnp.exp(log_diagonals)[..., None] * jnp.eye(d)
        above = np.triu_indices(d, 1)
        factors = factors.at[:, :, above[0], above[1]].set(upper.reshape(len(flat), k, -1))
        return MixtureOutputs(logits, means.reshape(-1, k, d), factors, log_diagonals)

    def log_density(self, targets: jax.Array, rows: jax.Array, noise: Noise = None) -> jax.Array:
        """Return log q(target | row) for each row.

        Parameters
        ----------
        targets : ndarray of shape (n, d)
            Where the densities are evaluated.
        rows : ndarray of shape (n, k)
            Inputs of the network.
        noise : ndarray, optional
            Numbers that draw the weights; None for weights at their means.
        """
        logits, means, factors, log_diagonals = self(rows, noise)
        scaled = jnp.einsum("nkij,nkj->nki", factors, targets[:, None, :] - means)
        heights = log_diagonals.sum(axis=2) - 0.5 * (scaled**2).sum(axis=2)
        constant = 0.5 * self.dim * math.log(2.0 * math.pi)
        return jax.nn.logsumexp(jax.nn.log_softmax(logits, axis=1) + heights, axis=1) - constant


def _variational_loss(network: MixtureNetwork, rows: tuple[jax.Array, ...], n: jax.Array, noise: Noise) -> jax.Array:
    """Return the mean of -log q at drawn weights, plus the divergence of the weights over n."""
    targets, inputs = rows
    divergence = sum(layer.divergence() for layer in network.layers)
    return divergence / n - network.log_density(targets, inputs, noise).mean()


class ConditionalMixture:
    """A trained network with the units of its data: ``at(x)`` is the mixture of working coordinates given data.

    The weights of the network are at their means there, as in the paper's experiments.
    """

    def __init__(self, trained: Trained, scale: Standardizer, center: np.ndarray, root: np.ndarray) -> None:
        self.trained = trained
        self._scale, self._center, self._root = scale, center, root

    def at(self, x: np.ndarray) -> GaussianMixture:
        """Return the mixture given one row (1, s)."""
        with in_float64():
            outputs = self.trained.model(jnp.asarray(network_inputs(self._scale, x)))
        logits, means, factors, _ = (np.asarray(output)[0] for output in outputs)
        log_weights = logits - np.logaddexp.reduce(logits)
        precisions = np.einsum("kia,kib->kab", factors, factors)
        return GaussianMixture(log_weights, means, precisions).moved(self._center, self._root)


def fit_mixture(
    phi: np.ndarray, x: np.ndarray, *, components: int, hidden: tuple[int, ...], steps: int, seed: int, seconds: float
) -> ConditionalMixture:
    """Return the network trained on working coordinates (n, d) and data (n, s).

    Data are standardized, far values drawn in, and the working coordinates have mean zero and covariance one while
    the network learns.

    Parameters
    ----------
    phi : ndarray of shape (n, d)
        Working coordinates.
    x : ndarray of shape (n, s)
        Data.
    components : int
        Gaussians of the mixture.
    hidden : tuple
        Units of each hidden layer.
    steps : int
        Most steps of training.
    seed : int
        Seed of the network and its training.
    seconds : float
        Time after which training stops.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> phi = rng.standard_normal((300, 1))
    >>> x = phi + 0.5 * rng.standard_normal((300, 1))
    >>> fitted = fit_mixture(phi, x, components=1, hidden=(10,), steps=1000, seed=0, seconds=30.0)
    >>> mean, covariance = fitted.at(np.ones((1, 1))).moments()  # exact: 0.8 and 0.2
    >>> bool(abs(mean[0] - 0.8) < 0.15), bool(abs(covariance[0, 0] - 0.2) < 0.07)
    (True, True)
    """
    center, covariance = phi.mean(axis=0), np.atleast_2d(np.cov(phi, rowvar=False))
    covariance += 1e-12 * np.trace(covariance) * np.eye(len(center))
    root = cholesky(covariance, "the covariance of the parameters").lower
    scale = Standardizer(x)
    targets = np.linalg.solve(root, (phi - center).T).T
    with in_float64():
        network = MixtureNetwork(x.shape[1], phi.shape[1], hidden, components, np.random.default_rng(seed))
        n = jnp.asarray(float(len(phi)))
    rows = (targets, network_inputs(scale, x))
    trained = train(
        network,
        _variational_loss,
        rows,
        seed=seed,
        fixed=n,
        noise=sum(network.widths),
        steps=steps,
        rate=NetworkSettings().mixture_rate,
        seconds=seconds,
    )
    return ConditionalMixture(trained, scale, center, root)


# ---- the ratio network -------------------------------------------------------------------------------------------


class RatioNetwork(eqx.Module):
    """A few small networks of the same inputs, side by side; each estimates the log ratio.

    >>> with in_float64():
    ...     network = RatioNetwork(1, 2, jax.random.key(0))
    ...     network(jnp.zeros((5, 1)), jnp.zeros((5, 2))).shape
    (3, 5)
    """

    weights: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]

    def __init__(self, dim: int, width: int, key: jax.Array) -> None:
        settings = NetworkSettings()
        sizes = (dim + width, settings.units, settings.units, 1)
        keys = jax.random.split(key, len(sizes) - 1)
        layers = list(zip(keys, sizes[:-1], sizes[1:], strict=True))
        self.weights = tuple(
            jax.random.normal(key, (settings.members, inputs, outputs)) / math.sqrt(inputs)
            for key, inputs, outputs in layers
        )
        self.biases = tuple(jnp.zeros((settings.members, 1, outputs)) for _, _, outputs in layers)

    def __call__(self, phi: jax.Array, x: jax.Array) -> jax.Array:
        """Return the estimates (members, n) at rows of parameters and of data."""
        values = jnp.concatenate([phi, x], axis=1)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values = jax.nn.silu(values @ weight + bias)
        return (values @ self.weights[-1] + self.biases[-1])[:, :, 0]


Rows = tuple[jax.Array, jax.Array]


def _log_loss(network: RatioNetwork, rows: Rows, penalty: jax.Array, noise: Noise) -> jax.Array:
    """Return the logistic loss; it is smallest at the log ratio."""
    pairs, shuffled = _pairs_and_shuffled(network, *rows)
    return _total(network, jax.nn.softplus(-pairs), jax.nn.softplus(shuffled), penalty)


def _hinge_loss(network: RatioNetwork, rows: Rows, penalty: jax.Array, noise: Noise) -> jax.Array:
    """Return the hinge loss; it is smallest at the sign of the log ratio."""
    pairs, shuffled = _pairs_and_shuffled(network, *rows)
    return _total(network, jax.nn.relu(1.0 - pairs), jax.nn.relu(1.0 + shuffled), penalty)


def _pairs_and_shuffled(network: RatioNetwork, phi: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the estimates at the pairs, and at shuffled pairs: rows are in random order, so a shift shuffles."""
    shifts = range(NetworkSettings().shuffles + 1)
    shifted = [jnp.roll(phi, shift, axis=0) for shift in shifts]
    values = network(jnp.concatenate(shifted), jnp.tile(x, (len(shifts), 1)))
    return values[:, : len(phi)], values[:, len(phi) :]


def _total(network: RatioNetwork, pairs: jax.Array, shuffled: jax.Array, penalty: jax.Array) -> jax.Array:
    """Return the sum over the members, each with as much weight on pairs as on shuffled pairs; biases are free."""
    squares = sum((weight**2).sum() for weight in network.weights)
    return (pairs.mean(axis=1) + shuffled.mean(axis=1)).sum() + penalty * squares


class LogRatio:
    """A trained ratio with the units of its data: ``at(phi, x)`` for rows of working coordinates, one row of data."""

    def __init__(self, trained: Trained, phi_scale: Standardizer, x_scale: Standardizer) -> None:
        self.trained = trained
        self._phi_scale, self._x_scale = phi_scale, x_scale

    def at(self, phi: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the mean of the members' log ratios.

        Parameters
        ----------
        phi : ndarray of shape (n, d)
            Working coordinates.
        x : ndarray of shape (1, s)
            One row of data.
        """
        at_once = NetworkSettings().rows_at_once
        padded = np.zeros((-(-len(phi) // at_once) * at_once, phi.shape[1]))
        padded[: len(phi)] = network_inputs(self._phi_scale, phi)
        given = network_inputs(self._x_scale, x)[0]
        with in_float64():
            chunks = jnp.split(jnp.asarray(padded), len(padded) // at_once)
            values = [np.asarray(_evaluated(self.trained.model, chunk, given)) for chunk in chunks]
        return np.concatenate(values)[: len(phi)]


@eqx.filter_jit
def _evaluated(network: RatioNetwork, phi: jax.Array, x: jax.Array) -> jax.Array:
    return network(phi, jnp.broadcast_to(x, (len(phi), len(x)))).mean(axis=0)


def fit_ratio(
    phi: np.ndarray, x: np.ndarray, *, loss: Literal["log", "hinge"], steps: int, seed: int, seconds: float
) -> LogRatio:
    """Return the log ratio learned from working coordinates (n, d) and data (n, s), with early stopping.

    Parameters
    ----------
    phi : ndarray of shape (n, d)
        Working coordinates.
    x : ndarray of shape (n, s)
        Data.
    loss : {"log", "hinge"}
        Loss of the classifier.
    steps : int
        Most steps of training.
    seed : int
        Seed of the networks and their training.
    seconds : float
        Time after which training stops.

    Examples
    --------
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
    settings = NetworkSettings()
    held_out = max(settings.held_out, (settings.least_held_out + 0.5) / len(phi))
    trained = train(
        network,
        {"log": _log_loss, "hinge": _hinge_loss}[loss],
        rows,
        seed=seed,
        fixed=np.array(settings.penalty / len(phi)),
        steps=steps,
        batch=min(settings.batch, 1 << (int((1.0 - held_out) * len(phi)).bit_length() - 1)),
        rate=settings.ratio_rate,
        held_out=held_out,
        seconds=seconds,
    )
    return LogRatio(trained, phi_scale, x_scale)
