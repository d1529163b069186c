"""Fixtures that several tests share: a small model file, and chains short enough for a test."""

import numpy as np
import pytest
from stub_models import Stub, stub

from decond import kernels
from decond.estimators import task_transformed
from decond.gp import SamplerSettings
from decond.io import registry, save


@pytest.fixture(scope="module")
def stub_is_known():
    """Let model files hold the stand-in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "estimators", lambda: {"Stub": Stub})
        yield


@pytest.fixture
def model(stub_is_known, tmp_path):
    """Return the path of a small model file."""
    path = tmp_path / "model.decond"
    save(stub({"weights": np.arange(12.0).reshape(4, 3), "names": ("a", "b")}, kernel=kernels.RBF(0.1)), path)
    return path


@pytest.fixture
def short_chains(monkeypatch):
    """Let single measurements be fitted from one table of p(x | y) and a few sweeps, where accuracy is not tested."""
    monkeypatch.setattr(
        task_transformed, "SamplerSettings", lambda: SamplerSettings(tables=1, warmup=60, sweeps=40, kept=4)
    )
