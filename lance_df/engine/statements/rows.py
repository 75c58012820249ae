"""INSERT, DELETE, UPDATE and TRUNCATE."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import pyarrow as pa

from lance_df.engine.plans.rebuild import NotRebuiltError, with_numbered_columns
from lance_df.engine.statements.target import ROWS, Target, typed_batches
from lance_df.errors import InvalidInputError
from lance_df.format.blobs import is_blob_input
from lance_df.interrupts import interrupted_once
from lance_df.namespace.changes.numbered_members import MEMBER
from lance_df.namespace.changes.stages import Stages
from lance_df.sql.changes import Delete, Insert, Truncate, Update
from lance_df.sql.splice import quote_identifier
from lance_df.table.changes.delete import deletion
from lance_df.table.changes.retry import Change, Compute, RetryOptions, commit_with_retries
from lance_df.table.changes.row_set import RowSet
from lance_df.table.changes.update import row_update
from lance_df.table.maintenance.auto_cleanup import auto_cleanup
from lance_df.table.reading.system_columns import ROW_ADDRESS
from lance_df.table.table import Table

if TYPE_CHECKING:
    from lance_df.compute.compat import DataFrame
    from lance_df.table.changes.row_set import Addresses

R = TypeVar("R")

_ADDRESSES: Final = (ROW_ADDRESS,)
_NUMBERED_ADDRESSES: Final = (MEMBER.name, ROW_ADDRESS)


def insert(target: Target, change: Insert) -> int:
    """Append the rows of a query."""
    names = target.schema.names if change.columns is None else list(change.columns)
    types = target.types(names)
    query = target.query(change.query)
    # DataFusion has no cast of bytes to blobs, and notices this late if the bytes are those of a placeholder
    has_castable = len(types) == len(names) and not any(map(is_blob_input, types.values()))
    frame = query.values_frame(types) if change.has_values and has_castable else None
    if frame is None:
        frame = query.frame()
        given = frame.schema().names
        if len(given) != len(names):
            raise InvalidInputError(
                f"INSERT names {len(names)} columns ({', '.join(names)}), but its query returns {len(given)}"
            )
        if change.has_values:
            # DataFusion does not cast a struct with missing fields within VALUES, so it is cast below
            items = zip(names, types.values(), frame.schema().types, strict=True)
            castable = {name: has if pa.types.is_nested(wanted) else wanted for name, wanted, has in items}
            frame = query.values_frame(castable) or frame
        elif len(set(given)) < len(given):
            frame = _with_distinct_names(target, change, frame)
    # by position, because the column names of the query do not matter
    positions = dict(zip(frame.schema().names, types.values(), strict=True))
    batches = typed_batches(frame, positions, query.statement)
    fields = {field.name: field for field in target.schema.to_arrow()}
    rows = Counted(batches, pa.schema([fields[name] for name in names]))
    append(target, rows)
    return rows.num_rows


def _with_distinct_names(target: Target, change: Insert, frame: DataFrame) -> DataFrame:
    """Return a frame for the query of an insertion whose columns have distinct names."""
    with suppress(NotRebuiltError):
        return with_numbered_columns(frame)
    # without an order, because DataFusion does not sort the rows of subqueries
    listed = ", ".join(f"c{number}" for number in range(len(frame.schema().names)))
    return target.query(f"SELECT {listed} FROM (\n{change.query}\n) AS s ({listed})").frame()


class Counted:
    """Batches with the columns of a table, which count their rows."""

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        self._batches = batches
        self.schema = schema
        self.num_rows = 0

    def reader(self) -> pa.RecordBatchReader:
        """Return a reader. This works only once."""
        return pa.RecordBatchReader.from_batches(self.schema, self._counted())

    def _counted(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.num_rows += batch.num_rows
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)


def append(target: Target, rows: Counted) -> None:
    """Add rows to a table or a namespace, in one commit."""
    namespace = target.namespace
    if namespace is not None:
        with interrupted_once(), Stages(namespace.latest_for_change()) as stages:
            stages.rows.append(rows.schema, rows.reader())
            stages.publish(rebase=True)
        return
    from lance_df.dataset import LanceDataset

    assert target.opened.namespace is None
    dataset = LanceDataset._of(target.opened, target.opened.uri, None, None)
    dataset.insert(rows.reader())


def delete(target: Target, change: Delete | Truncate) -> int:
    """Delete the rows for which the condition is true, and return their number."""
    alias, where = (change.alias, change.where) if isinstance(change, Delete) else ("t", None)
    target.check_names(_select((), alias, {}, None, where))
    text = _select(_ADDRESSES, alias, {}, None, where)
    note = where or "true"
    if (namespace := target.namespace) is None:

        @contextmanager
        def compute(table: Table) -> Iterator[Change[int]]:
            if where is None:
                rows = RowSet.all_of(table)
            else:
                batches = target.query_of_rows(text, table).batches({ROW_ADDRESS: pa.uint64()})
                rows = RowSet.of(batch.column(0).to_numpy() for batch in batches)
            with deletion(table, rows, predicate=note) as deleted:
                yield deleted

        return commit(target, compute)
    with interrupted_once(), Stages(namespace.latest_for_change()) as stages:
        numbered = _select(_NUMBERED_ADDRESSES, alias, {}, None, where)
        condition = target.query_of_members(numbered, ()).condition()

        def matching(tables: Sequence[Table]) -> Iterator[tuple[int, Addresses]]:
            batches = target.query_of_members(numbered, tables).batches(member_types({}))
            for number, rows in by_member(batches):
                yield number, rows.column(ROW_ADDRESS).to_numpy()

        deleted = stages.rows.delete(condition, matching, text=note)
        stages.publish(rebase=True)
    return deleted.num_rows


def update(target: Target, change: Update) -> int:
    """Set columns of rows to values computed from the old rows, and return the number of rows."""
    assignments = dict(change.assignments)
    types = target.types(list(assignments))
    columns = list(assignments)
    target.check_names(_select((), change.alias, assignments, change.others, change.where))
    if (namespace := target.namespace) is None:
        text = _select(_ADDRESSES, change.alias, assignments, change.others, change.where)

        @contextmanager
        def compute(table: Table) -> Iterator[Change[int]]:
            batches = target.query_of_rows(text, table).batches({ROW_ADDRESS: pa.uint64(), **types})
            with row_update(table, columns, each_once(batches, target)) as updated:
                yield updated

        return commit(target, compute)
    with interrupted_once(), Stages(namespace.latest_for_change()) as stages:
        numbered = _select(_NUMBERED_ADDRESSES, change.alias, assignments, change.others, change.where)
        # a wrong expression is an error even if there are no rows
        first = target.query_of_members(numbered, ())
        condition = first.condition()
        first.batches(member_types(types))

        def values(tables: Sequence[Table]) -> Iterator[tuple[int, pa.RecordBatch]]:
            batches = target.query_of_members(numbered, tables).batches(member_types(types))
            seen = [RowSet() for _ in tables]
            for number, rows in by_member(batches):
                _see(seen[number], rows.column(ROW_ADDRESS).to_numpy(), target)
                yield number, rows

        updated = stages.rows.update(columns, condition, values, text=f"update {change.where or ''}")
        stages.publish(rebase=True)
    return updated.num_rows


def commit(target: Target, compute: Compute[R]) -> R:
    """Commit a change of a table. If other commits conflict with it, the change is computed again."""
    assert target.opened.namespace is None
    table, result = commit_with_retries(target.opened, compute, RetryOptions())
    auto_cleanup(table)
    return result


def member_types(types: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """Return the types of a query over members: the positions of rows, and the given columns."""
    return {MEMBER.name: MEMBER.type, ROW_ADDRESS: pa.uint64(), **types}


def by_member(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield positions of members with consecutive rows of the member, without the position column."""
    for batch in batches:
        numbers = batch.column(MEMBER.name).to_numpy()
        rows = batch.drop_columns([MEMBER.name])
        starts = np.flatnonzero(np.diff(numbers.astype(np.int64), prepend=-1)).tolist()
        for start, stop in itertools.pairwise([*starts, len(numbers)]):
            yield int(numbers[start]), rows.slice(start, stop - start)


