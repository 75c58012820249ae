"""What may be written to a table, and what methods return as dictionaries, with pylance's names."""

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
    """A version of a table, as `LanceDataset.versions` lists it."""

    version: int
    timestamp: dt.datetime
    metadata: dict[str, str]


class Tag(TypedDict):
    """A tag, as `LanceDataset.tags` lists it."""

    version: int
    manifest_size: int


class Branch(TypedDict):
    """A branch, as `LanceDataset.branches` lists it."""

    parent_branch: str | None
    parent_version: int
    create_at: int
    manifest_size: int


class UpdateResult(TypedDict):
    """What `LanceDataset.update` returns."""

    num_rows_updated: int


class DeleteResult(TypedDict):
    """What `LanceDataset.delete` returns."""

    num_deleted_rows: int


class ExecuteResult(TypedDict):
    """What a builder of `LanceDataset.merge_insert` returns."""

    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int


def coerce_reader(data_obj: Any, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """Return a reader of the batches of any data that `lance_df.write_dataset` takes.

    Raises
    ------
    InvalidInputError
        No such source, or values that do not fit the schema.
    """
    known, batches = to_batches(data_obj, schema)
    return pa.RecordBatchReader.from_batches(known, iter(batches))


# pylance's name of it
_coerce_reader = coerce_reader
