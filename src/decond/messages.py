"""What is said to people: warnings that point at the caller, numbers and names in words, cards of notebooks."""

import difflib
import html
import math
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["card", "listed", "near_files", "number", "percent", "printable", "warn"]


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
    if isinstance(message, str):
        message = printable(message)
    warnings.warn(message, category, stacklevel=outermost + 1)


def printable(text: str) -> str:
    r"""Return text that only says something to a terminal: control characters are written out, except line feeds.

    Names in files may hold any character, and a terminal obeys some of them.

    >>> printable("\x1b[31mwind\tin m/s")
    '\\x1b[31mwind\tin m/s'
    """
    if text.isprintable():
        return text
    hidden = {sign for sign in text if sign not in "\n\t" and unicodedata.category(sign) in ("Cc", "Cs")}
    return text.translate({ord(sign): sign.encode("unicode_escape").decode() for sign in hidden})


def number(value: ArrayLike, digits: int = 4, span: float = 0.0) -> str:
    """Return a number, or the first few of several, in few digits; no exponent where it is of ordinary size.

    Parameters
    ----------
    value : number, array_like or str
        Texts are returned as they are.
    digits : int
        Significant digits.
    span : float
        With it, there are digits enough to distinguish numbers that lie so far from each other.

    Returns
    -------
    str

    Examples
    --------
    >>> number(0.123456), number([1.0, 2.5]), number("text"), number(1234567.0), number(120000.0), number(3.2e-7)
    ('0.1235', '1, 2.5', 'text', '1.235e+06', '120000', '3.2e-07')
    >>> number(1.7e9 + 1800.0), number(1.7e9 + 1800.0, span=3600.0), number(float("nan"))
    ('1.7e+09', '1700001800', '–')
    """
    if isinstance(value, str | bool) or np.asarray(value).dtype.kind not in "iuf":
        return str(value)
    values = np.ravel(value)
    words = ", ".join(_in_digits(float(item), digits, span) for item in values[:6])
    return words if len(values) <= 6 else f"{words}, … ({len(values)})"


def card(title: str, words: str = "", table: "pd.DataFrame | None" = None, said: Iterable[str] = ()) -> str:
    """Return a title, a table and sentences as HTML, for notebooks; every text is escaped.

    Parameters
    ----------
    title, words : str
        The words follow the title.
    table : DataFrame, optional
    said : iterable of str
        Sentences, as a list below the table.

    Returns
    -------
    str

    Examples
    --------
    >>> card("Posterior", "of 2 <parameters>", said=["fine"]).count("&lt;parameters&gt;")
    1
    """
    import pandas as pd

    with pd.option_context("display.max_colwidth", None):
        cells = "" if table is None else table.to_html(float_format=number, na_rep="–", border=0)
    items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in said)
    notes = f"<ul>{items}</ul>" if items else ""
    return f"<div><strong>{html.escape(title)}</strong> {html.escape(words)}{cells}{notes}</div>"


def _in_digits(value: float, digits: int, span: float) -> str:
    if not math.isfinite(value):
        return "–" if math.isnan(value) else str(value)
    if value == 0.0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if 0.0 < span < abs(value):
        digits = min(15, digits + size - math.floor(math.log10(span)))
    if not -4 <= size < 6:
        return f"{value:.{digits}g}"
    text = f"{value:.{max(0, digits - 1 - size)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float) -> str:
    """Return a share as per cent, with two digits where it is small.

    >>> percent(0.996), percent(0.0449)
    ('100 %', '4.5 %')
    """
    value = 100.0 * share
    return f"{value:.0f} %" if value >= 9.95 else f"{value:.2g} %"


def listed(names: Sequence[str]) -> str:
    """Return names in a list, cut short where it is long.

    >>> listed(["a", "b", "c"]), listed(list("abcdef"))
    ('a, b and c', 'a, b, c and 3 others')
    """
    if len(names) > 4:
        names = [*names[:3], f"{len(names) - 3} others"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
