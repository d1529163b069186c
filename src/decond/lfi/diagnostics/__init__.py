"""Is the posterior to be trusted? Calibration, coverage, predictive checks, distances; one page with a verdict."""

from decond.lfi.diagnostics.accuracy import c2st, mmd, total_variation
from decond.lfi.diagnostics.diagnosis_report import Report, diagnose
from decond.lfi.diagnostics.predictive_checks import PredictiveCheck, posterior_predictive_check
from decond.lfi.diagnostics.rank_calibration import (
    Calibration,
    Coverage,
    expected_coverage,
    simulation_based_calibration,
)
from decond.lfi.diagnostics.trials import Sufficiency

__all__ = [
    "Calibration",
    "Coverage",
    "PredictiveCheck",
    "Report",
    "Sufficiency",
    "c2st",
    "diagnose",
    "expected_coverage",
    "mmd",
    "posterior_predictive_check",
    "simulation_based_calibration",
    "total_variation",
]
