"""Numbers in the words of a verdict."""

from collections.abc import Sequence

__all__ = ["listed", "p_value", "percent", "times"]

MAX_LISTED = 4
"""Names that a sentence lists at most."""


def percent(share: float) -> str:
    """Return a share as per cent, with two digits where it is small.

    >>> percent(0.996), percent(0.0449)
    ('100 %', '4.5 %')
    """
    value = 100.0 * share
    return f"{value:.0f} %" if value >= 9.95 else f"{value:.2g} %"


def p_value(value: float) -> str:
    """Return a p-value with its sign of equality; those below 0.001 need no digits."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def times(values: Sequence[float]) -> str:
    """Return the range of some numbers with two digits.

    >>> times([1.234, 1.5]), times([0.5])
    ('1.2 to 1.5', '0.5')
    """
    low, high = (f"{value:.0f}" if value >= 9.95 else f"{value:.2g}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def listed(names: Sequence[str]) -> str:
    """Return names in a list, cut short where it is long.

    >>> listed(["a", "b", "c"]), listed(list("abcdef"))
    ('a, b and c', 'a, b, c and 3 others')
    """
    if len(names) == 1:
        return names[0]
    if len(names) <= MAX_LISTED:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{', '.join(names[: MAX_LISTED - 1])} and {len(names) - MAX_LISTED + 1} others"
