"""What of decond is public: the names that a package lists, and those of the modules that extensions build on."""

import functools
import importlib
import inspect
import pkgutil

import decond

EXTENSION_POINTS = (  # inside packages, named in ARCHITECTURE.md as the places where something new is added
    "decond.estimators.model_comparison",
    "decond.gp.conditioning",
    "decond.gp.linear_gaussian",
    "decond.gp.posteriors",
    "decond.streaming.sources",
)


def public_modules():
    """Return the names of all packages, of the modules beside them, and of the extension points."""
    found = [module.name for module in pkgutil.iter_modules(decond.__path__, "decond.")]
    found.remove("decond.__main__")
    return ["decond", *found, "decond.lfi.diagnostics", "decond.lfi.exceptions", *EXTENSION_POINTS]


def public_names():
    """Return every public class, function and constant once, by its shortest path below its package."""
    names = {}
    for module_name in public_modules():
        module = importlib.import_module(module_name)
        for name in module.__all__:
            value = getattr(module, name)
            if not inspect.ismodule(value) and not (module_name == "decond" and value_is_elsewhere(value)):
                names.setdefault(identity(value, name), f"{module_name}.{name}")
    return {path: resolve(path) for path in names.values()}


def value_is_elsewhere(value):
    """Tell whether a name of decond itself is one of its packages' names."""
    return getattr(value, "__module__", "").startswith("decond.")


def identity(value, name):
    """Return what makes two names the same thing; equal constants with different names are different things."""
    return id(value) if inspect.isclass(value) or inspect.isroutine(value) else (id(value), name)


def resolve(path):
    """Return what is at a dotted path; a function that has the name of its module is found behind either."""
    parts = path.split(".")
    for split in range(1, len(parts) + 1):
        try:
            return functools.reduce(getattr, parts[split:], importlib.import_module(".".join(parts[:split])))
        except AttributeError:
            continue
    raise AttributeError(f"there is no {path}")
