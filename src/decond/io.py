"""Fitted models and posteriors as files: arrays plus a JSON header, never pickle.

A model file is an uncompressed zip with ``header.json`` (what it is, who wrote it, the model as a tree) and
``arrays/0.npy``, ``arrays/1.npy``, … (plain NumPy arrays). Reading one builds only classes of decond, through
their constructors with all checks; nothing in a file can be executed. Entries are stored uncompressed, so a file
never holds more than its own size in bytes, and a compressed entry, which could unfold to any size, is refused. Every
size that a file states is compared with its bytes before anything is built: reading takes time and memory in
proportion to the file. What is computed from a model, such as the Gram matrix of its rows, waits until it is asked.

In the tree, numbers, text, booleans, None, lists and dicts with text keys stand for themselves. Everything else is
an object with one key that starts with ``$``:

==============================================  ======================================================
``{"$array": 3, "dtype": …, "shape": …}``       the array in ``arrays/3.npy``
``{"$labels": […], "shape": …}``                an array of labels (text and numbers as they are)
``{"$tuple": […]}``                             a tuple
``{"$dict": [[key, value], …]}``                a dict with other keys
``{"$float": "nan"}``                           a number that JSON lacks: nan, inf, -inf
``{"$class": "kernels.RBF", "fields": {…}}``    a kernel, feature map, prior, observation or part of a posterior
==============================================  ======================================================

The *format version* decides whether a file can be read. The same format written by another minor version of decond
is read, with a `VersionWarning`, because predictions may then differ in their last digits.
"""

import contextlib
import dataclasses
import functools
import hashlib
import inspect
import json
import math
import os
import platform
import typing
import uuid
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import metadata
from io import BytesIO
from os import PathLike
from pathlib import Path
from tokenize import TokenError
from types import ModuleType
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from decond import embeddings, features, gp, kernels, lfi, streaming
from decond.errors import ArgumentTypeError
from decond.messages import near_files, warn
from decond.parameters import Kept, Parametrized

__all__ = ["ModelFileError", "VersionWarning", "load", "save"]

_FORMAT = "decond model"
_FORMAT_VERSION = 1
_HEADER = "header.json"
_ARRAY_KINDS = "biufU"
"""Kinds of arrays that are stored: booleans, whole numbers, floats and text."""


@dataclasses.dataclass(frozen=True)
class LoadSettings:
    """What a model file may ask for; fitted models stay far below."""

    containers: int = 100_000
    """Lists and objects in the header: each may take a hundred times its bytes as a Python object."""

    repeats: int = 10
    """How many times the bytes of the file all references to arrays may hold together."""

    size: int = 100_000
    """Whole numbers within a kernel or feature map, multiplied where they nest; more if the file has more bytes."""


class ModelFileError(ValueError):
    """A model file cannot be read: damaged, of another format, or made by something else.

    Attributes
    ----------
    path : Path or None
        The file.
    entry : str or None
        The entry of the zip at fault, such as "header.json" or "arrays/0.npy"; None if it is the file as a whole.
    """

    def __init__(self, message: str, *, path: Path | None = None, entry: str | None = None) -> None:
        super().__init__(message)
        self.path, self.entry = path, entry


class VersionWarning(UserWarning):
    """A model file was written by another minor version of decond.

    Attributes
    ----------
    path : Path or None
        The file.
    written_by, read_by : str or None
        The version of decond that wrote it (None if the file does not say), and this one.
    """

    def __init__(
        self, message: str, *, path: Path | None = None, written_by: str | None = None, read_by: str | None = None
    ) -> None:
        super().__init__(message)
        self.path, self.written_by, self.read_by = path, written_by, read_by


