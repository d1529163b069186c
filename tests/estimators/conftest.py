"""Chains short enough for a test."""

import pytest

from decond.estimators import task_transformed
from decond.gp import SamplerSettings


@pytest.fixture
def short_chains(monkeypatch):
    """Let single measurements be fitted from one table of p(x | y) and a few sweeps, where accuracy is not tested."""
    monkeypatch.setattr(
        task_transformed, "SamplerSettings", lambda: SamplerSettings(tables=1, warmup=60, sweeps=40, kept=4)
    )
