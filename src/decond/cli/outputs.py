"""Where commands write: no file of the user is lost, and what takes the place of an earlier file is said."""

import contextlib
import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from decond.cli.console import console

__all__ = [
    "check_draws",
    "check_model",
    "check_picture",
    "check_predictions",
    "check_report",
    "check_unread",
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


def check_model(path: Path) -> None:
    """Raise unless a model can be written there, onto nothing but a model."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Give a file: --output {path / 'model.decond'}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist. Make it first, or give another place.")
    named = path.with_suffix(".decond")
    if path.suffix == ".png":
        raise ValueError(f"{path} would be the picture's place. Call the model {named}.")
    for kind, suffixes, writer in (("table", TABLES, "decond predict"), ("page", PAGES, "--report")):
        if path.suffix.lower() in suffixes:
            raise ValueError(f"--output is {path}, and a model is no {kind}: {writer} writes one. Call it {named}.")
    _check_own(path, _is_model, "a model of decond", "--output")


def check_picture(path: Path) -> None:
    """Raise if a picture, whose place nobody named, would take that of a file which decond did not draw."""
    from decond.plotting.figures import is_drawn_here

    if path.exists() and not is_drawn_here(path):
        raise ValueError(
            f"a picture goes beside the output, and {path} is there already, not drawn by decond. Move it, or give "
            "another --output."
        )


def check_report(path: Path | None) -> None:
    """Raise unless a report can be written there, onto nothing but a report."""
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Give a file: --report {path / 'report.html'}")
    if path.suffix.lower() not in PAGES:
        raise ValueError(f"--report is {path}; a report is a page. Call it {path.with_suffix('.html')}.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist. Make it first, or give another place.")
    try:
        _try_to_write(path)
    except OSError as error:
        raise OSError(f"--report is {path}, which cannot be written: {error.strerror}. Give another place.") from None
    _check_own(path, _is_report, "a report of decond", "--report")


def check_draws(path: Path, picture: Path, names: Sequence[str]) -> None:
    """Raise if draws of a posterior would take the place of anything but draws.

    These are known by their number, and by the names of the parameters or by the picture beside them.
    """
    from decond.lfi.posterior import DRAWS
    from decond.plotting.figures import is_drawn_here

    def are_draws(path: Path) -> bool:
        columns, rows = _shape(path)
        return rows == DRAWS and (columns == list(names) or is_drawn_here(picture))

    _check_own(path, are_draws, "draws that decond infer wrote", "--output")


def check_predictions(path: Path, x: Sequence[str], added: Sequence[str]) -> None:
    """Raise if predictions would take the place of anything but a table with columns x, and those added last."""

    def are_predictions(path: Path) -> bool:
        columns, _ = _shape(path)
        last = [name for name in columns if name in added]
        return bool(last) and columns[-len(last) :] == list(added[: len(last)]) and set(x) <= set(columns)

    _check_own(path, are_predictions, "a table that decond predict wrote", "--output")


def _check_own(path: Path, is_own: Callable[[Path], bool], kind: str, option: str) -> None:
    """Raise if a file is there, with something in it, that is not of our kind."""
    if path.exists() and path.stat().st_size > 0 and not is_own(path):
        raise FileExistsError(
            f"{path} is there already, and it is not {kind}: it would be lost. Move or delete it, or give another "
            f"{option}."
        )


def _is_model(path: Path) -> bool:
    from decond.io import FORMAT, ModelFileError
    from decond.io.container import read

    try:
        with read(path) as container:
            return bool(container.header.get("format") == FORMAT)
    except (ModelFileError, OSError):
        return False


def _is_report(path: Path) -> bool:
    with path.open("rb") as file:
        return SIGN_OF_REPORT in file.read(2000)


def _shape(path: Path) -> tuple[list[str], int]:
    """Return the columns of a table and how many rows it has; nothing of what is no table."""
    from decond.tables import TableError, read_table

    with contextlib.suppress(TableError, OSError):
        table = read_table(path)
        return [str(name) for name in table.frame.columns], len(table)
    return [], 0


def _try_to_write(path: Path) -> None:
    """Open a file as it will be opened later, and leave everything as it was."""
    existed = path.exists()
    with path.open("ab"):
        pass
    if not existed:
        path.unlink()


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
