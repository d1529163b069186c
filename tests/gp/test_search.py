"""Variables of a model as one vector, and maximal evidence."""

import warnings

import numpy as np
import pytest
from expected import refused, warned
from scipy import stats

from decond import kernels, problems
from decond.gp import (
    Aggregated,
    BoundWarning,
    Direct,
    FunctionPrior,
    LogNormal,
    Model,
    NoSignalWarning,
    TaskTransformed,
    log_evidence,
    log_evidence_and_gradient,
    maximize_evidence,
    select,
    warn_if_constant,
)
from decond.gp.search import Objective
from decond.linalg import NotPositiveDefiniteError

PROBLEM = problems.latent_function()
HYPERPARAMETERS = ("prior.kernel.lengthscale", "observation.kernel_y.lengthscale", "observation.noise")


def toy(length_x=1.0, length_y=1.0, noise=0.1):
    observation = TaskTransformed(PROBLEM.x, PROBLEM.y, PROBLEM.y_task, kernels.RBF(length_y), noise=noise)
    return Model(FunctionPrior(kernels.RBF(length_x)), observation)


def smooth(n=40, noise=0.1):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 6, (n, 2))
    return x, np.sin(x[:, 0]) + noise * rng.standard_normal(n)


def test_the_toy_of_the_paper_learns_its_published_optimum():
    result = maximize_evidence(toy(), PROBLEM.z_task, select(toy(), free=HYPERPARAMETERS), n_restarts=0)
    assert result.status == "converged"
    assert -result.log_evidence <= 105.7278
    np.testing.assert_allclose([result.parameters[path] for path in HYPERPARAMETERS], PROBLEM.learned, rtol=1e-4)
    assert result.log_evidence == pytest.approx(
        log_evidence(result.model.prior, result.model.observation, PROBLEM.z_task), rel=1e-12
    )
    assert len(result.history) == result.evaluations
    assert max(result.history) == pytest.approx(result.log_evidence)


def test_restarts_only_improve_and_repeat_with_the_seed():
    model = toy(5.0, 5.0, 1.0)
    variables = select(model, free=HYPERPARAMETERS)
    alone = maximize_evidence(model, PROBLEM.z_task, variables, n_restarts=0)
    several = maximize_evidence(model, PROBLEM.z_task, variables, n_restarts=2, seed=1)
    again = maximize_evidence(model, PROBLEM.z_task, variables, n_restarts=2, seed=1)
    assert several.log_evidence >= alone.log_evidence
    assert len(several.starts) == 3
    assert several.log_evidence == again.log_evidence == max(several.starts)


def test_further_starts_are_tried_and_the_best_optimum_is_kept():
    x, z = smooth()
    model = Model(FunctionPrior(1.0 * kernels.RBF([1e-4, 1e-4])), Direct(x, noise=0.1))  # rows far apart
    path = "prior.kernel.kernel.lengthscale"
    variables = select(model)
    alone = maximize_evidence(model, z, variables, n_restarts=0)
    both = maximize_evidence(model, z, variables, n_restarts=1, also=[{path: [1.0, 2.0], "observation.noise": 0.2}])
    assert len(both.starts) == 3
    assert both.starts[0] == alone.log_evidence
    assert both.starts[1] == both.log_evidence > max(both.starts[0], both.starts[2]) + 10.0
    beyond = maximize_evidence(model, z, variables, n_restarts=0, also=[{path: 1e9, "something": 1.0}])
    assert len(beyond.starts) == 2  # one number for both columns, and from the end of its range


@pytest.mark.parametrize("columns", [None, 3])
def test_a_constant_is_as_probable_as_its_best_density(columns):
    z = 5.0 + np.random.default_rng(0).standard_normal(40 if columns is None else (40, columns))
    centered = z - z.mean(axis=0)
    best = stats.norm.logpdf(centered, scale=centered.std()).sum()
    with warned(NoSignalWarning, log_evidence=best + 0.9) as caught:
        warn_if_constant(best + 0.9, z)
    assert caught[0].message.constant == pytest.approx(best, rel=1e-12)
    warn_if_constant(best + 1.1, z)
    warn_if_constant(-1e9, np.full_like(z, 2.0))  # a constant is all that there is to find


def test_every_parameter_is_free_by_default_except_absent_ones():
    x, _ = smooth()
    model = Model(FunctionPrior(2.0 * kernels.RBF([1.0, 1.0]), mean=0.5), Aggregated(x, np.arange(40) % 9, noise=0.1))
    names = [variable.name for variable in select(model)]
    assert names == [
        "prior.kernel.kernel.lengthscale",
        "prior.kernel.variance",
        "prior.mean",
        "observation.noise",
    ]  # individual_noise is zero: absent
    assert [v.name for v in select(model, free=["prior.mean"])] == ["prior.mean"]


