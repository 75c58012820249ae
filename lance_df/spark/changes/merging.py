"""`merge`: update, delete and insert rows of a target by the rows of a DataFrame, matched by keys."""

from __future__ import annotations

import pickle
import re
import uuid
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.column import Column

from lance_df.api.merge_insert import key_columns
from lance_df.api.row_changes import updatable
from lance_df.api.row_filters import check_addressable
from lance_df.errors import InvalidInputError
from lance_df.format.column_path import quoted_name
from lance_df.namespace.changes.keyed_rows import members_with_keys
from lance_df.sliced_lists import unsliced
from lance_df.spark.changes.committing import ChangeSummary, RowsChange, Target
from lance_df.spark.changes.merge_query import Expression, MergeClause, MergeQuery
from lance_df.spark.changes.merge_tasks import RESULT, MergeWrite
from lance_df.spark.changes.targets import share_out
from lance_df.spark.column_names import by_target_name, schema_with_target_names
from lance_df.spark.failures import errors_of_spark
from lance_df.spark.pipeline.tasks import map_batches, num_workers, rows_in_tasks
from lance_df.spark.sessions import check_frame
from lance_df.spark.types import to_stored
from lance_df.spark.writing import run_mark
from lance_df.sql.changes import MergeAction, RowKind

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lance_df.namespace.changes.draft import Draft, DraftMember
    from lance_df.spark.changes.targets import Targets
    from lance_df.spark.changes.task_rows import TaskResult
    from lance_df.table.table import Table

# Up to so many keys, and bytes of keys, are sent to all tasks, which then skip rows with other keys.
_FEW_KEYS: Final = 100_000
_FEW_BYTES: Final = 16 * 1024 * 1024

_OF_MERGE: Final = "__lance_df_merge_"
_TEXT: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_STAR: Final = re.compile(r"(?:^|[(,\s])(?:\w+\s*\.\s*)?\*\s*(?:$|[,)])")
_STAR_OF_SIDE: Final = re.compile(r"\b(?:source|target)\.\*", re.IGNORECASE)


