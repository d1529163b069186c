"""The zip around a model: written whole or not at all, and read with suspicion.

Entries are stored uncompressed. So a file never holds more than its own size in bytes, and one with compressed
entries, which could unfold to any size, is not ours.
"""

import contextlib
import json
import math
import os
import uuid
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.lib import format as npy

from decond.messages import near_files

__all__ = ["ARRAY_KINDS", "HEADER", "Container", "ModelFileError", "read", "write"]

ARRAY_KINDS = "biufU"
"""Kinds of arrays that are stored: booleans, whole numbers, floats and text."""

HEADER = "header.json"
ENCRYPTED = 0x1


class ModelFileError(ValueError):
    """A model file cannot be read: damaged, of another format, or made by something else.

    Attributes:
        path: The file.
        entry: The entry of the zip that is at fault, such as "header.json" or "arrays/0.npy"; None if the file as a
            whole is not a model.
        format_version: The version of the format, if that is why the file cannot be read.
        written_by: The version of decond that wrote such a file, if the file says it.
    """

    def __init__(
        self,
        message: str,
        *,
        path: Path | None = None,
        entry: str | None = None,
        format_version: Any = None,
        written_by: str | None = None,
    ) -> None:
        super().__init__(message)
        self.path, self.entry = path, entry
        self.format_version, self.written_by = format_version, written_by


def write(path: Path, header: dict[str, Any], arrays: list[np.ndarray]) -> None:
    """Write header and arrays to a file, beside its place first, and move it there."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Give the name of a file, for example {path / 'model.decond'}.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist. Make it first, or give another place.")
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as stream:
            _write_zip(stream, header, arrays)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_zip(stream: Any, header: dict[str, Any], arrays: list[np.ndarray]) -> None:
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps(header, indent=1, allow_nan=False)
        archive.writestr(_entry(HEADER), text)
        for i, array in enumerate(arrays):
            with archive.open(_entry(f"arrays/{i}.npy"), "w", force_zip64=True) as entry:
                npy.write_array(entry, array, version=(1, 0), allow_pickle=False)


def _entry(name: str) -> zipfile.ZipInfo:
    """Return an entry with a fixed date, so that the same model gives the same bytes."""
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.external_attr = 0o644 << 16
    return info


@contextlib.contextmanager
def read(path: Path) -> Iterator["Container"]:
    """Open a model file; whatever zipfile finds wrong with it becomes a `ModelFileError`."""
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder. Give the file that decond.save or `decond fit` wrote.", path=path)
    if not path.exists():
        near = near_files(path, [".decond"], "Give the file that decond.save or `decond fit` wrote.", "model")
        raise FileNotFoundError(f"there is no file {path}{near}")
    with path.open("rb") as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                yield Container(archive, path)
        except ModelFileError:
            raise
        except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, ValueError) as error:
            raise ModelFileError(
                f"{path} is not a decond model, or it is damaged or cut short ({error}). Copy it again, or fit the "
                "model again and save it.",
                path=path,
            ) from error


class Container:
    """An open model file: its `header`, and its arrays by number."""

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self.archive, self.path = archive, path
        self._check_entries()
        self.header = self._read_header()

    def array(self, index: Any) -> np.ndarray:
        """Return one array; never unpickles, never allocates more than the file holds."""
        name = f"arrays/{index}.npy"
        if type(index) is not int or name not in self.archive.namelist():
            raise self._error(f"its header refers to array {index!r}, which is not there", HEADER)
        content = self.archive.read(name)
        try:
            return _array(content)
        except (OverflowError, SyntaxError, TokenError, TypeError, ValueError) as error:
            raise self._error(f"{name} is not a plain array: {error}", name) from error

    def _read_header(self) -> dict[str, Any]:
        try:
            header = json.loads(self.archive.read(HEADER), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise self._error(f"its header cannot be read: {error}", HEADER) from error
        if not isinstance(header, dict):
            raise self._error("its header is not a JSON object", HEADER)
        return header

    def _check_entries(self) -> None:
        """Refuse what we never write: other or repeated names, compression, encryption, more bytes than there are."""
        entries = self.archive.infolist()
        names = [entry.filename for entry in entries]
        if HEADER not in names:
            raise ModelFileError(
                f"{self.path} was made by something else: it is a zip without {HEADER}. Give a file written by "
                "decond.save or `decond fit`.",
                path=self.path,
            )
        known = {HEADER, *(f"arrays/{i}.npy" for i in range(len(names)))}
        repeated = [name for name in set(names) if names.count(name) > 1]
        if repeated:
            raise self._error(f"more than one of its entries is called {repeated[0]!r}", repeated[0])
        for entry in entries:
            if entry.filename not in known:
                raise self._error(f"it has an unexpected entry {entry.filename!r}", entry.filename)
            if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & ENCRYPTED:
                raise self._error(f"its entry {entry.filename!r} is compressed or encrypted", entry.filename)
        if sum(entry.file_size for entry in entries) > self.path.stat().st_size:
            raise self._error("its entries claim more bytes than the file has")

    def _error(self, what: str, entry: str | None = None) -> ModelFileError:
        return ModelFileError(
            f"{self.path} is not a decond model, or was changed: {what}. Give a file written by decond.save or "
            "`decond fit`.",
            path=self.path,
            entry=entry,
        )


def _array(content: bytes) -> np.ndarray:
    """Return the array in the bytes of an npy file of version 1.0, checked before anything is allocated."""
    stream = BytesIO(content)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("another version of the npy format")
    shape, fortran, dtype = npy.read_array_header_1_0(stream)
    if dtype.hasobject or dtype.names is not None or dtype.kind not in ARRAY_KINDS:
        raise ValueError(f"it holds {dtype}, and only numbers and text are read (never pickled objects)")
    size = dtype.itemsize * math.prod(shape)
    if min(shape, default=0) < 0 or size != len(content) - stream.tell():
        raise ValueError(f"its shape {shape} does not fit its {len(content) - stream.tell()} bytes")
    flat = np.frombuffer(content, dtype, math.prod(shape), stream.tell()) if size else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if fortran else "C").copy("K")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
