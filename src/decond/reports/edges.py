"""Learned numbers on the edge of their range: what that means, in the same words wherever it is said."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from decond.estimators.defaults import deviation_of

__all__ = ["Edge", "edges"]

NOTHING = 0.01
"""Noises up to this share of the scatter of the targets are next to nothing."""


@dataclass(frozen=True)
class Edge:
    """A learned number on the edge of its range; it is `harmless` if it is a noise that is next to nothing."""

    name: str
    harmless: bool
    sentence: str


def edges(result: Any, targets: Any) -> list[Edge]:
    """Return the learned numbers of a `FitResult` that are on the edge of their range, one for each name.

    >>> import numpy as np
    >>> from decond.estimators import DirectGP
    >>> x = np.linspace(0.0, 9.0, 20)
    >>> gp = DirectGP(n_restarts=0, uncertainty="plain").fit(x[:, None], np.sin(x))
    >>> [(edge.name, edge.harmless) for edge in edges(gp.fit_result_, np.sin(x))]
    [('noise', True)]
    """
    z = np.asarray(targets, dtype=np.float64)
    scatter = deviation_of(z - z.mean())
    found: dict[str, Edge] = {}
    for listed in result.on_bounds:
        path = listed.partition(" ")[0]
        edge = _edge(_plain_name(path), result.parameters.get(path), scatter)
        if edge.name not in found or found[edge.name].harmless:
            found[edge.name] = edge
    return list(found.values())


def _edge(name: str, value: Any, scatter: float) -> Edge:
    if "noise" in name and value is not None:
        if np.max(value) <= NOTHING * scatter:
            said = (
                f"the learned {name} sits on the lower edge of its range: the model explains the targets without it."
            )
            return Edge(name, True, said)
        if np.max(value) >= scatter:
            said = (
                f"the learned {name} sits on the upper edge of its range: the function explains next to nothing of "
                "the targets. Do not rely on it."
            )
            return Edge(name, False, said)
    said = (
        f"the learned {name} sits on the edge of its range: these data say little about it. Look at the picture, and "
        "trust the error bars there less."
    )
    return Edge(name, False, said)


def _plain_name(path: str) -> str:
    return path.rpartition(".")[2].partition("[")[0].replace("_", " ")
