"""Change rows: delete, update, merge insert and insert."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.api.base import DatasetBase
from lance_df.api.merge_insert import MergeInsertBuilder
from lance_df.api.row_filters import (
    check_addressable,
    check_meaning,
    checked_filter,
    matching_rows,
    retry_options,
)
from lance_df.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from lance_df.table.changes.delete import deletion
from lance_df.table.changes.retry import RetryOptions, commit_with_retries
from lance_df.table.changes.row_set import RowSet
from lance_df.table.changes.update import row_update

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_df.format.schema import Field, Schema
    from lance_df.scanner_options import Filter
    from lance_df.table.changes.retry import Change
    from lance_df.table.table import Table

_TIMEOUT = dt.timedelta(seconds=30)


class DeleteResult(TypedDict):
    """The result of `LanceDataset.delete`."""

    num_deleted_rows: int


class UpdateResult(TypedDict):
    """The result of `LanceDataset.update`."""

    num_rows_updated: int


class RowChanges(DatasetBase):
    """Methods that change rows: delete, update, merge insert and insert.

    Every change is one commit, and the dataset moves to the version that the commit creates. When a commit of
    another writer conflicts with a change, the change is computed again from the newest version.
    """

    def delete(
        self,
        predicate: str | pc.Expression,
        *,
        conflict_retries: int = 10,
        retry_timeout: dt.timedelta = _TIMEOUT,
    ) -> DeleteResult:
        """Delete the rows for which a predicate is true. Rows for which it is NULL remain.

        Parameters
        ----------
        predicate
            An SQL expression or a pyarrow expression.
        conflict_retries, retry_timeout
            How many times, and for how long, to compute the deletion again after conflicts.

        Returns
        -------
        ``{"num_deleted_rows": …}``.

        Raises
        ------
        InvalidInputError, ColumnNotFoundError
            The predicate is invalid.
        UnsupportedFeatureError
            DataFusion may evaluate the predicate differently from standard SQL.
        ConflictError
            Other writers changed the table in a way that conflicts with the deletion.
        """
        where = checked_filter(predicate, "predicate")

        @contextmanager
        def compute(table: Table) -> Iterator[Change[int]]:
            rows = RowSet.of(matching_rows(table, where))
            with deletion(table, rows, predicate=str(predicate)) as change:
                yield change

        options = retry_options(conflict_retries, retry_timeout)
        table, num_rows = commit_with_retries(self._table, compute, options)
        self._follow(table)
        return {"num_deleted_rows": num_rows}

    def update(
        self,
        updates: Mapping[str, str],
        where: str | pc.Expression | None = None,
        conflict_retries: int = 10,
        retry_timeout: dt.timedelta = _TIMEOUT,
    ) -> UpdateResult:
        """Set columns to new values in the rows for which a predicate is true.

        Parameters
        ----------
        updates
            A dict of top-level columns and the SQL expressions of their new values. The expressions see the
            old values of all columns. Their results are cast to the type of the column. The expression for a
            JSON column must return JSON text or be a JSON column.
        where
            An SQL expression or a pyarrow expression; ``None`` for all rows.
        conflict_retries, retry_timeout
            How many times, and for how long, to compute the update again after conflicts.

        Returns
        -------
        ``{"num_rows_updated": …}``.

        Raises
        ------
        InvalidInputError, ColumnNotFoundError
            An expression is invalid, a value cannot be cast, a value is null in a column that does not allow
            nulls, or ``updates`` names a field of a struct.
        UnsupportedFeatureError
            The table has columns that cannot be written, or DataFusion may evaluate an expression
            differently from standard SQL.
        ConflictError
            Other writers changed the table in a way that conflicts with the update.
        """
        expressions = checked_updates(updates)
        if where is not None:
            checked_filter(where, "where")

        @contextmanager
        def compute(table: Table) -> Iterator[Change[int]]:
            with row_update(table, list(expressions), new_values(table, expressions, where)) as change:
                yield change

        options = retry_options(conflict_retries, retry_timeout)
        table, num_rows = commit_with_retries(self._table, compute, options)
        self._follow(table)
        return {"num_rows_updated": num_rows}

    def truncate_table(self) -> None:
        """Delete all rows. The schema remains."""

        @contextmanager
        def compute(table: Table) -> Iterator[Change[int]]:
            with deletion(table, RowSet.all_of(table), predicate="true") as change:
                yield change

        table, _ = commit_with_retries(self._table, compute, RetryOptions())
        self._follow(table)

    def merge_insert(self, on: str | Iterable[str] | None = None) -> MergeInsertBuilder:
        """Return a builder that merges rows into the table by their keys.

        Parameters
        ----------
        on
            The key columns. The default is the unenforced primary key of the schema.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        InvalidInputError
            No key is given, and the schema has none.
        """
        return MergeInsertBuilder(self, on)

    def insert(
        self, data: Any, *, mode: Literal["create", "append", "overwrite"] = "append", **kwargs: Any
    ) -> None:
        """Write rows to this table, by default after the existing rows; see `write_dataset`."""
        from lance_df.write import write_dataset

        self._table = write_dataset(data, self, mode=mode, **kwargs)._table  # type: ignore[arg-type]


def new_values(
    table: Table,
    updates: Mapping[str, str],
    where: Filter,
    *,
    fragment_ids: tuple[int, ...] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the new values of the rows to update, and their addresses; ``None`` means all fragments."""
    from lance_df.engine.query import scan_with_sql

    check_addressable(table)
    fields = updated_fields(table.schema, updates)
    with advising_quotes(updates, fields, table.schema.names):
        reader = scan_with_sql(
            table,
            columns=updates,
            filter=where,
            with_row_address=True,
            fragment_ids=fragment_ids,
            fields=fields,
            for_change=True,
        )
    with reader:
        yield from reader


