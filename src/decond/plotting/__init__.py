"""Pictures in one style that color-blind readers can read, as displays like those of scikit-learn.

Each display draws into your own axes (``ax=``) or into a new figure, and keeps what it drew: `ax_` or `axes_`,
`figure_`, and the artists. Most have a short way: ``gp.plot(x)``, ``posterior.plot()``, ``embedding.plot()``. A new
figure belongs to pyplot where pyplot is in use, so that ``plt.show()`` finds it; ``display.save(path)`` writes it.
"""

from decond.plotting.display import COLORS, Display
from decond.plotting.embedding_plot import EmbeddingDisplay
from decond.plotting.posterior_plot import (
    CoverageDisplay,
    DiagnosisDisplay,
    PairsDisplay,
    PredictiveDisplay,
    RanksDisplay,
)
from decond.plotting.regression_plot import Curve, FunctionDisplay, ResidualsDisplay

__all__ = [
    "COLORS",
    "CoverageDisplay",
    "Curve",
    "DiagnosisDisplay",
    "Display",
    "EmbeddingDisplay",
    "FunctionDisplay",
    "PairsDisplay",
    "PredictiveDisplay",
    "RanksDisplay",
    "ResidualsDisplay",
]
