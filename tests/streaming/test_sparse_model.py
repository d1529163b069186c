"""Sums over blocks of rows give the evidence, gradient and posterior of the model in memory."""

import functools
import itertools
import operator
import subprocess
import sys

import numpy as np
import oracle_kernels
import oracles
import pytest
from expected import refused
from threadpoolctl import ThreadpoolController

from decond import kernels
from decond.errors import ArgumentTypeError
from decond.gp import Direct, FunctionPrior, TaskTransformed, condition, log_evidence_and_gradient
from decond.streaming import Batches, ChunkSettings, SparseModel, Table
from decond.streaming.sparse_gp import WhiteningSettings, evidence_and_gradient
from decond.threads import map_in_order

RNG = np.random.default_rng(3)
KERNELS = {
    "gaussian": 1.7 * kernels.RBF([0.8, 1.2]),
    "matern": 0.6 * kernels.Matern32(0.9),
    "sum": 1.2 * kernels.Matern52([0.7, 1.5]) + 0.4 * kernels.Linear(2.0),
}


def problem(n=7, m=60, targets=None, seed=0):
    rng = np.random.default_rng(seed)
    u, x = rng.standard_normal((n, 2)), rng.standard_normal((m, 2))
    return u, x, rng.standard_normal(m if targets is None else (m, targets))


def in_memory(model, x, z):
    """Value and gradient of the same model as a task-transformed one with x = y = u."""
    observation = TaskTransformed(
        model.inducing,
        model.inducing,
        x,
        model.kernel,
        noise=model.noise,
        mediator="map",
        mediator_noise=model.mediator_noise,
    )
    prior = FunctionPrior(model.kernel)
    value, slopes = log_evidence_and_gradient(prior, observation, z, points=True)
    gradient = {
        path: slopes[f"prior.{path}"] + slopes[f"observation.kernel_y.{path.removeprefix('kernel.')}"]
        for path in model.values()
        if path.startswith("kernel.")
    }
    gradient["inducing"] = slopes["observation.x"] + slopes["observation.y"]
    gradient["noise"] = slopes["observation.noise"]
    if model.mediator_noise is not None:
        gradient["mediator_noise"] = slopes["observation.mediator_noise"]
    return value, gradient, condition(prior, observation, z)


def assert_same_gradient(found, expected, rtol=1e-9):
    assert set(found) == set(expected)
    largest = max(float(np.abs(slope).max()) for slope in expected.values())
    for path, slope in expected.items():
        assert np.shape(found[path]) == np.shape(slope), path
        np.testing.assert_allclose(found[path], slope, rtol=rtol, atol=rtol * largest, err_msg=path)


@pytest.mark.parametrize("name", list(KERNELS))
@pytest.mark.parametrize("sizes", [(7, 60), (12, 5), (1, 30), (5, 1), (9, 9)])
@pytest.mark.parametrize("targets", [None, 3])
@pytest.mark.parametrize("mediator_noise", [None, 0.7])
def test_value_and_gradient_are_those_of_the_model_in_memory(name, sizes, targets, mediator_noise):
    u, x, z = problem(*sizes, targets)
    model = SparseModel(KERNELS[name], u, noise=0.3, mediator_noise=mediator_noise)
    value, gradient = model.log_evidence_and_gradient(Table(x, z))
    expected, slopes, _ = in_memory(model, x, z)
    assert value == pytest.approx(expected, rel=1e-11)
    assert model.log_evidence(Table(x, z)) == pytest.approx(expected, rel=1e-11)
    assert_same_gradient(gradient, slopes)


