"""Tables that are read in blocks of rows."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from decond.checks import as_rows, as_targets

__all__ = ["Blocks", "Table", "pieces"]


class Blocks(Protocol):
    """Pairs (rows, targets), block by block: (b, d) and (b,) or (b, t), blocks of any size.

    A gradient takes two passes, so every ``iter`` has to start over; a list does, a generator does not.
    """

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Start a pass over the rows."""


class Table:
    """A table in memory, checked once: rows x (m, d) and targets z, (m,) or (m, t).

    >>> [(rows.shape, targets.shape) for rows, targets in Table([[0.0], [1.0]], [2.0, 3.0])]
    [((2, 1), (2,))]
    """

    def __init__(self, x: Any, z: Any, *, labels: bool = False) -> None:
        self.x = as_rows(x, "x", labels=labels)
        self.z = as_targets(z, "z", len(self.x), "x")

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the whole table: whoever reads it cuts it to size."""
        yield self.x, self.z

    def __len__(self) -> int:
        return len(self.x)


def pieces(blocks: Blocks, height: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows (b, d) and targets (b, t) with b up to `height`, as views where that is possible."""
    if iter(blocks) is blocks:
        raise TypeError(
            f"the blocks come from a {type(blocks).__name__}, which can be read only once; learning reads them again "
            "and again. Give a list of (rows, targets), or an object whose __iter__ starts over."
        )
    for rows, targets in blocks:
        for start in range(0, len(rows), height):
            z = np.asarray(targets[start : start + height], dtype=np.float64)
            yield rows[start : start + height], z[:, None] if z.ndim == 1 else z
