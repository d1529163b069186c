"""The classes that a model file may name. A name found in a file is looked up here and never imported."""

import functools
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from decond import features, gp, kernels, streaming
from decond.parameters import Parametrized

__all__ = ["estimators", "modules"]


def estimators() -> dict[str, Any]:
    """Return the estimators of decond by name."""
    from decond import estimators as package

    return dict(_classes(package, object))


@functools.cache
def modules() -> dict[str, type]:
    """Return the kernels, feature maps, priors, observations and models of decond, by names such as "kernels.RBF"."""
    found: dict[str, type] = {}
    for package in (kernels, features, gp, streaming):
        prefix = package.__name__.rpartition(".")[2]
        found.update({f"{prefix}.{name}": cls for name, cls in _classes(package, Parametrized)})
    return found


def _classes(package: ModuleType, base: type) -> Iterator[tuple[str, Any]]:
    """Yield the public classes of a package that can be instantiated."""
    for name in package.__all__:
        value = getattr(package, name)
        if isinstance(value, type) and issubclass(value, base) and not inspect.isabstract(value):
            yield name, value
