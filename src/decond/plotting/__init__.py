"""Pictures in one style that color-blind readers can read, as displays like those of scikit-learn.

Each display draws into your own axes (``ax=``) or into a new figure, and keeps what it drew: `ax_` or `axes_`,
`figure_`, and the artists. Most have a short way: ``gp.plot(x)``, ``posterior.plot()``, ``embedding.plot()``. A new
figure belongs to pyplot where pyplot is in use, so that ``plt.show()`` finds it; ``display.save(path)`` writes it.
"""

from decond.plotting.calibration import CoverageDisplay, RanksDisplay
from decond.plotting.comparison import ComparisonDisplay, Lines, Rows
from decond.plotting.diagnosis import DiagnosisDisplay
from decond.plotting.embedding import EmbeddingDisplay
from decond.plotting.figures import Display
from decond.plotting.functions import Curve, FunctionDisplay
from decond.plotting.pairs import PairsDisplay
from decond.plotting.predictive import PredictiveDisplay
from decond.plotting.residuals import ResidualsDisplay
from decond.plotting.style import COLORS

__all__ = [
    "COLORS",
    "ComparisonDisplay",
    "CoverageDisplay",
    "Curve",
    "DiagnosisDisplay",
    "Display",
    "EmbeddingDisplay",
    "FunctionDisplay",
    "Lines",
    "PairsDisplay",
    "PredictiveDisplay",
    "RanksDisplay",
    "ResidualsDisplay",
    "Rows",
]
