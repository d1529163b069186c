"""One page that says whether a posterior is to be trusted: the verdict, and the pictures behind it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from decond.plotting.figures import Display, make_figure
from decond.plotting.pairs import PairsDisplay
from decond.plotting.style import verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DiagnosisDisplay"]

RANKS_ACROSS, CHECKS_ACROSS = 5, 6
"""Panels beside each other on the page."""


class DiagnosisDisplay(Display):
    """The page of a diagnosis: pairs on the left; verdict, coverage, ranks and predictions on the right.

    `lfi.diagnose(...).plot()` makes one. After `plot` its parts are `pairs_`, `coverage_`, `ranks_` (None where
    calibration was not judged) and `predictive_`.

    >>> from scipy import stats
    >>> from decond.lfi import Posterior, Prior, Simulations
    >>> from decond.lfi.diagnostics import Report
    >>> from decond.lfi.diagnostics.predictive_checks import observation_among
    >>> posterior = Posterior(Prior({"rate": stats.gamma(2)}), lambda n, rng: rng.gamma(4.0, 0.5, (n, 1)))
    >>> simulated = np.linspace(0.0, 1.0, 100)[:, None]
    >>> check = observation_among(Simulations(simulated, simulated), np.array([[0.5]]))
    >>> page = DiagnosisDisplay(Report(posterior, None, None, check, from_posterior=True, remote_share=0.4)).plot()
    >>> page.ranks_ is None, len(page.predictive_.axes_)
    (True, 1)
    """

    def __init__(self, report: Any) -> None:
        self.report = report

    def plot(self, figure: Any = None) -> Self:
        """Draw the page into a figure, or part of one; without it a new one is made."""
        self._made_figure = figure is None
        self.figure_ = make_figure((15.0, 10.0)) if figure is None else figure
        report = self.report
        d = report.posterior.prior.dim
        halves = self.figure_.subfigures(1, 2, width_ratios=(0.75 if d < 3 else 1.0, 1.0), wspace=0.03)
        left, right = halves
        _head(left, "posterior")
        self.pairs_ = PairsDisplay.from_posterior(
            report.posterior, report.truth, ax=left.subplots(d, d, squeeze=False)
        )
        self.coverage_ = self.ranks_ = None
        shown = report.predictive.shown()
        check_height = 0.9 - (-len(shown) // CHECKS_ACROSS)
        if report.calibration is None:
            top, bottom = right.subfigures(2, 1, height_ratios=(3.4, check_height))
            _write(top.subplots(), report.verdict, report.sentences, 90)
        else:
            rank_height = 1.0 - 0.9 * (-d // RANKS_ACROSS)
            top, middle, bottom = right.subfigures(3, 1, height_ratios=(3.4, rank_height, check_height))
            self._plot_calibration(top, middle, d)
        kind = "predicted by the posterior" if report.from_posterior else "simulations given (no simulator was given)"
        _head(bottom, f"summaries: {kind}, and the observation")
        self.predictive_ = report.predictive.plot(_panels(bottom, len(shown), CHECKS_ACROSS))
        self.axes_ = np.array(self.figure_.axes, dtype=object)
        self.ax_ = self.axes_[0]
        return self

    def _plot_calibration(self, top: Any, middle: Any, d: int) -> None:
        calibration = self.report.calibration
        words, curve = top.subplots(1, 2)
        _write(words, self.report.verdict, self.report.sentences, 52)
        self.coverage_ = calibration.coverage.plot(curve)
        curve.set_title("coverage", fontsize=11, loc="left")
        _head(middle, "ranks of true parameters, relative to uniform")
        self.ranks_ = calibration.plot(_panels(middle, d, RANKS_ACROSS))


def _head(figure: Any, words: str) -> None:
    figure.suptitle(words, fontsize=11, x=0.02, ha="left")


def _panels(figure: Any, count: int, across: int) -> list[Any]:
    """Return panels in rows of at most `across`."""
    across = min(across, count)
    axes = figure.subplots(-(-count // across), across, squeeze=False).ravel()
    for ax in axes[count:]:
        ax.set_axis_off()
    return list(axes[:count])


def _write(ax: "Axes", title: str, sentences: Sequence[str], width: int = 60, most: int = 24) -> None:
    """Write a title and sentences, in at most `most` lines of at most `width` letters."""
    import textwrap

    head = textwrap.wrap(title, width * 3 // 5)
    lines = [line for sentence in sentences for line in textwrap.wrap(sentence, width, subsequent_indent="   ")]
    if len(lines) > most:
        lines = [*lines[: most - 1], "…"]
    ax.set_axis_off()
    top, body = (verbatim("\n".join(words)) for words in (head, lines))
    at: Any = {"xycoords": "axes fraction", "va": "top"}
    below: Any = {**at, "textcoords": "offset points", "fontsize": 9, "linespacing": 1.35}
    for text in (
        ax.annotate(top, (0.0, 1.0), fontsize=14, weight="bold", **at),
        ax.annotate(body, (0.0, 1.0), (0.0, -22.0 * len(head)), **below),
    ):
        text.set_in_layout(False)  # words may be long, and panels keep their size
