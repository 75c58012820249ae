"""The names that users import are those that the documentation lists, and importing the package is cheap."""

from __future__ import annotations

import inspect

import lance_df
from lance_df import errors

FUNCTIONS = {
    "batch_udf",
    "blob_array",
    "blob_field",
    "cache_statistics",
    "connect",
    "dataset",
    "enable",
    "json_to_schema",
    "register",
    "register_udfs",
    "bytes_read_counter",
    "iops_counter",
    "scan_lance",
    "schema_to_json",
    "set_cache_bytes",
    "verify",
    "write_dataset",
}
CLASSES = {
    *("DatasetBasePath", "FragmentMetadata", "Index", "IndexFile", "LanceDataset", "LanceFragment"),
    *("LanceOperation", "DynamoDBManifestStore", "SQLiteManifestStore", "ScanOptions", "ScanReport"),
    "SessionContext",
    *("Blob", "BlobFile", "CacheCounters", "CacheStatistics", "DirectoryNamespace", "Transaction"),
    *("BlobArray", "BlobColumn", "CleanupCandidateFile", "CleanupExplanation", "CleanupReferencedBranch"),
    *("CleanupStats", "DataStatistics", "FieldStatistics", "LanceScanner", "MergeInsertBuilder", "Session"),
    *("FilteredDataset", "PartitionedNamespace", "ScanStatistics"),
}
MODULES = {
    *("blob", "file", "fragment", "optimize", "partition", "spark"),
    *("commit", "debug", "indices", "namespace", "progress", "schema", "types", "util"),
}


def test_all_names_exist_and_are_listed():
    raised = {name for name, value in vars(errors).items() if inspect.isclass(value)}
    assert set(lance_df.__all__) == FUNCTIONS | CLASSES | MODULES | raised | {"__version__"}
    assert sorted(lance_df.__all__) == dir(lance_df)


def test_names_are_of_their_kind():
    assert all(callable(getattr(lance_df, name)) for name in FUNCTIONS)
    assert all(inspect.isclass(getattr(lance_df, name)) for name in CLASSES)
    assert all(inspect.ismodule(getattr(lance_df, name)) for name in MODULES)


def test_the_dataset_module_does_not_hide_the_function():
    from lance_df.dataset import LanceDataset

    assert inspect.isfunction(lance_df.dataset)
    assert LanceDataset is lance_df.LanceDataset
