"""`MergeInsertBuilder`: merge rows into a table by their keys, with the names of pylance."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypedDict

import numpy as np
import pyarrow as pa

from lance_df.api.base import DatasetBase
from lance_df.api.operation_models import from_transaction
from lance_df.api.row_filters import check_addressable, check_meaning, matching_rows, retry_options
from lance_df.arguments import checked_flag, checked_names, checked_type
from lance_df.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from lance_df.file.arrow_types import shown_schema
from lance_df.format.operations import Update
from lance_df.format.schema import EXTENSION_NAME, STORED_JSON
from lance_df.format.transaction import Transaction as TransactionModel
from lance_df.table.changes.merge import (
    MergeClauses,
    MergeStatistics,
    PairCondition,
    WhenMatched,
    WriteMode,
    merge,
)
from lance_df.table.changes.retry import RetryOptions, commit_with_retries
from lance_df.table.metadata.base_paths_write import as_base_names
from lance_df.table.metadata.missing_files import conflict_if_gone
from lance_df.table.reading.batches import source_closed

if TYPE_CHECKING:
    import os

    import numpy.typing as npt

    from lance_df.format.operations import Operation
    from lance_df.format.schema import Schema
    from lance_df.operations import Transaction
    from lance_df.table.changes.retry import Change
    from lance_df.table.table import Table

_SOURCE, _TARGET = "source", "target"


class MergeResult(TypedDict):
    """The result of `MergeInsertBuilder.execute`."""

    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int


class MergeInsertBuilder:
    """A builder for a merge, as `merge_insert` returns it.

    It collects the actions for rows that match and for rows that do not. Rows match when their keys are
    equal. A key that contains a null matches nothing. Methods that set something return the builder.
    """

    def __init__(self, dataset: DatasetBase, on: str | Iterable[str] | None) -> None:
        self._dataset = checked_type(dataset, "dataset", DatasetBase, "a LanceDataset")
        self._clauses = MergeClauses(on=key_columns(dataset._table.schema, on))
        self._retry = RetryOptions()
        self._condition: str | None = None
        self._unmatched: str | None = None

    def __repr__(self) -> str:
        table, clauses = self._dataset._table, self._clauses
        return (
            f"<lance_df.MergeInsertBuilder of {table.uri} version {table.version}: "
            f"on=[{', '.join(clauses.on)}], when_matched={clauses.when_matched.name.lower()}, "
            f"when_not_matched={'insert' if clauses.insert else 'keep'}, "
            f"when_not_matched_by_source={self._by_source_text()}>"
        )

    def when_matched_update_all(self, condition: str | None = None) -> Self:
        """Update matching rows of the table with the values of the source.

        Parameters
        ----------
        condition
            An SQL expression over ``source.…`` and ``target.…``. Only matches for which it is true are
            updated. The other matches remain unchanged, and still count as matches.
        """
        self._condition = _text(condition, "condition")
        return self._with(when_matched=WhenMatched.UPDATE)

    def when_matched_delete(self) -> Self:
        """Delete matching rows of the table."""
        return self._with(when_matched=WhenMatched.DELETE)

    def when_matched_fail(self) -> Self:
        """Raise an error if any row matches."""
        return self._with(when_matched=WhenMatched.FAIL)

    def when_not_matched_insert_all(self) -> Self:
        """Insert rows of the source that match no row of the table."""
        return self._with(insert=True)

    def when_not_matched_by_source_delete(self, expr: str | None = None) -> Self:
        """Delete rows of the table that match no row of the source.

        Parameters
        ----------
        expr
            An SQL expression over the columns of the table. Only rows for which it is true are deleted.
        """
        self._unmatched = _text(expr, "expr")
        if self._unmatched is not None:
            from lance_df.engine.query import plan_with_sql

            plan_with_sql(self._dataset._table, columns=[], filter=self._unmatched)
        return self._with(delete_unmatched=True)

    def conflict_retries(self, max_retries: int) -> Self:
        """Set how many times the merge is computed again after conflicts. The default is 10."""
        timeout = dt.timedelta(seconds=self._retry.timeout)
        self._retry = retry_options(max_retries, timeout)
        return self

    def retry_timeout(self, timeout: dt.timedelta) -> Self:
        """Set for how long the merge is computed again after conflicts. The default is 30 seconds."""
        self._retry = retry_options(self._retry.retries, timeout)
        return self

    def use_index(self, use_index: bool) -> Self:
        """Set whether indices and statistics may be used to find the keys. The default is True."""
        return self._with(use_statistics=checked_flag(use_index, "use_index"))

    def write_mode(self, mode: str) -> Self:
        """Set how updated rows are written.

        Parameters
        ----------
        mode
            - ``"rewrite_rows"``: write updated rows as new rows.
            - ``"rewrite_columns"``: write new files with the columns of the source, for the affected
              fragments. Only for merges that update and do nothing else, and whose source lacks some columns
              of the table.
            - ``"auto"``: the same as ``"rewrite_rows"``.
        """
        if mode not in list(WriteMode):
            raise InvalidInputError(
                f"write mode {mode!r} is unknown; use {', '.join(repr(each.value) for each in WriteMode)}"
            )
        return self._with(write_mode=WriteMode(mode))

    def target_bases(self, bases: Iterable[str | os.PathLike[str]]) -> Self:
        """Distribute new data files over these registered base paths in turn, given as names or paths."""
        return self._with(target_bases=as_base_names(bases, "bases"))

    def target_all_bases(self, include_primary: bool = True) -> Self:
        """Distribute new data files over all base paths, and by default over the table's own folder."""
        return self._with(target_all_bases=checked_flag(include_primary, "include_primary"))

    def execute(self, data_obj: Any, *, schema: pa.Schema | None = None) -> MergeResult:
        """Merge the rows, and move the dataset to the new version.

        Parameters
        ----------
        data_obj
            The source: any data that `write_dataset` accepts. It is held in memory.
        schema
            The schema of the data, if the data itself does not have one.

        Returns
        -------
        ``{"num_inserted_rows": …, "num_updated_rows": …, "num_deleted_rows": …}``.

        Raises
        ------
        InvalidInputError
            The data does not fit the table, several rows of the source match one row of the table, a row
            matches although `when_matched_fail` is set, or an expression is invalid.
        ConflictError
            Other writers changed the table in a way that conflicts with the merge.
        """
        compute = self._compute(data_obj, schema)
        table, statistics = commit_with_retries(self._dataset._table, compute, self._retry)
        self._dataset._follow(table)
        return _result(statistics)

    def execute_batches(self, new_data: pa.RecordBatchReader) -> MergeResult:
        """Merge the rows of a reader; see `execute`."""
        return self.execute(new_data)

    def execute_uncommitted(
        self, data_obj: Any, *, schema: pa.Schema | None = None
    ) -> tuple[Transaction, MergeResult]:
        """Write the files of a merge. Return the transaction to commit and the number of changed rows."""
        table = self._dataset._table
        with conflict_if_gone(table), self._compute(data_obj, schema)(table) as change:
            transaction = TransactionModel(
                read_version=table.version, uuid=str(uuid.uuid4()), operation=change.operation
            )
        return from_transaction(transaction), _result(change.result)

    def explain_plan(self, schema: pa.Schema | None = None, verbose: bool | None = False) -> str:
        """Return a text that describes the merge. Nothing is read or written."""
        table = self._dataset._table
        if schema is not None:
            checked_type(schema, "schema", pa.Schema, "a pyarrow Schema")
        verbose = checked_flag(verbose, "verbose", default=False)
        names = table.schema.names if schema is None else schema.names
        clauses = self._clauses
        lines = [
            f"MergeInsert: on=[{', '.join(clauses.on)}], when_matched={clauses.when_matched.name.lower()}, "
            f"condition={self._condition}, when_not_matched={'insert' if clauses.insert else 'keep'}, "
            f"when_not_matched_by_source={self._by_source_text()}, write_mode={clauses.write_mode}",
            f"  source: [{', '.join(names)}]",
            f"  LanceScan: uri={table.uri}, version={table.version}, columns=[{', '.join(clauses.on)}]",
        ]
        if verbose:
            lines.append(f"  fragments: {len(table.fragments)}, use_index={clauses.use_statistics}")
        return "\n".join(lines)

    def analyze_plan(self, data_obj: Any, *, schema: pa.Schema | None = None) -> str:
        """Compute the merge without committing it. Return the plan with the numbers of rows and files."""
        with suppress(_NotWantedError), self._compute(data_obj, schema)(self._dataset._table) as change:
            metrics: dict[str, int] = {**_result(change.result), **_written(change.operation)}  # type: ignore[dict-item]
            raise _NotWantedError  # which removes what was written
        counts = ", ".join(f"{name}={count}" for name, count in metrics.items())
        return f"{self.explain_plan()}\n  metrics=[{counts}]"

    def data_storage_version(self, version: str) -> Self:
        """Check that the table has this file version. New files always have the version of their table."""
        table_version = self._dataset._table.manifest.file_version
        if version != table_version:
            raise UnsupportedFeatureError(
                f"the file version cannot be changed by a merge; the table has file version {table_version}"
            )
        return self

    def mark_sstables_as_compacted(self, sstables: object) -> Self:  # noqa: ARG002 - pylance's name
        """Raise an error: lance_df does not support MemWAL."""
        raise UnsupportedFeatureError("MemWAL is not supported")

    def _with(self, **changes: Any) -> Self:
        self._clauses = replace(self._clauses, **changes)
        return self

    def _by_source_text(self) -> str:
        if not self._clauses.delete_unmatched:
            return "keep"
        return "delete" if self._unmatched is None else f"delete where {self._unmatched}"

    def _compute(
        self, data: Any, schema: pa.Schema | None
    ) -> Callable[[Table], AbstractContextManager[Change[MergeStatistics]]]:
        from lance_df.sources import to_batches

        if self._clauses.does_nothing:
            raise InvalidInputError("the merge would change nothing; add a when_… clause")
        columns = shown_schema(self._dataset._table.arrow_schema)
        data_schema, batches = to_batches(data, schema, column_types=columns)
        with source_closed(batches):
            rows = pa.Table.from_batches(list(batches), data_schema)
        where, condition = self._unmatched, self._condition

        def compute(table: Table) -> AbstractContextManager[Change[MergeStatistics]]:
            check_addressable(table)
            given = rows if rows.num_rows else _with_types_of(table.arrow_schema, rows)
            clauses = replace(
                self._clauses,
                condition=None
                if condition is None
                else _pair_condition(condition, given.schema, table.schema),
                unmatched=None if where is None else lambda current: matching_rows(current, where),
            )
            return merge(table, given, clauses)

        return compute


