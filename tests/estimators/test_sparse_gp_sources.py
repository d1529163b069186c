"""Wherever rows come from, in whatever blocks and order, a `SparseGP` gives the same answer."""

import copy
import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from expected import refused
from sklearn.exceptions import NotFittedError

from decond import SparseGP, load, save
from decond.errors import ArgumentTypeError
from decond.streaming import Batches, ChunkSettings, ParquetTable, Table, summarize


def problem(rows=900, columns=2, targets=None):
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, (rows, columns))
    shape = (rows,) if targets is None else (rows, targets)
    z = 40.0 + np.sin(2 * x[:, :1]).reshape(-1, 1) * np.ones(shape[1:] or (1,))
    return x, (z + 0.2 * rng.standard_normal((rows, targets or 1))).reshape(shape)


QUERY = np.random.default_rng(4).uniform(-2, 2, (20, 2))


def answers(gp):
    query = pd.DataFrame(QUERY, columns=gp.feature_names_in_) if hasattr(gp, "feature_names_in_") else QUERY
    mean, std = gp.predict(query, return_std=True)
    return np.concatenate([mean.ravel(), std.ravel(), [gp.log_marginal_likelihood()]])


def assert_same(one, other, rtol=1e-8):
    np.testing.assert_allclose(answers(one), answers(other), rtol=rtol)


LOW = ChunkSettings(rows=64)
"""With chunks of 64 rows, a table of 900 rows is a large one."""


def cut(x, z, *at):
    return [(x[i:j], z[i:j]) for i, j in itertools.pairwise((0, *at, len(x)))]


@pytest.fixture
def files(tmp_path):
    def write(x, z):
        frame = pd.DataFrame(x, columns=["a", "b"]).assign(z=z)
        for i, (start, stop) in enumerate(itertools.pairwise((0, 130, 131, 700, len(x)))):
            frame[start:stop].to_parquet(tmp_path / f"{i}.parquet", row_group_size=100)
        return ParquetTable(tmp_path, x=["a", "b"], z="z", chunks=LOW)

    return write


def test_a_learned_model_is_the_same_from_memory_from_blocks_and_from_files(files):
    x, z = problem()
    model = SparseGP(n_inducing=8, max_iterations=15, full_iterations=3, sample_size=150)
    in_memory = SparseGP(**model.get_params()).fit(Table(x, z, chunks=LOW))
    assert in_memory.fit_result_.message.startswith(f"of {len(x)} rows, 150 ")
    in_blocks = SparseGP(**model.get_params()).fit(Batches(cut(x, z, 1, 100, 640), chunks=LOW))
    assert_same(in_memory, in_blocks)
    from_files = SparseGP(**model.get_params()).fit(files(x, z))
    assert_same(in_memory, from_files)
    assert from_files.feature_names_in_.tolist() == ["a", "b"]


def test_new_rows_after_a_fit_are_as_good_as_all_of_them_at_once(files):
    x, z = problem()
    learned = SparseGP(n_inducing=8, objective="bound", max_iterations=10).fit(Table(x[:300], z[:300], chunks=LOW))
    known = {"kernel": learned.kernel_, "inducing": learned.inducing_, "noise": learned.noise_}
    again = SparseGP(**known, optimize=False).fit(x, z)
    learned.partial_fit(x[300:500], z[300:500])
    learned.partial_fit(Batches(cut(x[500:], z[500:], 17)))
    assert_same(learned, again)
    assert_same(SparseGP(**known, optimize=False).fit(files(x, z)), again)


@pytest.mark.parametrize("targets", [None, 2])
def test_merged_models_know_what_both_knew(targets):
    x, z = problem(300, targets=targets)
    points = QUERY[:9]
    whole = SparseGP(inducing=points).partial_fit(x, z)
    one, two, three = (SparseGP(inducing=points).partial_fit(*rows) for rows in cut(x, z, 50, 180))
    assert_same(one.merge(three).merge(two), whole)
    assert one.posterior_.statistics.count == 300


def test_a_learned_model_takes_up_one_that_reads_like_it(tmp_path):
    x, z = problem(300)
    learned = SparseGP(n_inducing=8, objective="bound", max_iterations=10).fit(x[:200], z[:200])
    known = {"kernel": learned.kernel_, "inducing": learned.inducing_, "noise": learned.noise_, "optimize": False}
    other = SparseGP(**known).fit(x[200:], z[200:])
    save(other, tmp_path / "other.decond")
    learned.merge(load(tmp_path / "other.decond"))
    assert_same(learned, SparseGP(**known).fit(x, z))


