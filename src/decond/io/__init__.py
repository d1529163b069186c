"""Fitted models as files: arrays plus a JSON header, never pickle.

A model file is an uncompressed zip with ``header.json`` (what it is, who wrote it, the model as a tree) and
``arrays/0.npy``, ``arrays/1.npy``, … (plain NumPy arrays). Reading one builds only classes of decond, through
their constructors with all checks; nothing in a file can be executed.

Which versions can be read: the *format* decides. Another format is an error that says which decond to use. The
same format written by another minor version of decond is read, with a `VersionWarning`, because predictions may
then differ in their last digits.
"""

import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from decond.errors import ArgumentTypeError
from decond.io import registry
from decond.io.container import HEADER, ModelFileError, read, write
from decond.io.tree import Decoder, Encoder
from decond.messages import warn

__all__ = ["ModelFileError", "VersionWarning", "load", "save"]

FORMAT = "decond model"
FORMAT_VERSION = 1


class VersionWarning(UserWarning):
    """A model file was written by another minor version of decond.

    Attributes:
        path: The file.
        written_by: The version of decond that wrote it; None if the file does not say it.
        read_by: The version of this decond.
    """

    def __init__(
        self, message: str, *, path: Path | None = None, written_by: str | None = None, read_by: str | None = None
    ) -> None:
        super().__init__(message)
        self.path, self.written_by, self.read_by = path, written_by, read_by


def save(estimator: Any, path: Any) -> None:
    """Write a fitted estimator to one file; ``.decond`` is the usual suffix.

    The file appears whole or not at all: it is written beside its place and then moved there. The same model gives
    the same bytes.

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
    known = registry.estimators()
    name = type(estimator).__name__
    if known.get(name) is not type(estimator):
        raise ArgumentTypeError(
            "estimator",
            f"{name} cannot be saved; save takes a fitted estimator of decond: {', '.join(sorted(known))}. Save the "
            "estimator itself, not a subclass or a pipeline around it.",
        )
    check_is_fitted(estimator)
    encoder = Encoder()
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "versions": _versions(),
        "class": name,
        "params": encoder.encode(estimator.get_params(deep=False), name),
        "state": encoder.encode(estimator._fitted_state(), name),
    }
    write(Path(path), header, encoder.arrays)


def load(path: Any) -> Any:
    """Return the fitted estimator in a file; its predictions are those of the one that was saved, bit for bit.

    A file that is damaged, of another format, or made by something else raises `ModelFileError`.

    >>> import tempfile
    >>> from decond.estimators import DirectGP
    >>> from decond.kernels import RBF
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(DirectGP(RBF(1.0), optimize=False).fit([[0.0], [1.0]], [1.0, 2.0]), folder + "/gp.decond")
    ...     load(folder + "/gp.decond").predict([[0.0]]).round(1)
    array([1.])
    """
    path = Path(path)
    with read(path) as container:
        header = container.header
        _check_format(header, path)
        known, name = registry.estimators(), header.get("class")
        if not isinstance(name, str) or name not in known:
            raise ModelFileError(
                f"{path} holds a {name!r}, which this decond does not know; it knows "
                f"{', '.join(sorted(known))}. Load it with the decond that wrote it ({_writer(header)}).",
                path=path,
                entry=HEADER,
                written_by=_version(header),
            )
        _warn_of_other_version(header, path)
        return _rebuild(known[name], header, Decoder(container.array), path)


def _rebuild(cls: Any, header: dict[str, Any], decoder: Decoder, path: Path) -> Any:
    """Return the estimator that a header describes; whatever is wrong with the description is the file's fault."""
    try:
        estimator = cls(**decoder.decode(header["params"]))
        estimator._restore(decoder.decode(header["state"]))
    except ModelFileError as error:
        error.path = path
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path} does not describe a fitted {cls.__name__} ({type(error).__name__}: {error}). It was changed or "
            "damaged; fit the model again and save it.",
            path=path,
            entry=HEADER,
        ) from error
    return estimator


def _check_format(header: dict[str, Any], path: Path) -> None:
    if header.get("format") != FORMAT:
        raise ModelFileError(
            f"{path} was made by something else: its header does not say {FORMAT!r}. Give a file written by "
            "decond.save or `decond fit`.",
            path=path,
        )
    version = header.get("format_version")
    if version != FORMAT_VERSION or isinstance(version, bool):
        newer = isinstance(version, int) and version > FORMAT_VERSION
        remedy = "Update decond" if newer else "Load it with the decond that wrote it, or fit the model again"
        raise ModelFileError(
            f"{path} is in format version {version!r}, written by {_writer(header)}; this is decond "
            f"{_versions()['decond']}, which reads format version {FORMAT_VERSION}. {remedy}.",
            path=path,
            entry=HEADER,
            format_version=version,
            written_by=_version(header),
        )


def _warn_of_other_version(header: dict[str, Any], path: Path) -> None:
    ours, theirs = _versions()["decond"], _version(header)
    if theirs is None or theirs.split(".")[:2] != ours.split(".")[:2]:
        warn(
            VersionWarning(
                f"{path} was written by {_writer(header)} and is read by decond {ours}; predictions may differ in "
                "their last digits.",
                path=path,
                written_by=theirs,
                read_by=ours,
            )
        )


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
