"""Tables in files: every common slip gets an error that names the file, the column, the row and the value."""

import datetime
import decimal
import gzip
import os
import pickle

import numpy as np
import pandas as pd
import pyarrow
import pytest
from expected import raised
from pyarrow import parquet

from decond.tables import TableError, check_output, match_groups, match_mediators, read_table, write_table
from decond.tables.files import read_rows


@pytest.fixture
def table(tmp_path):
    """Return a function that writes a file and reads it as a table."""

    def read(content, name="t.csv"):
        path = tmp_path / name
        if isinstance(content, pd.DataFrame):
            write_table(content, path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_table(path)

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


def test_spaces_a_byte_order_mark_and_blank_lines_do_no_harm(table):
    found = table(b"\xef\xbb\xbfx, day \n 1.5 , a \n\n2, b\n")
    assert found.numbers(["x"])["x"].tolist() == [1.5, 2.0]
    assert found.labels(["day"])["day"].tolist() == ["a", "b"]


def test_cells_are_not_guessed_at(table):
    """Leading zeros, long numbers and the label NA stay what they are when the table is passed on."""
    found = table("code,country\n007,NA\n12345678901234567890,None\n")
    assert found.frame.to_numpy().tolist() == [["007", "NA"], ["12345678901234567890", "None"]]
    assert found.labels(["country"])["country"].tolist() == ["NA", "None"]


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        ("day;wind\nmon;7.5\ntue;-8\n", "t.csv", ["semicolons"]),
        ("day;wind\nmon;7,5\ntue;-8\n", "t.csv", ["semicolons", "decimal commas"]),
        ("day\twind\nmon\t7.5\ntue\t-8\n", "t.csv", ["tabs"]),
        ("day,wind\nmon,7.5\ntue,-8\n", "t.tsv", ["commas"]),
    ],
)
def test_other_separators_are_understood_and_noted(table, content, name, words):
    found = table(content, name)
    assert found.numbers(["wind"])["wind"].tolist() == [7.5, -8.0]
    assert found.labels(["day"])["day"].tolist() == ["mon", "tue"]
    [note] = found.notes
    assert all(word in note for word in [name, *words])
    with raised(TableError, table=name, column="wind", line=3, value="calm"):
        table(content.replace("-8", "calm"), name).numbers(["wind"])


def test_decimal_commas_change_numbers_only(table):
    found = table('place;"share; in %";size\n"Ulm, 7,5 km";1,5e-3;\nKiel;12,25;3\n')
    assert found.frame.to_numpy().tolist() == [["Ulm, 7,5 km", "1.5e-3", ""], ["Kiel", "12.25", "3"]]


@pytest.mark.parametrize(("other", "line", "value"), [("7.5", 3, "3,5"), ("1.234,5", 2, "1.234,5")])
def test_commas_and_points_together_are_refused(table, other, line, value):
    """In such a file 1.234 may mean a thousand, so nothing is guessed."""
    found = table(f"wind;power\n1;{other}\n2;3,5\n")
    with raised(TableError, column="power", line=line, value=value):
        found.numbers(["power"])


@pytest.mark.parametrize("sign", [",", "."])
def test_a_thousand_is_not_read_as_one(table, sign):
    """Beside whole numbers 1,050 may be a thousand and fifty: 1.05 would be wrong a thousand times."""
    found = table(f"day;sales\nmon;950\ntue;1{sign}050\nwed;2{sign}125\n")
    for look in (lambda: found.numbers(["sales"]), lambda: found.reads_as_numbers("sales")):
        with raised(TableError, column="sales", line=3, value=f"1{sign}050"):
            look()
    assert found.labels(["day"])["day"].tolist() == ["mon", "tue", "wed"]
    assert found.typed()["sales"].tolist() == ["950", f"1{sign}050", f"2{sign}125"]


@pytest.mark.parametrize(("sign", "other"), [(",", "."), (".", ",")])
def test_a_decimal_sign_elsewhere_makes_the_other_one_doubtful(table, sign, other):
    found = table(f"wind;sales\n7{other}1;1{sign}050\n6{other}25;2{sign}125\n")
    assert found.numbers(["wind"])["wind"].tolist() == [7.1, 6.25]
    with raised(TableError, column="sales", line=2, value=f"1{sign}050"):
        found.numbers(["sales"])