def save(estimator: BaseEstimator | lfi.Posterior, path: str | PathLike[str]) -> None:
    """Write a fitted estimator or a posterior to one file.

    The file appears whole or not at all: it is written beside its place and then moved there. The same model gives
    the same bytes.

    Parameters
    ----------
    estimator : estimator of decond, or Posterior
        Fitted; not a subclass, nor a pipeline around one.
    path : path-like
        Where to write; ``.decond`` is the usual suffix.

    Raises
    ------
    ArgumentTypeError
        If the estimator, or something it holds, is not of a class of decond.

    Examples
    --------
    >>> import tempfile
    >>> from decond.estimators import AggregateGP
    >>> from decond.kernels import RBF
    >>> x, groups = [0.0, 1.0, 2.0, 3.0], ["a", "a", "b", "b"]
    >>> gp = AggregateGP(9.0 * RBF(3.0), noise=0.1, optimize=False).fit(x, groups, [1.0, 9.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(gp, folder + "/gp.decond")
    ...     loaded = load(folder + "/gp.decond")
    >>> bool(loaded.predict([[0.5]]) == gp.predict([[0.5]]))
    True
    """
    known, name = _estimators(), type(estimator).__name__
    encoder = _Encoder()
    if isinstance(estimator, lfi.Posterior):
        content = {"class": "Posterior", "state": encoder.encode(estimator, "posterior")}
    elif known.get(name) is not type(estimator):
        raise ArgumentTypeError(
            "estimator",
            f"{name} cannot be saved; save takes a fitted estimator of decond ({', '.join(sorted(known))}) or a "
            "posterior. Save the estimator itself, not a subclass or a pipeline around it.",
        )
    else:
        check_is_fitted(estimator)
        params = encoder.encode(estimator.get_params(deep=False), name)
        content = {"class": name, "params": params, "state": encoder.encode(estimator._fitted_state(), name)}
    header = {"format": _FORMAT, "format_version": _FORMAT_VERSION, "versions": _versions(), **content}
    _write(Path(path), header, encoder.arrays)


def load(path: str | PathLike[str]) -> Any:
    """Return the estimator or posterior in a file; its answers are those of the one that was saved, bit for bit.

    Parameters
    ----------
    path : path-like
        A file that `save` wrote.

    Returns
    -------
    estimator or Posterior

    Raises
    ------
    ModelFileError
        If the file is damaged, of another format, or made by something else.

    Examples
    --------
    >>> import tempfile
    >>> from decond.estimators import DirectGP
    >>> from decond.kernels import RBF
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(DirectGP(RBF(1.0), optimize=False).fit([[0.0], [1.0]], [1.0, 2.0]), folder + "/gp.decond")
    ...     load(folder + "/gp.decond").predict([[0.0]]).round(1)
    array([1.])
    """
    path = Path(path)
    with _open(path) as container:
        header = container.header
        _check_format(header, path)
        known, name = _estimators(), header.get("class")
        if not isinstance(name, str) or name not in {*known, "Posterior"}:
            raise ModelFileError(
                f"{path} holds a {name!r}, which this decond does not know; it knows {', '.join(sorted(known))} and "
                f"posteriors. Load it with the decond that wrote it ({_writer(header)}).",
                path=path,
                entry=_HEADER,
            )
        _warn_of_other_version(header, path)
        decoder = _Decoder(container.array, max(LoadSettings.size, container.n_bytes))
        try:
            state = decoder.decode(header["state"])
            if name == "Posterior":
                return _checked_posterior(state)
            estimator = known[name](**decoder.decode(header["params"]))
            estimator._restore(state)
        except ModelFileError as error:
            error.path = path
            raise
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            MemoryError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise ModelFileError(
                f"{path} does not describe a fitted {name} ({type(error).__name__}: {error}). It was changed or "
                "damaged; fit the model again and save it.",
                path=path,
                entry=_HEADER,
            ) from error
        return estimator


def _checked_posterior(state: object) -> lfi.Posterior:
    if not isinstance(state, lfi.Posterior):
        raise TypeError(f"its state is a {type(state).__name__}")
    return state


# ---- the classes that a file may name ------------------------------------------------------------------------


