"""Dense linear algebra: products, one Cholesky with one jitter, what follows from a factor, and adjoints by hand."""

from decond.linalg.adjoints import (
    LogDensityAdjoint,
    gaussian_log_density,
    gaussian_log_density_pullback,
    half_solve_pullback,
    solve_pullback,
)
from decond.linalg.factors import (
    Factor,
    InverseRoot,
    JitterWarning,
    LowRankPlusNoise,
    NotPositiveDefiniteError,
    cholesky,
    cholesky_if,
    inverses,
    pivoted_cholesky,
    solve_general,
    square_root,
    with_jitter,
)
from decond.linalg.products import (
    add_to_diagonal,
    mirrored,
    multiply,
    symmetric_product,
    times_symmetric,
    transposed_times,
)

__all__ = [
    "Factor",
    "InverseRoot",
    "JitterWarning",
    "LogDensityAdjoint",
    "LowRankPlusNoise",
    "NotPositiveDefiniteError",
    "add_to_diagonal",
    "cholesky",
    "cholesky_if",
    "gaussian_log_density",
    "gaussian_log_density_pullback",
    "half_solve_pullback",
    "inverses",
    "mirrored",
    "multiply",
    "pivoted_cholesky",
    "solve_general",
    "solve_pullback",
    "square_root",
    "symmetric_product",
    "times_symmetric",
    "transposed_times",
    "with_jitter",
]
