"""Large tables: everything a sparse model asks of its rows is a sum over them.

Sums are taken over blocks of rows, in any order; a fitted model keeps them and no row. `SparseModel` is the paper's
sparse representation: inducing points u, the same kernel for both functions, a point estimate of the mediating one.
"""

from decond.scale.blocks import Blocks, Table
from decond.scale.learning import Search, learn, starting_points
from decond.scale.model import SparseModel
from decond.scale.posterior import ConditionalMeanPosterior, SparsePosterior
from decond.scale.reading import Reading, Settled, deviation
from decond.scale.statistics import Statistics

__all__ = [
    "Blocks",
    "ConditionalMeanPosterior",
    "Reading",
    "Search",
    "Settled",
    "SparseModel",
    "SparsePosterior",
    "Statistics",
    "Table",
    "deviation",
    "learn",
    "starting_points",
]
