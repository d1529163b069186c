"""The two naive answers to task-transformed regression that the paper compares with.

Both train regressors separately, so that no uncertainty passes from one to the next.
"""

from typing import Any

import numpy as np

from decond.gp.conditioning import condition
from decond.gp.observations import Direct
from decond.gp.priors import Prior

__all__ = ["cascade", "impute"]


def cascade(prior_x: Prior, prior_y: Prior, noise: float, tables: tuple[Any, Any, Any, Any], x: Any) -> np.ndarray:
    """Predict y from x, then z from the predicted y; `tables` is (x, y, y_task, z_task).

    It fails where y given x has several modes, because the mean between them is a y that never occurs.

    >>> from decond.kernels import RBF
    >>> from decond.gp import FunctionPrior
    >>> y = np.linspace(-2, 2, 30)
    >>> prior, tables = FunctionPrior(RBF(1.0)), (2 * y, y, y, y**2)  # x = 2y and z = y², so z = x²/4
    >>> cascade(prior, prior, 0.01, tables, [[2.0]]).round(2)
    array([1.])
    """
    x_pairs, y_pairs, y_task, z_task = tables
    predicted = condition(prior_x, Direct(x_pairs, noise), y_pairs).mean(x)
    return condition(prior_y, Direct(y_task, noise), z_task).mean(predicted)


def impute(prior_x: Prior, prior_y: Prior, noise: float, tables: tuple[Any, Any, Any, Any], x: Any) -> np.ndarray:
    """Predict z at the pairs' y, then regress these imputed z on the pairs' x; `tables` as for `cascade`.

    It estimates E[E[Z | Y] | X = x], which smooths f twice.

    >>> from decond.kernels import RBF
    >>> from decond.gp import FunctionPrior
    >>> y = np.linspace(-2, 2, 30)
    >>> prior, tables = FunctionPrior(RBF(1.0)), (2 * y, y, y, y**2)  # x = 2y and z = y², so z = x²/4
    >>> impute(prior, prior, 0.01, tables, [[2.0]]).round(2)
    array([1.])
    """
    x_pairs, y_pairs, y_task, z_task = tables
    imputed = condition(prior_y, Direct(y_task, noise), z_task).mean(y_pairs)
    return condition(prior_x, Direct(x_pairs, noise), imputed).mean(x)