def test_frozen_parameters_stay_and_mean_and_columns_are_learned():
    x, z = smooth()
    model = Model(FunctionPrior(2.0 * kernels.RBF([1.0, 1.0]), mean=0.5), Direct(x, noise=0.3))
    free = ["prior.kernel.kernel.lengthscale", "prior.mean", "observation.noise"]
    result = maximize_evidence(model, z + 10.0, select(model, free=free), n_restarts=1)
    assert result.model.prior.kernel.variance == 2.0
    assert result.parameters["prior.mean"] == pytest.approx(10.0, abs=1.5)
    assert result.parameters["observation.noise"] == pytest.approx(0.1, abs=0.04)
    relevant, irrelevant = result.parameters["prior.kernel.kernel.lengthscale"]
    assert irrelevant > 5 * relevant


def test_tied_parameters_share_one_value_and_their_slopes_add():
    u = np.linspace(-5, 5, 5)[:, None]
    x, z = np.linspace(-5, 5, 60)[:, None], np.sin(np.linspace(-5, 5, 60))
    observation = TaskTransformed(u, u, x, kernels.RBF(1.5), noise=0.3, mediator="map")
    model = Model(FunctionPrior(kernels.RBF(1.5)), observation)
    tie = ("prior.kernel.lengthscale", "observation.kernel_y.lengthscale")
    points = ("observation.x", "observation.y")
    variables = select(model, free=[*tie, "observation.noise", *points], tied=[tie, points])
    result = maximize_evidence(model, z, variables, n_restarts=0)
    assert result.parameters[tie[0]] == result.parameters[tie[1]]
    np.testing.assert_array_equal(result.model.observation.x, result.model.observation.y)
    assert not np.allclose(result.model.observation.x, u)
    slopes = log_evidence_and_gradient(result.model.prior, result.model.observation, z, points=True)[1]
    assert slopes[tie[0]] + slopes[tie[1]] == pytest.approx(0.0, abs=1e-2)
    np.testing.assert_allclose(slopes[points[0]] + slopes[points[1]], 0.0, atol=1e-2)


def test_a_search_asks_for_the_gradient_of_points_only_where_it_moves_them():
    u = np.linspace(-3.0, 3.0, 4)[:, None]
    model = Model(FunctionPrior(kernels.RBF(1.5)), TaskTransformed(u, u, u, kernels.RBF(1.5), noise=0.3))
    for free, asked in ((["observation.noise"], False), (["observation.noise", "observation.x"], True)):
        assert Objective(model, np.zeros(4), select(model, free=free)).learns_points == asked
    with_points, without = (model.log_evidence_and_gradient(np.ones(4), points=points) for points in (True, False))
    assert set(with_points[1]) - set(without[1]) == {"observation.x", "observation.y"}
    assert without[1]["observation.noise"] == pytest.approx(with_points[1]["observation.noise"], rel=1e-12)


def test_hyperprior_pulls_and_is_not_counted_as_evidence():
    x, z = smooth()
    model = Model(FunctionPrior(kernels.RBF(1.0)), Direct(x, noise=0.1))
    free = ["prior.kernel.lengthscale"]
    plain = maximize_evidence(model, z, select(model, free=free), n_restarts=0)
    strong = {"prior.kernel.lengthscale": LogNormal(0.5, 0.01)}
    pulled = maximize_evidence(model, z, select(model, free=free, hyperpriors=strong), n_restarts=0)
    assert pulled.parameters[free[0]] == pytest.approx(0.5, rel=0.1)
    assert pulled.log_evidence == pytest.approx(
        log_evidence(pulled.model.prior, pulled.model.observation, z), rel=1e-10
    )
    assert pulled.log_evidence < plain.log_evidence


def test_an_optimum_on_a_bound_is_reported_with_a_remedy():
    x, z = smooth()
    model = Model(FunctionPrior(kernels.RBF(1.0)), Direct(x, noise=0.1))
    variables = select(model, free=["prior.kernel.lengthscale"], bounds={"prior.kernel.lengthscale": (0.1, 0.4)})
    with warned(BoundWarning, parameters=("prior.kernel.lengthscale",)):
        result = maximize_evidence(model, z, variables, n_restarts=0)
    assert result.on_bounds == ("prior.kernel.lengthscale",)
    assert result.parameters["prior.kernel.lengthscale"] == pytest.approx(0.4, rel=1e-6)


def test_iterations_that_run_out_are_not_called_converged():
    result = maximize_evidence(
        toy(), PROBLEM.z_task, select(toy(), free=HYPERPARAMETERS), n_restarts=0, max_iterations=1
    )
    assert result.status == "stopped"


def test_progress_is_told_the_best_so_far():
    seen = []
    maximize_evidence(
        toy(),
        PROBLEM.z_task,
        select(toy(), free=HYPERPARAMETERS),
        n_restarts=1,
        progress=lambda *now: seen.append(now),
    )
    assert [count for count, _ in seen] == list(range(1, len(seen) + 1))
    assert np.all(np.diff([best for _, best in seen]) >= 0)


class FragileModel(Model):
    """A model whose matrices cannot be factored where the noise is small."""

    def with_values(self, values):
        return FragileModel(*super().with_values(values))

    def log_evidence_and_gradient(self, z, *, points=True):
        if self.observation.noise < 0.2:
            raise NotPositiveDefiniteError("too small")
        return super().log_evidence_and_gradient(z, points=points)


