"""The packages behind the extra `decond[neural]`."""

from importlib import import_module

__all__ = ["require"]


def require(name: str) -> None:
    """Import Equinox and Optax, or raise with what to install; `name` is what needs them.

    >>> require("lfi.MDN")
    """
    try:
        for package in ("equinox", "optax"):
            import_module(package)
    except ImportError as error:
        raise ImportError(
            f"{name} needs equinox and optax, which are not installed. "
            "Install them with: pip install 'decond[neural]'"
        ) from error