def _with_types_of(schema: pa.Schema, rows: pa.Table) -> pa.Table:
    """Give columns of type null, as Arrow makes of no values, the types that the table's columns have."""
    for number, field in enumerate(rows.schema):
        if pa.types.is_null(field.type) and field.name in schema.names:
            known = schema.field(field.name)
            rows = rows.set_column(number, known, pa.nulls(0, known.type))
    return rows


class _NotWantedError(Exception):
    """Raised to end a merge that is computed only for its numbers."""


def key_columns(schema: Schema, on: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the key columns of a merge: the given ones, or the unenforced primary key.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    InvalidInputError
        No columns are given, and the schema has no key.
    """
    if isinstance(on, Mapping):  # its keys are the columns, as for other iterables
        on = [*on]
    if on is None or not (names := [on] if isinstance(on, str) else checked_names(on, "on")):
        keyed = [field for field in schema.fields if field.primary_key_position is not None]
        names = [
            field.name for field in sorted(keyed, key=lambda field: (field.primary_key_position, field.id))
        ]
        if not names:
            raise InvalidInputError(
                "a merge needs key columns; name them with on, or give the schema a primary key"
            )
    return tuple(dict.fromkeys(_key(schema, name) for name in names))


def _key(schema: Schema, name: str) -> str:
    """Return the column of a name, which may differ in case, as in pylance."""
    matches = [each for each in schema.names if each.lower() == name.lower()]
    if name in matches:
        return name
    if len(matches) != 1:
        raise ColumnNotFoundError(
            f"key column {name!r} does not exist; the columns are {', '.join(schema.names)}"
        )
    return matches[0]


def _text(expression: Any, name: str) -> str | None:
    if expression is not None and not isinstance(expression, str):
        raise InvalidInputError(f"{name} must be an SQL expression, got {expression!r:.60}")
    if expression is not None:
        check_meaning(expression)
    return expression


def _pair_condition(condition: str, source: pa.Schema, target: Schema) -> PairCondition:
    """Return a condition over ``source.…`` and ``target.…``.

    Names that only one side has may be written without a prefix.
    """
    mentioned = condition.lower()

    def evaluate(ours: pa.RecordBatch, theirs: pa.Table) -> npt.NDArray[np.bool_]:
        from lance_df.engine.query import compute_columns

        sides = {_SOURCE: _with_json(pa.Table.from_batches([ours]), target), _TARGET: theirs}
        columns: dict[str, Any] = {}
        for side, other in ((_SOURCE, _TARGET), (_TARGET, _SOURCE)):
            rows = sides[side]
            columns[side] = rows.to_struct_array()
            alone = [name for name in rows.schema.names if name not in sides[other].schema.names]
            columns |= {name: rows.column(name) for name in alone if name not in (_SOURCE, _TARGET)}
        (fulfilled,) = compute_columns(pa.table(columns), {"fulfilled": condition}, for_change=True).columns
        if not pa.types.is_boolean(fulfilled.type):
            raise InvalidInputError(
                f"the condition {condition!r} must be boolean, its type is {fulfilled.type}"
            )
        mask: npt.NDArray[np.bool_] = fulfilled.fill_null(False).to_numpy()
        return mask

    def named(names: list[str]) -> tuple[str, ...]:
        # at least one, as rows without columns have no number
        return tuple(name for name in names if name.lower() in mentioned) or (names[0],)

    return PairCondition(named(source.names), named(target.names), evaluate)


def _with_json(source: pa.Table, target: Schema) -> pa.Table:
    """Return rows of a source, in the types of the table, whose JSON columns are known for what they are."""
    fields = [
        field.with_metadata({EXTENSION_NAME: STORED_JSON})
        if field.name in target.names and target.field(field.name).is_json
        else field
        for field in source.schema
    ]
    return pa.table(source.columns, schema=pa.schema(fields))


def _written(operation: Operation) -> dict[str, int]:
    """Return the number of new data files of an operation, and their bytes."""
    fragments = operation.new_fragments if isinstance(operation, Update) else ()
    files = [file for fragment in fragments for file in fragment.files]
    return {"num_files_written": len(files), "bytes_written": sum(file.size_bytes for file in files)}


def _result(statistics: MergeStatistics) -> MergeResult:
    return {
        "num_inserted_rows": statistics.num_inserted,
        "num_updated_rows": statistics.num_updated,
        "num_deleted_rows": statistics.num_deleted,
    }
