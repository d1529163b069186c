"""Tables in files: every common slip gets an error that names the file, the column, the row and the value."""

import datetime
import decimal
import gzip
import pickle

import numpy as np
import pandas as pd
import pyarrow
import pytest
from expected import raised, refused
from pyarrow import parquet

from decond.tables import TableError, TextFormat, is_parquet, match_groups, match_mediators, read_table, write_table


@pytest.fixture
def table(tmp_path):
    """Return a function that writes a file and reads it as a table."""

    def read(content, name="t.csv", **text_format):
        path = tmp_path / name
        if isinstance(content, pd.DataFrame):
            write_table(content, path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_table(path, TextFormat(**text_format))

    return read


# ---- files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "T.CSV", "t.tsv", "t.csv.gz", "t.tsv.gz", "t.parquet", "t.pq"])
def test_every_format_keeps_every_digit_and_every_label(table, name):
    frame = pd.DataFrame({"x": [0.1, 1 / 3, -2e-300], "day": ["a", "b,c", 'd"\te']})
    found = table(frame, name)
    assert found.numbers(["x"])["x"].tolist() == frame["x"].tolist()
    assert found.labels(["day"])["day"].tolist() == frame["day"].tolist()
    assert list(found.frame) == ["x", "day"]
    assert len(found) == 3
    assert is_parquet(name) == name.endswith(("parquet", "pq"))


def test_spaces_a_byte_order_mark_and_blank_lines_do_no_harm(table):
    found = table(b"\xef\xbb\xbfx, day \n 1.5 , a \n\n2, b\n")
    assert found.numbers(["x"])["x"].tolist() == [1.5, 2.0]
    assert found.labels(["day"])["day"].tolist() == ["a", "b"]


def test_cells_are_not_guessed_at(table):
    """Leading zeros, long numbers and the label NA stay what they are when the table is passed on."""
    found = table("code,country\n007,NA\n12345678901234567890,None\n")
    assert found.frame.to_numpy().tolist() == [["007", "NA"], ["12345678901234567890", "None"]]
    assert found.labels(["country"])["country"].tolist() == ["NA", "None"]


def test_separators_and_decimal_commas_are_read_as_they_are_given(table):
    found = table("day;wind;site\nmon;7,5;1,5\ntue;-8;low\n", separator=";", decimal=",")
    assert found.numbers(["wind"])["wind"].tolist() == [7.5, -8.0]
    typed = found.typed()
    assert typed["wind"].tolist() == [7.5, -8.0]
    assert typed["site"].tolist() == ["1,5", "low"]
    with raised(TableError, table="t.csv", column="site", row=2, value="low"):
        found.numbers(["site"])


def test_points_are_no_part_of_numbers_with_decimal_commas(table):
    found = table("day;sales;code\nmon;1.050;1.5\ntue;950;1.50\n", separator=";", decimal=",")
    with raised(TableError, table="t.csv", column="sales", row=1, value="1.050"):
        found.numbers(["sales"])
    assert found.labels(["code"])["code"].tolist() == ["1.5", "1.50"]


def test_a_decimal_comma_in_an_unexpected_place_names_the_options(table):
    with raised(TableError, table="t.csv") as caught:
        table("day;wind\nmon;7,5\n")
    assert "--separator" in str(caught.value)
    assert "--decimal" in str(caught.value)


def test_encodings_are_read_as_they_are_given(table):
    content = "Fluß,Höhe\nÄlv,1\n"
    assert table(content.encode("cp1252"), encoding="cp1252").labels(["Fluß"])["Fluß"].tolist() == ["Älv"]
    assert table(content.encode("utf-16"), encoding="utf-16").numbers(["Höhe"])["Höhe"].tolist() == [1.0]
    with raised(TableError, table="t.csv") as caught:
        table(content.encode("cp1252"))
    assert "--encoding" in str(caught.value)
    with refused("encoding"):
        table(content, encoding="utf-7.5")


@pytest.mark.parametrize(("sign", "name"), [(";", "t.csv"), ("\t", "t.csv"), ("|", "t.csv"), (",", "t.tsv")])
def test_a_separator_that_is_not_the_usual_one_is_asked_for(table, sign, name):
    with raised(TableError, table=name, column=f"x{sign}y") as caught:
        table(f"x{sign}y\n1{sign}2\n", name)
    assert "--separator" in str(caught.value)


FILES = {
    # content, name, and the column at fault
    "empty": ("", "t.csv", None),
    "repeated names": ("x,y, x\n1,2,3\n", "t.csv", "x"),
    "too many fields": ("x,y\n1,2\n3,4,5\n", "t.csv", None),
    "every row too long": ("x,y\n1,2,3\n3,4,5\n", "t.csv", None),
    "open quote": ('x,y\n"1,2\n', "t.csv", None),
    "not gzip": ("x,y\n1,2\n", "t.csv.gz", None),
    "cut gzip": (gzip.compress(b"x,y\n1,2\n")[:15], "t.csv.gz", None),
    "bad gzip": (gzip.compress(b"x,y\n1,2\n")[:10] + b"\xff" * 9, "t.csv.gz", None),
    "not parquet": ("x,y\n1,2\n", "t.parquet", None),
    "sheet": ("x", "t.xlsx", None),
    "no suffix": ("x", "t", None),
    "compressed parquet": ("x", "t.parquet.gz", None),
}


@pytest.mark.parametrize(("content", "name", "column"), FILES.values(), ids=FILES.keys())
def test_files_that_cannot_be_read(table, content, name, column):
    with raised(TableError, table=name, column=column):
        table(content, name)


@pytest.mark.parametrize("name", ["hour.csv", "hours.tsv", "ho.csv", "wind.csv"])
def test_a_missing_file_names_what_is_there(tmp_path, name):
    (tmp_path / "hours.csv").touch()
    with raised(TableError, table=name) as caught:
        read_table(tmp_path / name)
    meant = name.startswith("hour")  # a suffix in common is not a likeness
    assert (str(tmp_path / "hours.csv") if meant else "hours.csv") in str(caught.value)


def test_missing_and_wrong_folders(tmp_path):
    with raised(TableError, table="hour.csv") as caught:
        read_table(tmp_path / "nowhere" / "hour.csv")
    assert f"{tmp_path / 'nowhere'}." in str(caught.value)
    (tmp_path / "folder.csv").mkdir()
    with raised(TableError, table="folder.csv"):
        read_table(tmp_path / "folder.csv")


def test_an_error_keeps_its_attributes_on_the_way_to_another_process(table):
    with pytest.raises(TableError) as caught:
        table("x\n1\nabc\n").numbers(["x"])
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.table, copy.column, copy.row, copy.value, copy.count) == ("t.csv", "x", 2, "abc", 1)
    assert str(copy) == str(caught.value)