def _estimators() -> dict[str, Any]:
    """Return the estimators of decond by name. Names in a file are looked up here and never imported."""
    from decond import estimators as package

    return dict(_classes(package, object))


@functools.cache
def _parts() -> dict[str, type[Kept]]:
    """Return the kernels, feature maps, priors, observations and models of decond, by names like "kernels.RBF"."""
    parts: dict[str, type[Kept]] = {}
    for package in (embeddings, kernels, features, gp, streaming):
        prefix = package.__name__.rpartition(".")[2]
        parts.update((f"{prefix}.{name}", part) for name, part in _classes(package, Kept))
    return parts | {f"lfi.{part.__name__}": part for part in _subclasses(Kept) if _is_of_lfi(part)}


def _subclasses(base: type[Kept]) -> Iterator[type[Kept]]:
    for found in base.__subclasses__():
        yield found
        yield from _subclasses(found)


def _is_of_lfi(found: type) -> bool:
    return f"{found.__module__}.".startswith(f"{lfi.__name__}.") and not inspect.isabstract(found)


def _classes(package: ModuleType, base: type) -> Iterator[tuple[str, type]]:
    """Yield the public classes of a package that can be instantiated."""
    for name in package.__all__:
        value = getattr(package, name)
        if isinstance(value, type) and issubclass(value, base) and not inspect.isabstract(value):
            yield name, value


# ---- versions ------------------------------------------------------------------------------------------------


def _check_format(header: dict[str, Any], path: Path) -> None:
    if header.get("format") != _FORMAT:
        raise ModelFileError(
            f"{path} was made by something else: its header does not say {_FORMAT!r}. Give a file written by "
            "decond.save or `decond fit`.",
            path=path,
        )
    version = header.get("format_version")
    if version != _FORMAT_VERSION or isinstance(version, bool):
        newer = isinstance(version, int) and version > _FORMAT_VERSION
        remedy = "Update decond" if newer else "Load it with the decond that wrote it, or fit the model again"
        raise ModelFileError(
            f"{path} is in format version {version!r}, written by {_writer(header)}; this is decond "
            f"{_versions()['decond']}, which reads format version {_FORMAT_VERSION}. {remedy}.",
            path=path,
            entry=_HEADER,
        )


def _warn_of_other_version(header: dict[str, Any], path: Path) -> None:
    ours, theirs = _versions()["decond"], _version(header)
    if theirs is None or theirs.split(".")[:2] != ours.split(".")[:2]:
        message = (
            f"{path} was written by {_writer(header)} and is read by decond {ours}; predictions may differ in their "
            "last digits."
        )
        warn(VersionWarning(message, path=path, written_by=theirs, read_by=ours))


def _version(header: dict[str, Any]) -> str | None:
    """Return the version of decond that wrote a header, if it says so."""
    versions = header.get("versions")
    version = versions.get("decond") if isinstance(versions, dict) else None
    return version if isinstance(version, str) else None


def _writer(header: dict[str, Any]) -> str:
    version = _version(header)
    return "an unknown decond" if version is None else f"decond {version}"


def _versions() -> dict[str, str]:
    packages = ("decond", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}}


# ---- the zip -------------------------------------------------------------------------------------------------


def _write(path: Path, header: dict[str, Any], arrays: list[NDArray[Any]]) -> None:
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


def _write_zip(stream: IO[bytes], header: dict[str, Any], arrays: list[NDArray[Any]]) -> None:
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_entry(_HEADER), json.dumps(header, indent=1, allow_nan=False))
        for i, array in enumerate(arrays):
            with archive.open(_entry(f"arrays/{i}.npy"), "w", force_zip64=True) as entry:
                npy.write_array(entry, array, version=(1, 0), allow_pickle=False)


def _entry(name: str) -> zipfile.ZipInfo:
    """Return an entry with a fixed date, so that the same model gives the same bytes."""
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.external_attr = 0o644 << 16
    return info