class MergeBuilder:
    """Collects the clauses of a merge. Made by `merge`.

    The first clause whose condition is true for a row applies to it. A row without such a clause does not
    change. Conditions and values are Spark SQL over ``source.…`` and ``target.…``, or Spark columns.
    Methods that add a clause return the builder.
    """

    def __init__(
        self, target: Target, source: DataFrame, on: tuple[str, ...], *, needs_distinct_keys: bool = False
    ) -> None:
        self._target = target
        self._source = source
        self._on = on
        self._needs_distinct_keys = needs_distinct_keys
        self._clauses: list[MergeClause] = []

    def when_matched_update(
        self, values: Mapping[str, Expression] | None = None, *, condition: Expression | None = None
    ) -> Self:
        """Update rows of the target that match a row of the source.

        Parameters
        ----------
        values
            Columns and their new values; other columns do not change. None for all columns of the source.
        condition
            The condition for an update.
        """
        return self._with(RowKind.MATCHED, MergeAction.UPDATE, condition, self._values(values))

    def when_matched_update_all(self, condition: Expression | None = None) -> Self:
        """Update rows of the target that match a row of the source, with all columns of the source."""
        return self.when_matched_update(condition=condition)

    def when_matched_delete(self, condition: Expression | None = None) -> Self:
        """Delete rows of the target that match a row of the source."""
        return self._with(RowKind.MATCHED, MergeAction.DELETE, condition)

    def when_not_matched_insert(
        self, values: Mapping[str, Expression] | None = None, *, condition: Expression | None = None
    ) -> Self:
        """Insert rows of the source that match no row of the target.

        Parameters
        ----------
        values
            Columns and their values, over ``source.…``; other columns are NULL. None for all columns of the
            source.
        condition
            The condition for an insert.
        """
        return self._with(RowKind.NOT_MATCHED, MergeAction.INSERT, condition, self._values(values))

    def when_not_matched_insert_all(self, condition: Expression | None = None) -> Self:
        """Insert rows of the source that match no row of the target, with all columns of the source."""
        return self.when_not_matched_insert(condition=condition)

    def when_not_matched_by_source_update(
        self, values: Mapping[str, Expression], *, condition: Expression | None = None
    ) -> Self:
        """Update rows of the target that match no row of the source; values are over ``target.…``."""
        return self._with(
            RowKind.NOT_MATCHED_BY_SOURCE, MergeAction.UPDATE, condition, self._values(dict(values))
        )

    def when_not_matched_by_source_delete(self, condition: Expression | None = None) -> Self:
        """Delete rows of the target that match no row of the source."""
        return self._with(RowKind.NOT_MATCHED_BY_SOURCE, MergeAction.DELETE, condition)

    def execute(self) -> ChangeSummary:
        """Run the merge in one commit, and return a summary of its changes.

        Raises
        ------
        InvalidInputError
            The merge has no clause, an expression is invalid, a value does not fit, or several rows of the
            source change the same row of the target.
        ConflictError
            Every attempt conflicted with another commit.
        CommitStateUnknownError
            It is not known whether the merge was committed. Call again with the same ``run_id``.
        LanceError
            A task failed, and no change is visible. Spark's error is the cause.
        """
        if not self._clauses:
            raise InvalidInputError("a merge must have at least one clause, such as when_matched_update()")
        target = self._target
        if target.is_done:
            return target.repeated()
        with errors_of_spark(), _computed_once(self._source) as source:
            query = MergeQuery(target.schema, target.stored, source, self._on, self._clauses)
            if self._needs_distinct_keys:
                query.check_distinct_keys()
            change = _Merge(target, query, source, self._on)
            return target.commit(RowsChange(change.run, change.candidates, f"merge on {', '.join(self._on)}"))

    def _values(self, values: Mapping[str, Expression] | None) -> tuple[tuple[str, Expression], ...] | None:
        if values is None:
            return None
        if not values:
            raise InvalidInputError("values must be a non-empty dict of columns and expressions")
        values = by_target_name(self._target.spark, values, self._target.schema.names)
        for name, value in values.items():
            updatable(self._target.schema, name)
            _check_expression(value)
        return tuple(values.items())

    def _with(
        self,
        rows: RowKind,
        action: MergeAction,
        condition: Expression | None,
        values: tuple[tuple[str, Expression], ...] | None = None,
    ) -> Self:
        if condition is not None:
            _check_expression(condition)
        self._clauses.append(MergeClause(rows, action, condition, values))
        return self


