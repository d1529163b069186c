"""Letters of a text file: UTF-8, UTF-16 or UTF-32 where a mark says so, or else Windows-1252, which is said."""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from decond.tables.columns import TableError

__all__ = ["Encoding", "encoding_of", "open_text"]

PIECE = 1 << 20
"""Bytes that are looked at in one go."""

KINDS = {
    b"PK\x03\x04": "a zip archive or a spreadsheet (.xlsx, .ods). Save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "a spreadsheet (.xls). Save the sheet as CSV",
    b"\x1f\x8b": "compressed. Let its name end in .gz",
    b"\x89PNG": "a PNG picture. Give a table",
    b"\xff\xd8\xff": "a JPEG picture. Give a table",
    b"%PDF-": "a PDF document. Give a table",
    b"SQLite format 3\0": "an SQLite database. Give a table",
}
"""What files that are no text begin with, what they are, and what to do."""

PARQUET = b"PAR1"
"""What a Parquet file begins and ends with; a column may have this name too."""

MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""What text other than UTF-8 begins with; one mark of UTF-32 begins with one of UTF-16."""

CONTROLS = bytes(sorted({*range(0x20), 0x7F} - {*b"\t\n\v\f\r\x1a"}))
"""Bytes that no text in Windows-1252 has. Ctrl-Z is none of them: it was the end of a file once."""

SAVE = "Save it again as UTF-8; a spreadsheet may call that CSV UTF-8."
COMPRESSED = " Copy it again, or, if it is not compressed, let its name end without .gz."
GUESSED = (
    "{} is not UTF-8 and was read as Windows-1252. If its letters look wrong, save it again as UTF-8, which a "
    "spreadsheet may call CSV UTF-8."
)


class Encoding(NamedTuple):
    """What Python calls an encoding, and what to say if it was guessed."""

    name: str
    notes: tuple[str, ...] = ()


def encoding_of(path: Path, whole: bool = True) -> Encoding:
    """Return how the letters of a text file are written; a file that is no text raises.

    Unless the `whole` file is asked for, only its beginning is looked at.

    Every file without zeros and other controls can be read as Windows-1252, but not every one is meant so: it is
    taken last, and with a note.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rivers.csv"
    >>> _ = path.write_bytes("Fluß,Höhe".encode("cp1252"))
    >>> encoding_of(path).name
    'cp1252'
    >>> encoding_of(path).notes[0][:53]
    'rivers.csv is not UTF-8 and was read as Windows-1252.'
    """
    try:
        return _found(path, whole)
    except (EOFError, OSError, zlib.error) as error:
        raise TableError(
            f"{path.name} cannot be read ({error}).{COMPRESSED if _is_compressed(path) else ''}", table=path.name
        ) from None


def open_text(path: Path, encoding: str) -> IO[str]:
    """Return a file, compressed or not, as text whose lines end as they do there."""
    opened = gzip.open if _is_compressed(path) else open
    return opened(path, "rt", encoding=encoding, newline="")


def _found(path: Path, whole: bool) -> Encoding:
    begin = next(_pieces(path), b"")
    for mark, kind in KINDS.items():
        if begin.startswith(mark):
            raise TableError(f"{path.name} is not text but {kind}.", table=path.name)
    if begin.startswith(PARQUET) and _ends_with(PARQUET, path):
        raise TableError(
            f"{path.name} is not text but a Parquet file. Let its name end in .parquet.", table=path.name
        )
    for mark, name in MARKS.items():
        if begin.startswith(mark):
            return Encoding(name) if _decodes(path, name, whole) else _refuse(path)
    if _decodes(path, "utf-8", whole):
        return Encoding("utf-8-sig")
    if begin.startswith(codecs.BOM_UTF8):
        _refuse_marked(path)
    if _is_free_of(CONTROLS, path, whole) and _decodes(path, "cp1252", whole):
        return Encoding("cp1252", (GUESSED.format(path.name),))
    return _refuse(path)


def _refuse(path: Path) -> Encoding:
    raise TableError(
        f"{path.name} cannot be read as text: it is neither UTF-8, nor UTF-16 or UTF-32 with a byte-order mark, nor "
        f"Windows-1252. {SAVE}",
        table=path.name,
    )


def _refuse_marked(path: Path) -> None:
    """Raise with the line on which a file that says it is UTF-8 is something else."""
    with (gzip.open if _is_compressed(path) else open)(path, "rb") as file:
        for line, content in enumerate(file, start=1):
            try:
                text = content.decode("utf-8")
            except UnicodeDecodeError as error:
                found = f"the byte {content[error.start]:#04x}, which is no letter there"
            else:
                found = "a zero byte" if "\0" in text else ""
            if found:
                raise TableError(
                    f"{path.name} says that it is UTF-8, but line {line} has {found}. {SAVE}",
                    table=path.name,
                    line=line,
                )


def _is_free_of(signs: bytes, path: Path, whole: bool) -> bool:
    return all(len(piece) == len(piece.translate(None, signs)) for piece in _pieces(path, whole))


def _ends_with(mark: bytes, path: Path) -> bool:
    end = b""
    for piece in _pieces(path):
        end = (end + piece)[-len(mark) :]
    return end == mark


def _decodes(path: Path, encoding: str, whole: bool) -> bool:
    """Tell whether a file, or its beginning, is text without zeros in an encoding."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        texts = (decoder.decode(piece) for piece in _pieces(path, whole))
        return not any("\0" in text for text in texts) and "\0" not in decoder.decode(b"", final=whole)
    except UnicodeDecodeError:
        return False


def _pieces(path: Path, whole: bool = True) -> Iterator[bytes]:
    """Yield the bytes of a file, or its first piece; those of a compressed one as they were before."""
    with (gzip.open if _is_compressed(path) else open)(path, "rb") as file:
        while piece := file.read(PIECE):
            yield piece
            if not whole:
                return


def _is_compressed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"
