"""An observation in numbers, and what a copy of it keeps."""

import copy
import pickle

import numpy as np
import pytest

from decond.gp import TaskTransformed
from decond.gp.linear_gaussian import Linearization
from decond.kernels import RBF

M = np.array([[0.5, 0.0], [0.5, 1.0]])
LINEARIZATIONS = {
    "fixed": lambda: Linearization(M, 0.04),
    "mediated": lambda: TaskTransformed([0.0, 1.0], [0.0, 1.0], [0.5], RBF(), noise=0.1).linearize(),
}


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda linear: pickle.loads(pickle.dumps(linear))])
@pytest.mark.parametrize("name", LINEARIZATIONS)
def test_a_copy_has_the_same_numbers(name, copied):
    linear = LINEARIZATIONS[name]()
    other = copied(linear)
    for view in ("transformation", "rows", "noise_covariance"):
        np.testing.assert_array_equal(getattr(other, view), getattr(linear, view))
