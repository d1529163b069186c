"""The packages behind the extra `decond[neural]`."""

from importlib import import_module

__all__ = ["require"]

PACKAGES = ("equinox", "optax")


def require(name: str) -> None:
    """Import Equinox and Optax, or raise with what to install; `name` is what needs them.

    A package that is not installed raises ModuleNotFoundError, one that is broken ImportError; both have its `name`.

    >>> require("lfi.MDN")
    """
    for package in PACKAGES:
        try:
            import_module(package)
        except ImportError as error:
            raise _explained(name, package, error) from error


def _explained(name: str, package: str, error: ImportError) -> ImportError:
    if isinstance(error, ModuleNotFoundError) and error.name in PACKAGES:
        return ModuleNotFoundError(
            f"{name} needs equinox and optax, which are not installed. "
            "Install them with: pip install 'decond[neural]'",
            name=package,
        )
    return ImportError(
        f"{name} needs {package}, which cannot be imported: {error}. "
        "Bring it and what it needs up to date with: pip install --upgrade 'decond[neural]'",
        name=package,
    )
