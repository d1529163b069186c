"""The tempered sampler: modes, support, evidence, limits, determinism."""

import numpy as np
import pytest
from expected import refused
from scipy import stats

from decond.lfi.sampling import temper

LOW, HIGH = -1.0, 3.0
CENTERS, SHARES, WIDTH = np.array([[-0.9, 0.0], [2.0, 2.0]]), np.array([0.7, 0.3]), 0.1


def box_prior(points):
    inside = np.all((points >= LOW) & (points <= HIGH), axis=1)
    return np.where(inside, -2.0 * np.log(HIGH - LOW), -np.inf)


def two_modes(points):
    """Two far, narrow Gaussians, one of them cut by the prior's edge."""
    densities = [stats.multivariate_normal(center, WIDTH**2).pdf(points) for center in CENTERS]
    return np.log(SHARES @ np.array(densities) + 1e-300)


def mass_inside():
    low = stats.norm(CENTERS, WIDTH).cdf(LOW)
    high = stats.norm(CENTERS, WIDTH).cdf(HIGH)
    return SHARES * np.prod(high - low, axis=1)


def run(seed=0, n=2000, **options):
    rng = np.random.default_rng(seed)
    return temper(box_prior, two_modes, rng.uniform(LOW, HIGH, (n, 2)), rng, **options)


def test_both_modes_keep_their_mass_and_the_support_holds():
    draws = run()[0].draw(10_000, np.random.default_rng(1))
    assert np.isfinite(box_prior(draws)).all()
    expected = mass_inside()[0] / mass_inside().sum()
    # 2,000 particles chosen in several steps: a standard error of about 0.02
    assert np.mean(draws[:, 0] < 0.5) == pytest.approx(expected, abs=0.06)
    assert draws[draws[:, 0] > 0.5].std(axis=0) == pytest.approx([WIDTH, WIDTH], rel=0.08)
    first = stats.truncnorm((LOW - CENTERS[0, 0]) / WIDTH, np.inf, CENTERS[0, 0], WIDTH)
    assert draws[draws[:, 0] < 0.5, 0].mean() == pytest.approx(first.mean(), abs=0.01)


def test_log_evidence_is_the_integral():
    expected = np.log(mass_inside().sum() / (HIGH - LOW) ** 2)
    assert np.mean([run(seed, n=1000)[0].log_evidence for seed in range(3)]) == pytest.approx(expected, abs=0.1)


def test_a_power_of_the_likelihood_widens():
    half, full = run(powers=(0.5, 1.0))
    assert (half.power, full.power) == (0.5, 1.0)
    near = [cloud.particles[cloud.particles[:, 0] > 0.5] for cloud in (half, full)]
    assert near[0].std() > 0
    assert near[0].std(axis=0) == pytest.approx(np.sqrt(2.0) * near[1].std(axis=0), rel=0.15)
    assert half.temperatures == full.temperatures[: len(half.temperatures)]
    assert list(full.temperatures) == sorted(full.temperatures)


def test_a_thin_curve_is_followed_to_its_ends():
    """A half circle of radius 1 and thickness 0.02, uniform in angle."""

    def half_circle(points):
        radius = np.linalg.norm(points, axis=1)
        return np.where(points[:, 0] > 0, -0.5 * ((radius - 1.0) / 0.02) ** 2 - np.log(radius), -np.inf)

    rng = np.random.default_rng(0)
    [cloud] = temper(box_prior, half_circle, rng.uniform(LOW, HIGH, (2000, 2)), rng)
    draws = cloud.draw(5000, rng)
    angles = np.arctan2(draws[:, 1], draws[:, 0])
    share_below = np.mean(angles < 0)  # the box keeps the whole half circle
    assert share_below == pytest.approx(0.5, abs=0.06)
    assert np.linalg.norm(draws, axis=1).std() == pytest.approx(0.02, rel=0.1)


def test_in_ten_dimensions_moments_are_right():
    scale = np.linspace(0.05, 0.5, 10)
    prior = stats.norm(0, 1)
    rng = np.random.default_rng(0)
    [cloud] = temper(
        lambda p: prior.logpdf(p).sum(axis=1),
        lambda p: -0.5 * np.sum(((p - 0.5) / scale) ** 2, axis=1),
        rng.standard_normal((2000, 10)),
        rng,
    )
    draws = cloud.draw(5000, rng)
    variance = 1.0 / (1.0 + scale**-2.0)
    assert draws.mean(axis=0) == pytest.approx(0.5 * variance / scale**2, abs=0.03)
    assert draws.std(axis=0) == pytest.approx(np.sqrt(variance), rel=0.08)


def test_the_same_seed_gives_the_same_draws():
    first, second, third = run(3)[0], run(3)[0], run(4)[0]
    assert np.array_equal(first.particles, second.particles)
    assert not np.array_equal(first.particles, third.particles)
    draws = [first.draw(100, np.random.default_rng(5)) for _ in range(2)]
    assert np.array_equal(*draws)


def test_without_time_particles_are_reweighted_once_and_not_moved():
    calls = []

    def counted(points):
        calls.append(len(points))
        return two_modes(points)

    rng = np.random.default_rng(0)
    start = rng.uniform(LOW, HIGH, (200, 2))
    [cloud] = temper(box_prior, counted, start, rng, time_limit=0.0)
    assert calls == [200]
    assert not cloud.finished
    assert cloud.temperatures == (0.0, 1.0)
    draws = cloud.draw(500, rng, time_limit=0.0)
    assert calls == [200, 200]
    assert draws.shape == (500, 2)
    assert set(map(tuple, draws)) <= set(map(tuple, start))


def test_evaluations_are_bounded_and_counted():
    calls = []

    def counted(points):
        calls.append(len(points))
        return two_modes(points)

    rng = np.random.default_rng(0)
    [cloud] = temper(box_prior, counted, rng.uniform(LOW, HIGH, (200, 2)), rng, max_evaluations=2000)
    assert cloud.evaluations == sum(calls) < 2000 + 200
    assert not cloud.finished


def test_impossible_observation_is_refused_and_nan_counts_as_impossible():
    rng = np.random.default_rng(0)
    start = rng.uniform(LOW, HIGH, (100, 2))
    with refused("log_likelihood"):
        temper(box_prior, lambda p: np.full(len(p), np.nan), start, rng)
    [cloud] = temper(box_prior, lambda p: np.where(p[:, 0] > 0, 0.0, np.nan), start, rng)
    assert (cloud.particles[:, 0] > 0).all()
