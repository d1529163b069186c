"""Lengthscales where they matter: how often the MMD tells two samples apart, learned and by rules of thumb.

The MMD is between plain averages, so that only the lengthscale differs. It is learned from both samples together,
without knowing which row is of which: a permutation test is then exact, and rejects one in twenty pairs of samples of
one distribution.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.mean_embedding import FITS, MIXTURES, Mixture, mixture
from decond import kernels
from decond.plotting import COLORS
from decond.plotting.display import new_figure

FIRST_SEED = 7700
SIZES = (50, 100, 200)
"""Rows of each of the two samples."""

PERMUTATIONS, LEVEL = 199, 0.05

RULES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "a fifth of the median by column": lambda x: kernels.median_heuristic(x, per_column=True) / 5.0,
    "width of a density estimate": lambda x: x.std(axis=0) * len(x) ** (-1.0 / (x.shape[1] + 4.0)),
}
"""Lengthscales without learning that are shorter than the median; the second is where learning starts."""


def lengthscales(x: np.ndarray) -> dict[str, Any]:
    """Return the lengthscales from the rows of both samples, learned and by rules."""
    fitted = {name: model_for(x).fit(x).kernel_.lengthscale for name, model_for in FITS.items()}
    return {**fitted, **{name: rule(x) for name, rule in RULES.items()}}


def wider(truth: Mixture) -> Mixture:
    """Return the mixture with components half as wide again."""
    return truth._replace(deviations=1.5 * truth.deviations)


def moved(truth: Mixture) -> Mixture:
    """Return the mixture moved by a third of its deviation in each column."""
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


def p_value(gram: np.ndarray, rng: np.random.Generator) -> float:
    """Return the share, of permutations and the split into halves itself, whose MMD² is at least that of the split.

    With signs s for the two halves of n rows, n² MMD² = sᵀ K s.
    """
    signs = np.ones((PERMUTATIONS + 1, len(gram)))
    signs[0, : len(gram) // 2] = -1.0
    signs[1:] = rng.permuted(np.tile(signs[0], (PERMUTATIONS, 1)), axis=1)
    squared = ((signs @ gram) * signs).sum(axis=1)
    return float(np.mean(squared >= squared[0] * (1.0 - 1e-12)))


def rejections(truth: Mixture, other: Mixture, n: int, draws: int, seed: list[int]) -> dict[str, float]:
    """Return, for each way to a lengthscale, the share of draws in which two samples of n rows are told apart."""
    found: list[dict[str, bool]] = []
    for draw in range(draws):
        rng = np.random.default_rng([FIRST_SEED + draw, *seed, n])
        x = np.concatenate([truth.draw(n, rng), other.draw(n, rng)])
        found.append({})
        for name, scale in lengthscales(x).items():
            same_for_all = np.random.default_rng([FIRST_SEED + draw, n])
            found[-1][name] = p_value(kernels.RBF(scale).gram(x, x), same_for_all) <= LEVEL
    return {name: float(np.mean([told[name] for told in found])) for name in found[0]}


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
    """Return mean shares over mixtures of several components, and count where learning finds more or fewer."""
    chosen = [row for row in rows if row["second"] == what and row["first sample"] != "one Gaussian"]
    ways = (*FITS, *RULES)
    mean = {name: float(np.mean([row[name] for row in chosen])) for name in ways}
    return {
        "second": what,
        **mean,
        **{f"more / fewer than {name}": more_and_fewer(chosen, name) for name in ways[2:]},
    }


def more_and_fewer(rows: list[dict[str, Any]], name: str) -> str:
    """Return in how many cases learned lengthscales tell more, and in how many fewer, apart than others."""
    apart = np.array([row["learned"] - row[name] for row in rows])
    return f"{(apart > 0.0).sum()} / {(apart < 0.0).sum()}"


NOTES = [
    f"`rejections`: share of draws in which a permutation test ({PERMUTATIONS} permutations, level {LEVEL}) of MMD² "
    "tells two samples of n rows each apart. 'the same' is no difference: the share should be 0.05.",
    "Second distributions: the mixture with 1.5 times wider components; one Gaussian with the mixture's mean and "
    "variances; the mixture moved by a third of its deviation in each column.",
    "Lengthscales come from both samples together: learned (`BayesianMeanEmbedding`), `gaussian` (its other "
    "objective), and by rules: the median heuristic for all columns and for each, a fifth of the latter, and "
    "deviation times N^(-1/(d + 4)) of the N rows of d columns, where learning starts.",
    "`summary`: means over mixtures of several components and sizes, and in how many of these cases learned "
    "lengthscales tell more, and in how many fewer, apart.",
]


def plot(result: dict[str, Any]) -> Any:
    """Draw shares of samples told apart, learned against two rules, by the second sample; larger dots: more rows."""
    figure, axes = new_figure(2 * len(OTHERS), size=(12.0, 6.6))
    colors = [COLORS[role] for role in ("model", "observed", "density", "initial", "impute", "truth")]
    rules = [("median", "median heuristic"), ("a fifth of the median by column",) * 2]
    for number, (ax, ((rule, label), what)) in enumerate(zip(axes, itertools.product(rules, OTHERS), strict=True)):
        ax.plot([0, 1], [0, 1], color="gray", lw=1, ls="--")
        for color, name in zip(colors, MIXTURES, strict=True):
            rows = [r for r in result["rejections"] if r["second"] == what and r["first sample"] == name]
            points = [r[rule] for r in rows], [r["learned"] for r in rows]
            ax.scatter(*points, s=[0.35 * r["n"] for r in rows], color=color, alpha=0.7, lw=0, label=name)
        ax.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), aspect="equal", xlabel=label)
        ax.set_title(f"second: {what}", fontsize=9, loc="left")
        ax.grid(alpha=0.25, lw=0.5)
        if number % len(OTHERS) == 0:
            ax.set_ylabel("told apart, learned")
    axes[0].legend(frameon=False, fontsize=7, loc="upper left")
    return figure