def each_once(batches: Iterator[pa.RecordBatch], target: Target) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and check that every row of the table occurs at most once.

    Raises
    ------
    InvalidInputError
        A row occurs twice.
    """
    seen = RowSet()
    for batch in batches:
        _see(seen, batch.column(ROW_ADDRESS).to_numpy(), target)
        yield batch


def _see(seen: RowSet, addresses: Addresses, target: Target) -> None:
    expected = len(seen) + len(addresses)
    seen.add(addresses)
    if len(seen) != expected:
        raise twice(target)


def twice(target: Target) -> InvalidInputError:
    """Return the error for a row that several rows match."""
    return InvalidInputError(
        f"{target.opened.uri}: a row of the table matches several rows of the source; make sure that each "
        "row matches at most one"
    )


def _select(
    addresses: Sequence[str],
    alias: str,
    columns: Mapping[str, str],
    others: str | None,
    where: str | None,
) -> str:
    """Return the query for the rows to change: their addresses, and the new values of columns."""
    owner = quote_identifier(alias)
    items = [f"{owner}.{quote_identifier(name)}" for name in addresses]
    items += [f"(\n{text}\n) AS {quote_identifier(name)}" for name, text in columns.items()]
    tables = f"{ROWS} AS {owner}" + ("" if others is None else f", {others}")
    condition = "" if where is None else f" WHERE (\n{where}\n)"
    return f"SELECT {', '.join(items) or 'NULL'} FROM {tables}{condition}"