@pytest.mark.parametrize("sign", [",", "."])
@pytest.mark.parametrize(
    "cells", [["1{}050", "0{}950"], ["1{}050", "2{}125"], ["1{}05", "950"], ["1050{}125", "950"]]
)
def test_what_can_be_no_thousand_is_read(table, sign, cells):
    written = [cell.format(sign) for cell in cells]
    found = table("day;x\n" + "".join(f"d;{cell}\n" for cell in written))
    assert found.numbers(["x"])["x"].tolist() == [float(cell.format(".")) for cell in cells]


def test_decimal_commas_are_a_matter_of_each_column(table):
    """A month such as 01.2022 is no number with a point, and text beside numbers stays as it is."""
    found = table("month;wind;site\n01.2022;7,1;1,5\n02.2022;6,5;low\n")
    assert found.numbers(["wind"])["wind"].tolist() == [7.1, 6.5]
    assert found.frame["site"].tolist() == ["1,5", "low"]
    assert found.frame["month"].tolist() == ["01.2022", "02.2022"]
    with raised(TableError, column="site", line=3, value="low"):
        found.numbers(["site"])


@pytest.mark.parametrize("cell", ["1,050", "-12,500"])
def test_both_readings_of_three_digits_behind_a_comma_are_named(table, cell):
    number = cell.replace(",", "")
    with pytest.raises(TableError, match=rf"Is it {number} or {float(number) / 1000:g}\?"):
        table(f'x,y\n"{cell}",2\n').numbers(["x"])


def test_commas_in_a_table_of_commas_or_tabs_are_no_decimals(table):
    for content, name in (('x,y\n"1,234",2\n', "t.csv"), ("x\ty\n1,234\t2\n", "t.tsv")):
        found = table(content, name)
        assert found.notes == ()
        with raised(TableError, column="x", line=2, value="1,234"):
            found.numbers(["x"])


FILES = {
    # content, name, and where it goes wrong
    "empty": ("", "t.csv", {}),
    "bars": ("x|y\n1|2\n", "t.csv", {"column": "x|y"}),
    "semicolons or tabs": ("x;y\tz\n1;2\t3\n", "t.csv", {"column": "x;y\tz"}),
    "commas or semicolons": ("x,y;z\n1,2;3\n", "t.tsv", {"column": "x,y;z"}),
    "repeated names": ("x,y, x\n1,2,3\n", "t.csv", {"column": "x"}),
    "too many fields": ("x,y\n1,2\n3,4,5\n", "t.csv", {"line": 3}),
    "every row too long": ("x,y\n1,2,3\n3,4,5\n", "t.csv", {"line": 2}),
    "open quote": ('x,y\n"1,2\n', "t.csv", {}),
    "half of UTF-16": (b"\xff\xfe\x00x\x00", "t.csv", {}),
    "UTF-16 without a mark": ("x,y\n1,2\n".encode("utf-16-le"), "t.csv", {}),
    "no letter": (b"x,y\n\xe4\x81,2\n", "t.csv", {}),
    "control": (b"x,y\n\xe4\x02,2\n", "t.csv", {}),
    "not gzip": ("x,y\n1,2\n", "t.csv.gz", {}),
    "cut gzip": (gzip.compress(b"x,y\n1,2\n")[:15], "t.csv.gz", {}),
    "bad gzip": (gzip.compress(b"x,y\n1,2\n")[:10] + b"\xff" * 9, "t.csv.gz", {}),
    "not parquet": ("x,y\n1,2\n", "t.parquet", {}),
    "sheet": ("x", "t.xlsx", {}),
    "no suffix": ("x", "t", {}),
    "compressed parquet": ("x", "t.parquet.gz", {}),
}


@pytest.mark.parametrize(("content", "name", "place"), FILES.values(), ids=FILES.keys())
def test_files_that_cannot_be_read(table, content, name, place):
    with raised(TableError, **{"table": name, "column": None, "line": None, "value": None, **place}):
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
    assert (copy.table, copy.column, copy.line, copy.value, copy.count) == ("t.csv", "x", 3, "abc", 1)
    assert str(copy) == str(caught.value)


