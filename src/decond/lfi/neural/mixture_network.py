"""A Bayesian mixture density network (Papamakarios & Murray 2016): data in, a mixture out.

Tanh layers give the weights, the means and the factors U of the precisions UᵀU of K Gaussians. Each weight of the
network has a Gaussian of its own, learned by stochastic variational inference with local reparameterization.
"""

import itertools
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from decond.lfi.neural.float64 import in_float64
from decond.lfi.neural.inputs import network_inputs
from decond.lfi.neural.mixture import GaussianMixture
from decond.lfi.neural.training import Trained, train
from decond.lfi.summaries import Standardizer

__all__ = ["ConditionalMixture", "MixtureNetwork", "UncertainLayer", "fit_mixture"]

FIRST_SCALE = 0.02
"""Standard deviation of every weight before training."""

RATE = 5e-3
"""First learning rate of Adam."""


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
        self.log_scale = jnp.asarray(np.full(self.mean.shape, math.log(FIRST_SCALE)))

    def __call__(self, rows: jax.Array, noise: Any = None) -> jax.Array:
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

    def __call__(self, rows: jax.Array, noise: Any = None) -> MixtureOutputs:
        """Return the mixtures given rows, with weights at their means or, with noise, drawn."""
        parts = [None] * len(self.layers) if noise is None else jnp.split(noise, np.cumsum(self.widths)[:-1], axis=1)
        for layer, part in zip(self.layers[:-1], parts[:-1], strict=True):
            rows = jnp.tanh(layer(rows, part))
        flat = self.layers[-1](rows, parts[-1])
        k, d = self.components, self.dim
        logits, means, diagonal, upper = jnp.split(flat, np.cumsum([k, k * d, k * d]), axis=1)
        log_diagonals = diagonal.reshape(-1, k, d)
        factors = jnp.exp(log_diagonals)[..., None] * jnp.eye(d)
        above = np.triu_indices(d, 1)
        factors = factors.at[:, :, above[0], above[1]].set(upper.reshape(len(flat), k, -1))
        return MixtureOutputs(logits, means.reshape(-1, k, d), factors, log_diagonals)

    def log_density(self, targets: jax.Array, rows: jax.Array, noise: Any = None) -> jax.Array:
        """Return log q(target | row) for each row."""
        logits, means, factors, log_diagonals = self(rows, noise)
        scaled = jnp.einsum("nkij,nkj->nki", factors, targets[:, None, :] - means)
        heights = log_diagonals.sum(axis=2) - 0.5 * (scaled**2).sum(axis=2)
        constant = 0.5 * self.dim * math.log(2.0 * math.pi)
        return jax.nn.logsumexp(jax.nn.log_softmax(logits, axis=1) + heights, axis=1) - constant


def variational_loss(network: MixtureNetwork, rows: tuple[Any, ...], n: Any, noise: Any) -> Any:
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
        logits, means, factors, _ = (np.asarray(part)[0] for part in outputs)
        log_weights = logits - np.logaddexp.reduce(logits)
        precisions = np.einsum("kia,kib->kab", factors, factors)
        return GaussianMixture(log_weights, means, precisions).moved(self._center, self._root)


def fit_mixture(
    phi: np.ndarray, x: np.ndarray, *, components: int, hidden: tuple[int, ...], steps: int, seed: int, seconds: float
) -> ConditionalMixture:
    """Return the network trained on working coordinates (n, d) and data (n, s).

    Data are standardized, far values drawn in, and the working coordinates have mean zero and covariance one while
    the network learns.

    >>> rng = np.random.default_rng(0)
    >>> phi = rng.standard_normal((300, 1))
    >>> x = phi + 0.5 * rng.standard_normal((300, 1))
    >>> fitted = fit_mixture(phi, x, components=1, hidden=(10,), steps=1000, seed=0, seconds=30.0)
    >>> mean, covariance = fitted.at(np.ones((1, 1))).moments()  # exact: 0.8 and 0.2
    >>> bool(abs(mean[0] - 0.8) < 0.15), bool(abs(covariance[0, 0] - 0.2) < 0.07)
    (True, True)
    """
    center, covariance = phi.mean(axis=0), np.atleast_2d(np.cov(phi, rowvar=False))
    root = np.linalg.cholesky(covariance + 1e-12 * np.trace(covariance) * np.eye(len(center)))
    scale = Standardizer(x)
    targets = np.linalg.solve(root, (phi - center).T).T
    with in_float64():
        network = MixtureNetwork(x.shape[1], phi.shape[1], hidden, components, np.random.default_rng(seed))
        n = jnp.asarray(float(len(phi)))
    rows = (targets, network_inputs(scale, x))
    trained = train(
        network,
        variational_loss,
        rows,
        seed=seed,
        fixed=n,
        noise=sum(network.widths),
        steps=steps,
        rate=RATE,
        seconds=seconds,
    )
    return ConditionalMixture(trained, scale, center, root)
