"""A small model file of a stand-in for an estimator."""

import numpy as np
import pytest
from stub_models import Stub, stub

from decond import io, kernels


@pytest.fixture(scope="module")
def stub_is_known():
    """Let model files hold the stand-in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "_estimators", lambda: {"Stub": Stub})
        yield


@pytest.fixture
def model(stub_is_known, tmp_path):
    """Return the path of a small model file."""
    path = tmp_path / "model.decond"
    io.save(stub({"weights": np.arange(12.0).reshape(4, 3), "names": ("a", "b")}, kernel=kernels.RBF(0.1)), path)
    return path
