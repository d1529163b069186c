"""Pictures in one style that color-blind readers can read, as displays like those of scikit-learn.

Each display draws into your own axes (``ax=``) or into a new figure, and keeps what it drew: `ax_` or `axes_`,
`figure_`, and the artists. Most have a short way: ``gp.plot(x)``, ``posterior.plot()``, ``embedding.plot()``. A new
figure belongs to pyplot where pyplot is in use, so that ``plt.show()`` finds it; ``display.save(path)`` writes it.
"""

from decond.plotting.comparison_plot import ComparisonDisplay, Lines, Rows
from decond.plotting.diagnosis_plot import CoverageDisplay, DiagnosisDisplay, PredictiveDisplay, RanksDisplay
from decond.plotting.display import COLORS, Display
from decond.plotting.embedding_plot import EmbeddingDisplay
from decond.plotting.pair_plot import PairsDisplay
from decond.plotting.regression_plot import Curve, FunctionDisplay, ResidualsDisplay

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