def test_parquet_with_repeated_names(tmp_path):
    columns = [pyarrow.array([1.0]), pyarrow.array([2.0])]
    parquet.write_table(pyarrow.Table.from_arrays(columns, names=["x", "x"]), tmp_path / "t.parquet")
    with raised(TableError, table="t.parquet", column="x"):
        read_table(tmp_path / "t.parquet")


# ---- columns -------------------------------------------------------------------------------------------------

COLUMNS = {
    # content, a column, and what the error says of the cells at fault
    "text": ("x\n1\nabc\n3\nlow\n", "x", {"row": 2, "value": "abc", "count": 2}),
    "text alone": ("x\nB\nA\nB\nNA\n", "x", {"row": 1, "value": "B", "count": 3}),
    "decimal comma": ('x\n1\n"1,5"\n', "x", {"row": 2, "value": "1,5", "count": 1}),
    "date": ("x\n2014-01-01\n", "x", {"row": 1, "value": "2014-01-01", "count": 1}),
    "empty cells": ("x,y\n1,1\n,2\nNA,3\n", "x", {"row": 2, "value": "", "count": 2}),
    "NaN": ("x\n1\nnan\n", "x", {"row": 2, "value": "nan", "count": 1}),
    "short lines": ("x,y\n1,2\n3\n", "y", {"row": 2, "count": 1}),
    "infinite": ("x\n1\n-inf\n", "x", {"row": 2, "value": "-inf"}),
}