def test_a_noise_that_is_too_small_is_turned_back_from():
    """Where a matrix cannot be factored the search goes back, counts it, and still finds an optimum."""
    x, z = smooth()
    model = FragileModel(FunctionPrior(kernels.RBF(1.0)), Direct(x, noise=1.0))
    result = maximize_evidence(model, z, select(model, free=["observation.noise"]), n_restarts=0)
    assert result.failures > 0
    assert 0.2 <= result.parameters["observation.noise"] < 0.5
    hopeless = FragileModel(FunctionPrior(kernels.RBF(1.0)), Direct(x, noise=0.1))
    with pytest.raises(NotPositiveDefiniteError):
        maximize_evidence(hopeless, z, select(hopeless, free=["prior.kernel.lengthscale"]), n_restarts=1)


def test_a_parameter_that_may_be_next_to_nothing_is_not_warned_of():
    x, z = smooth()
    model = Model(FunctionPrior(kernels.RBF(1.0)), Direct(x, noise=0.1))
    path = "prior.kernel.lengthscale"
    variables = select(model, free=[path, "observation.noise"], bounds={path: (0.1, 0.4)})
    result = maximize_evidence(model, z, variables, n_restarts=0, quiet=[path])
    assert result.on_bounds == (path,)  # it is still told in the result
    with warned(BoundWarning, parameters=(path,)):
        maximize_evidence(model, z, variables, n_restarts=0, quiet=["observation.noise"])


def test_the_objective_without_a_gradient_is_the_same():
    x, z = smooth()
    model = Model(FunctionPrior(2.0 * kernels.RBF([1.0, 2.0])), Direct(x, noise=0.3))
    lengths = "prior.kernel.kernel.lengthscale"
    variables = select(model, [lengths, "observation.noise"], hyperpriors={lengths: LogNormal([0.5, 3.0], 0.7)})
    objective = Objective(model, z, variables)
    vector = objective.vector_of({lengths: np.array([0.7, 1.9]), "observation.noise": 0.2})
    np.testing.assert_allclose(vector, np.log([0.7, 1.9, 0.2]))
    assert objective.parameters_at(vector)["observation.noise"] == pytest.approx(0.2)
    value, gradient = objective.evaluate(vector)
    hyperprior = -0.5 * np.sum((np.log([0.7 / 0.5, 1.9 / 3.0]) / 0.7) ** 2)
    evidence = log_evidence(FunctionPrior(2.0 * kernels.RBF([0.7, 1.9])), Direct(x, noise=0.2), z)
    assert value == pytest.approx(evidence + hyperprior, rel=1e-11)
    assert objective.value(vector) == pytest.approx(value, rel=1e-11)
    for i, slope in enumerate(gradient):
        step = 1e-5 * np.eye(3)[i]
        difference = (objective.value(vector + step) - objective.value(vector - step)) / 2e-5
        assert slope == pytest.approx(difference, rel=1e-6, abs=1e-6)
    lower, upper = objective.bounds
    np.testing.assert_allclose(np.exp(lower), np.array([1.0, 2.0, 0.3]) / 1e6)
    np.testing.assert_allclose(np.exp(upper), np.array([1.0, 2.0, 0.3]) * 1e6)


def test_new_values_are_checked_and_data_are_not_copied():
    groups = np.arange(40) % 9
    x, _ = smooth()
    model = Model(FunctionPrior(2.0 * kernels.RBF([1.0, 1.0])), Aggregated(x, groups, noise=0.1))
    moved = model.with_values({"observation.noise": 0.5, "prior.kernel.kernel.lengthscale": [3.0, 4.0]})
    assert moved.observation.noise == 0.5
    assert moved.observation.x is model.observation.x
    assert moved.observation.groups is model.observation.groups
    np.testing.assert_array_equal(moved.prior.kernel.kernel.lengthscale, [3.0, 4.0])
    assert moved.prior.kernel.variance == 2.0
    assert model.observation.noise == 0.1
    np.testing.assert_array_equal(model.prior.kernel.kernel.lengthscale, [1.0, 1.0])
    for path, value in (("observation.noise", -1.0), ("prior.kernel.variance", np.nan), ("prior.mean", "high")):
        with refused(path.rpartition(".")[2]):
            model.with_values({path: value})
    with pytest.raises(KeyError, match="width"):
        model.with_values({"prior.width": 1.0})
    with pytest.raises(ValueError, match="read-only"):  # of NumPy
        moved.prior.kernel.kernel.lengthscale[0] = 9.0


def test_wrong_names_and_bounds_are_refused():
    with refused("n_restarts"):
        maximize_evidence(toy(), PROBLEM.z_task, select(toy()), n_restarts=-1)
    with pytest.raises(KeyError, match="width"):
        select(toy(), free=["prior.kernel.width"])
    with refused("bounds['observation.noise']"):
        select(toy(), bounds={"observation.noise": (0.0, 1.0)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        select(toy(), bounds={"observation.noise": (0.1, 1.0)})