def test_parquet_with_repeated_names(tmp_path):
    columns = [pyarrow.array([1.0]), pyarrow.array([2.0])]
    parquet.write_table(pyarrow.Table.from_arrays(columns, names=["x", "x"]), tmp_path / "t.parquet")
    with raised(TableError, table="t.parquet", column="x"):
        read_table(tmp_path / "t.parquet")


def test_places_to_write_to(tmp_path):
    check_output(tmp_path / "out.csv")
    (tmp_path / "folder.csv").mkdir()
    for wrong in ("out.json", "nowhere/out.csv", "folder.csv"):
        with raised(TableError, table=(tmp_path / wrong).name):
            check_output(tmp_path / wrong)


# ---- columns -------------------------------------------------------------------------------------------------

COLUMNS = {
    # content, a column, and what the error says of the cells at fault
    "text": ("x\n1\nabc\n3\nlow\n", "x", {"line": 3, "value": "abc", "count": 2}),
    "text alone": ("x\nB\nA\nB\nNA\n", "x", {"line": 2, "value": "B", "count": 3}),
    "decimal comma": ('x\n1\n"1,5"\n', "x", {"line": 3, "value": "1,5", "count": 1}),
    "decimal commas": ('x\n"1,5"\n', "x", {"line": 2, "value": "1,5", "count": 1}),
    "date": ("x\n2014-01-01\n", "x", {"line": 2, "value": "2014-01-01", "count": 1}),
    "empty cells": ("x,y\n1,1\n,2\nNA,3\n", "x", {"line": 3, "value": None, "count": 2}),
    "NaN": ("x\n1\nnan\n", "x", {"line": 3, "value": None, "count": 1}),
    "short lines": ("x,y\n1,2\n3\n", "y", {"line": 3, "value": None, "count": 1}),
    "infinite": ("x\n1\n-inf\n", "x", {"line": 3, "value": "-inf"}),
}


@pytest.mark.parametrize(("content", "column", "fault"), COLUMNS.values(), ids=COLUMNS.keys())
def test_columns_that_are_not_numbers(table, content, column, fault):
    with raised(TableError, table="t.csv", column=column, row=None, **fault):
        table(content).numbers([column])


@pytest.mark.parametrize(("column", "near"), [("speed", "wind, ALT"), ("wnid", "'wind'"), ("alt", "'ALT'")])
def test_a_missing_column_names_the_nearest_or_all(table, column, near):
    with raised(TableError, table="t.csv", column=column) as caught:
        table("wind,ALT\n1,2\n").numbers([column])
    assert near in str(caught.value)


def test_a_column_that_is_named_twice_is_refused(table):
    with raised(TableError, column="x"):
        table("x,y\n1,2\n").numbers(["x", "x"])


@pytest.mark.parametrize(
    ("cells", "remedy"),
    [
        (["7", "calm"], "Correct the cell"),
        (["low", "high"], "columns of 0 and 1"),
        (["1,5"], "a decimal point, not a comma"),
        (["1'000.5"], "nothing between the thousands"),
        (["2014-01-01"], "looks like a date"),
    ],
)
def test_the_remedy_fits_the_cell(table, cells, remedy):
    content = pd.DataFrame({"x": cells}).to_csv(index=False)
    with pytest.raises(TableError, match=remedy):
        table(content).numbers(["x"])


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_lines_are_those_that_an_editor_shows(table, name):
    """Also with blank lines before and between rows, and with cells that span lines."""
    lines = ["", "x,note", "1,a", "", "   ", '2,"b', "", 'b"', "bad,c", "3,d", ""]
    for end in ("\n", "\r\n"):
        content = end.join(lines).encode()
        found = table(gzip.compress(content) if name.endswith("gz") else content, name)
        assert len(found) == 4
        with raised(TableError, column="x", line=9, value="bad"):
            found.numbers(["x"])


def test_a_row_is_counted_where_there_are_no_lines(table):
    frame = pd.DataFrame({"x": ["1", "bad", "3"]})
    with raised(TableError, column="x", line=None, row=2, value="bad"):
        table(frame, "t.parquet").numbers(["x"])
    found = table("x\n1\nbad\n")
    os.remove(found.line_of.args[0])  # between reading and asking
    with raised(TableError, column="x", line=None, row=2, value="bad"):
        found.numbers(["x"])


