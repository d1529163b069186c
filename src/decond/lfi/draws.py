"""Which random numbers belong to a row: parameters and generators that depend on seed, round and row alone."""

import zlib

import numpy as np

from decond.lfi.prior import Prior

__all__ = ["BLOCK", "drawn_parameters", "generator"]

BLOCK = 100
"""Parameters are drawn, and batches are run, this many at a time: a row does not depend on how many follow."""


def drawn_parameters(prior: Prior, seed: int, label: str, n: int) -> np.ndarray:
    """Return the first n rows of the prior's draws for a round; a row does not depend on n.

    >>> from scipy import stats
    >>> prior = Prior({"rate": stats.gamma(2)})
    >>> few, many = (drawn_parameters(prior, 0, "0", n) for n in (3, 300))
    >>> bool((few == many[:3]).all())
    True
    """
    blocks = [prior.sample(BLOCK, generator(seed, 0, label, block)) for block in range(-(-n // BLOCK))]
    return np.concatenate(blocks)[:n]


def generator(seed: int, purpose: int, label: str, number: int) -> np.random.Generator:
    """Return the generator of one purpose, round and number: independent of all others, and always the same."""
    key = (purpose, zlib.crc32(label.encode()), number)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
