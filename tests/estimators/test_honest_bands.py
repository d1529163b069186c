"""Honest error bars: coverage on fresh draws, and the average over descriptions of the mediator."""

import numpy as np
import oracles
import pytest
from expected import says_little

from decond.estimators import TaskTransformedGP
from decond.gp import condition


def toy_draw(seed, n=100, m=150):
    """A fresh draw of the paper's toy."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(-6, 6, (n, 1))
    x = oracles.toy_r(y) + 0.25 * rng.standard_normal((n, 1))
    y_task = rng.uniform(-6, 6, (m, 1))
    x_task = oracles.toy_r(y_task) + 0.25 * rng.standard_normal((m, 1))
    return x, y, y_task, oracles.toy_f(x_task) + 0.25 * rng.standard_normal(m)


@pytest.mark.slow
def test_honest_bands_hold_the_truth_and_the_mean_is_better():
    """Single measurements, as in the paper's toy: on three draws."""
    x_new = np.linspace(-5, 5, 101)[:, None]
    truth = oracles.toy_f(x_new)
    errors, inside = [], []
    for seed in range(3):
        single, plain = (
            TaskTransformedGP(**settings).fit(*toy_draw(seed))
            for settings in ({"targets": "single"}, {"uncertainty": "plain", "n_restarts": 0})
        )
        mean, std = single.predict(x_new, return_std=True)
        errors.append([np.sqrt(np.mean((answer - truth) ** 2)) for answer in (mean, plain.predict(x_new))])
        inside.append(np.mean(np.abs(mean - truth) < 1.96 * std))
    ours, theirs = np.mean(errors, axis=0)
    assert ours < theirs
    assert np.mean(inside) > 0.85


def test_means_are_averaged_over_descriptions_of_the_mediator_by_stacking():
    """The posterior is recomputed from the candidates: their weights, their hyperparameters, one condition each."""
    x, y, y_task, z = toy_draw(4, 60, 80)
    with says_little():
        gp = TaskTransformedGP(n_restarts=0, seed=5).fit(x, y, y_task, z)
    average = gp.average_
    assert average.weights.sum() == pytest.approx(1.0)
    assert len(average.candidates) + len(average.dropped) == 3
    means, variances, weights = [], [], []
    x_new = np.linspace(-5, 5, 7)[:, None]
    for share, candidate in zip(average.weights, average.candidates, strict=True):
        for weight, values in zip(candidate.weights, candidate.values, strict=True):
            model = candidate.model.with_values(values)
            assert model.observation.scale == model.prior.kernel.variance  # C has the variance of f
            part = condition(*model, z - z.mean())
            means.append(part.mean(x_new))
            variances.append(part.variance(x_new))
            weights.append(share * weight)
    mean, std = gp.predict(x_new, return_std=True)
    expected = np.array(weights) @ means
    np.testing.assert_allclose(mean, expected + z.mean(), rtol=1e-10)
    second = np.array(weights) @ (np.array(variances) + np.square(means))
    np.testing.assert_allclose(std, np.sqrt(second - expected**2), rtol=1e-8)