@pytest.mark.parametrize("targets", [None, 2])
@pytest.mark.parametrize("sizes", [(7, 60), (12, 5), (5, 1)])
def test_posterior_is_that_of_the_model_in_memory(sizes, targets):
    u, x, z = problem(*sizes, targets)
    model = SparseModel(KERNELS["gaussian"], u, noise=0.2)
    posterior = model.condition(model.statistics(Table(x, z)), flat=targets is None)
    expected = in_memory(model, x, z)[2]
    query = RNG.standard_normal((11, 2))
    assert posterior.log_evidence == pytest.approx(expected.log_evidence, rel=1e-11)
    np.testing.assert_allclose(posterior.mean(query), expected.mean(query), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(posterior.covariance(query), expected.covariance(query), atol=1e-10)
    np.testing.assert_allclose(posterior.std(query), expected.std(query), rtol=1e-9)
    np.testing.assert_allclose(posterior.weights, expected.weights, rtol=1e-7, atol=1e-9)
    draws = posterior.sample(query, 3, seed=0)
    assert draws.shape == (3, 11) if targets is None else (3, 11, targets)


def test_value_is_the_oracle_s():
    rng = np.random.default_rng(0)
    u, x = rng.uniform(-2, 2, (5, 1)), rng.uniform(-2, 2, (40, 1))
    z = np.sin(x[:, 0])
    found = SparseModel(kernels.RBF(0.8), u, noise=0.3).log_evidence(Table(x, z))
    K, L_tilde = oracle_kernels.rbf(u, u, 0.8), oracle_kernels.rbf(u, x, 0.8)
    assert found == pytest.approx(oracles.sparse_log_evidence(K, L_tilde, z, 0.3), rel=1e-10)
    A = oracles.transformation(K, L_tilde, 0.3**2 / 5)
    assert found == pytest.approx(oracles.ttbkr_alternative_evidence(K, A, z, 0.3), rel=1e-9)
    assert found == pytest.approx(oracles.tbkr_evidence(K, A, oracles.map_noise(40, 0.3), z), rel=1e-9)


def test_blocks_of_any_size_in_any_order_give_the_same_answer():
    u, x, z = problem(8, 50)
    model = SparseModel(KERNELS["matern"], u, noise=0.2)
    value, gradient = model.log_evidence_and_gradient(Table(x, z))
    for size in (1, 7, 50):
        blocks = [(x[i : i + size], z[i : i + size]) for i in range(0, 50, size)]
        for order in (blocks, blocks[::-1]):
            other, slopes = model.log_evidence_and_gradient(Batches(order))
            assert other == pytest.approx(value, rel=1e-12)
            assert_same_gradient(slopes, gradient, rtol=1e-10)


def test_statistics_add_up_in_any_order():
    u, x, z = problem(6, 30, targets=2)
    model = SparseModel(KERNELS["gaussian"], u, noise=0.2)
    parts = [model.statistics(Table(x[rows], z[rows])) for rows in (slice(0, 4), slice(4, 29), slice(29, 30))]
    whole = model.statistics(Table(x, z))
    for order in itertools.permutations(parts):
        merged = functools.reduce(operator.add, order)
        assert merged.count == 30
        np.testing.assert_allclose(merged.gram, whole.gram, rtol=1e-12, atol=1e-12)  # terms cancel, up to 15
        np.testing.assert_allclose(merged.standardized().cross, whole.standardized().cross, rtol=1e-12, atol=1e-12)
        assert merged.residual_variance == pytest.approx(whole.residual_variance, rel=1e-12)
        assert model.condition(merged).log_evidence == pytest.approx(model.condition(whole).log_evidence, rel=1e-12)
    with refused("z"):
        whole + model.statistics(Table(x, z[:, 0]))


def test_targets_and_amplitude_can_change_their_units_afterwards():
    u, x, z = problem(6, 30, targets=2)
    offset, scale = np.array([0.7, -3.0]), np.array([2.0, 0.1])
    model = SparseModel(kernels.RBF(1.1), u, noise=0.2)
    afterwards = model.statistics(Table(x, z)).standardized(offset, scale)
    before = model.statistics(Table(x, (z - offset) / scale)).standardized()
    for name in ("gram", "cross", "squares", "means", "count", "residual_variance"):
        np.testing.assert_allclose(getattr(afterwards, name), getattr(before, name), rtol=1e-12, atol=1e-12)
    larger = SparseModel(4.0 * kernels.RBF(1.1), u, noise=0.4)  # the same ratio of noise and amplitude
    scaled = model.statistics(Table(x, z)).scaled(2.0)
    assert larger.condition(scaled).log_evidence == pytest.approx(larger.log_evidence(Table(x, z)), rel=1e-12)


LOW = ChunkSettings(rows=16)


@pytest.mark.parametrize("noise", [0.3, 1e-3])
@pytest.mark.parametrize("mild", [0.0, np.inf])  # by way of whitened rows, and by whitened sums
def test_wide_tiles_and_narrow_ones_agree(noise, mild):
    """Compiled Gram matrices, blocks cut to size, and an edge that fills no tile."""
    u, x, z = problem(7, 131, targets=2)
    for kernel in KERNELS.values():
        model = SparseModel(kernel, u, noise=noise)
        data = Table(x, z, chunks=LOW)
        value, gradient = evidence_and_gradient(model, data, WhiteningSettings(mild_condition=mild))
        expected, slopes, _ = in_memory(model, x, z)
        assert value == pytest.approx(expected, rel=1e-10)
        assert_same_gradient(gradient, slopes, rtol=1e-9 if noise > 0.1 else 1e-6)


def test_repeated_rows_and_repeated_inducing_points():
    u, x, z = problem(6, 20)
    u[3], x[10:] = u[0], x[:10]
    model = SparseModel(KERNELS["gaussian"], u, noise=0.1)
    value, gradient = model.log_evidence_and_gradient(Table(x, z))
    expected, slopes, posterior = in_memory(model, x, z)
    assert value == pytest.approx(expected, rel=1e-10)
    assert_same_gradient(gradient, slopes, rtol=1e-8)
    found = model.condition(model.statistics(Table(x, z)))
    np.testing.assert_allclose(found.mean(x[:4]), posterior.mean(x[:4]), rtol=1e-8)


def test_rows_far_from_every_inducing_point_are_noise():
    x, z = np.full((3, 1), 1e6), np.array([1.0, -2.0, 0.5])
    model = SparseModel(kernels.RBF(1.0), [[0.0]], noise=0.5)
    value, gradient = model.log_evidence_and_gradient(Table(x, z))
    assert value == pytest.approx(-0.5 * (z @ z / 0.25 + 3 * np.log(2 * np.pi * 0.25)), rel=1e-13)
    assert gradient["kernel.lengthscale"] == 0.0
    assert np.all(gradient["inducing"] == 0.0)
    posterior = model.condition(model.statistics(Table(x, z)))
    np.testing.assert_allclose(posterior.mean([[0.0]]), 0.0)
    np.testing.assert_allclose(posterior.variance([[0.0]]), 1.0)


def test_labels_are_welcome_where_the_kernel_takes_them():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.choice(["a", "b", "c"], 40), rng.uniform(0, 3, 40).astype(object)]).astype(object)
    z = rng.standard_normal(40)
    model = SparseModel(1.3 * (kernels.Categorical().on([0]) * kernels.RBF(0.9).on([1])), x[:6], noise=0.4)
    value, gradient = model.log_evidence_and_gradient(Table(x, z, labels=True))
    expected, slopes, _ = in_memory(model, x, z)
    assert value == pytest.approx(expected, rel=1e-11)
    assert_same_gradient(gradient, slopes)


