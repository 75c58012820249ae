"""SQL in Python over Lance tables, with DataFusion.

Importing this loads no query engine: names are imported from where they live when they are first used.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lance_df.errors import (
    AlreadyExistsError,
    ColumnNotFoundError,
    CommitStateUnknownError,
    ConflictError,
    CorruptDataError,
    DatasetNotFoundError,
    ForkedProcessError,
    IncompatibleConflictError,
    InvalidInputError,
    JobCancelledError,
    JobFailedError,
    LanceError,
    MissingDependencyError,
    NotFoundError,
    RetryableConflictError,
    RowCountMismatchError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)

if TYPE_CHECKING:
    from lance_df import file, fragment
    from lance_df.api.directory_namespace import DirectoryNamespace
    from lance_df.api.verify import verify
    from lance_df.blob import Blob, BlobFile, blob_array, blob_field
    from lance_df.cache import CacheCounters, CacheStatistics, cache_statistics, set_cache_bytes
    from lance_df.dataset import LanceDataset, dataset, write_dataset
    from lance_df.engine import ScanReport, SessionContext, connect, enable, register, register_udfs
    from lance_df.fragment import FragmentMetadata, LanceFragment
    from lance_df.operations import Index, IndexFile, LanceOperation, Transaction
    from lance_df.scan.options import ScanOptions
    from lance_df.table.metadata.base_paths_write import DatasetBasePath
    from lance_df.table.metadata.external_store_dynamodb import DynamoDBManifestStore
    from lance_df.table.metadata.external_store_sqlite import SQLiteManifestStore
    from lance_df.udf import batch_udf

_HOMES = {
    "Blob": "lance_df.blob",
    "BlobFile": "lance_df.blob",
    "DynamoDBManifestStore": "lance_df.table.metadata.external_store_dynamodb",
    "DatasetBasePath": "lance_df.table.metadata.base_paths_write",
    "DirectoryNamespace": "lance_df.api.directory_namespace",
    "CacheCounters": "lance_df.cache",
    "CacheStatistics": "lance_df.cache",
    "FragmentMetadata": "lance_df.fragment",
    "Index": "lance_df.operations",
    "IndexFile": "lance_df.operations",
    "LanceDataset": "lance_df.dataset",
    "LanceFragment": "lance_df.fragment",
    "LanceOperation": "lance_df.operations",
    "ScanOptions": "lance_df.scan.options",
    "ScanReport": "lance_df.engine",
    "SQLiteManifestStore": "lance_df.table.metadata.external_store_sqlite",
    "PartitionedNamespace": "lance_df.api.namespaces",
    "SessionContext": "lance_df.engine",
    "Transaction": "lance_df.operations",
    "batch_udf": "lance_df.udf",
    "blob_array": "lance_df.blob",
    "blob_field": "lance_df.blob",
    "cache_statistics": "lance_df.cache",
    "connect": "lance_df.engine",
    "dataset": "lance_df.dataset",
    "enable": "lance_df.engine",
    "register": "lance_df.engine",
    "register_udfs": "lance_df.engine",
    "set_cache_bytes": "lance_df.cache",
    "verify": "lance_df.api.verify",
    "write_dataset": "lance_df.dataset",
}
_MODULES = frozenset({"partition", "file", "fragment", "optimize", "spark"})

__all__ = [
    "AlreadyExistsError",
    "Blob",
    "BlobFile",
    "CacheCounters",
    "CacheStatistics",
    "ColumnNotFoundError",
    "CommitStateUnknownError",
    "ConflictError",
    "CorruptDataError",
    "DatasetBasePath",
    "DatasetNotFoundError",
    "DirectoryNamespace",
    "DynamoDBManifestStore",
    "ForkedProcessError",
    "FragmentMetadata",
    "IncompatibleConflictError",
    "Index",
    "IndexFile",
    "InvalidInputError",
    "JobCancelledError",
    "JobFailedError",
    "LanceDataset",
    "LanceError",
    "LanceFragment",
    "LanceOperation",
    "MissingDependencyError",
    "NotFoundError",
    "RetryableConflictError",
    "RowCountMismatchError",
    "SQLiteManifestStore",
    "ScanOptions",
    "ScanReport",
    "SessionContext",
    "StorageError",
    "Transaction",
    "UnsupportedFeatureError",
    "VersionNotFoundError",
    "batch_udf",
    "blob_array",
    "blob_field",
    "cache_statistics",
    "connect",
    "dataset",
    "enable",
    "file",
    "fragment",
    "optimize",
    "register",
    "register_udfs",
    "set_cache_bytes",
    "spark",
    "verify",
    "write_dataset",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _imported(f"lance_df.{name}")
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module 'lance_df' has no attribute {name!r}")
    return getattr(_imported(home), name)


def _imported(module: str) -> ModuleType:
    """Import without garbage collections, which find nothing in new modules and take a third of the time."""
    if module in sys.modules or not gc.isenabled():
        return import_module(module)
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.enable()
        if not gc.get_freeze_count():
            # the next collections of what is young pass over the modules, as over what has survived many
            gc.freeze()
            gc.unfreeze()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """`lance_df.dataset` is the function, as in pylance, also after the module of that name was imported."""

    @property
    def dataset(self) -> Any:
        return import_module("lance_df.dataset").dataset

    @dataset.setter
    def dataset(self, module: ModuleType) -> None:
        """Ignore what the import system binds."""


sys.modules[__name__].__class__ = _Package
