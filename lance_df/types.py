"""The data that can be written to a table, and the dictionaries that methods return, with pylance's names."""

from __future__ import annotations

import datetime as dt
from typing import Any, TypedDict

import pyarrow as pa

from lance_df.sources import to_batches

__all__ = [
    "Branch",
    "DeleteResult",
    "ExecuteResult",
    "Tag",
    "UpdateResult",
    "Version",
    "coerce_reader",
]


class Version(TypedDict):
    """A version of a table, as an entry of `LanceDataset.versions`."""

    version: int
    timestamp: dt.datetime
    metadata: dict[str, str]


class Tag(TypedDict):
    """A tag, as an entry of `LanceDataset.tags`."""

    version: int
    manifest_size: int


class Branch(TypedDict):
    """A branch, as an entry of `LanceDataset.branches`."""

    parent_branch: str | None
    parent_version: int
    create_at: int
    manifest_size: int


class UpdateResult(TypedDict):
    """The result of `LanceDataset.update`."""

    num_rows_updated: int


class DeleteResult(TypedDict):
    """The result of `LanceDataset.delete`."""

    num_deleted_rows: int


class ExecuteResult(TypedDict):
    """The result of executing a builder of `LanceDataset.merge_insert`."""

    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int


def coerce_reader(data_obj: Any, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """Return a reader of the batches of any data that `lance_df.write_dataset` accepts.

    Raises
    ------
    InvalidInputError
        The data is not such a source, or its values do not fit the schema.
    """
    known, batches = to_batches(data_obj, schema)
    return pa.RecordBatchReader.from_batches(known, iter(batches))


# pylance's name of it
_coerce_reader = coerce_reader
