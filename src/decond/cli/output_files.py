"""Files that commands write: refused before any work if something is there already or cannot be written."""

from collections.abc import Iterable
from pathlib import Path

__all__ = ["check_folder", "check_outputs"]


def check_outputs(written: Iterable[Path | None], force: bool, read: Iterable[Path | None] = ()) -> None:
    """Raise unless all files can be written, and none is lost.

    Parameters
    ----------
    written : iterable of Path or None
        The files that a command writes; None for one that is not asked for.
    force : bool
        Whether files that exist may be overwritten.
    read : iterable of Path or None
        Files that the command reads; they are never overwritten.
    """
    sources = {path.resolve() for path in read if path is not None}
    for path in written:
        if path is None:
            continue
        if path.resolve() in sources:
            raise ValueError(f"{path} is read by this command and would be lost. Give the output another name.")
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder. Give the name of a file.")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"the folder {path.parent} does not exist. Make it first, or give another place.")
        if path.exists() and not force:
            raise FileExistsError(f"{path} exists already. Add --force to overwrite it, or another name.")
        _check_writable(path)


def check_folder(folder: Path, names: Iterable[str], force: bool) -> list[Path]:
    """Make a folder, and return the paths of files in it; raise unless all can be written.

    Parameters
    ----------
    folder : Path
        Made if it does not exist.
    names : iterable of str
        The files that a command writes there.
    force : bool
        Whether files that exist may be overwritten.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{folder} cannot be made: {error.strerror}. Give another folder with --output.") from None
    paths = [folder / name for name in names]
    check_outputs(paths, force)
    return paths


def _check_writable(path: Path) -> None:
    """Open a file as it will be opened later, and leave everything as it was."""
    target = path.resolve()
    existed = target.exists()
    try:
        with target.open("ab"):
            pass
    except OSError as error:
        raise OSError(f"{path} cannot be written: {error.strerror}. Give the output another name.") from None
    if not existed:
        target.unlink()
