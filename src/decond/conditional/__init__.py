"""p(x given y) learned from pairs: a kernel smoother, and the density of shifted residuals."""

from decond.conditional.ridge import KernelFits
from decond.conditional.shifted import ShiftedResiduals
from decond.conditional.smoother import Smoother

__all__ = ["KernelFits", "ShiftedResiduals", "Smoother"]
