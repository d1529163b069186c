"""A table in memory, in blocks and in Parquet files: the same sums, and errors that name the file."""

import contextlib
import decimal
import pickle
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from expected import refused
from threadpoolctl import ThreadpoolController

from decond import kernels
from decond.errors import ArgumentTypeError
from decond.streaming import (
    Batches,
    ChangedFileError,
    ChunkSettings,
    DamagedFileError,
    ParquetError,
    ParquetTable,
    ReadSettings,
    SparseModel,
    Table,
)
from decond.streaming.sources import PartitionedSource, Rows

ROWS = 5000
RNG = np.random.default_rng(0)
X = RNG.standard_normal((ROWS, 2))
Z = np.sin(X).sum(axis=1) + 0.1 * RNG.standard_normal(ROWS)
MODEL = SparseModel(1.3 * kernels.Matern32([0.8, 1.2]), X[:20], noise=0.3)


def columns(x=X, z=Z):
    return pa.table({"wind": x[:, 0], "height": x[:, 1], "power": z})


def write(path, rows=slice(None), **options):
    """Write some rows of the table, and return the path."""
    pq.write_table(columns(X[rows], Z[rows]), path, **options)
    return path


def write_column(path, values, **options):
    """Write a table whose column `wind` has these values."""
    pq.write_table(pa.table({"wind": values, "power": np.arange(float(len(values)))}), path, **options)
    return path


def read(paths, x=("wind", "height"), z="power", **settings):
    return ParquetTable(paths, list(x), z, **settings)


@contextlib.contextmanager
def fault(path, error=ParquetError, column=None, row=None):
    """Expect that a file is refused, by its path, column and row; the error is the same behind a process border."""
    with pytest.raises(error) as caught:
        yield
    for found in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (found.path, found.column, found.row) == (path, column, row), found


def rows_of(source):
    """Return all rows and targets of a source, in the order of their numbers."""
    chunks = source.total(lambda chunk: [chunk])
    starts = np.cumsum([0, *(len(chunk.rows) for chunk in chunks)])
    assert [chunk.start for chunk in chunks] == starts[:-1].tolist()
    return np.concatenate([chunk.rows for chunk in chunks]), np.concatenate([chunk.targets for chunk in chunks])


def assert_same_evidence(one, other, model=MODEL):
    (value, gradient), (expected, slopes) = (model.log_evidence_and_gradient(source) for source in (one, other))
    assert value == pytest.approx(expected, rel=1e-12)
    for path, slope in slopes.items():
        np.testing.assert_allclose(gradient[path], slope, rtol=1e-9, atol=1e-9 * np.abs(slope).max(), err_msg=path)


@pytest.fixture
def folder(tmp_path):
    """Three files with row groups of odd sizes, one of them without rows."""
    write(tmp_path / "a.parquet", slice(0, 1999), row_group_size=701)
    write(tmp_path / "b.parquet", slice(0, 0))
    (tmp_path / "later").mkdir()
    write(tmp_path / "later" / "c.pq", slice(1999, None), row_group_size=1300)
    (tmp_path / "notes.txt").write_text("not a table")
    return tmp_path


@pytest.mark.parametrize("small", [False, True])
def test_files_give_the_evidence_and_gradient_of_the_table_in_memory(folder, small):
    settings = {"read": ReadSettings(rows=300), "chunks": ChunkSettings(partition_rows=1000)} if small else {}
    table = read(folder, **settings)
    assert [part.count for part in table.partitions()] == ([1402, 597, 1300, 1300, 401] if small else [1999, 3001])
    assert len(table) == ROWS
    assert (table.names, table.flat, table.width) == (["wind", "height"], True, 2)
    found, targets = rows_of(table)
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(targets[:, 0], Z)
    assert_same_evidence(table, Table(X, Z))


def test_blocks_give_the_evidence_and_gradient_of_the_table_in_memory():
    for size in (700, 1280, 2500):
        blocks = [(X[i : i + size], Z[i : i + size]) for i in range(0, ROWS, size)]
        assert_same_evidence(Batches(blocks), Table(X, Z))


def test_several_targets_are_read_as_columns(tmp_path):
    path = write(tmp_path / "a.parquet")
    table = ParquetTable(path, "wind", ["power", "height"])
    assert not table.flat
    assert_same_evidence(
        table,
        Table(X[:, :1], np.stack([Z, X[:, 1]], axis=1)),
        MODEL.replace(inducing=X[:9, :1], kernel=kernels.RBF()),
    )


def test_many_columns_are_read_in_low_batches(tmp_path):
    (part,) = read(write(tmp_path / "a.parquet"), read=ReadSettings(numbers=300)).partitions()
    heights = [len(rows) for rows, _ in part.read()]
    assert sum(heights) == ROWS
    assert max(heights) == 100


