"""Reports: one self-contained HTML page about a fit or about an inference, readable without a network.

`fit_report` and `inference_report` return a `Report`, whose `html` is the page and whose `write` saves it. The
command line calls them for ``decond fit --report`` and ``decond infer --report``.
"""

from decond.reports.fit_report import fit_report
from decond.reports.inference_report import inference_report
from decond.reports.report_page import Report

__all__ = ["Report", "fit_report", "inference_report"]