@pytest.mark.parametrize(("content", "column", "fault"), COLUMNS.values(), ids=COLUMNS.keys())
def test_columns_that_are_not_numbers(table, content, column, fault):
    with raised(TableError, table="t.csv", column=column, **fault):
        table(content).numbers([column])


@pytest.mark.parametrize(("column", "near"), [("speed", "wind, ALT"), ("wnid", "'wind'")])
def test_a_missing_column_names_the_nearest_and_all(table, column, near):
    with raised(TableError, table="t.csv", column=column) as caught:
        table("wind,ALT\n1,2\n").numbers([column])
    assert near in str(caught.value)
    assert "wind, ALT" in str(caught.value)


def test_a_column_of_the_other_table_asks_whether_they_are_swapped(table):
    pairs, task = table("wind,day\n1,2\n", "p.csv"), table("day,power\n1,2\n", "q.csv")
    for columns, swapped in ((["wind", "day"], True), (["wind", "power"], False)):
        with raised(TableError, table="q.csv", column="wind") as caught:
            task.check_columns(columns, pairs)
        assert ("p.csv" in str(caught.value)) == swapped


def test_repeated_columns_and_missing_labels(table):
    found = table("day,x\na,1\n,2\n  ,3\n")
    with raised(TableError, table="t.csv", column="day", row=2, count=2):
        found.labels(["day"])
    with raised(TableError, column="x"):
        found.numbers(["x", "x"])


def test_too_few_rows(table):
    table("x\n1\n2\n").check_length(2, "fitting")
    for rows in range(3):
        with raised(TableError, table="t.csv", count=rows):
            table("x\n" + "1\n" * rows).check_length(3, "fitting")