def test_what_can_be_read_only_once_is_refused():
    u, x, z = problem(3, 10)
    model = SparseModel(kernels.RBF(), u)
    with refused("blocks", ArgumentTypeError):
        model.log_evidence(Batches((x[i : i + 5], z[i : i + 5]) for i in (0, 5)))
    with refused("blocks"):
        model.log_evidence(Batches([]))


def test_leaving_one_out_needs_the_rows():
    u, x, z = problem(3, 10)
    model = SparseModel(kernels.RBF(), u)
    posterior = model.condition(model.statistics(Table(x, z)))
    assert repr(posterior).startswith("SparsePosterior(3 inducing points, 10 rows, log evidence -")
    with pytest.raises(NotImplementedError):
        posterior.leave_one_out()


def test_arguments_are_checked_at_the_door():
    with refused("inducing"):
        SparseModel(kernels.RBF(), np.empty((0, 2)))
    with refused("noise"):
        SparseModel(kernels.RBF(), [[0.0]], noise=0.0)
    with refused("z"):
        Table([1.0, 2.0, 3.0], [1.0, 2.0])


# ---- blocks on several cores -------------------------------------------------------------------------------------


def blas_threads(threads):
    """Let BLAS have so many threads: as many work on blocks then, whatever the number of cores."""
    return ThreadpoolController().limit(limits=threads, user_api="blas")


def test_the_number_of_threads_changes_no_digit():
    u, x, z = problem(7, 131)
    model = SparseModel(KERNELS["gaussian"], u, noise=0.3)
    found = []
    for threads in (1, 3):
        with blas_threads(threads):
            found.append(model.log_evidence_and_gradient(Table(x, z, chunks=LOW)))
    assert found[0][0] == found[1][0]
    for path, slope in found[0][1].items():
        np.testing.assert_array_equal(slope, found[1][1][path])


def test_blocks_are_read_only_a_little_ahead():
    taken = []

    def items():
        for i in range(50):
            taken.append(i)
            yield i

    with blas_threads(2):
        for i, value in enumerate(map_in_order(lambda item: 10 * item, items())):
            assert value == 10 * i
            assert len(taken) <= i + 4
    assert len(taken) == 50


