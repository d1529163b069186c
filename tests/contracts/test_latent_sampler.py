"""The sampler of hyperparameters and assignments: against integration on a grid, and how chains are combined."""

import numpy as np
import pytest
from oracle_kernels import rbf
from oracles import log_normal

from decond import kernels
from decond.gp import FunctionPrior, LatentInput, LogNormal, Model, SamplerSettings, sample_latent_inputs, select

X = np.linspace(0, 6, 12)[:, None]
Z = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(0).standard_normal(12)
PATH = "observation.noise"


def sampled(table, settings, starts=lambda table: [np.zeros(12)], known=None, bounds=None, seed=0):
    model = Model(FunctionPrior(1.0 * kernels.RBF(1.2)), LatentInput(X, table, 0.5, known))
    variables = select(model, [PATH], bounds=bounds, hyperpriors={PATH: LogNormal(0.5, 1.0)})
    return sample_latent_inputs("latent", model, [table], starts, Z, variables, seed, settings)


LONG = SamplerSettings(warmup=50, sweeps=1500, kept=300)
SHORT = SamplerSettings(warmup=10, sweeps=20, kept=4)


@pytest.mark.parametrize("known", [None, np.linspace(0.0, 0.3, 12)], ids=["one noise", "known variances"])
def test_noise_has_its_posterior_where_rows_are_certain(known):
    """In log σ, with the hyperprior N(log 0.5, 1), f integrated out in closed form."""
    grid = np.linspace(-4.0, 2.0, 400)
    S = rbf(X, X, 1.2) + np.diag(np.zeros(12) if known is None else known)
    logs = np.array([log_normal(Z, np.zeros(12), S + np.exp(2.0 * t) * np.eye(12)) for t in grid])
    logs -= 0.5 * (grid - np.log(0.5)) ** 2
    density = np.exp(logs - logs.max())
    mean = (grid @ density) / density.sum()
    spread = np.sqrt((grid - mean) ** 2 @ density / density.sum())
    draws = np.log([values[PATH] for values in sampled(np.eye(12), LONG, known=known).values])
    assert draws.mean() == pytest.approx(mean, abs=0.2 * spread)
    assert draws.std() == pytest.approx(spread, rel=0.2)


def test_draws_stay_within_bounds():
    found = sampled(np.eye(12), SamplerSettings(warmup=10, sweeps=200, kept=50), bounds={PATH: (0.4, 0.6)})
    noises = np.array([values[PATH] for values in found.values])
    assert np.all((noises >= 0.4) & (noises <= 0.6))
    assert len(np.unique(noises)) == 40  # every step moves


def test_a_candidate_has_draws_with_weights_and_predictions():
    table = np.random.default_rng(1).dirichlet(np.ones(12), 12).T
    found = sampled(table, SHORT, lambda _: [np.zeros(12), np.sin(X[:, 0])])
    assert found.weights.sum() == pytest.approx(1.0)
    assert len(found.values) == len(found.weights)
    assert all(np.all(table[values["observation.assignment"], np.arange(12)] > 0.0) for values in found.values)
    assert found.left_out.mean.shape == found.left_out.variance.shape == found.left_out.log_density.shape == (12,)
    assert np.all(found.left_out.variance > 0.0)
    again = sampled(table, SHORT, lambda _: [np.zeros(12), np.sin(X[:, 0])])
    for one, other in zip(found.values, again.values, strict=True):
        assert one[PATH] == other[PATH]
    different = sampled(table, SHORT, lambda _: [np.zeros(12), np.sin(X[:, 0])], seed=1)
    assert [values[PATH] for values in different.values] != [values[PATH] for values in found.values]


@pytest.mark.parametrize(("stack_tables", "low", "high"), [(False, 1 / 3 - 1e-9, 1 / 3 + 1e-9), (True, 0.7, 1.0)])
def test_tables_count_alike_unless_they_are_rivals(stack_tables, low, high):
    """Chains are stacked within a table of p(x | y), and tables share the weight equally, or are stacked too."""
    model = Model(FunctionPrior(1.0 * kernels.RBF(1.2)), LatentInput(X, np.eye(12), 0.5))
    variables = select(model, [PATH], bounds={PATH: (0.1, 1.0)}, hyperpriors={PATH: LogNormal(0.3, 0.3)})
    order = np.random.default_rng(3).permutation(12)  # explains the targets far worse
    tables = [np.eye(12), np.eye(12)[order], np.eye(12)[order[::-1]]]
    found = sample_latent_inputs(
        "latent", model, tables, lambda _: [np.zeros(12)], Z, variables, 0, SHORT, stack_tables=stack_tables
    )
    right = [np.array_equal(values["observation.assignment"], np.arange(12)) for values in found.values]
    assert low <= found.weights[right].sum() <= high


def test_a_chain_that_explains_targets_worse_counts_less():
    """Targets are at two rows far apart, with the same probability: a chain can start with the signs exchanged."""
    x = np.array([[0.0], [50.0]])
    z = np.concatenate([np.full(20, 1.0), np.full(20, -1.0)]) + 0.05 * np.random.default_rng(2).standard_normal(40)
    table = np.repeat([[0.9, 0.1], [0.1, 0.9]], 20, axis=1)
    model = Model(FunctionPrior(1.0 * kernels.RBF(1.0)), LatentInput(x, table, 0.05))
    variables = select(model, [PATH], bounds={PATH: (0.04, 0.06)})
    starts = [np.array([1.0, -1.0]), np.array([-1.0, 1.0])]
    found = sample_latent_inputs("latent", model, [table], lambda _: starts, z, variables, 0, SHORT)
    right = [values["observation.assignment"][0] == 0 for values in found.values]
    assert found.weights[right].sum() > 0.9


def test_sweeps_are_counted_chain_by_chain():
    seen = []
    model = Model(FunctionPrior(1.0 * kernels.RBF(1.2)), LatentInput(X, np.eye(12), 0.5))
    starts = [np.zeros(12), np.ones(12)]
    sample_latent_inputs(
        "latent",
        model,
        [np.eye(12)],
        lambda _: starts,
        Z,
        select(model, [PATH]),
        settings=SHORT,
        progress=lambda count, _: seen.append(count),
    )
    assert seen == [*range(1, 31), *range(1, 31)]
