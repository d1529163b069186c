"""The mediator of two tables as numbers, and finite features of it: Fourier, indicators of labels, or both."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from decond.conditional.mediator import label_columns, numeric_columns, shared_groups
from decond.features import RandomFourier
from decond.kernels import RBF, median_heuristic

__all__ = ["CodedMediator", "Features", "Indicators", "coded", "fourier", "typical_distance"]

ENOUGH = 15
"""Rows of a label that a sample does not go below for the sake of more labels: fewer make their mean too noisy."""


class Features(Protocol):
    """What gives features of trusted rows."""

    def transform(self, a: Any) -> Any:
        """Return the features (len(a), p)."""
        ...


class Indicators(NamedTuple):
    """One feature a label: 1 in the rows that have it."""

    n_labels: int

    def transform(self, a: np.ndarray) -> np.ndarray:
        """Return the indicators of the codes in the last column."""
        found = np.zeros((len(a), self.n_labels))
        found[np.arange(len(a)), a[:, -1].astype(int)] = 1.0
        return found


class SignedFourier(NamedTuple):
    """Fourier features of numbers times a random sign for each label and frequency.

    Products of signs are 1 for equal labels and 0 on average for others, so inner products estimate the kernel of the
    numbers within a label, and nothing between labels.
    """

    numbers: RandomFourier
    n_labels: int
    seed: int

    def transform(self, a: np.ndarray) -> np.ndarray:
        """Return the features of rows whose last column is the code of a label."""
        rng = np.random.default_rng(self.seed)
        signs = rng.choice([-1.0, 1.0], (self.n_labels, self.numbers.n_frequencies))
        return self.numbers.transform(a[:, :-1]) * np.tile(signs[a[:, -1].astype(int)], 2)


class CodedMediator(NamedTuple):
    """The mediator of pairs and of task rows: columns of numbers, and last the code of the label if there are any."""

    pairs: np.ndarray
    task: np.ndarray
    n_labels: int
    """How many labels there are; 0 if the mediator is numbers alone."""

    @property
    def only_labels(self) -> bool:
        """Whether there is no column of numbers."""
        return self.n_labels > 0 and self.pairs.shape[1] == 1

    def lengthscale(self, seed: int) -> np.ndarray:
        """Return a typical distance in each column of numbers."""
        rows = np.concatenate([self.pairs, self.task])
        return typical_distance(rows[:, :-1] if self.n_labels else rows, seed)

    def features(self, lengthscale: Any, n_features: int, seed: int) -> Features:
        """Return features at this lengthscale; indicators if there are labels only, however many these are."""
        if self.only_labels:
            return Indicators(self.n_labels)
        numbers = fourier(lengthscale, n_features, seed)
        return SignedFourier(numbers, self.n_labels, seed) if self.n_labels else numbers

    def part(self, pairs: Any, task: Any) -> "CodedMediator":
        """Return the same of some rows."""
        return CodedMediator(self.pairs[pairs], self.task[task], self.n_labels)

    def sample(self, most: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of some pairs and task rows, at most so many of each.

        Of labels only, as many labels as leave `ENOUGH` rows to each, and about as many rows of one as of another.
        """
        if not self.only_labels:
            return rng.permutation(len(self.pairs))[:most], rng.permutation(len(self.task))[:most]
        order, tables = rng.permutation(self.n_labels), (self.pairs, self.task)
        counts = [np.bincount(rows[:, -1].astype(int), minlength=self.n_labels)[order] for rows in tables]
        fitting = np.max(np.cumsum(np.minimum(counts, ENOUGH), axis=1), axis=0) <= most
        pairs, task = (_some_of_each(rows, order[fitting], most, rng) for rows in tables)
        return pairs, task

    def recoded(self) -> "CodedMediator":
        """Return the same with codes of only those labels that there are."""
        if not self.n_labels:
            return self
        known, codes = np.unique(np.concatenate([self.pairs[:, -1], self.task[:, -1]]), return_inverse=True)
        pairs, task = self.pairs.copy(), self.task.copy()
        pairs[:, -1], task[:, -1] = codes[: len(pairs)], codes[len(pairs) :]
        return CodedMediator(pairs, task, len(known))


def fourier(lengthscale: Any, n_features: int, seed: int) -> RandomFourier:
    """Return random Fourier features of a Gaussian kernel."""
    return RandomFourier(RBF(lengthscale), -(-n_features // 2), seed)


def typical_distance(rows: np.ndarray, seed: int) -> np.ndarray:
    """Return the median distance in each column, times √d so that d columns together are as far apart as one."""
    return median_heuristic(rows, per_column=True, seed=seed) * np.sqrt(rows.shape[1])


def coded(y: np.ndarray, y_task: np.ndarray, z: np.ndarray) -> tuple[CodedMediator, np.ndarray, np.ndarray]:
    """Return the coded mediator, and which pairs and task rows are left: those whose label both tables have."""
    labels = label_columns(y)
    if not labels:
        everything = (np.ones(len(y), dtype=bool), np.ones(len(y_task), dtype=bool))
        return CodedMediator(y, y_task, 0), *everything
    numbers = numeric_columns(y)
    shared = shared_groups(y[:, labels], y_task[:, labels], z, least=1 if numbers else 2)
    tables = ((y, shared.rows, shared.group), (y_task, shared.task, shared.task_group))
    pairs, task = (
        np.column_stack([rows[kept][:, numbers].astype(np.float64), codes]) for rows, kept, codes in tables
    )
    return CodedMediator(pairs, task, len(shared.counts)), shared.rows, shared.task


def _some_of_each(rows: np.ndarray, labels: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return so many rows: first one of each label, at random, then a second of each that has one, and so on."""
    shuffled = rng.permutation(np.flatnonzero(np.isin(rows[:, -1], labels)))
    by_label = shuffled[np.argsort(rows[shuffled, -1], kind="stable")]
    _, begins, counts = np.unique(rows[by_label, -1], return_index=True, return_counts=True)
    turn = np.arange(len(by_label)) - np.repeat(begins, counts)
    return by_label[np.argsort(turn, kind="stable")[:most]]