def test_a_column_of_the_other_table_asks_whether_they_are_swapped(table):
    pairs, task = table("wind,day\n1,2\n", "p.csv"), table("day,power\n1,2\n", "q.csv")
    with raised(TableError, table="q.csv", column="wind") as caught:
        task.check_columns(["wind", "day"], pairs)
    assert "p.csv" in str(caught.value)
    with raised(TableError, table="q.csv", column="wind") as caught:
        task.check_columns(["wind", "power"], pairs)  # swapping would not do
    assert "p.csv" not in str(caught.value)


def test_missing_labels(table):
    with raised(TableError, table="t.csv", column="day", line=3, count=2):
        table("day,x\na,1\n,2\n  ,3\n").labels(["day"])


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
    table = read_table(tmp_path / "t.parquet")
    assert table.numbers(["whole", "truth", "money", "codes"]).to_numpy().tolist() == [[1, 1, 1.5, 1], [2, 0, 2.5, 2]]
    assert table.labels(["kind", "day", "stamp", "whole"]).to_numpy().tolist() == [
        ["a", "2014-01-01", "2014-01-01", "1"],
        ["b", "2014-01-01", "2014-01-01T06:30:00", "2"],
    ]
    with raised(TableError, table="t.parquet", column="nullable", row=2, count=1):
        table.numbers(["nullable"])
    with raised(TableError, table="t.parquet", column="stamp", row=None):
        table.numbers(["stamp"])
    with raised(TableError, table="t.parquet", column="day", row=1, value="2014-01-01"):
        table.numbers(["day"])


# ---- what two tables have in common --------------------------------------------------------------------------


def test_a_mediator_of_numbers_stays_numbers_and_text_becomes_labels(table):
    pairs, task = table("u,v\n1,a\n2,b\n", "p.csv"), table("v,u\nb,7\na,8\n", "q.csv")
    y, y_task, used, used_task, notes, _ = match_mediators(pairs, task, ["u", "v"])
    assert used.all()
    assert used_task.all()
    assert y.dtypes.tolist() == y_task.dtypes.tolist() == [np.dtype(float), np.dtype(object)]
    assert y_task.to_numpy().tolist() == [[7.0, "b"], [8.0, "a"]]
    assert notes == []


def test_numbers_that_are_labels_are_alike_however_they_are_written(table):
    pairs, task = (
        table("u\n007\n1.50\n9007199254740993\n", "p.csv"),
        table("u\n7.0\n1.5\n9007199254740993\n", "q.csv"),
    )
    found = match_mediators(pairs, task, ["u"], labels=True)
    assert found.y["u"].tolist() == found.y_task["u"].tolist() == ["7", "1.5", "9007199254740993"]


def test_labels_among_text_stay_as_they_are(table):
    """Where some labels are no numbers, 01, 1 and 1_0 are three labels."""
    found = table("u\n01\n1\n1_0\nx\n")
    assert found.labels(["u"])["u"].tolist() == ["01", "1", "1_0", "x"]


def test_a_first_line_of_numbers_may_be_a_row(tmp_path):
    path = tmp_path / "raw.csv"
    for content, rows in (
        ("1,1\n2,1\n", [[1, 1], [2, 1]]),
        ("a,b\n2,1\n", [[2, 1]]),
        ("healthy,inf\n2,1\n", [[2, 1]]),
        ("1.5;2\n2;1\n", [[1.5, 2], [2, 1]]),
        ("sep=;\n1,5;2\n2;1\n", [[1.5, 2], [2, 1]]),
        ("7\n8\n", [[7], [8]]),
    ):
        path.write_text(content)
        found = read_rows(path)
        assert found.numbers(list(found.frame)).to_numpy().tolist() == rows
    path.write_text("nan,1\n2,3\n")
    found = read_rows(path)
    with raised(TableError, table="raw.csv", line=1, count=1):
        found.numbers(list(found.frame))


