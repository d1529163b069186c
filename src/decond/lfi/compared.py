"""What is compared: a problem, from arguments or from an object that has it all, and methods by name."""

import copy
from dataclasses import dataclass, field
from typing import Any

from decond.checks import as_count
from decond.comparison_table import chosen_by_label
from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi.inference import METHODS, method_named
from decond.lfi.methods.base import FEW, Method
from decond.lfi.prior import Prior

__all__ = [
    "Given",
    "built",
    "checked_budget",
    "chosen_methods",
    "given_problem",
    "method_names",
    "takes_raw",
]

VARIANTS = {"lfvi_hinge": ("lfvi", {"loss": "hinge"})}
"""Methods that are another one with other options."""


def method_names() -> list[str]:
    """Return the names of all methods that `compare` knows, in the order of `lfi.METHODS`.

    >>> method_names()[:3]
    ['residual', 'dme', 'kelfi']
    """
    names = []
    for name in METHODS:
        names += [name, *(variant for variant, (base, _) in VARIANTS.items() if base == name)]
    return names


@dataclass(frozen=True)
class Given:
    """The problem, from arguments or from an object that has it all."""

    name: str
    simulator: Any
    prior: Any
    observed: Any
    batched: bool
    summarize: Any
    reference: Any
    true_parameters: Any
    raw: "Given | None" = field(default=None)
    """The same problem with raw data sets, where it has them."""

    def checked(self, raw: bool) -> "Given":
        """Return the problem, with raw data sets where methods compare these; raise if something is missing."""
        if raw and self.raw is not None:
            return self.raw.checked(raw=False)
        if not isinstance(self.prior, Prior):
            raise ArgumentTypeError("prior", f"prior is {type(self.prior).__name__}; give an lfi.Prior.")
        if self.observed is None:
            raise ArgumentTypeError(
                "observed", "observed is missing; give the observation, a row like those that the simulator returns."
            )
        return self


def given_problem(
    simulator: Any, prior: Any, observed: Any, reference: Any, truth: Any, batched: bool, summarize: Any
) -> Given:
    """Return the problem; the first argument may be an object that has all of it."""
    if all(hasattr(simulator, name) for name in ("simulator", "prior", "observed", "batched")):
        return _of_problem(simulator, prior, observed, reference, truth, batched, summarize)
    name = str(getattr(simulator, "__name__", "simulator"))
    return Given(name, simulator, prior, observed, batched, summarize, reference, truth)


def _of_problem(
    problem: Any, prior: Any, observed: Any, reference: Any, truth: Any, batched: bool, summarize: Any
) -> Given:
    """Return what a problem holds; `reference` and `true_parameters` may be given beside it."""
    given = {"prior": prior is not None, "batched": batched, "summarize": summarize is not None}
    if any(given.values()):
        first = next(name for name, is_given in given.items() if is_given)
        raise ArgumentError(
            first, "a problem has a prior, and says how its simulator is called; leave these arguments out."
        )
    found = problem.observed if observed is None else observed
    reference = getattr(problem, "log_posterior", None) if reference is None and observed is None else reference
    truth = getattr(problem, "true_parameters", None) if truth is None and observed is None else truth
    known = (reference, truth)
    name = str(getattr(problem, "name", "problem"))
    raw, seen = (getattr(problem, key, None) for key in ("raw_simulator", "observed_raw"))
    whole = None
    if raw is not None and seen is not None and observed is None:
        whole = Given(name, raw, problem.prior, seen, problem.batched, problem.summarize, *known)
    return Given(name, problem.simulator, problem.prior, found, problem.batched, None, *known, raw=whole)


def chosen_methods(methods: Any) -> dict[str, str | Method]:
    """Return methods, or their names, by label; raise if a name is unknown."""
    return chosen_by_label(methods, "method", method_names(), Method, "an lfi.Method such as lfi.DME()")


def takes_raw(method: str | Method) -> bool:
    """Tell whether a method compares raw data sets."""
    return method == "k2abc" or (isinstance(method, Method) and method.takes_raw)


def built(method: str | Method, seed: int) -> Method:
    """Return a method of its own for one run, with the seed of that run."""
    if isinstance(method, Method):
        own = copy.copy(method)
        own.seed = seed
        return own
    base, options = VARIANTS.get(method, (method, {}))
    kind: Any = type(method_named(base, seed))
    found: Method = kind(**options, seed=seed)
    return found


def checked_budget(n_simulations: Any, prior: Prior) -> int:
    """Return the number of simulations; raise if it is too small for any method to begin with."""
    total, needed = as_count(n_simulations, "n_simulations"), 11 + FEW * prior.dim
    if total < needed:
        raise ArgumentError(
            "n_simulations",
            f"n_simulations is {total}, but methods need at least {needed} for {prior.dim} parameter(s), and many "
            "more for a good answer. Nothing was run; give a larger number.",
        )
    return total
