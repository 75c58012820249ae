"""SQL in Python over Lance tables, with DataFusion.

The import loads no query engine. Each name is imported from its module when it is first used.
"""

from __future__ import annotations

import gc
import logging
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
    IndexAlreadyExistsError,
    IndexNotFoundError,
    InvalidInputError,
    JobCancelledError,
    JobFailedError,
    LanceError,
    MissingDependencyError,
    NotFoundError,
    ResourcesExhaustedError,
    RetryableConflictError,
    RowCountMismatchError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_df.interrupts import undisturbed

if TYPE_CHECKING:
    from lance_df import (
        commit,
        debug,
        file,
        fragment,
        indices,
        namespace,
        partition,
        progress,
        schema,
        types,
        util,
    )
    from lance_df.api.directory.namespace import DirectoryNamespace
    from lance_df.api.filtered_dataset import FilteredDataset
    from lance_df.api.information import DataStatistics, FieldStatistics
    from lance_df.api.merge_insert import MergeInsertBuilder
    from lance_df.api.namespaces.namespace import PartitionedNamespace
    from lance_df.api.verify import verify
    from lance_df.blob import Blob, BlobArray, BlobColumn, BlobFile, blob_array, blob_field
    from lance_df.cache import CacheCounters, CacheStatistics, cache_statistics, set_cache_bytes
    from lance_df.dataset import LanceDataset, dataset, write_dataset
    from lance_df.engine import ScanReport, SessionContext, connect, enable, register, register_udfs
    from lance_df.fragment import FragmentMetadata, LanceFragment
    from lance_df.operations import Index, IndexFile, LanceOperation, Transaction
    from lance_df.polars_scan import scan_lance
    from lance_df.scan.options import ScanOptions
    from lance_df.scanner import LanceScanner
    from lance_df.scanner_options import ScanStatistics
    from lance_df.schema import json_to_schema, schema_to_json
    from lance_df.session import Session
    from lance_df.storage.counters import bytes_read_counter, iops_counter
    from lance_df.table.maintenance.cleanup_result import (
        CleanupCandidateFile,
        CleanupExplanation,
        CleanupReferencedBranch,
        CleanupStats,
    )
    from lance_df.table.metadata.base_paths_write import DatasetBasePath
    from lance_df.table.metadata.external_store_dynamodb import DynamoDBManifestStore
    from lance_df.table.metadata.external_store_sqlite import SQLiteManifestStore
    from lance_df.udf import batch_udf

_HOMES = {
    "BlobArray": "lance_df.blob",
    "BlobColumn": "lance_df.blob",
    "CleanupCandidateFile": "lance_df.table.maintenance.cleanup_result",
    "CleanupExplanation": "lance_df.table.maintenance.cleanup_result",
    "CleanupReferencedBranch": "lance_df.table.maintenance.cleanup_result",
    "CleanupStats": "lance_df.table.maintenance.cleanup_result",
    "DataStatistics": "lance_df.api.information",
    "FieldStatistics": "lance_df.api.information",
    "LanceScanner": "lance_df.scanner",
    "MergeInsertBuilder": "lance_df.api.merge_insert",
    "Session": "lance_df.session",
    "json_to_schema": "lance_df.schema",
    "schema_to_json": "lance_df.schema",
    "Blob": "lance_df.blob",
    "BlobFile": "lance_df.blob",
    "DynamoDBManifestStore": "lance_df.table.metadata.external_store_dynamodb",
    "DatasetBasePath": "lance_df.table.metadata.base_paths_write",
    "DirectoryNamespace": "lance_df.namespace",
    "CacheCounters": "lance_df.cache",
    "CacheStatistics": "lance_df.cache",
    "FilteredDataset": "lance_df.api.filtered_dataset",
    "FragmentMetadata": "lance_df.fragment",
    "Index": "lance_df.operations",
    "IndexFile": "lance_df.operations",
    "LanceDataset": "lance_df.dataset",
    "LanceFragment": "lance_df.fragment",
    "LanceOperation": "lance_df.operations",
    "ScanOptions": "lance_df.scan.options",
    "ScanReport": "lance_df.engine",
    "ScanStatistics": "lance_df.scanner_options",
    "SQLiteManifestStore": "lance_df.table.metadata.external_store_sqlite",
    "PartitionedNamespace": "lance_df.api.namespaces.namespace",
    "SessionContext": "lance_df.engine",
    "Transaction": "lance_df.operations",
    "batch_udf": "lance_df.udf",
    "blob_array": "lance_df.blob",
    "blob_field": "lance_df.blob",
    "bytes_read_counter": "lance_df.storage.counters",
    "cache_statistics": "lance_df.cache",
    "connect": "lance_df.engine",
    "dataset": "lance_df.dataset",
    "enable": "lance_df.engine",
    "iops_counter": "lance_df.storage.counters",
    "register": "lance_df.engine",
    "register_udfs": "lance_df.engine",
    "scan_lance": "lance_df.polars_scan",
    "set_cache_bytes": "lance_df.cache",
    "verify": "lance_df.api.verify",
    "write_dataset": "lance_df.dataset",
}
_MODULES = frozenset(
    {
        *("blob", "partition", "file", "fragment", "optimize", "spark"),
        *("commit", "debug", "indices", "namespace", "progress", "schema", "types", "util"),
    }
)