@pytest.mark.parametrize("start", ["fit", "partial_fit"])
@pytest.mark.parametrize("targets", [None, 2])
def test_a_model_that_comes_from_another_can_be_merged_with_it(start, targets):
    x, z = problem(300, targets=targets)
    model = SparseGP(inducing=QUERY[:9], max_iterations=10)
    here = getattr(model, start)(x[:200], z[:200])
    there = pickle.loads(pickle.dumps(here.unread()))  # it travels to where the rows are
    with pytest.raises(NotFittedError):
        there.predict(QUERY)
    there.partial_fit(x[200:], z[200:])
    expected = copy.deepcopy(here).partial_fit(x[200:], z[200:])
    assert_same(here.merge(there), expected)
    assert there.posterior_.statistics.count == 100


def test_models_that_read_differently_are_not_merged():
    x, z = problem(100)
    one = SparseGP(inducing=QUERY[:5]).partial_fit(x, z)
    for other in (
        SparseGP(inducing=QUERY[:6]).partial_fit(x, z),
        SparseGP(inducing=QUERY[:5] + 0.1).partial_fit(x, z),
        SparseGP(inducing=QUERY[:5], mean="zero").partial_fit(x, z),
        SparseGP(inducing=QUERY[:5], noise=0.3).partial_fit(x, z),
        SparseGP(inducing=QUERY[:5]).partial_fit(x, np.stack([z, z], axis=1)),
    ):
        with refused("other"):
            one.merge(other)
    frames = [pd.DataFrame(x, columns=names) for names in (["a", "b"], ["b", "a"])]
    named, turned = (SparseGP(inducing=QUERY[:5]).partial_fit(frame, z) for frame in frames)
    with refused("other"):
        named.merge(turned)
    with refused("other"):
        one.merge(SparseGP(inducing=QUERY[:5, :1]).partial_fit(x[:, :1], z))
    with refused("other", ArgumentTypeError):
        one.merge(1.0)


def test_a_sample_is_the_same_however_a_table_is_cut():
    x, z = problem()
    whole = summarize(Table(x, z), seed=1, sample_size=150)
    cut_up = summarize(Batches(cut(x, z, 7, 400, 401), chunks=LOW), seed=1, sample_size=150)
    np.testing.assert_array_equal(whole.sample.x, cut_up.sample.x)
    np.testing.assert_array_equal(whole.sample.z, cut_up.sample.z)
    assert len(whole.sample) == 150
    assert not whole.complete
    np.testing.assert_allclose(whole.mean, z.mean(), rtol=1e-14)
    np.testing.assert_allclose(whole.squares, np.sum((z - z.mean()) ** 2), rtol=1e-12)
    assert len(np.unique(whole.sample.x, axis=0)) == 150
    other = summarize(Table(x, z), seed=2, sample_size=150)
    assert not np.array_equal(whole.sample.x, other.sample.x)


def test_targets_and_columns_stay_what_they_were(files):
    x, z = problem(200)
    table = files(x, z)
    gp = SparseGP(inducing=QUERY[:5]).partial_fit(table)
    with refused("y"):
        gp.partial_fit(table, z)
    with pytest.raises(ValueError, match="feature names"):
        gp.partial_fit(pd.DataFrame(x, columns=["b", "a"]), z)
    unnamed = SparseGP(inducing=QUERY[:5]).partial_fit(x, z)
    with refused("z"):
        unnamed.partial_fit(Batches([(x, np.stack([z, z], axis=1))]))
    with pytest.raises(ValueError, match="expecting 2 features"):
        unnamed.partial_fit(Batches([(x[:, :1], z)]))


def test_rows_without_targets_lead_to_the_sources():
    x, z = problem(20)
    for given in ("table.parquet", [(x, z)]):
        with refused("X", ArgumentTypeError):
            SparseGP().fit(given)


def test_bad_values_in_a_block_are_named():
    x, z = problem(20)
    z[7] = np.nan
    with refused("z of block 1"):
        SparseGP(n_inducing=3).fit(Batches(cut(x, z, 5)))
    with refused("blocks"):  # there are none
        SparseGP(n_inducing=3).fit(Batches([]))
