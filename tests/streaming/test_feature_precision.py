"""The task-transformed model from sums over two tables against 40 digits, where features are nearly dependent."""

import mpmath as mp
import numpy as np
import pytest
from expected import warned

from decond import features, kernels
from decond.linalg import JitterWarning
from decond.streaming import FeatureModel, Table, Tables

EPS = np.finfo(float).eps
GAMMA2, BETA2 = 0.7, 1.9


def data():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((30, 2))
    y, y_task = np.sin(x[:, :1]) + 0.1 * rng.standard_normal((30, 1)), rng.standard_normal((15, 1))
    return x, y, y_task, np.sin(2.0 * y_task[:, 0]) + 0.1 * rng.standard_normal(15), rng.standard_normal((4, 2))


def maps_of(kind, x, y):
    """Features of x and y. The sixteen Fourier features of y are dependent up to rounding, landmarks are not."""
    if kind == "fourier":
        return features.RandomFourier(kernels.RBF([0.8, 1.1]), 10), features.RandomFourier(
            kernels.Matern32(1.2), 8, 1
        )
    return features.Nystrom(kernels.Matern32([2.0, 3.0]), x[:12]), features.Nystrom(kernels.Matern32(3.0), y[:6])


def exact(model, x, y, y_task, z, query):
    """Log evidence and posterior mean in 40 digits, from features in float64."""
    phi, psi = model.features_x, model.features_y
    with mp.workdps(40):
        Phi, Psi, Psi_task = (mp.matrix(part.T.tolist()) for part in (phi(x), psi(y), psi(y_task)))
        noise, targets = mp.mpf(model.noise) ** 2, mp.matrix(z.tolist())
        inverse = (Psi * Psi.T + noise / mp.mpf(BETA2) * mp.eye(Psi.rows)) ** -1
        H = Phi * Psi.T * inverse
        C = mp.mpf(GAMMA2) * H.T * H + (noise * inverse if model.mediator == "full" else 0 * inverse)
        S = Psi_task.T * C * Psi_task + noise * mp.eye(len(z))
        solved, root = mp.lu_solve(S, targets), mp.cholesky(S)
        log_determinant = 2 * sum(mp.log(root[i, i]) for i in range(len(z)))
        value = -((targets.T * solved)[0] + log_determinant + len(z) * mp.log(2 * mp.pi)) / 2
        mean = mp.mpf(GAMMA2) * mp.matrix(phi(query).tolist()) * H * Psi_task * solved
        return float(value), np.array([float(entry) for entry in mean])


def rounding(model, y):
    """Eps times the condition number of G = ΨΨᵀ + (σ²/β²)I."""
    return EPS * (1.0 + np.linalg.norm(model.features_y(y), 2) ** 2 * BETA2 / model.noise**2)


@pytest.mark.parametrize("mediator", ["full", "map"])
@pytest.mark.parametrize("kind", ["fourier", "landmarks"])
@pytest.mark.parametrize("noise", [0.3, 1e-2, 1e-3])
def test_errors_are_what_the_condition_of_the_pairs_allows(kind, mediator, noise):
    *rows, query = data()
    x, y, y_task, z = rows
    model = FeatureModel(*maps_of(kind, x, y), noise=noise, variance_x=GAMMA2, variance_y=BETA2, mediator=mediator)
    sums = model.statistics(Tables(Table(x, y), Table(y_task, z)))
    value, mean = exact(model, *rows, query)
    bound = 50.0 * rounding(model, y)
    posterior = model.condition(sums, columns=2)
    assert posterior.log_evidence == pytest.approx(value, rel=bound)
    np.testing.assert_allclose(posterior.mean(query), mean, rtol=0.0, atol=bound * np.abs(mean).max())


def test_a_noise_too_small_for_sums_is_warned_of():
    x, y, y_task, z, _ = data()
    quiet = FeatureModel(*maps_of("fourier", x, y), noise=1e-3, variance_y=BETA2)
    sums = quiet.statistics(Tables(Table(x, y), Table(y_task, z)))
    quiet.condition(sums, columns=2)
    with warned(JitterWarning, matrix="the sums over the pairs", jitter=0.0):
        quiet.replace(noise=1e-5).condition(sums, columns=2)
