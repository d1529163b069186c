"""The distribution of rows x given φ: a regression for the mean, one for the scale, and the density of residuals."""

from decond.residuals.shifted import ShiftedResiduals

__all__ = ["ShiftedResiduals"]
