"""The simulators of sbibm's tasks that are not in `decond.problems` (Lueckmann et al. 2021); all take batches."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import stats

from decond import lfi, problems

Simulator = Callable[[np.ndarray, np.random.Generator], np.ndarray]
Task = tuple[lfi.Prior, Simulator]


def task(name: str, folder: Path) -> Task:
    """Return prior and simulator of a task; `folder` has the files of all tasks."""
    if name in ("two_moons", "gaussian_linear_uniform", "sir"):
        problem = getattr(problems, name)()
        return problem.prior, problem.simulator
    made: Task = globals()[f"_{name}"](folder)
    return made


def files(name: str, folder: Path, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an observation and the draws of its reference posterior."""
    for suffix in ("distractors", "raw"):
        if name.endswith(suffix):
            here, file = folder / name.removesuffix(f"_{suffix}"), f"observation_{suffix}.csv"
            break
    else:
        here, file = folder / name, "observation.csv"
    here /= f"observation_{number}"
    reference = here / "reference_posterior_samples.csv.bz2"
    return (np.loadtxt(path, delimiter=",", skiprows=1) for path in (here / file, reference))  # type: ignore[return-value]


def _gaussian_linear(folder: Path) -> Task:
    sd = np.sqrt(0.1)
    prior = lfi.Prior({f"theta_{i}": stats.norm(0, sd) for i in range(10)})
    return prior, lambda theta, rng: theta + sd * rng.standard_normal(theta.shape)


def _gaussian_mixture(folder: Path) -> Task:
    def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        sd = np.where(rng.random((len(theta), 1)) < 0.5, 1.0, 0.1)
        return theta + sd * rng.standard_normal(theta.shape)

    return lfi.Prior({f"theta_{i}": stats.uniform(-10, 20) for i in range(2)}), simulate


def _slcp(folder: Path) -> Task:
    def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        first, second = theta[:, 2:3] ** 2, theta[:, 3:4] ** 2
        rho = np.tanh(theta[:, 4:5])
        e, f = rng.standard_normal((2, len(theta), 4))
        x = np.empty((len(theta), 8))
        x[:, ::2] = theta[:, :1] + first * e
        x[:, 1::2] = theta[:, 1:2] + second * (rho * e + np.sqrt(1.0 - rho**2) * f)
        return x

    return lfi.Prior({f"theta_{i}": stats.uniform(-3, 6) for i in range(5)}), simulate


def _slcp_distractors(folder: Path) -> Task:
    prior, plain = _slcp(folder)
    mixture = np.load(folder / "slcp" / "distractors.npz")

    def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        which = rng.choice(len(mixture["weights"]), len(theta), p=mixture["weights"] / mixture["weights"].sum())
        noise = rng.standard_normal((len(theta), mixture["location"].shape[1]))
        wide = np.sqrt(mixture["degrees"][which] / rng.chisquare(mixture["degrees"][which]))
        shifted = np.einsum("nij,nj->ni", mixture["scale_tril"][which], noise)
        others = mixture["location"][which] + wide[:, None] * shifted
        return np.hstack([plain(theta, rng), others])[:, mixture["permutation"]]

    return prior, simulate


def _bernoulli_glm_raw(folder: Path) -> Task:
    design = np.loadtxt(folder / "bernoulli_glm" / "design_matrix.csv", delimiter=",")
    smooth = np.eye(9) - np.eye(9, k=-1)
    smooth = smooth @ smooth + np.diag(np.sqrt(np.arange(9) / 9))
    precision = np.zeros((10, 10))
    precision[0, 0], precision[1:, 1:] = 0.5, smooth.T @ smooth
    prior = lfi.Prior(stats.multivariate_normal(np.zeros(10), np.linalg.inv(precision)))
    return prior, lambda theta, rng: (rng.random((len(theta), 100)) < 1.0 / (1.0 + np.exp(-theta @ design.T))).astype(
        float
    )


def _bernoulli_glm(folder: Path) -> Task:
    prior, raw = _bernoulli_glm_raw(folder)
    stimulus = np.loadtxt(folder / "bernoulli_glm" / "stimulus.csv", delimiter=",")

    def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        y = raw(theta, rng)
        lagged = [y[:, lag:] @ stimulus[: 100 - lag] for lag in range(9)]
        return np.column_stack([y.sum(axis=1), *lagged])

    return prior, simulate


def _lotka_volterra(folder: Path) -> Task:
    step, visits, every = 0.025, 10, 84  # 21 tenths of a unit of time

    def slope(state: np.ndarray, theta: np.ndarray) -> np.ndarray:
        prey, predators = np.exp(state)
        return np.stack([theta[:, 0] - theta[:, 1] * predators, theta[:, 3] * prey - theta[:, 2]])

    def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        state = np.repeat(np.log([[30.0], [1.0]]), len(theta), axis=1)
        seen = [state]
        for at in range(1, every * (visits - 1) + 1):
            first = slope(state, theta)
            second = slope(state + 0.5 * step * first, theta)
            third = slope(state + 0.5 * step * second, theta)
            fourth = slope(state + step * third, theta)
            state = state + step / 6.0 * (first + 2.0 * (second + third) + fourth)
            if at % every == 0:
                seen.append(state)
        logs = np.stack(seen, axis=2)
        return np.exp(np.hstack([logs[0], logs[1]]) + 0.1 * rng.standard_normal((len(theta), 2 * visits)))

    centers = (-0.125, -3.0, -0.125, -3.0)
    prior = lfi.Prior({f"theta_{i}": stats.lognorm(0.5, scale=np.exp(at)) for i, at in enumerate(centers)})
    return prior, simulate
