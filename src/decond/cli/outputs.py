"""Where commands write: no file of the user is lost, and what takes the place of an earlier file is said."""

import contextlib
import datetime
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from decond.cli.console import console
from decond.errors import ArgumentError
from decond.tables.columns import as_name

__all__ = [
    "as_dict",
    "check_draws",
    "check_folder",
    "check_model",
    "check_picture",
    "check_predictions",
    "check_report",
    "check_unread",
    "columns_of",
    "is_model",
    "is_picture",
    "is_report",
    "json_in",
    "make_folder",
    "say_wrote",
    "times_of",
]

TABLES = (".csv", ".tsv", ".gz", ".parquet", ".pq")
PAGES = (".html", ".htm")
SIGN_OF_REPORT = b'<meta name="generator" content="decond '
"""What stands near the beginning of every report."""


# ---- what may be written to ----------------------------------------------------------------------------------


def make_folder(folder: Path) -> None:
    """Make a folder for what a command writes, or say why that cannot be."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file. Give a folder: --output some-folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{folder} cannot be made: {error.strerror}. Give another folder with --output.") from None


def check_unread(written: Iterable[Path | None], read: Iterable[Path | None]) -> None:
    """Raise if a command would write onto a file that it reads."""
    sources = {path.resolve() for path in read if path is not None}
    for path in written:
        if path is not None and path.resolve() in sources:
            raise ValueError(f"{path} is read by this command, and would be lost. Give the output another name.")


def check_folder(folder: Path, files: Mapping[str, Callable[[Path], bool]], kind: str) -> None:
    """Raise unless files can be written into a folder, onto nothing but their kind; nothing is left there.

    `files` has for each name how its kind is known.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    make_folder(folder)
    try:
        for name, is_own in files.items():
            _check_place(folder / name, is_own, kind, "--output")
    finally:
        for place in missing:
            place.rmdir()


