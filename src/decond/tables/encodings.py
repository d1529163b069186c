"""Letters of a text file: UTF-8, UTF-16 where its first bytes say so, or else Windows-1252, which is said."""

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
    b"PAR1": "a Parquet file. Let its name end in .parquet",
    b"\x1f\x8b": "compressed. Let its name end in .gz",
    b"\x89PNG": "a PNG picture. Give a table",
    b"\xff\xd8\xff": "a JPEG picture. Give a table",
    b"%PDF": "a PDF document. Give a table",
    b"SQLite format 3\0": "an SQLite database. Give a table",
}
"""What files that are no text begin with, what they are, and what to do."""

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
ZERO = b"\0"
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


def encoding_of(path: Path) -> Encoding:
    """Return how the letters of a text file are written; a file that is no text raises.

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
        return _found(path)
    except (EOFError, OSError, zlib.error) as error:
        raise TableError(
            f"{path.name} cannot be read ({error}).{COMPRESSED if _is_compressed(path) else ''}"
        ) from None


def open_text(path: Path, encoding: str) -> IO[str]:
    """Return a file, compressed or not, as text whose lines end as they do there."""
    opened = gzip.open if _is_compressed(path) else open
    return opened(path, "rt", encoding=encoding, newline="")


def _found(path: Path) -> Encoding:
    begin = next(_pieces(path), b"")
    for mark, kind in KINDS.items():
        if begin.startswith(mark):
            raise TableError(f"{path.name} is not text but {kind}.")
    if begin.startswith(UTF_16):
        return Encoding("utf-16") if _decodes(path, "utf-16") else _refuse(path)
    if _is_free_of(ZERO, path) and _decodes(path, "utf-8"):
        return Encoding("utf-8-sig")
    if _is_free_of(CONTROLS, path) and _decodes(path, "cp1252"):
        return Encoding("cp1252", (GUESSED.format(path.name),))
    return _refuse(path)


def _refuse(path: Path) -> Encoding:
    raise TableError(
        f"{path.name} cannot be read as text: it is neither UTF-8, nor UTF-16 with a byte-order mark, nor "
        f"Windows-1252. {SAVE}"
    )


def _is_free_of(signs: bytes, path: Path) -> bool:
    return all(len(piece) == len(piece.translate(None, signs)) for piece in _pieces(path))


def _decodes(path: Path, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for piece in _pieces(path):
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, those of a compressed one as they were before."""
    with (gzip.open if _is_compressed(path) else open)(path, "rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _is_compressed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"
