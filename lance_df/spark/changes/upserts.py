"""`upsert_batches`: merge each batch of a stream into a target exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_df.api.merge_insert import key_columns
from lance_df.errors import InvalidInputError
from lance_df.spark.changes.committing import Target
from lance_df.spark.changes.merging import MergeBuilder
from lance_df.spark.paths import path_for_driver
from lance_df.table.commit.marks import Mark

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import DataFrame


def upsert_batches(
    target: str | os.PathLike[str],
    on: str | Iterable[str] | None = None,
    *,
    sink_id: str,
    clauses: Callable[[MergeBuilder], object] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch`` that merges each batch into a target exactly once.

    The commit of a batch stores the number of the batch. If Spark runs a batch again, also because the driver
    died between the commit and Spark's checkpoint, the function does nothing.

    Parameters
    ----------
    target
        Path of an existing table or partitioned namespace.
    on
        The key columns, as for `merge`.
    sink_id
        A name for the stream. Another stream, or the same stream with a new checkpoint, needs another name,
        because its batches are counted from 0 again.
    clauses
        A function that adds clauses to the builder of a batch's merge. By default, rows with existing keys
        get the values of the batch, and rows with new keys are inserted. Several rows with the same key are
        then an error.
    storage_options
        Options for the fsspec filesystem.

    Raises
    ------
    InvalidInputError
        ``sink_id`` is missing, or ``clauses`` is not a function.
    """
    if not sink_id:
        raise InvalidInputError("sink_id must not be empty; give the stream a unique name")
    if clauses is not None and not callable(clauses):
        raise InvalidInputError(f"clauses must be a function of a MergeBuilder, got {clauses!r:.60}")
    path = path_for_driver(target)

    def upsert(batch: DataFrame, batch_id: int) -> None:
        mark = Mark(f"lance_df.stream.{sink_id}", batch_id)
        opened = Target(batch.sparkSession, path, storage_options, mark)
        if opened.is_done:
            return
        keys = key_columns(opened.schema, on)
        builder = MergeBuilder(opened, batch, keys, needs_distinct_keys=clauses is None)
        if clauses is None:
            builder.when_matched_update().when_not_matched_insert()
        else:
            clauses(builder)
        builder.execute()

    return upsert
