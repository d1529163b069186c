"""Large tables: everything a model asks of its rows is a sum over them.

Sums are taken over chunks of rows, in any order; a fitted model keeps them and no row. `SparseModel` is the paper's
sparse representation: inducing points u, the same kernel for both functions, a point estimate of the mediating one.
`FeatureModel` is the task-transformed model in finite features, from sums over two tables.
"""

from decond.streaming.cluster import (
    ClusterError,
    DaskTable,
    NoWorkersError,
    OnCluster,
    WorkerVersionError,
    as_cluster_source,
)
from decond.streaming.feature_gp import FeatureModel, FeaturePosterior, FeatureStatistics, Tables
from decond.streaming.parquet import ChangedFileError, DamagedFileError, ParquetError, ParquetTable, ReadSettings
from decond.streaming.sources import Batches, Chunk, ChunkSettings, Source, Table, as_source
from decond.streaming.sparse_gp import SparseModel, SparsePosterior
from decond.streaming.statistics import Statistics, Summary, deviation, summarize

__all__ = [
    "Batches",
    "ChangedFileError",
    "Chunk",
    "ChunkSettings",
    "ClusterError",
    "DamagedFileError",
    "DaskTable",
    "FeatureModel",
    "FeaturePosterior",
    "FeatureStatistics",
    "NoWorkersError",
    "OnCluster",
    "ParquetError",
    "ParquetTable",
    "ReadSettings",
    "Source",
    "SparseModel",
    "SparsePosterior",
    "Statistics",
    "Summary",
    "Table",
    "Tables",
    "WorkerVersionError",
    "as_cluster_source",
    "as_source",
    "deviation",
    "summarize",
]