@contextmanager
def advising_quotes(
    updates: Mapping[str, str], fields: Mapping[str, Field], columns: Sequence[str]
) -> Iterator[None]:
    """Add the advice to quote text to errors of an update whose words name no column."""
    try:
        yield
    except (ColumnNotFoundError, InvalidInputError) as err:
        if (unquoted := _unquoted_text(updates, fields, columns)) is None:
            raise
        name, text = unquoted
        raise type(err)(
            f"column {text!r} does not exist; column {name!r} cannot be set to it, because values are SQL "
            f"expressions. To set the text itself, quote it: {{{name!r}: \"'{text}'\"}}"
        ) from err


def _unquoted_text(
    updates: Mapping[str, str], fields: Mapping[str, Field], columns: Sequence[str]
) -> tuple[str, str] | None:
    """Return a column of strings, and the words that it was to be set to, which name no column."""
    known = {name.lower() for name in columns}
    for name, text in updates.items():
        words = text.strip()
        are_words = all(word.isidentifier() for word in words.split(" ")) and words.lower() not in known
        if are_words and fields[name].arrow_type() in (pa.string(), pa.large_string()):
            return name, words
    return None


def updated_fields(schema: Schema, names: Iterable[str]) -> dict[str, Field]:
    """Return the columns that an update computes, by name.

    Raises
    ------
    ColumnNotFoundError, InvalidInputError
        See `updatable`.
    UnsupportedFeatureError
        A column contains JSON in a nested field.
    """
    fields = {name: updatable(schema, name) for name in names}
    for name, field in fields.items():
        if not field.is_json and any(each.is_json for each in field.walk()):
            raise UnsupportedFeatureError(
                f"column {name!r} has JSON in a nested field, which cannot be updated; use merge_insert"
            )
    return fields


def updatable(schema: Schema, name: str) -> Field:
    """Return the column that an update names.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    InvalidInputError
        The name is that of a field of a struct.
    """
    top = name.partition(".")[0]
    if name not in schema.names and top in schema.names and schema.field(top).is_struct:
        raise InvalidInputError(f"{name!r} is a field of a struct; update the column {top!r} as a whole")
    return schema.field(name)


def checked_updates(updates: Any) -> dict[str, str]:
    """Return the columns and expressions of an update, after `check_meaning`.

    Raises `InvalidInputError` for anything else.
    """
    if not isinstance(updates, Mapping) or not updates:
        raise InvalidInputError(f"updates must be a dict of columns and SQL expressions, got {updates!r:.60}")
    for text in (*updates, *updates.values()):
        if not isinstance(text, str):
            raise InvalidInputError(f"columns and expressions of an update must be strings, got {text!r:.60}")
    for text in updates.values():
        check_meaning(text)
    return dict(updates)
