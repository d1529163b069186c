"""For all tests and all examples in docstrings."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _no_figures_left_open() -> Iterator[None]:
    """Close the figures that pyplot keeps, where a test or a library has imported it: it warns of more than 20."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print one line if there is no browser, without which tests of pages are skipped."""
    from browser import MISSING, path_of_browser

    if path_of_browser() is None:
        terminalreporter.write_line(MISSING)