def test_parts_know_where_their_rows_are_and_hold_none(folder):
    for part in read(folder).partitions():
        assert not part.holds_rows
        assert len(pickle.dumps(part)) < 2000
        again = pickle.loads(pickle.dumps(part))
        for one, other in zip(part.read(), again.read(), strict=True):
            np.testing.assert_array_equal(one[0], other[0])


@pytest.mark.parametrize("how", ["folder", "pattern", "list", "text", "repeated"])
def test_paths_may_be_a_folder_a_pattern_or_a_list(folder, how):
    first, last = folder / "a.parquet", folder / "later" / "c.pq"
    paths = {
        "folder": folder,
        "pattern": str(folder / "**" / "*.p*q*"),
        "list": [last, first],
        "text": [str(first), folder / "later"],
        "repeated": [first, folder, str(first)],
    }[how]
    np.testing.assert_array_equal(rows_of(read(paths))[0], X)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 1, 2, 2**53 + 2], pa.int64()),
        ([0, 1, 255, 7], pa.uint8()),
        ([0.5, 1.25, -3.0, 0.1], pa.float32()),
        ([True, False, True, True], pa.bool_()),
        (
            [decimal.Decimal("1.50"), decimal.Decimal("-2.25"), decimal.Decimal(3), decimal.Decimal(0)],
            pa.decimal128(9, 2),
        ),
    ],
)
def test_numbers_of_any_type_become_float64(tmp_path, values, kind):
    path = write_column(tmp_path / "a.parquet", pa.array(values, kind))
    rows, _ = rows_of(read(path, ["wind"]))
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(
        rows[:, 0], np.array([float(value) for value in pa.array(values, kind).to_pylist()])
    )


@pytest.mark.parametrize("bad", [None, np.nan, np.inf])
def test_a_cell_that_is_no_number_is_named_by_file_column_and_row(tmp_path, bad):
    values = [0.0] * 4321
    values[4000] = bad
    path = write_column(
        tmp_path / "a.parquet", pa.array(values, pa.float64(), from_pandas=False), row_group_size=1000
    )
    table = read([path], ["wind"])
    with fault(path, column="wind", row=4001):
        MODEL.log_evidence(table)


def test_a_missing_column_is_named_with_its_file_and_what_is_near(tmp_path):
    write(tmp_path / "a.parquet")
    pq.write_table(columns().rename_columns(["wind", "hight", "power"]), tmp_path / "b.parquet")
    with pytest.raises(ParquetError, match="'hight'") as caught:
        read(tmp_path)
    assert (caught.value.path, caught.value.column) == (tmp_path / "b.parquet", "height")
    with pytest.raises(ParquetError, match="'power'") as caught:
        read(tmp_path, z="POWER")
    assert (caught.value.path, caught.value.column) == (tmp_path / "a.parquet", "POWER")


