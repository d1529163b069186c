"""Lengthscales where they matter: how often the MMD tells two samples apart, learned and by the median heuristic.

The lengthscale is learned from both samples together, without knowing which row is of which, so that a permutation
test with it is exact: of two samples of one distribution it rejects one in twenty.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.mean_embedding import MIXTURES, Mixture, mixture
from decond import BayesianMeanEmbedding, kernels
from decond.plotting import COLORS
from decond.plotting.figures import new_figure

FIRST_SEED = 7500
SIZES = (50, 100, 200)
"""Rows of each of the two samples."""

PERMUTATIONS, LEVEL = 199, 0.05

KERNELS: dict[str, Callable[[np.ndarray], kernels.RBF]] = {
    "learned": lambda x: BayesianMeanEmbedding().fit(x).kernel_,
    "gaussian": lambda x: BayesianMeanEmbedding(objective="gaussian").fit(x).kernel_,
    "median": lambda x: kernels.RBF(kernels.median_heuristic(x)),
    "median by column": lambda x: kernels.RBF(kernels.median_heuristic(x, per_column=True)),
}
"""Ways to a kernel from the rows of both samples."""


def wider(truth: Mixture) -> Mixture:
    """Return the mixture with half as wide again components: small features differ, large ones hardly."""
    return truth._replace(deviations=1.5 * truth.deviations)


def moved(truth: Mixture) -> Mixture:
    """Return the mixture moved by a third of its deviation in each column: what any wide kernel sees."""
    return truth._replace(means=truth.means + moments(truth)[1] / 3.0)


def one_component(truth: Mixture) -> Mixture:
    """Return the Gaussian with the mixture's mean, and its variance in each column."""
    mean, deviation = moments(truth)
    return mixture([1.0], mean[None], deviation)


def moments(truth: Mixture) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of each column."""
    mean = truth.weights @ truth.means
    return mean, np.sqrt(truth.weights @ (truth.deviations**2 + (truth.means - mean) ** 2))


OTHERS: dict[str, Callable[[Mixture], Mixture]] = {
    "the same": lambda truth: truth,
    "wider components": wider,
    "one Gaussian": one_component,
    "moved": moved,
}
"""What the second sample is drawn from."""


def p_value(gram: np.ndarray, n: int, rng: np.random.Generator) -> float:
    """Return the share of permutations whose MMD² is at least that of the first n rows and the rest."""
    signs = np.ones((PERMUTATIONS + 1, len(gram)))
    signs[0, :n] = -1.0
    for row in signs[1:]:
        row[rng.permutation(len(gram))[:n]] = -1.0
    squared = ((signs @ gram) * signs).sum(axis=1)
    return float(np.mean(squared >= squared[0] * (1.0 - 1e-12)))


def rejections(truth: Mixture, other: Mixture, n: int, draws: int, seed: list[int]) -> dict[str, float]:
    """Return, for each way to a kernel, the share of draws in which two samples of n rows are told apart."""
    found: dict[str, list[bool]] = {name: [] for name in KERNELS}
    for draw in range(draws):
        rng = np.random.default_rng([FIRST_SEED + draw, *seed, n])
        x = np.concatenate([truth.draw(n, rng), other.draw(n, rng)])
        for name, kernel_for in KERNELS.items():
            gram = kernel_for(x).gram(x, x)
            found[name].append(p_value(gram, n, np.random.default_rng([FIRST_SEED + draw, n])) <= LEVEL)
    return {name: float(np.mean(rejected)) for name, rejected in found.items()}


def run(draws: int = 100, sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    """Compare on all mixtures, sizes and second distributions."""
    rows: list[dict[str, Any]] = []
    for i, (name, truth) in enumerate(MIXTURES.items()):
        for j, (what, other) in enumerate(OTHERS.items()):
            if name == what:
                continue
            for n in sizes:
                shares = rejections(truth, other(truth), n, draws, [i, j])
                rows.append({"first sample": name, "second": what, "n": n, **shares})
                print(rows[-1], flush=True)
    return {
        "benchmark": f"two samples told apart by their MMD, {draws} draws from seed {FIRST_SEED}",
        "notes": NOTES,
        "summary": [summary(rows, what) for what in OTHERS],
        "rejections": rows,
    }


def summary(rows: list[dict[str, Any]], what: str) -> dict[str, Any]:
    """Count the pairs of mixture and size where the learned kernel tells more or fewer apart than the heuristic."""
    chosen = [row for row in rows if row["second"] == what and row["first sample"] != "one Gaussian"]
    apart = np.array([row["learned"] - row["median"] for row in chosen])
    mean = {name: float(np.mean([row[name] for row in chosen])) for name in KERNELS}
    counts = {"learned more": int((apart > 0.0).sum()), "learned fewer": int((apart < 0.0).sum())}
    return {"second": what, **mean, **counts}


NOTES = [
    f"`rejections`: share of draws in which a permutation test ({PERMUTATIONS} permutations, level {LEVEL}) of MMD² "
    "tells two samples of n rows each apart. 'the same' is no difference: the share should be 0.05.",
    "Second distributions: the mixture with 1.5 times wider components; one Gaussian with the mixture's mean and "
    "variances; the mixture moved by a third of its deviation in each column.",
    "Lengthscales come from both samples together: learned (`BayesianMeanEmbedding`), `gaussian` (its other "
    "objective), the median heuristic for all columns, and for each.",
    "`summary`: means over mixtures of several components and sizes, and in how many of them learned lengthscales "
    "tell more, or fewer, apart than the median heuristic.",
]


def plot(result: dict[str, Any]) -> Any:
    """Draw the share of samples told apart, learned against the median heuristic, by what the second sample is."""
    figure, axes = new_figure(len(OTHERS), size=(12.0, 3.4))
    colors = [COLORS[role] for role in ("model", "observed", "density", "initial", "impute", "truth")]
    for ax, what in zip(axes, OTHERS, strict=True):
        ax.plot([0, 1], [0, 1], color="grey", lw=1, ls="--")
        for color, name in zip(colors, MIXTURES, strict=True):
            rows = [r for r in result["rejections"] if r["second"] == what and r["first sample"] == name]
            sizes = [0.35 * r["n"] for r in rows]
            points = [r["median"] for r in rows], [r["learned"] for r in rows]
            ax.scatter(*points, s=sizes, color=color, alpha=0.7, lw=0, label=name)
        ax.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), aspect="equal", xlabel="median heuristic")
        ax.set_title(f"second: {what}", fontsize=9, loc="left")
        ax.grid(alpha=0.25, lw=0.5)
    axes[0].set_ylabel("told apart, learned")
    axes[0].legend(frameon=False, fontsize=7, loc="upper left")
    return figure