def test_typed_columns_of_parquet(tmp_path):
    day = datetime.date(2014, 1, 1)
    columns = {
        "whole": pyarrow.array([1, 2]),
        "nullable": pyarrow.array([1, None]),
        "truth": pyarrow.array([True, False]),
        "money": pyarrow.array([decimal.Decimal("1.5"), decimal.Decimal("2.5")]),
        "day": pyarrow.array([day, day]),
        "stamp": pyarrow.array([datetime.datetime(2014, 1, 1), datetime.datetime(2014, 1, 1, 6, 30)]),
        "kind": pyarrow.array(["a", "b"]).dictionary_encode(),
        "codes": pyarrow.array(["1", "2"]),
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", TextFormat(decimal=","))
    assert table.numbers(["whole", "truth", "money", "codes"]).to_numpy().tolist() == [[1, 1, 1.5, 1], [2, 0, 2.5, 2]]
    assert table.labels(["kind", "day", "stamp", "whole"]).to_numpy().tolist() == [
        ["a", "2014-01-01", "2014-01-01", "1"],
        ["b", "2014-01-01", "2014-01-01T06:30:00", "2"],
    ]
    for column, fault in {"nullable": {"row": 2, "count": 1}, "stamp": {"row": 1}, "day": {"row": 1}}.items():
        with raised(TableError, table="t.parquet", column=column, **fault):
            table.numbers([column])


def test_columns_of_an_index_are_columns(tmp_path):
    pd.DataFrame({"x": [1.0, 2.0]}, index=pd.Index(["a", "b"], name="day")).to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").labels(["day"])["day"].tolist() == ["a", "b"]


# ---- two tables ----------------------------------------------------------------------------------------------


def test_a_mediator_is_numbers_in_both_tables_or_labels_in_both(table):
    numbers, text = table("d,x\n1,5\n2.5,6\n", "p.csv"), table("d,z\nmon,1\ntue,2\n", "q.csv")
    assert match_mediators(numbers, numbers, ["d"]).y["d"].tolist() == [1.0, 2.5]
    assert match_mediators(text, text, ["d"]).y["d"].tolist() == ["mon", "tue"]
    for pairs, task in ((numbers, text), (text, numbers)):
        with raised(TableError, table="q.csv", column="d"):
            match_mediators(pairs, task, ["d"])
    with raised(TableError, table="r.csv", column="d", row=2, value="mon"):
        match_mediators(table("d,x\n1,5\nmon,6\n", "r.csv"), numbers, ["d"])


def test_numbers_as_labels_are_the_same_however_they_are_written(table):
    pairs, task = table("d,x\n7,1\n008,2\n1.50,3\n"), table("d,z\n7.0,1\n8,2\n1.5,3\n", "q.csv")
    found = match_mediators(pairs, task, ["d"], labels=True)
    assert found.y["d"].tolist() == found.y_task["d"].tolist() == ["7", "8", "1.5"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_dates_are_labels(table, ending):
    days = [datetime.datetime(2014, 1, 1), datetime.datetime(2014, 1, 2)]
    pairs = table(pd.DataFrame({"day": days, "x": [1.0, 2.0]}), f"p.{ending}")
    task = table("day,z\n2014-01-02,1\n2014-01-03,2\n", "q.csv")
    assert match_mediators(pairs, task, ["day"]).used.tolist() == [False, True]


def test_labels_without_a_common_value_show_some_of_each_table(table):
    with raised(TableError, column="d") as caught:
        match_mediators(table("d,x\nmon,1\n"), table("d,z\nMonday,1\n", "q.csv"), ["d"])
    assert all(word in str(caught.value) for word in ("'mon'", "'Monday'", "t.csv", "q.csv"))


def test_a_mediator_with_decimal_commas_is_told_how_to_be_read(table):
    with raised(TableError, column="d") as caught:
        match_mediators(table('d,x\n"1,5",1\n'), table('d,z\n"1,6",1\n', "q.csv"), ["d"])
    assert "--decimal ','" in str(caught.value)


def test_separators_of_several_signs_are_read_without_a_warning(tmp_path, recwarn):
    path = tmp_path / "t.csv"
    path.write_text("d;;x\n1;;2\n")
    assert read_table(path, TextFormat(separator=";;")).numbers(["x"]).to_numpy().tolist() == [[2.0]]
    assert not recwarn


def test_several_label_columns_are_matched_together(table):
    pairs, task = table("u,v\na,1\nb,2\n", "p.csv"), table("u,v\na,2\nb,2\n", "q.csv")
    found = match_mediators(pairs, task, ["u", "v"], labels=True)
    assert found.used.tolist() == found.used_task.tolist() == [False, True]
    assert len(found.notes) == 2
    mixed = match_mediators(pairs, task, ["u", "v"])  # v is a number: a row may teach about others nearby
    assert mixed.used.all()
    assert mixed.used_task.all()
    assert mixed.notes == []


def test_groups_are_matched_and_what_is_left_out_is_said(table):
    rows, days = table("d,x\n1,5\n2,6\n1,7\n3,8\n", "r.csv"), table("d,z\n2,0.2\n1,0.1\n9,0.9\n8,0.8\n", "g.csv")
    found = match_groups(rows, days, ["d"])
    assert found.used.tolist() == [True, True, True, False]
    assert found.used_task.tolist() == [True, True, False, False]
    assert found.y["d"].tolist() == ["1", "2", "1", "3"]
    assert [note[:6] for note in found.notes] == ["1 of 4", "2 of 4"]
    assert isinstance(found.used, np.ndarray)


def test_groups_that_do_not_fit(table):
    rows = table("d,x\n1,5\n2,6\n", "r.csv")
    with raised(TableError, table="g.csv", column="d", value="1"):
        match_groups(rows, table("d,z\n1,0\n1,0\n", "g.csv"), ["d"])
    with raised(TableError, column="d"):
        match_groups(rows, table("d,z\n5,0\n6,0\n", "g.csv"), ["d"])


@pytest.mark.parametrize("content", ["wind\n1\n1e200\n", "wind\n1\n-1e308\n"])
def test_a_cell_that_cannot_be_squared_is_named(table, content):
    with raised(TableError, column="wind", row=2):
        table(content).numbers(["wind"])


def test_parquet_files_with_damaged_texts_are_named(tmp_path):
    path = tmp_path / "table.parquet"
    pd.DataFrame({"plainname": [1.0, 2.0]}).to_parquet(path)
    path.write_bytes(path.read_bytes().replace(b"plainname", b"plain\xff\xfe\x80e"))
    with raised(TableError, table="table.parquet"):
        read_table(path).numbers(["plainname"])
