"""Neural networks for likelihood-free inference, with JAX, Equinox and Optax, loaded when a method asks for them."""

from importlib import import_module

__all__ = ["require"]


def require(name: str) -> None:
    """Import Equinox and Optax, or raise with what to install; `name` is what needs them.

    A package that is not installed raises ModuleNotFoundError, one that is broken ImportError; both have its `name`.

    >>> require("lfi.MDN")
    """
    packages = ("equinox", "optax")
    for package in packages:
        try:
            import_module(package)
        except ImportError as error:
            if isinstance(error, ModuleNotFoundError) and error.name in packages:
                raise ModuleNotFoundError(
                    f"{name} needs equinox and optax, which are not installed. "
                    "Install them with: pip install 'decond[neural]'",
                    name=package,
                ) from error
            raise ImportError(
                f"{name} needs {package}, which cannot be imported: {error}. "
                "Bring it and what it needs up to date with: pip install --upgrade 'decond[neural]'",
                name=package,
            ) from error
