"""What a result depends on besides its data: versions and the machine."""

import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

__all__ = ["made_on", "versions"]

PACKAGES = ("decond", "numpy", "scipy")


def versions() -> dict[str, str]:
    """Return the versions of what computed a result, by name.

    >>> list(versions())
    ['decond', 'numpy', 'scipy', 'Python', 'platform']
    """
    found = {name: _version(name) for name in PACKAGES}
    return {**found, "Python": platform.python_version(), "platform": platform.platform(aliased=True, terse=True)}


def made_on() -> str:
    """Return the date and time now, in words."""
    now = datetime.now(UTC)
    return f"{now.day} {now:%B %Y, %H:%M} UTC"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed as a package"
