"""Large tables: everything a sparse model asks of its rows is a sum over them.

Sums are taken over blocks of rows, in any order; a fitted model keeps them and no row. `SparseModel` is the paper's
sparse representation: inducing points u, the same kernel for both functions, a point estimate of the mediating one.
"""

from decond.streaming.batches import Batches, as_source
from decond.streaming.cluster import (
    ClusterError,
    ConnectionLostError,
    DaskTable,
    NoWorkersError,
    OnCluster,
    WorkerMemoryError,
    WorkerVersionError,
    as_cluster_source,
)
from decond.streaming.feature_model import FeatureModel, FeaturePosterior
from decond.streaming.feature_reading import FeatureReading
from decond.streaming.feature_sums import Sums, Tables, TaskSums
from decond.streaming.learning import Search, learn, starting_points
from decond.streaming.model import SparseModel
from decond.streaming.parquet import ChangedFileError, DamagedFileError, ParquetBatches, ParquetError, ParquetTable
from decond.streaming.posterior import ConditionalMeanPosterior, SparsePosterior
from decond.streaming.reading import Reading, Settled, deviation
from decond.streaming.sources import Chunking, Source, Table
from decond.streaming.statistics import Statistics
from decond.streaming.surveys import Survey, survey

__all__ = [
    "Batches",
    "ChangedFileError",
    "Chunking",
    "ClusterError",
    "ConditionalMeanPosterior",
    "ConnectionLostError",
    "DamagedFileError",
    "DaskTable",
    "FeatureModel",
    "FeaturePosterior",
    "FeatureReading",
    "NoWorkersError",
    "OnCluster",
    "ParquetBatches",
    "ParquetError",
    "ParquetTable",
    "Reading",
    "Search",
    "Settled",
    "Source",
    "SparseModel",
    "SparsePosterior",
    "Statistics",
    "Sums",
    "Survey",
    "Table",
    "Tables",
    "TaskSums",
    "WorkerMemoryError",
    "WorkerVersionError",
    "as_cluster_source",
    "as_source",
    "deviation",
    "learn",
    "starting_points",
    "survey",
]
