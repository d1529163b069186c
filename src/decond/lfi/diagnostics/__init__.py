"""Is the posterior to be trusted? Calibration, coverage, predictive checks, distances; one page with a verdict."""

from decond.lfi.diagnostics.calibration import Calibration, simulation_based_calibration
from decond.lfi.diagnostics.coverage import Coverage, expected_coverage
from decond.lfi.diagnostics.metrics import c2st, mmd, total_variation
from decond.lfi.diagnostics.page import diagnose
from decond.lfi.diagnostics.predictive import PredictiveCheck, posterior_predictive_check
from decond.lfi.diagnostics.report import Report
from decond.lfi.diagnostics.sufficiency import Sufficiency, enough_simulations

__all__ = [
    "Calibration",
    "Coverage",
    "PredictiveCheck",
    "Report",
    "Sufficiency",
    "c2st",
    "diagnose",
    "enough_simulations",
    "expected_coverage",
    "mmd",
    "posterior_predictive_check",
    "simulation_based_calibration",
    "total_variation",
]
