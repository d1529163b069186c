"""A folder in which commands run."""

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return an empty folder in which commands run, on a wide terminal; simulators in it can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path
