"""An observation in numbers, and what a copy of it keeps."""

import copy
import pickle

import numpy as np
import pytest

from decond.gp import TaskTransformed
from decond.gp.linearization import FixedLinearization
from decond.kernels import RBF

M = np.array([[0.5, 0.0], [0.5, 1.0]])
LINEARIZATIONS = {
    "fixed": lambda: FixedLinearization(M, 0.04, lambda bar: {"noise": bar}),
    "mediated": lambda: TaskTransformed([0.0, 1.0], [0.0, 1.0], [0.5], RBF(), noise=0.1).linearize(),
}


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda linear: pickle.loads(pickle.dumps(linear))])
@pytest.mark.parametrize("name", LINEARIZATIONS)
def test_a_copy_has_the_numbers_and_no_gradient(name, copied):
    linear = LINEARIZATIONS[name]()
    other = copied(linear)
    for view in ("transformation", "rows", "noise_covariance"):
        np.testing.assert_array_equal(getattr(other, view), getattr(linear, view))
    bars = [np.ones(shape) for shape in ((linear.size, linear.size), linear.rows.shape, (linear.rank, linear.rank))]
    assert "noise" in linear.pullback(*bars)
    with pytest.raises(RuntimeError):
        other.pullback(*bars)
