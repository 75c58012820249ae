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
    "register",
    "register_udfs",
    "set_cache_bytes",
    "verify",
    "write_dataset",
}
CLASSES = {
    *("DatasetBasePath", "FragmentMetadata", "Index", "IndexFile", "LanceDataset", "LanceFragment"),
    *("LanceOperation", "DynamoDBManifestStore", "SQLiteManifestStore", "ScanOptions", "ScanReport"),
    "SessionContext",
    *("Blob", "BlobFile", "CacheCounters", "CacheStatistics", "DirectoryNamespace", "Transaction"),
}
MODULES = {"file", "fragment", "optimize", "spark"}


def test_all_names_exist_and_are_listed():
    raised = {name for name, value in vars(errors).items() if inspect.isclass(value)}
    assert set(lance_df.__all__) == FUNCTIONS | CLASSES | MODULES | raised
    assert set(lance_df.__all__) <= set(dir(lance_df))


def test_names_are_of_their_kind():
    assert all(callable(getattr(lance_df, name)) for name in FUNCTIONS)
    assert all(inspect.isclass(getattr(lance_df, name)) for name in CLASSES)
    assert all(inspect.ismodule(getattr(lance_df, name)) for name in MODULES)


def test_the_dataset_module_does_not_hide_the_function():
    from lance_df.dataset import LanceDataset

    assert inspect.isfunction(lance_df.dataset)
    assert LanceDataset is lance_df.LanceDataset
