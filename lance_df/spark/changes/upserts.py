"""`upsert_batches`: merge each batch of a stream into a target exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from lance_df.api.merge_insert import key_columns
from lance_df.errors import InvalidInputError
from lance_df.format.column_path import quoted_name
from lance_df.spark.changes.committing import Target
from lance_df.spark.changes.merging import MergeBuilder
from lance_df.spark.column_names import schema_with_target_names
from lance_df.spark.failures import errors_of_spark
from lance_df.spark.paths import path_for_driver
from lance_df.table.commit.marks import Mark

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import DataFrame

_COUNT: Final = "__lance_df_count"


def upsert_batches(
    target: str | os.PathLike[str],
    on: str | Iterable[str] | None = None,
    *,
    sink_id: str,
    clauses: Callable[[MergeBuilder], MergeBuilder] | None = None,
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
        ``sink_id`` is missing.
    """
    if not sink_id:
        raise InvalidInputError("sink_id must not be empty; give the stream a unique name")
    path = path_for_driver(target)

    def upsert(batch: DataFrame, batch_id: int) -> None:
        mark = Mark(f"lance_df.stream.{sink_id}", batch_id)
        opened = Target(batch.sparkSession, path, storage_options, mark)
        if opened.is_done:
            return
        keys = key_columns(opened.schema, on)
        builder = MergeBuilder(opened, batch, keys)
        if clauses is not None:
            clauses(builder).execute()
            return
        names = schema_with_target_names(batch, opened.stored).names
        if missing := [name for name in keys if name not in names]:
            raise InvalidInputError(f"the source has no key column {missing[0]!r}")
        _check_distinct(batch, keys)
        builder.when_matched_update().when_not_matched_insert().execute()

    return upsert


def _check_distinct(batch: DataFrame, keys: tuple[str, ...]) -> None:
    columns = [F.col(quoted_name(name)) for name in keys]
    with errors_of_spark():
        repeated = batch
        for column in columns:
            repeated = repeated.where(column.isNotNull())
        counted = repeated.groupBy(*columns).agg(F.count(F.lit(1)).alias(_COUNT))
        first = counted.where(F.col(_COUNT) > 1).limit(1).collect()
    if first:
        key = ", ".join(f"{name} = {first[0][at]!r:.60}" for at, name in enumerate(keys))
        raise InvalidInputError(
            f"several rows of a batch have the key {key}; remove the duplicate rows first"
        )