__all__ = [
    "AlreadyExistsError",
    "Blob",
    "BlobArray",
    "BlobColumn",
    "BlobFile",
    "CacheCounters",
    "CacheStatistics",
    "CleanupCandidateFile",
    "CleanupExplanation",
    "CleanupReferencedBranch",
    "CleanupStats",
    "ColumnNotFoundError",
    "CommitStateUnknownError",
    "ConflictError",
    "CorruptDataError",
    "DataStatistics",
    "DatasetBasePath",
    "DatasetNotFoundError",
    "DirectoryNamespace",
    "DynamoDBManifestStore",
    "FieldStatistics",
    "FilteredDataset",
    "ForkedProcessError",
    "FragmentMetadata",
    "IncompatibleConflictError",
    "Index",
    "IndexAlreadyExistsError",
    "IndexFile",
    "IndexNotFoundError",
    "InvalidInputError",
    "JobCancelledError",
    "JobFailedError",
    "LanceDataset",
    "LanceError",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "MergeInsertBuilder",
    "MissingDependencyError",
    "NotFoundError",
    "PartitionedNamespace",
    "ResourcesExhaustedError",
    "RetryableConflictError",
    "RowCountMismatchError",
    "SQLiteManifestStore",
    "ScanOptions",
    "ScanReport",
    "ScanStatistics",
    "Session",
    "SessionContext",
    "StorageError",
    "Transaction",
    "UnsupportedFeatureError",
    "VersionNotFoundError",
    "__version__",
    "batch_udf",
    "blob",
    "blob_array",
    "blob_field",
    "bytes_read_counter",
    "cache_statistics",
    "commit",
    "connect",
    "dataset",
    "debug",
    "enable",
    "file",
    "fragment",
    "indices",
    "iops_counter",
    "json_to_schema",
    "namespace",
    "optimize",
    "partition",
    "progress",
    "register",
    "register_udfs",
    "scan_lance",
    "schema",
    "schema_to_json",
    "set_cache_bytes",
    "spark",
    "types",
    "util",
    "verify",
    "write_dataset",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version(__name__)
    if name in _MODULES:
        return _imported(f"lance_df.{name}")
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module 'lance_df' has no attribute {name!r}")
    return getattr(_imported(home), name)


def _imported(module: str) -> ModuleType:
    """Import to the end: a package of which a part was imported may never be imported again."""
    if module in sys.modules:
        return import_module(module)
    return undisturbed(lambda: _imported_fast(module))


def _imported_fast(module: str) -> ModuleType:
    """Import without garbage collections, which find nothing in new modules and take a third of the time."""
    if not gc.isenabled():
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
    return sorted(__all__)


class _Package(ModuleType):
    """`lance_df.dataset` is the function, as in pylance, also after the module of that name was imported."""

    @property
    def dataset(self) -> Any:
        return _imported("lance_df.dataset").dataset

    @dataset.setter
    def dataset(self, module: ModuleType) -> None:
        """Ignore what the import system binds."""


sys.modules[__name__].__class__ = _Package
# nothing is printed unless the program says where to
logging.getLogger(__name__).addHandler(logging.NullHandler())
