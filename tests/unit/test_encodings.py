"""Letters of text files: marks, guesses that are said, signs of old programs, and files that are no text."""

import gzip
import io
import unicodedata
import zipfile

import pandas as pd
import pytest
from expected import raised
from matplotlib.figure import Figure

from decond.tables import TableError, match_mediators, read_table
from decond.tables.encodings import PIECE, encoding_of


@pytest.fixture
def table(tmp_path):
    """Return a function that writes a file and reads it as a table."""

    def read(content, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_table(path)

    return read


def test_letters_of_windows_are_read_and_said(table):
    content = "Fluß;Höhe in m\nÄlv;1,5\n“Saale” €;2,5\n\nHalde – West;x\n"
    found = table(content.encode("cp1252"))
    plain = table(content, "u.csv")
    pd.testing.assert_frame_equal(found.frame, plain.frame)
    assert found.frame["Fluß"].tolist() == ["Älv", "“Saale” €", "Halde – West"]
    separated, letters = found.notes
    assert "semicolons" in separated
    assert "Windows-1252" in letters
    assert plain.notes == (separated.replace("t.csv", "u.csv"),)
    with raised(TableError, column="Höhe in m", line=5, value="x"):
        found.numbers(["Höhe in m"])


def test_a_letter_and_its_accent_may_be_two_signs(table):
    content = "Fluß,Höhe\nÄlv,1.5\n"
    apart = unicodedata.normalize("NFD", content)
    assert apart != content
    one, other = table(content, "one.csv"), table(apart, "other.csv")
    assert other.numbers(["Höhe"]).to_numpy().tolist() == [[1.5]]
    found = match_mediators(one, other, ["Fluß"])
    assert (found.used.all(), found.used_task.all()) == (True, True)
    assert found.y_task["Fluß"].tolist() == ["Älv"]


def test_a_letter_of_windows_far_behind_is_found(table):
    row = b"monday" * 1000 + b",1.5\n"
    rows = PIECE // len(row) + 1  # more than is looked at in one go
    found = table(gzip.compress(b"day,wind\n" + row * rows + b"sp\xe4t,2.5\n"), "t.csv.gz")
    assert len(found) == rows + 1
    assert found.frame["day"].iloc[-1] == "spät"
    assert "Windows-1252" in found.notes[0]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_utf_16_and_utf_32_with_their_mark_are_read(table, name, encoding):
    content = "\ufeffÄlv\tHöhe\nŁódź\t1.5\n".encode(encoding)
    found = table(gzip.compress(content) if name.endswith(".gz") else content, name)
    assert found.frame.to_dict("list") == {"Älv": ["Łódź"], "Höhe": ["1.5"]}
    assert not any("Windows" in note for note in found.notes)


def sheet():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return content.getvalue()


def picture():
    content = io.BytesIO()
    Figure().savefig(content, format="png")
    return content.getvalue()


OTHER_KINDS = {
    # content, and what the message calls it
    "xlsx": (sheet, ".xlsx"),
    "png": (picture, "PNG"),
    "gzip": (lambda: gzip.compress(b"x,y\n1,2\n"), ".gz"),
    "parquet": (lambda: pd.DataFrame({"x": [1.0]}).to_parquet(), ".parquet"),
    "pdf": (lambda: b"%PDF-1.7\n1 0 obj\n", "PDF"),
}


@pytest.mark.parametrize(("content", "kind"), OTHER_KINDS.values(), ids=OTHER_KINDS)
def test_other_kinds_of_files_are_not_text(table, content, kind):
    with raised(TableError, table="t.csv", column=None) as caught:
        table(content())
    assert kind in str(caught.value)


@pytest.mark.parametrize("name", ["PAR1", "PAR1,wind", "%PDF"])
def test_columns_may_be_called_as_other_files_begin(table, name):
    header = f"{name},z"
    assert list(table(f"{header}\n{'1,' * name.count(',')}2,3\n").frame) == header.split(",")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32", "utf-8-sig"])
def test_text_with_zeros_is_not_text(table, encoding):
    with raised(TableError, table="t.csv", line=2 if encoding == "utf-8-sig" else None):
        table("x,y\n1,\0\n".encode(encoding))


def test_a_file_with_the_mark_of_utf_8_is_nothing_else(table):
    content = "\ufeffplace,wind\nKöln,7\n".encode() + "Höxter,8\n".encode("cp1252")
    with raised(TableError, table="t.csv", line=3):
        table(content)
    with raised(TableError, table="t.csv.gz", line=3):
        table(gzip.compress(content), "t.csv.gz")


@pytest.mark.parametrize("end", ["\n\x1a", "\x1a", "\n\x1a\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_the_sign_at_the_end_of_old_files_is_no_row(table, end, encoding):
    found = table(f"place,wind\nKöln,7\nUlm,8{end}".encode(encoding))
    assert found.frame.to_dict("list") == {"place": ["Köln", "Ulm"], "wind": ["7", "8"]}
    assert table("wind\n7\n\x1a").numbers(["wind"])["wind"].tolist() == [7.0]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize(("sign", "first"), [(";", "sep=;\r\n"), ("|", "SEP=|\n"), ("\t", "sep=\t\n")])
def test_the_first_line_may_say_what_separates_cells(table, sign, first, encoding):
    found = table((first + "day,wind\nmon,7\n\ntue,calm\n".replace(",", sign)).encode(encoding))
    assert found.frame.to_dict("list") == {"day": ["mon", "tue"], "wind": ["7", "calm"]}
    with raised(TableError, column="wind", line=5, value="calm"):
        found.numbers(["wind"])


def test_a_column_may_be_called_sep(table):
    assert list(table("sep=;x,wind\n1,2\n").frame) == ["sep=;x", "wind"]


def test_accents_in_parquet_are_those_of_text(tmp_path):
    apart = unicodedata.normalize("NFD", "Höhe")
    pd.DataFrame({apart: [1.5]}).to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").numbers(["Höhe"]).to_numpy().tolist() == [[1.5]]


def test_the_beginning_of_a_file_is_enough_for_a_guess(tmp_path):
    """A letter of two bytes may lie across the end of what is looked at."""
    path = tmp_path / "t.csv"
    path.write_bytes(b"x" * (PIECE - 1) + "ö".encode() + b"\xf6")
    assert encoding_of(path, whole=False).name == "utf-8-sig"
    assert encoding_of(path).name == "cp1252"