@contextlib.contextmanager
def _open(path: Path) -> Iterator["_Container"]:
    """Open a model file; whatever zipfile finds wrong with it becomes a `ModelFileError`."""
    if not path.exists():
        near = near_files(path, [".decond"], "Give the file that decond.save or `decond fit` wrote.", "model")
        raise FileNotFoundError(f"there is no file {path}{near}")
    if not path.is_file():  # reading a pipe or a device might never end
        raise ModelFileError(
            f"{path} is a folder or a device. Give the file that decond.save or `decond fit` wrote.", path=path
        )
    with path.open("rb") as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                yield _Container(archive, path)
        except ModelFileError:
            raise
        except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, ValueError) as error:
            raise ModelFileError(
                f"{path} is not a decond model, or it is damaged or cut short ({error}). Copy it again, or fit the "
                "model again and save it.",
                path=path,
            ) from error


class _Container:
    """An open model file: its `header`, and its arrays by number."""

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self.archive, self.path = archive, path
        self.n_bytes = path.stat().st_size
        self._left = LoadSettings.repeats * self.n_bytes
        self._check_entries()
        self.header = self._read_header()

    def array(self, index: object) -> NDArray[Any]:
        """Return one array; never unpickles, never allocates more than the file holds."""
        name = f"arrays/{index}.npy"
        entry = self.archive.NameToInfo.get(name) if type(index) is int else None
        if entry is None:
            raise self._error(f"its header refers to array {index!r}, which is not there", _HEADER)
        self._left -= entry.file_size
        if self._left < 0:
            raise self._error("its header repeats its arrays too often", _HEADER)
        try:
            return _array(self.archive.read(entry))
        except (OverflowError, SyntaxError, TokenError, TypeError, ValueError) as error:
            raise self._error(f"{name} is not a plain array: {error}", name) from error

    def _read_header(self) -> dict[str, Any]:
        content = self.archive.read(_HEADER)
        if content.count(b"[") + content.count(b"{") > LoadSettings.containers:
            raise self._error(f"its header has more than {LoadSettings.containers} lists and objects", _HEADER)
        try:
            header = json.loads(content, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise self._error(f"its header cannot be read: {error}", _HEADER) from error
        if not isinstance(header, dict):
            raise self._error("its header is not a JSON object", _HEADER)
        return header

    def _check_entries(self) -> None:
        """Refuse what we never write: other or repeated names, compression, encryption, more bytes than there are."""
        entries = self.archive.infolist()
        names = [entry.filename for entry in entries]
        if _HEADER not in names:
            raise self._error(f"it is a zip without {_HEADER}")
        known = {_HEADER, *(f"arrays/{i}.npy" for i in range(len(names)))}
        if len(set(names)) < len(names):
            repeated = Counter(names).most_common(1)[0][0]
            raise self._error(f"more than one of its entries is called {repeated!r}", repeated)
        for entry in entries:
            if entry.filename not in known:
                raise self._error(f"it has an unexpected entry {entry.filename!r}", entry.filename)
            is_encrypted = bool(entry.flag_bits & 0x1)
            if entry.compress_type != zipfile.ZIP_STORED or is_encrypted:
                raise self._error(f"its entry {entry.filename!r} is compressed or encrypted", entry.filename)
        if sum(entry.file_size for entry in entries) > self.n_bytes:
            raise self._error("its entries claim more bytes than the file has")

    def _error(self, what: str, entry: str | None = None) -> ModelFileError:
        return ModelFileError(
            f"{self.path} is not a decond model, or was changed: {what}. Give a file written by decond.save or "
            "`decond fit`.",
            path=self.path,
            entry=entry,
        )


def _array(content: bytes) -> NDArray[Any]:
    """Return the array in the bytes of an npy file of version 1.0, checked before anything is allocated."""
    stream = BytesIO(content)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("another version of the npy format")
    shape, fortran, dtype = npy.read_array_header_1_0(stream)
    if dtype.hasobject or dtype.names is not None or dtype.kind not in _ARRAY_KINDS:
        raise ValueError(f"it holds {dtype}, and only numbers and text are read (never pickled objects)")
    size = dtype.itemsize * math.prod(shape)
    if min(shape, default=0) < 0 or max(shape, default=0) > len(content) or size != len(content) - stream.tell():
        raise ValueError(f"its shape {shape} does not fit its {len(content) - stream.tell()} bytes")
    flat = np.frombuffer(content, dtype, math.prod(shape), stream.tell()) if size else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if fortran else "C").copy("K")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