def test_a_slip_does_not_turn_numbers_into_labels(table):
    pairs, task = table("u\n1\n2x\n", "p.csv"), table("u\n1\n2\n", "q.csv")
    for say in ("--labels", "labels = true"):
        with raised(TableError, table="p.csv", column="u", line=3, value="2x") as caught:
            match_mediators(pairs, task, ["u"], say_labels=say)
        assert say in str(caught.value)
    found = match_mediators(pairs, task, ["u"], labels=True)
    assert found.used.tolist() == found.used_task.tolist() == [True, False]


def test_a_mediator_of_two_kinds_is_refused(table):
    with raised(TableError, table="p.csv", column="u"):
        match_mediators(table("u\na\n", "p.csv"), table("u\n1\n", "q.csv"), ["u"])
    with raised(TableError, table="q.csv", column="u"):
        match_mediators(table("u\n1\n", "p.csv"), table("u\na\n", "q.csv"), ["u"])


def test_no_label_in_common(table):
    pairs, task = table("day\nmon\ntue\n", "p.csv"), table("day\nMonday\nTuesday\nMonday\n", "q.csv")
    with raised(TableError, column="day") as caught:
        match_mediators(pairs, task, ["day"])
    assert all(label in str(caught.value) for label in ("'mon'", "'Monday'"))
    with raised(TableError, table="q.csv", column="night"):
        match_mediators(table("night\n1\n", "p.csv"), task, ["night"])


def test_days_and_months_in_two_orders_are_refused(table):
    """02/01 stands in both tables, and is another day in each."""
    days = table("day,x\n01/02/2022,1\n02/01/2022,2\n13/01/2022,3\n", "days.csv")
    task = table("day,z\n01/02/2022,1\n02/01/2022,2\n01/13/2022,3\n", "task.csv")
    for labels in (False, True):
        with raised(TableError, column="day") as caught:
            match_mediators(days, task, ["day"], labels)
        assert all(date in str(caught.value) for date in ("'13/01/2022'", "'01/13/2022'"))
    assert match_mediators(days, days, ["day"], labels=True).used.all()
    assert match_mediators(task, task, ["day"]).used.all()


def test_a_date_with_slashes_and_the_year_first_is_a_date(table):
    slashes = table("day,x\n2022/01/30,1\n2022/01/31,2\n", "slashes.csv")
    dashes = table("day,z\n2022-01-30,1\n2022-01-31,2\n", "dashes.csv")
    with pytest.raises(TableError, match="Dates are written in two ways"):
        match_mediators(slashes, dashes, ["day"])
    with pytest.raises(TableError, match="looks like a date"):
        slashes.numbers(["day"])
    assert len(match_mediators(slashes, slashes, ["day"]).remarks) == 1


def test_several_label_columns_are_matched_together(table):
    pairs, task = table("u,v\na,1\nb,2\n", "p.csv"), table("u,v\na,2\nb,2\n", "q.csv")
    found = match_mediators(pairs, task, ["u", "v"], labels=True)
    assert found.used.tolist() == found.used_task.tolist() == [False, True]
    assert len(found.notes) == 2
    mixed = match_mediators(pairs, task, ["u", "v"])  # v is a number: a row may teach about others nearby
    assert mixed.used.all()
    assert mixed.used_task.all()


def test_groups_are_matched_and_what_is_left_out_is_said(table):
    rows, days = table("d,x\n1,5\n2,6\n1,7\n3,8\n", "r.csv"), table("d,z\n2,0.2\n1,0.1\n9,0.9\n8,0.8\n", "g.csv")
    found = match_groups(rows, days, "d")
    assert found.used.tolist() == [True, True, True, False]
    assert found.used_task.tolist() == [True, True, False, False]
    assert found.y["d"].tolist() == ["1", "2", "1", "3"]
    assert [note[:6] for note in found.notes] == ["1 of 4", "2 of 4"]


def test_groups_that_do_not_fit(table):
    rows = table("d,x\n1,5\n2,6\n", "r.csv")
    with raised(TableError, table="g.csv", column="d", value="1"):
        match_groups(rows, table("d,z\n1,0\n1,0\n", "g.csv"), "d")
    with raised(TableError, column="d"):
        match_groups(rows, table("d,z\n5,0\n6,0\n", "g.csv"), "d")
