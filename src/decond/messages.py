"""Warnings that point at the line of the caller, and hints about files that do not exist."""

import difflib
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

__all__ = ["near_files", "warn"]


def near_files(path: Path, suffixes: Sequence[str], otherwise: str, kind: str = "table") -> str:
    """Return the end of a message about a missing file: which one was probably meant, or which are beside it.

    Parameters
    ----------
    path : Path
        The file that is missing.
    suffixes : sequence of str
        Those of files that could be meant.
    otherwise : str
        What to do where there are none.
    kind : str
        What such a file is called.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "power.decond").touch()
    >>> near_files(folder / "powre.decond", [".decond"], "Give a model.").startswith("; did you mean")
    True
    >>> near_files(folder / "wind.decond", [".decond"], "Give a model.")
    '. Its folder has power.decond.'
    """
    if not path.parent.is_dir():
        return f": there is no folder {path.parent}."
    found = sorted(file.name for file in path.parent.iterdir() if file.name.lower().endswith(tuple(suffixes)))
    stems = {name.partition(".")[0]: name for name in reversed(found)}  # all suffixes are alike
    meant = difflib.get_close_matches(path.name.partition(".")[0], stems, n=1)
    if meant:
        return f"; did you mean {path.parent / stems[meant[0]]}?"
    if not found:
        return f", nor any other {kind} in its folder. {otherwise}"
    return f". Its folder has {', '.join(found[:8])}{', …' if len(found) > 8 else ''}."


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn, and point at the line that called decond, however deep below it the reason was found.

    Parameters
    ----------
    message : str or Warning
        A warning that has attributes is given as an object.
    category : type of Warning
        The class of a message that is text.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("few rows", UserWarning)
    >>> str(caught[0].message)
    'few rows'
    """
    level = outermost = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        level += 1
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        decorates_ours = package == "contextlib" and outermost == level - 1
        if package == "decond" or decorates_ours:
            outermost = level
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=outermost + 1)