# ---- the tree ------------------------------------------------------------------------------------------------


class _Encoder:
    """Turns states into JSON trees and collects their arrays.

    >>> encoder = _Encoder()
    >>> encoder.encode({"weights": np.zeros((2, 1)), "noise": 0.5}, "model")
    {'weights': {'$array': 0, 'dtype': '<f8', 'shape': [2, 1]}, 'noise': 0.5}
    >>> len(encoder.arrays)
    1
    """

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._names = {cls: name for name, cls in _parts().items()}
        self._seen: dict[object, int] = {}

    def encode(self, value: object, path: str) -> Any:
        """Return a JSON tree.

        Parameters
        ----------
        value : object
            A state, or part of one.
        path : str
            Where in the model it is, for messages.
        """
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if isinstance(value, list | tuple) and type(value) in (list, tuple):
            items = [self.encode(item, f"{path}[{i}]") for i, item in enumerate(value)]
            return items if type(value) is list else {"$tuple": items}
        if type(value) is dict:
            if all(type(key) is str and not key.startswith("$") for key in value):
                return {key: self.encode(item, f"{path}.{key}") for key, item in value.items()}
            pairs = [(self.encode(key, path), self.encode(item, f"{path}[{key!r}]")) for key, item in value.items()]
            return {"$dict": [list(pair) for pair in pairs]}
        if type(value) is np.ndarray:
            return self._array(value, path)
        if isinstance(value, Kept):
            return self._part(value, path)
        raise ArgumentTypeError(
            path,
            f"{path} is a {type(value).__name__}, which cannot be saved; numbers, text, lists, dicts, NumPy arrays "
            "and decond's own kernels can. Give the estimator one of these (for a table, its .to_numpy()).",
        )

    def _array(self, value: NDArray[Any], path: str) -> dict[str, Any]:
        if value.dtype.kind == "O":
            items = [self.encode(item, path) for item in value.ravel().tolist()]
            return {"$labels": items, "shape": list(value.shape)}
        if value.dtype.kind not in _ARRAY_KINDS or value.dtype.names is not None:
            raise ArgumentTypeError(
                path, f"{path} is an array of {value.dtype}, which cannot be saved. Convert it to numbers or text."
            )
        content = hashlib.sha256(value.tobytes()).digest()  # equal arrays are stored once
        key = (value.dtype.str, value.shape, np.isfortran(value), content)
        index = self._seen.setdefault(key, len(self.arrays))
        if index == len(self.arrays):
            self.arrays.append(value)
        return {"$array": index, "dtype": value.dtype.str, "shape": list(value.shape)}

    def _part(self, value: Any, path: str) -> dict[str, Any]:
        name = self._names.get(type(value))
        if name is None:
            raise ArgumentTypeError(
                path,
                f"{path} is a {type(value).__name__}, a class of your own, and a model file can hold only decond's "
                "own kernels and features: loading never runs code that a file names. Compose the kernel from "
                "decond.kernels, or keep a script that fits the model again.",
            )
        fields = {key: self.encode(item, f"{path}.{key}") for key, item in value._fields().items()}
        return {"$class": name, "fields": fields}


