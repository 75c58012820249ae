"""`delete` and `update`: tasks find and rewrite the rows for which an expression is true."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lance_df.api.row_changes import checked_updates, new_values, updated_fields
from lance_df.api.row_filters import check_meaning, matching_rows
from lance_df.engine.pruning.pushed_condition import pushed_condition
from lance_df.engine.query import scan_with_sql
from lance_df.errors import InvalidInputError
from lance_df.format.schema import Schema
from lance_df.spark.changes.committing import ChangeSummary, RowsChange, Target
from lance_df.spark.changes.targets import share_out
from lance_df.spark.changes.task_rows import ChangedRows, TaskResult, delete_rows, write_rows
from lance_df.spark.column_names import by_target_name
from lance_df.spark.pipeline.tasks import num_workers, run_in_tasks
from lance_df.spark.writing import run_mark
from lance_df.sql.expressions import with_quoted_columns
from lance_df.table.reading.system_columns import ROW_ADDRESS

if TYPE_CHECKING:
    import os
    import uuid
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lance_df.namespace.changes.draft import Draft, DraftMember
    from lance_df.spark.changes.targets import Pieces, Targets
    from lance_df.table.table import Table

_ALL: Final = "true"


def delete(
    spark: SparkSession,
    target: str | os.PathLike[str],
    where: str | None = None,
    *,
    run_id: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ChangeSummary:
    """Delete the rows for which an expression is true, in one commit; those for which it is NULL stay.

    Tasks find the rows and write the deletion files. After a conflict with another commit, the change is
    computed again on the newest version.

    Parameters
    ----------
    target
        Path of a table or a partitioned namespace.
    where
        An expression in lance_df's SQL, as ``filter`` of `read`; None for all rows.
    run_id
        A name for the change. If a change with the same name was ever committed, nothing is deleted.
    storage_options
        Options for the fsspec filesystem.

    Raises
    ------
    NotFoundError
        The table or namespace does not exist.
    InvalidInputError, ColumnNotFoundError
        The expression is invalid.
    ConflictError
        Every attempt conflicted with another commit.
    CommitStateUnknownError
        It is not known whether the rows were deleted. Call again with the same ``run_id``.
    LanceError
        A task failed, and no change is visible. Spark's error is the cause.
    """
    table = Target(spark, target, storage_options, run_mark(run_id))
    text = _checked(where)
    if table.is_done:
        return table.repeated()
    condition = _Condition(table, text)

    def run(targets: Targets, tables: Sequence[Table], job: uuid.UUID) -> list[TaskResult]:
        work = share_out(enumerate(tables), num_workers(spark))
        return run_in_tasks(spark, partial(_delete, targets, job, condition.text), work)

    return table.commit(RowsChange(run, condition.candidates, text or _ALL, is_deletion=True))


def update(
    spark: SparkSession,
    target: str | os.PathLike[str],
    values: Mapping[str, str],
    where: str | None = None,
    *,
    run_id: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ChangeSummary:
    """Set new values in the rows for which an expression is true, in one commit.

    Tasks find the rows and write them to the partitions of their new values. After a conflict with another
    commit, the change is computed again on the newest version.

    Parameters
    ----------
    target
        Path of a table or a partitioned namespace.
    values
        Top-level columns and SQL expressions of their new values, which read the old values of all columns
        and are cast to the column's type: ``{"price": "price * 1.1", "state": "'new'"}``. The case of columns
        is ignored unless ``spark.sql.caseSensitive`` is true.
    where
        An expression in lance_df's SQL, as ``filter`` of `read`; None for all rows.
    run_id
        A name for the change. If a change with the same name was ever committed, nothing is updated.
    storage_options
        Options for the fsspec filesystem.

    Raises
    ------
    NotFoundError
        The table or namespace does not exist.
    InvalidInputError, ColumnNotFoundError
        An expression is invalid, a value cannot be cast or is NULL in a column without NULLs, or ``values``
        names a field of a struct.
    UnsupportedFeatureError
        The table has columns that cannot be written.
    ConflictError, CommitStateUnknownError, LanceError
        As for `delete`.
    """
    table = Target(spark, target, storage_options, run_mark(run_id))
    expressions = by_target_name(spark, checked_updates(values), table.schema.names)
    text = _checked(where)
    if table.is_done:
        return table.repeated()
    schema = table.schema
    fields = updated_fields(schema, expressions)
    if (namespace := table.namespace) is not None:
        names = namespace.arrow_schema.names
        expressions = {name: with_quoted_columns(each, names) for name, each in expressions.items()}
    condition = _Condition(table, text)
    # raises for invalid expressions before any task runs, and if there are no rows
    scan_with_sql(table.opened, columns=expressions, filter="false", fields=fields, for_change=True).close()

    def run(targets: Targets, tables: Sequence[Table], job: uuid.UUID) -> list[TaskResult]:
        work = share_out(enumerate(tables), num_workers(spark))
        return run_in_tasks(spark, partial(_update, targets, job, expressions, condition.text), work)

    change = RowsChange(run, condition.candidates, f"update {text or ''}", assigned=tuple(expressions))
    return table.commit(change)


def _checked(where: object) -> str | None:
    if where is not None and not isinstance(where, str):
        raise InvalidInputError(f"where must be an SQL expression, got {where!r:.60}")
    if where is not None:
        check_meaning(where)
    return where


class _Condition:
    """The condition that selects the rows to change and the members of a namespace that may have some.

    Attributes
    ----------
    text
        The SQL expression as tables take it; None for all rows.
    """

    def __init__(self, target: Target, where: str | None) -> None:
        self.text = where
        self._predicate = None
        namespace = target.namespace
        if where is None:
            return
        if namespace is not None:
            self.text = with_quoted_columns(where, namespace.arrow_schema.names)
            self._predicate = pushed_condition(namespace, self.text)
        else:
            scan_with_sql(
                target.opened, columns=[ROW_ADDRESS], filter=where, fragment_ids=(), for_change=True
            ).close()

    def candidates(self, draft: Draft) -> Sequence[DraftMember]:
        """Return the members that may have rows to change."""
        return draft.members_that_may_match(self._predicate)


def _delete(targets: Targets, job: uuid.UUID, where: str | None, pieces: Pieces) -> TaskResult:
    rows = {
        piece.number: matching_rows(targets.open(piece.number), where, fragment_ids=piece.fragment_ids)
        for piece in pieces
    }
    return delete_rows(targets, job, rows)


def _update(
    targets: Targets, job: uuid.UUID, expressions: Mapping[str, str], where: str | None, pieces: Pieces
) -> TaskResult:
    changed = ChangedRows(targets)

    def rows() -> Iterator[pa.RecordBatch]:
        for piece in pieces:
            table = changed.table(piece.number)
            fields = tuple(table.schema.field(name) for name in table.schema.names if name in expressions)
            given = Schema(fields=fields, metadata=table.schema.metadata)
            for batch in new_values(table, expressions, where, fragment_ids=piece.fragment_ids):
                addresses = batch.column(ROW_ADDRESS).to_numpy()
                yield from changed.update(piece.number, addresses, batch.select(given.names), given)

    return write_rows(targets, job, changed, rows())