def test_an_error_in_a_block_is_the_caller_s():
    with blas_threads(2), pytest.raises(ZeroDivisionError):
        list(map_in_order(lambda item: 1 / item, [1, 1, 0, 1]))


FORK = """
import os
from threadpoolctl import ThreadpoolController
from decond.threads import map_in_order
with ThreadpoolController().limit(limits=2, user_api="blas"):
    assert list(map_in_order(str, [1, 2, 3])) == ["1", "2", "3"]
    child = os.fork()
    if child == 0:
        os._exit(list(map_in_order(str, [1, 2, 3])) != ["1", "2", "3"])
    assert os.waitpid(child, 0)[1] == 0
"""


def test_threads_are_new_after_a_fork():
    """They do not survive one, and waiting for them would take forever."""
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=300)


# ---- the sparse Gaussian process, which has no noise of the mediator ---------------------------------------------


@pytest.mark.parametrize("name", list(KERNELS))
@pytest.mark.parametrize("objective", ["evidence", "bound"])
@pytest.mark.parametrize("mild", [0.0, np.inf])
def test_value_and_gradient_of_the_sparse_process_are_those_of_dense_matrices(name, objective, mild):
    u, x, z = problem(7, 40, targets=2)

    def dense(model):
        K = model.kernel(model.inducing)
        K += 1e-8 * np.trace(K) / len(K) * np.eye(len(K))
        low_rank = model.kernel(x, model.inducing) @ np.linalg.solve(K, model.kernel(model.inducing, x))
        S = low_rank + model.noise**2 * np.eye(len(x))
        value = -0.5 * sum(c @ np.linalg.solve(S, c) + np.linalg.slogdet(2 * np.pi * S)[1] for c in z.T)
        left_open = np.trace(model.kernel(x) - low_rank)
        return value - (left_open / model.noise**2 if objective == "bound" else 0.0)

    model = SparseModel(KERNELS[name], u, noise=0.3, mediator_noise=0.0, objective=objective)
    value, gradient = evidence_and_gradient(model, Table(x, z, chunks=LOW), WhiteningSettings(mild_condition=mild))
    assert value == pytest.approx(dense(model), rel=1e-9)
    assert model.log_evidence(Table(x, z)) == pytest.approx(value, rel=1e-9)
    at = {**model.values(), **model.points()}
    for path in gradient.keys() - {"mediator_noise"}:
        number = np.asarray(at[path], dtype=float)
        expected = np.zeros(number.shape)
        for index in np.ndindex(number.shape):
            step = np.zeros(number.shape)
            step[index] = 1e-5
            ends = [dense(model.with_values({path: number + sign * step})) for sign in (1.0, -1.0)]
            expected[index] = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(gradient[path], expected, rtol=1e-5, atol=2e-5 * abs(value), err_msg=path)


def test_the_bound_with_a_point_at_every_row_is_the_evidence_of_the_gaussian_process():
    _, x, z = problem(1, 30)
    kernel = KERNELS["matern"]
    model = SparseModel(kernel, x, noise=0.3, mediator_noise=0.0, objective="bound")
    exact = log_evidence_and_gradient(FunctionPrior(kernel), Direct(x, noise=0.3), z)[0]
    assert model.log_evidence(Table(x, z)) == pytest.approx(exact, abs=1e-4)
    fewer = SparseModel(kernel, x[:20], noise=0.3, mediator_noise=0.0, objective="bound")
    assert fewer.log_evidence(Table(x, z)) < exact


def test_only_a_share_of_what_points_leave_open_may_count():
    u, x, z = problem(5, 30)
    found = []
    for share in (0.0, 0.25, 1.0):
        model = SparseModel(KERNELS["matern"], u, noise=0.3, mediator_noise=0.0, open_share=share)
        posterior = model.condition(model.statistics(Table(x, z)))
        found.append(posterior.variance(x))
        np.testing.assert_allclose(np.diag(posterior.covariance(x)), found[-1], rtol=1e-9)
        mean, resolved, left_open = posterior.parts(x)
        np.testing.assert_allclose(mean[:, 0], posterior.mean(x))
        np.testing.assert_allclose(found[-1], resolved + share * left_open, rtol=1e-9)
    np.testing.assert_allclose(found[1], 0.75 * found[0] + 0.25 * found[2], rtol=1e-9)