class _Decoder:
    """Turns JSON trees back into states; `array` returns the array with a given number, a new one each time.

    Whole numbers of parts say how large something is, such as the number of random features. Where parts nest, they
    multiply, and their product may be `largest` at most.

    >>> _Decoder([np.ones(3)].__getitem__).decode({"$tuple": [{"$array": 0, "dtype": "<f8", "shape": [3]}, None]})
    (array([1., 1., 1.]), None)
    """

    def __init__(self, array: Callable[[int], NDArray[Any]], largest: int = LoadSettings.size) -> None:
        self.array, self._allowed = array, float(largest)
        self._made: dict[str, Any] = {}
        self._tagged: dict[str, Callable[[dict[str, Any]], Any]] = {
            "$array": self._array,
            "$labels": self._labels,
            "$tuple": lambda tree: tuple(self.decode(item) for item in tree["$tuple"]),
            "$dict": lambda tree: {self.decode(key): self.decode(item) for key, item in tree["$dict"]},
            "$float": lambda tree: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[tree["$float"]],
            "$class": self._part,
        }

    def decode(self, tree: object) -> Any:
        """Return what `_Encoder.encode` was given."""
        if isinstance(tree, list):
            return [self.decode(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        tag = next((key for key in tree if key.startswith("$")), None)
        if tag is None:
            return {key: self.decode(item) for key, item in tree.items()}
        if tag not in self._tagged:
            raise ModelFileError(
                f"the header of the model file has an unknown mark {tag!r}; the file was changed.", entry=_HEADER
            )
        return self._tagged[tag](tree)

    def _array(self, tree: dict[str, Any]) -> NDArray[Any]:
        array = self.array(tree["$array"])
        if array.dtype.str != tree["dtype"] or list(array.shape) != tree["shape"]:
            raise ModelFileError(
                f"array {tree['$array']} of the model file is {array.dtype.str} of shape {list(array.shape)}, but "
                f"the header says {tree['dtype']} of shape {tree['shape']}; the file was changed or damaged.",
                entry=f"arrays/{tree['$array']}.npy",
            )
        return array

    def _labels(self, tree: dict[str, Any]) -> NDArray[Any]:
        labels = np.empty(len(tree["$labels"]), dtype=object)
        for i, item in enumerate(tree["$labels"]):
            labels[i] = self.decode(item)
        return labels.reshape(tree["shape"])

    def _part(self, tree: dict[str, Any]) -> Any:
        name = tree["$class"]
        if not isinstance(name, str) or name not in _parts():
            raise ModelFileError(
                f"the model file names {name!r}, which is not a kernel, feature map, prior or observation of this "
                "decond. The file was changed, or written by a newer decond.",
                entry=_HEADER,
            )
        key = json.dumps(tree, sort_keys=True)  # what several parts share is made once
        if key not in self._made:
            fields, part = tree["fields"], _parts()[name]
            if issubclass(part, Parametrized):
                self._made[key] = self._module(name, fields)
            else:
                self._made[key] = part._restored(**{field: self.decode(item) for field, item in fields.items()})
        return self._made[key]

    def _module(self, name: str, fields: dict[str, Any]) -> Any:
        outside = self._allowed
        self._allowed /= math.prod(max(1, abs(v)) for key, v in fields.items() if type(v) is int and key != "seed")
        if self._allowed < 1.0:
            raise ModelFileError(
                f"the model file asks for a {name} of a size that its bytes do not back up; it was changed.",
                entry=_HEADER,
            )
        part: Any = _parts()[name](**{key: self.decode(item) for key, item in fields.items()})
        self._allowed = outside
        for field in dataclasses.fields(part):
            _check_modules(getattr(part, field.name), field, name)
        return part


def _check_modules(value: Any, field: dataclasses.Field, name: str) -> None:
    """Raise unless a field that is declared to hold kernels or feature maps does."""
    several = typing.get_args(field.type)[:1]
    declared = several[0] if several else field.type
    if isinstance(declared, type) and issubclass(declared, Parametrized):
        for item in value if several else (value,):
            if not isinstance(item, declared):
                raise ModelFileError(
                    f"the model file has a {type(item).__name__} as {field.name} of {name}; it was changed.",
                    entry=_HEADER,
                )