def merge(
    spark: SparkSession,
    target: str | os.PathLike[str],
    source: DataFrame,
    on: str | Iterable[str] | None = None,
    *,
    run_id: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> MergeBuilder:
    """Return a builder that merges the rows of a DataFrame into a target by their keys.

    Keys are compared as in `LanceDataset.merge_insert`: a key with a NULL matches nothing, NaN equals NaN,
    and -0.0 equals 0.0. Both sides have the same type, or are integers or decimals that Spark compares
    without rounding. Columns are matched by name, ignoring case unless ``spark.sql.caseSensitive`` is true.
    Spark joins the keys of both sides. Tasks write the changed rows and the deletion
    files. The merge reads the target's keys, the columns that expressions name, and the other columns of
    updated rows. The keys of a source with up to 100,000 rows prune partitions, fragments and rows.

    Parameters
    ----------
    spark
        The session of the source.
    target
        Path of a table or a partitioned namespace.
    on
        The key columns, which both sides have; by default the unenforced primary key of the target.
    run_id
        A name for the merge. If a merge with the same name was ever committed, nothing is changed.
    storage_options
        Options for the fsspec filesystem.

    Raises
    ------
    NotFoundError
        The table or namespace does not exist.
    ColumnNotFoundError, InvalidInputError
        A key column does not exist, or ``on`` is not given and the schema has no key.
    """
    check_frame(source, "merge expects")
    opened = Target(spark, target, storage_options, run_mark(run_id))
    return MergeBuilder(opened, source, key_columns(opened.schema, on))


class _Merge:
    """Runs the tasks of a merge."""

    def __init__(self, target: Target, query: MergeQuery, source: DataFrame, on: tuple[str, ...]) -> None:
        self._target = target
        self._query = query
        self._on = on
        self._keys = None if query.reads_all else _few_keys(source, on, target.stored)
        self._scan, self._columns = query.scan(self._keys)

    def candidates(self, draft: Draft) -> Sequence[DraftMember]:
        """Return the members that may have matching rows."""
        if self._keys is None:
            return draft.members_that_may_match(None)
        return draft.members_at(members_with_keys(draft.manifest, self._on, self._keys))

    def run(self, targets: Targets, tables: Sequence[Table], job: uuid.UUID) -> list[TaskResult]:
        """Find the rows that change, and write them."""
        for table in tables:
            check_addressable(table)
        spark = self._target.spark
        work = share_out(enumerate(tables), num_workers(spark))
        rows = rows_in_tasks(spark, partial(self._scan.rows, targets), work, self._columns)
        changes = self._query.changes(rows, self._scan, targets)
        schema = self._target.schema
        key_ids = tuple(schema.field(name).id for name in self._on)
        write = MergeWrite(
            self._query.writes(),
            schema,
            key_ids if targets.schema is None and self._query.inserts else None,
            is_primary=key_ids == schema.primary_key,
            uri=self._target.opened.uri,
        )
        results = map_batches(changes, partial(write.results, targets, job), RESULT).toArrow()
        return [pickle.loads(result.as_py()) for result in results["result"]]


def _check_expression(expression: object) -> None:
    if not isinstance(expression, str | Column):
        raise InvalidInputError(
            f"an expression must be SQL or a Spark Column, got {expression!r:.60}; use F.lit(…) for a value"
        )
    if isinstance(expression, str):
        has_star = _STAR.search(_TEXT.sub("''", expression)) is not None
    else:
        has_star = _STAR_OF_SIDE.search(str(expression)) is not None
    if has_star:
        # tasks read the columns that expressions name
        raise InvalidInputError(f"use column names instead of *: {expression!s:.200}")


@contextmanager
def _computed_once(source: DataFrame) -> Iterator[DataFrame]:
    """Let Spark cache the source: several queries read it, which must all see the same rows."""
    level = source.storageLevel
    if level.useMemory or level.useDisk:
        yield source
        return
    # Spark caches by the plan: another merge of this source must not end the cache of this one
    of_this_merge = uuid.uuid4().hex
    cached = source.withColumn(f"{_OF_MERGE}{of_this_merge}", F.lit(of_this_merge)).persist()
    try:
        yield cached.drop(f"{_OF_MERGE}{of_this_merge}")
    finally:
        cached.unpersist()


def _few_keys(source: DataFrame, on: tuple[str, ...], stored: pa.Schema) -> tuple[pa.Array, ...] | None:
    """Return the keys of the source in the types of the target, or None if there are too many."""
    given = schema_with_target_names(source, stored)
    keys = [F.col(quoted_name(name)).alias(name) for name in on]
    texts = [
        F.octet_length(key)
        for key, name in zip(keys, on, strict=True)
        if isinstance(given[name].dataType, T.StringType | T.BinaryType)
    ]
    sizes = [F.coalesce(F.sum(text), F.lit(0)) for text in texts]
    count, *num_bytes = source.agg(F.count(F.lit(1)), *sizes).collect()[0]
    if count > _FEW_KEYS or sum(num_bytes) > _FEW_BYTES:
        return None
    rows = source.select(*keys).distinct().toArrow().combine_chunks()
    schema = pa.schema([stored.field(name).with_nullable(True) for name in on])
    # a key that does not fit the type matches no row, and a task refuses to write it
    with suppress(InvalidInputError):
        batches = [to_stored(batch, schema) for batch in rows.to_batches()]
        table = unsliced(pa.Table.from_batches(batches, schema).combine_chunks()).drop_null()
        columns = [table.column(name) for name in on]
        return tuple(
            column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in columns
        )
    return None