def test_columns_have_to_hold_numbers_and_be_named_once(tmp_path):
    path = write_column(tmp_path / "a.parquet", ["3.5", "4"])
    with fault(path, column="wind"):
        read(path, ["wind"])
    with refused("x"):
        read(path, ["wind", "wind"])
    with refused("z"):
        read(path, ["power"])
    with refused("x"):
        read(path, [])
    twice = pa.Table.from_arrays([pa.array([1.0])] * 3, ["wind", "wind", "power"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    with fault(tmp_path / "twice.parquet", column="wind"):
        read(tmp_path / "twice.parquet", ["wind"])


def test_files_that_are_not_there_are_named(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    for paths, named in [
        (tmp_path / "empty", "empty"),
        (str(tmp_path / "x*.parquet"), r"x\*\.parquet"),
        (tmp_path / "aa.parquet", r"aa\.parquet.*/a\.parquet\?$"),
    ]:
        with pytest.raises(FileNotFoundError, match=named):
            read(paths)
    with refused("paths"):
        read([])
    with refused("paths"):  # it has no rows
        read(folder / "b.parquet")


@pytest.mark.parametrize("length", [0, 3, 7, 11, 20_000])
def test_an_incomplete_file_is_named_at_the_door(tmp_path, length):
    path = write(tmp_path / "a.parquet")
    path.write_bytes(path.read_bytes()[:length])
    with fault(path, DamagedFileError):
        read(tmp_path)


@pytest.mark.parametrize("options", [{"compression": "gzip"}, {"compression": "none", "write_page_checksum": True}])
def test_damage_in_the_middle_of_the_rows_is_named_while_reading(tmp_path, options):
    path = write(tmp_path / "a.parquet", row_group_size=1000, use_dictionary=False, **options)
    damage(path)
    table = read(tmp_path)
    with fault(path, DamagedFileError):
        MODEL.log_evidence(table)


def damage(path):
    """Overwrite bytes in the middle of the file, where its pages are."""
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2000] = b"\xff" * 2000
    path.write_bytes(bytes(data))


class Stream:
    """Blocks that are made anew each time, and not in a list."""

    def __init__(self, blocks):
        self.blocks, self.readings = blocks, 0

    def __iter__(self):
        self.readings += 1
        yield from self.blocks


def test_a_stream_is_looked_at_once_and_then_read_once_a_pass():
    stream = Stream([(X[:700], Z[:700]), (X[:0], Z[:0]), (X[700:], Z[700:])])
    batches = Batches(stream)
    assert stream.readings == 0
    assert (len(batches), batches.width, batches.flat) == (ROWS, 2, True)
    assert stream.readings == 1
    np.testing.assert_array_equal(rows_of(batches)[0], X)
    assert stream.readings == 2
    assert [part.count for part in batches.partitions()] == [ROWS]  # it can only be read whole
    assert not Batches(Stream([(X, np.stack([Z, Z], axis=1))])).flat


@pytest.mark.parametrize("kind", [list, Stream])
@pytest.mark.parametrize(("block", "name"), [((X[:3, :1], Z[:3]), "x of block 2"), ((X[:3], X[:3]), "z of block 2")])
def test_blocks_with_other_columns_are_named(kind, block, name):
    with refused(name):
        MODEL.log_evidence(Batches(kind([(X, Z), (X[:0], Z[:0]), block])))


class WithEmptyParts(PartitionedSource):
    width = 1

    def partitions(self):
        return [Rows(np.full((count, 1), 2.0), np.full(count, 3.0), f"{count} rows") for count in (0, 2, 0, 1)]


def test_parts_without_rows_are_passed_over():
    source = WithEmptyParts()
    assert len(source) == 3
    assert source.total(lambda chunk: [(chunk.start, len(chunk.rows))]) == [(0, 2), (2, 1)]


@pytest.mark.parametrize(
    ("given", "number"),
    [(np.zeros((5, 3)), 0), ((X, Z), 0), ([X], 0), (([[0.0], [1.0]], [2.0, 3.0]), 1), ([(X, Z, Z)], 0)],
)
def test_what_is_not_a_pair_is_refused(given, number):
    with refused(f"blocks[{number}]", ArgumentTypeError):
        Batches(given)
    with refused(f"blocks[{number}]", ArgumentTypeError):
        len(Batches(Stream(given)))


class Failing:
    """A sum to which nothing can be added."""

    def __add__(self, other):
        raise ArithmeticError("no sums")


def failing(chunk):
    raise ArithmeticError("no work")


@pytest.mark.parametrize("work", [failing, lambda chunk: Failing()])
@pytest.mark.parametrize("threads", [1, 2])
def test_after_an_error_nothing_is_read_any_more_though_the_error_is_kept(tmp_path, work, threads):
    table = read(write(tmp_path / "a.parquet"), read=ReadSettings(rows=100))
    for source in (table, Batches(Stream([(X, Z)] * 20))):
        with (
            ThreadpoolController().limit(limits=threads, user_api="blas"),
            pytest.raises(ArithmeticError) as kept,
        ):
            source.total(work)
        assert kept.value.__traceback__
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("decond-reader")]


def test_a_file_that_changes_between_passes_is_named(tmp_path):
    path = write(tmp_path / "a.parquet", slice(0, 100))
    table = read(path)
    value = MODEL.log_evidence(table)
    path.write_bytes(path.read_bytes())  # the same content at another time is the same table
    assert MODEL.log_evidence(table) == value
    write(path, slice(100, 200))
    with fault(path, ChangedFileError):
        MODEL.log_evidence(table)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.parquet"):
        MODEL.log_evidence(table)


@pytest.mark.parametrize("kind", [list, Stream])
def test_blocks_of_data_frames_keep_their_names_and_must_agree(kind):
    frame = pd.DataFrame(X[:, :2], columns=["wind", "height"])
    assert list(Table(frame, Z).names) == ["wind", "height"]
    batches = Batches(kind([(frame[:50], Z[:50]), (frame[50:], Z[50:])]))
    assert batches.names == ["wind", "height"]
    assert len(batches) == len(Z)
    turned = Batches(kind([(frame[:50], Z[:50]), (frame[["height", "wind"]][50:], Z[50:])]))
    with refused("x of block 1"):
        turned.total(lambda chunk: chunk.targets.sum())
    mixed = Batches(kind([(frame[:50], Z[:50]), (X[50:], Z[50:])]))
    with refused("x of block 1"):
        mixed.total(lambda chunk: chunk.targets.sum())
