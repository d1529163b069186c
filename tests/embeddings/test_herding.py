"""Herding beyond what the theorem tests look at: the plain algorithm's choices, at the cost that is promised."""

import pickle

import numpy as np
import oracles
import pytest
from expected import refused

from decond import MeanEmbedding, kernels
from decond.embeddings.herding import Herding

RNG = np.random.default_rng(0)
POINTS, WEIGHTS = RNG.standard_normal((30, 2)), RNG.uniform(-0.3, 1.0, 30)
WEIGHTS /= WEIGHTS.sum()
CANDIDATES = RNG.standard_normal((200, 2))
MU = MeanEmbedding(kernels.RBF(0.7), POINTS, WEIGHTS)
KERNELS = [
    kernels.RBF(0.2),
    kernels.RBF(np.array([0.3, 2.0])),
    kernels.Matern12(0.5),
    kernels.Matern32(0.5),
    kernels.Matern52(0.5),
    kernels.RationalQuadratic(0.5, alpha=2.0),
    kernels.Periodic(0.7, period=3.0),
    2.0 * kernels.RBF(0.4) + kernels.Linear(),
]


@pytest.fixture(autouse=True)
def _same_draws():
    """Each test draws the same numbers, whatever ran before it."""
    RNG.bit_generator.state = np.random.default_rng(1).bit_generator.state


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("n", [5, 150, 500])
def test_herding_follows_the_algorithm(kernel, n):
    expected = oracles.herd(MU(CANDIDATES), kernel(CANDIDATES), n)
    np.testing.assert_array_equal(MU.herd(n, CANDIDATES, kernel), CANDIDATES[expected])


def test_many_candidates_follow_the_algorithm_too():
    """More than rows are remembered for, unless they come again, as they do under a wide kernel."""
    candidates = np.random.default_rng(1).standard_normal((6000, 3))
    embedding = MeanEmbedding(kernels.RBF(3.0), candidates[:50])
    process = embedding.herding(candidates)
    samples = process.draw_indices(200)
    total = np.zeros(len(candidates))
    for s, sample in enumerate(samples, start=1):
        assert sample == np.argmax(process.values - total / s)
        total += embedding.kernel(candidates[sample : sample + 1], candidates)[0]
    chosen, times = np.unique(samples, return_counts=True)
    assert set(process._rows) == set(chosen[times > 1])
    assert 0 < len(process._rows) < len(chosen)


def test_the_first_of_equal_candidates_is_chosen():
    """Each candidate is there three times, and copies have the same score at every step."""
    thrice = np.concatenate([CANDIDATES, CANDIDATES, CANDIDATES])
    values = np.tile(MU(CANDIDATES), 3)
    samples = Herding(values, thrice, MU.kernel).draw_indices(700)
    assert samples.max() < len(CANDIDATES)
    np.testing.assert_array_equal(samples, oracles.herd(values, MU.kernel(thrice), 700))


def test_herding_can_be_continued():
    process = MU.herding(CANDIDATES)
    parts = np.concatenate([process.draw(4), process.draw(1), process.draw(0), process.draw(95)])
    np.testing.assert_array_equal(parts, MU.herd(100, CANDIDATES))


def test_herding_goes_on_after_a_copy_by_pickle():
    process = MU.herding(CANDIDATES)
    first = process.draw(40)
    copy = pickle.loads(pickle.dumps(process))
    np.testing.assert_array_equal(np.concatenate([first, copy.draw(60)]), MU.herd(100, CANDIDATES))


def test_a_lengthscale_for_other_columns_is_refused():
    with refused("lengthscale"):
        MU.herd(3, CANDIDATES, kernels.RBF(np.ones(3)))


class CountedKernel(kernels.RBF):
    """An RBF kernel that remembers how many entries it was asked for."""

    def _gram(self, a, b):
        self.seen.append(len(a) * len(b))
        return super()._gram(a, b)


def counted(lengthscale):
    kernel = CountedKernel(lengthscale)
    object.__setattr__(kernel, "seen", [])
    return kernel


def test_a_few_samples_cost_one_kernel_row_each():
    kernel = counted(0.2)
    samples = Herding(MU(CANDIDATES), CANDIDATES, kernel).draw_indices(10)
    assert kernel.seen == [len(CANDIDATES)] * len(np.unique(samples))


def test_samples_that_repeat_cost_one_kernel_row_for_each_candidate():
    kernel = counted(0.7)
    values = np.zeros(len(CANDIDATES))
    values[:3] = 5.0
    samples = Herding(values, CANDIDATES, kernel).draw_indices(300)
    assert len(np.unique(samples)) == 3
    assert kernel.seen == [len(CANDIDATES)] * 3


def test_many_samples_cost_one_gram_matrix_in_a_few_calls():
    kernel = counted(0.7)
    process = Herding(MU(CANDIDATES), CANDIDATES, kernel)
    samples = np.concatenate([process.draw_indices(150), process.draw_indices(1000)])
    assert len(np.unique(samples)) > 50
    assert sum(kernel.seen) == len(CANDIDATES) ** 2
    assert len(kernel.seen) < 15


def test_herding_with_little_memory_is_the_same():
    expected = MU.herd(500, CANDIDATES)
    process = Herding(MU(CANDIDATES), CANDIDATES, MU.kernel, cache_entries=3 * len(CANDIDATES))
    np.testing.assert_array_equal(process.draw(500), expected)
    assert len(process._rows) == 3 < len(np.unique(expected, axis=0))


def test_super_samples_converge_faster_than_draws():
    """Herding a mixture of two Gaussians: its error is below that of as many independent draws."""
    draws = np.concatenate([RNG.normal(-2, 0.5, 500), RNG.normal(1, 0.8, 500)])
    mu = MeanEmbedding(kernels.RBF(0.5), draws)
    herded = MeanEmbedding(mu.kernel, mu.herd(50))
    random = [mu.mmd(MeanEmbedding(mu.kernel, RNG.choice(draws, 50))) for _ in range(20)]
    assert mu.mmd(herded) < 0.5 * np.mean(random)
