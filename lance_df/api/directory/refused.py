"""Unsupported methods of pylance's `DirectoryNamespace`. Their errors name an alternative."""

from __future__ import annotations

from typing import NoReturn

from lance_df.errors import UnsupportedFeatureError


class DirectoryRefused:
    """Methods that neither library supports for directories, and methods that change tables without a commit.

    They raise `UnsupportedFeatureError`, which is a NotImplementedError.
    """

    def rename_table(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: to rename a table, register its folder under the new name."""
        _refuse("rename_table", "deregister_table, and register_table under the new name")

    def alter_table_backfill_columns(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: a directory runs no jobs."""
        _refuse("alter_table_backfill_columns", "LanceDataset.add_columns with a function")

    def create_materialized_view(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: a directory runs no jobs."""
        _refuse("create_materialized_view", "CREATE TABLE … AS SELECT")

    def refresh_materialized_view(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: a directory runs no jobs."""
        _refuse("refresh_materialized_view", "INSERT INTO or MERGE INTO")

    def update_field_metadata(self, *_: object, **__: object) -> NoReturn:
        """Raise an error, as pylance does."""
        _refuse("update_field_metadata", "LanceDataset.update_field_metadata")

    def alter_transaction(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: committed transactions cannot be changed."""
        _refuse("alter_transaction", "restore_table for the state of an older version")

    def create_table_version(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: a manifest that no commit has checked may lose rows."""
        _refuse("create_table_version", "LanceDataset.commit")

    def batch_create_table_versions(self, *_: object, **__: object) -> NoReturn:
        """Raise an error; see :meth:`create_table_version`."""
        _refuse("batch_create_table_versions", "LanceDataset.commit, or PartitionedNamespace.transaction")

    def batch_commit_tables(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: the tables of a directory are committed one by one."""
        _refuse("batch_commit_tables", "PartitionedNamespace.transaction")

    def retrieve_ops_metrics(self) -> dict[str, int]:
        """Return no metrics: calls are not counted."""
        return {}

    def reset_ops_metrics(self) -> None:
        """Do nothing; see :meth:`retrieve_ops_metrics`."""


def _refuse(method: str, instead: str) -> NoReturn:
    raise UnsupportedFeatureError(f"{method} is not supported; use {instead}")
