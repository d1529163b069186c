"""p(x given y) learned from pairs: a kernel smoother, the density of shifted residuals, rows of a group.

`decond.conditional.mediator` links the two tables, and tells columns of numbers from those of labels.
"""

from decond.conditional.completed_groups import completed_groups
from decond.conditional.residual_density import (
    InputDensity,
    KernelFits,
    ResidualDensity,
    ResidualSettings,
    ShiftedResiduals,
)
from decond.conditional.smoother import MediatorSmoother, Smoother, SmootherGrid

__all__ = [
    "InputDensity",
    "KernelFits",
    "MediatorSmoother",
    "ResidualDensity",
    "ResidualSettings",
    "ShiftedResiduals",
    "Smoother",
    "SmootherGrid",
    "completed_groups",
]