def check_model(path: Path) -> None:
    """Raise unless a model can be written there, onto nothing but a model."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Give a file: --output {path / 'model.decond'}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist. Make it first, or give another place.")
    named = path.with_suffix(".decond")
    if path.suffix == ".png":
        raise ArgumentError("--output", f"{path} would be the picture's place. Call the model {named}.")
    for kind, suffixes, writer in (("table", TABLES, "decond predict"), ("page", PAGES, "--report")):
        if path.suffix.lower() in suffixes:
            raise ArgumentError(
                "--output",
                f"--output is {path}, and a model is not a {kind}: {writer} writes one. Call it {named}.",
            )
    _check_place(path, is_model, "a model of decond", "--output")
    with _refused_if_not_written(path, "--output"), tempfile.NamedTemporaryFile(dir=path.resolve().parent):
        pass  # a model is written beside its place first


def check_picture(path: Path) -> None:
    """Raise if a picture, whose place nobody named, cannot be written, or not onto a file that decond drew."""
    if path.exists() and not is_picture(path):
        raise ArgumentError(
            "--output",
            f"a picture goes beside the output, and {path} is there already, not drawn by decond. Move it, or give "
            "another --output.",
        )
    _check_writable(path, "--output")


def check_report(path: Path | None) -> None:
    """Raise unless a report can be written there, onto nothing but a report."""
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Give a file: --report {path / 'report.html'}")
    if path.suffix.lower() not in PAGES:
        raise ArgumentError(
            "--report", f"--report is {path}; a report is a page. Call it {path.with_suffix('.html')}."
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist. Make it first, or give another place.")
    _check_place(path, is_report, "a report of decond", "--report")


def check_draws(path: Path, picture: Path, names: Sequence[str]) -> None:
    """Raise unless draws of a posterior can be written there, onto nothing but draws.

    These are known by their number, by the names of the parameters, and by the picture beside them.
    """
    from decond.lfi import Posterior

    def are_draws(path: Path) -> bool:
        return is_picture(picture) and _shape(path) == ([as_name(name) for name in names], Posterior.n_draws)

    _check_place(path, are_draws, "draws that decond infer wrote", "--output")


def check_predictions(path: Path, columns: Sequence[str], table: str) -> None:
    """Raise unless predictions for a table can be written there, onto nothing but a table with the same columns."""
    kind = f"what decond predict writes for {table}"
    _check_place(path, lambda path: columns_of(path) == list(columns), kind, "--output")


def _check_place(path: Path, is_own: Callable[[Path], bool], kind: str, option: str) -> None:
    """Raise if a file cannot be written, or if one is there, with something in it, that is not of our kind."""
    _check_writable(path, option)
    if path.exists() and path.stat().st_size > 0 and not is_own(path):
        raise FileExistsError(
            f"{path} is there already, and it is not {kind}: it would be lost. Move or delete it, or give another "
            f"{option}."
        )


def _check_writable(path: Path, option: str) -> None:
    """Open a file as it will be opened later, and leave everything as it was."""
    target = path.resolve()
    existed = target.exists()
    with _refused_if_not_written(path, option), target.open("ab"):
        pass
    if not existed:
        target.unlink()


@contextlib.contextmanager
def _refused_if_not_written(path: Path, option: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(
            f"{path} cannot be written: {error.strerror}. Make its place writable, or give another {option}."
        ) from None


# ---- what a file is known by ---------------------------------------------------------------------------------


def is_model(path: Path) -> bool:
    """Tell whether a file is a model of decond, by its header."""
    from decond.io import FORMAT, ModelFileError
    from decond.io.container import read

    try:
        with read(path) as container:
            return bool(container.header.get("format") == FORMAT)
    except (ModelFileError, OSError):
        return False


def is_report(path: Path) -> bool:
    """Tell whether a file is a report of decond."""
    with path.open("rb") as file:
        return SIGN_OF_REPORT in file.read(2000)


def is_picture(path: Path) -> bool:
    """Tell whether a file is a PNG that decond drew."""
    from decond.plotting.figures import is_drawn_here

    return is_drawn_here(path)


def json_in(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty one of what is none."""
    with contextlib.suppress(OSError, ValueError):
        return as_dict(json.loads(path.read_text(encoding="utf-8")))
    return {}


def as_dict(found: Any) -> dict[str, Any]:
    """Return what JSON had if it is an object, or else an empty one."""
    return found if isinstance(found, dict) else {}


def columns_of(path: Path) -> list[str]:
    """Return the columns of a table; none of what is no table."""
    return _shape(path)[0]


def _shape(path: Path) -> tuple[list[str], int]:
    """Return the columns of a table and how many rows it has; nothing of what is no table."""
    from decond.tables import TableError, read_table

    with contextlib.suppress(TableError, OSError):
        table = read_table(path)
        return [str(name) for name in table.frame.columns], len(table)
    return [], 0


# ---- what was written ----------------------------------------------------------------------------------------


def times_of(paths: Iterable[Path | None]) -> dict[Path, str]:
    """Return when those files that exist were written last: the time, with the date if that is not today's.

    >>> import os, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "model.decond"
    >>> path.touch()
    >>> os.utime(path, (datetime.datetime(2024, 5, 17, 15, 2).timestamp(),) * 2)
    >>> list(times_of([path, path.with_name("new.decond"), None]).values())
    ['2024-05-17 15:02']
    """
    found = {path: path.stat().st_mtime for path in paths if path is not None and path.is_file()}
    moments = {path: datetime.datetime.fromtimestamp(seconds) for path, seconds in found.items()}
    today = datetime.datetime.now().date()
    return {path: f"{at:%H:%M}" if at.date() == today else f"{at:%Y-%m-%d %H:%M}" for path, at in moments.items()}


def say_wrote(*paths: Path | None, before: Mapping[Path, Any] | None = None) -> None:
    """Name the files that were written, and those that were there `before`, with their times."""
    for path in (path for path in paths if path is not None):
        time = (before or {}).get(path)
        console.print(Text(f"wrote {path}" if time is None else f"replaced {path} of {time}"), soft_wrap=True)
