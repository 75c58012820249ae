"""MERGE INTO: a single query joins the table and the source, and determines the action for each row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.engine.statements.rows import by_member, commit, member_types, twice
from lance_df.engine.statements.target import ROWS, Target
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.interrupts import interrupted_once
from lance_df.namespace.changes.numbered_members import MEMBER
from lance_df.namespace.changes.stages import Stages
from lance_df.records import dataclass
from lance_df.scan.grouping import grouped
from lance_df.sliced_lists import unsliced
from lance_df.sql.changes import Merge, MergeAction, MergeClause, RowKind
from lance_df.sql.qualification import qualified
from lance_df.sql.splice import quote_identifier
from lance_df.table.changes.merged_rows import MergedRows, rows_merged
from lance_df.table.reading.system_columns import ROW_ADDRESS

if TYPE_CHECKING:
    from lance_df.table.changes.retry import Change
    from lance_df.table.table import Table

_ACTION: Final = "__lance_df_action"
_HIT: Final = "__lance_df_hit"
# functions that return another value at each evaluation; conditions of clauses are evaluated for each column
_VOLATILE: Final = re.compile(r"\b(?:random|uuid|gen_random_uuid)\s*\(", re.IGNORECASE)


def merge(target: Target, change: Merge) -> int:
    """Update, delete and insert rows, and return their number."""
    plan = _MergeQuery.of(target, change)
    plan.check_owners(target)
    if (namespace := target.namespace) is None:

        @contextmanager
        def compute(table: Table) -> Iterator[Change[int]]:
            query = target.query_of_rows(plan.text(with_members=False), table)
            batches = query.batches(plan.types(), plan.names())
            with rows_merged(table, list(plan.updated), plan.merged(target, batches)) as merged:
                yield merged

        return commit(target, compute)
    with interrupted_once(), Stages(namespace.latest_for_change()) as stages:
        text = plan.text(with_members=True)
        types = {**member_types({}), **plan.types()}
        # a wrong expression is an error even if there are no members
        target.query_of_members(text, ()).batches(types, plan.names())

        def of_members(tables: Sequence[Table]) -> MergedRows:
            batches = target.query_of_members(text, tables).batches(types, plan.names())
            return plan.merged(target, batches)

        merged = stages.rows.merge(list(plan.updated), of_members, text="merge")
        stages.publish(rebase=True)
    return merged.num_rows + merged.num_inserted


@dataclass(frozen=True, slots=True)
class _MergeQuery:
    """The query of a merge. For each row, it returns its position, a clause number and the new values.

    Attributes
    ----------
    updated, inserted
        The columns that any clause updates, and those that any clause inserts, with their types.
    """

    change: Merge
    updated: dict[str, pa.DataType]
    inserted: dict[str, pa.DataType]
    schema: pa.Schema

    @classmethod
    def of(cls, target: Target, change: Merge) -> _MergeQuery:
        """Return the query, with clauses completed according to the columns of the table.

        Raises
        ------
        ColumnNotFoundError
            A column does not exist.
        InvalidInputError
            The number of values of an insert differs from the number of columns of the table.
        """
        names = target.schema.names
        clauses = tuple(_completed(clause, names, change) for clause in change.clauses)
        change = Merge(
            change.name, change.alias, change.source, change.source_alias, change.condition, clauses
        )
        updated, inserted = (
            [name for name in names if name in wanted]
            for wanted in (_set_by(clauses, MergeAction.UPDATE), _set_by(clauses, MergeAction.INSERT))
        )
        for clause in clauses:
            target.types([name for name, _ in clause.assignments])
            if clause.condition is not None and _VOLATILE.search(clause.condition):
                raise UnsupportedFeatureError(
                    f"the condition {clause.condition!r} of a clause may return different values for the "
                    "columns of one row; compute it as a column of the source"
                )
        return cls(change, target.types(updated), target.types(inserted), target.schema.to_arrow())

    def check_owners(self, target: Target) -> None:
        """Check that clauses about rows of one side only use columns of that side; others would be NULL.

        Raises
        ------
        ColumnNotFoundError
            A clause uses a column of the other side.
        """
        if self._texts_of(RowKind.NOT_MATCHED):
            target.query(self._selected(RowKind.NOT_MATCHED, self.change.source)).frame()
        owner = f"{ROWS} AS {quote_identifier(self.change.alias)}"
        source = f"(SELECT * FROM {self.change.source}) AS {quote_identifier(self.change.source_alias)}"
        both = f"{owner} JOIN {source} ON (\n{self.change.condition}\n)"
        target.check_names(self._selected(RowKind.MATCHED, both))
        if self._texts_of(RowKind.NOT_MATCHED_BY_SOURCE):
            target.check_names(self._selected(RowKind.NOT_MATCHED_BY_SOURCE, owner))
            text = self._selected(RowKind.NOT_MATCHED_BY_SOURCE, owner)
            opened = target.opened
            if opened.namespace is None:
                query = target.query_of_rows(text, opened)
            else:
                query = target.query_of_members(text, ())
            query.frame()

    def _texts_of(self, kind: RowKind) -> list[str]:
        """Return the conditions and values of the clauses about one kind of rows."""
        clauses = [clause for clause in self.change.clauses if clause.rows is kind]
        conditions = [clause.condition for clause in clauses if clause.condition is not None]
        return conditions + [value for clause in clauses for _, value in clause.assignments]

    def _selected(self, kind: RowKind, rows: str) -> str:
        texts = self._texts_of(kind)
        items = ", ".join(f"(\n{text}\n) AS {quote_identifier(str(n))}" for n, text in enumerate(texts))
        return f"SELECT {items or 'NULL'} FROM {rows}"

    def types(self) -> dict[str, pa.DataType]:
        """Return the columns of the query with their types, without the member position."""
        types = {ROW_ADDRESS: pa.uint64(), _ACTION: pa.int32()}
        for number, clause in enumerate(self.change.clauses):
            for name, data_type in self._columns(clause).items():
                types[_value(number, name)] = data_type
        return types

    def names(self) -> dict[str, str]:
        """Return the columns of the table, by the columns of the query that hold their values."""
        numbered = enumerate(self.change.clauses)
        return {_value(number, name): name for number, clause in numbered for name in self._columns(clause)}

    def text(self, *, with_members: bool) -> str:
        """Return the query as SQL."""
        change = self.change
        owner = quote_identifier(change.alias)
        source = quote_identifier(change.source_alias)
        address = f"{owner}.{quote_identifier(ROW_ADDRESS)}"
        hit = f"{source}.{quote_identifier(_HIT)}"
        action = (
            f"CASE WHEN {address} IS NULL THEN {self._number_of(RowKind.NOT_MATCHED)} "
            f"WHEN {hit} IS NULL THEN {self._number_of(RowKind.NOT_MATCHED_BY_SOURCE)} "
            f"ELSE {self._number_of(RowKind.MATCHED)} END"
        )
        items = [f"{action} AS {quote_identifier(_ACTION)}", f"{address} AS {quote_identifier(ROW_ADDRESS)}"]
        if with_members:
            member = quote_identifier(MEMBER.name)
            items.append(f"{owner}.{member} AS {member}")
        for number, clause in enumerate(change.clauses):
            given = dict(clause.assignments)
            for name in self._columns(clause):
                other = "NULL" if clause.action is MergeAction.INSERT else f"{owner}.{quote_identifier(name)}"
                value = given.get(name, other)
                items.append(
                    f"CASE WHEN ({action}) = {number} THEN (\n{value}\n) END "
                    f"AS {quote_identifier(_value(number, name))}"
                )
        kinds = {clause.rows for clause in change.clauses}
        join = {
            (False, False): "INNER",
            (True, False): "RIGHT",
            (False, True): "LEFT",
            (True, True): "FULL",
        }[RowKind.NOT_MATCHED in kinds, RowKind.NOT_MATCHED_BY_SOURCE in kinds]
        rows = f"SELECT *, TRUE AS {quote_identifier(_HIT)} FROM {change.source}"
        return (
            f"SELECT * FROM (SELECT {', '.join(items)} FROM {ROWS} AS {owner} {join} JOIN (\n{rows}\n) "
            f"AS {source} ON (\n{change.condition}\n)) AS merged "
            f"WHERE {quote_identifier(_ACTION)} IS NOT NULL"
        )

    def merged(self, target: Target, batches: Iterable[pa.RecordBatch]) -> MergedRows:
        """Return the changes to rows, in memory.

        Raises
        ------
        InvalidInputError
            Two rows of the source change the same row of the table.
        """
        rows = list(batches)
        updated: list[tuple[int, pa.RecordBatch]] = []
        deleted: list[tuple[int, np.ndarray]] = []
        inserted = [self._insertable(None)]
        if rows:
            table = unsliced(pa.Table.from_batches(rows))
            of_table = table.filter(pc.is_valid(table.column(ROW_ADDRESS)))
            _check_distinct(target, of_table)
            for number, clause in enumerate(self.change.clauses):
                chosen = table.filter(pc.equal(table.column(_ACTION), number))
                if clause.action is MergeAction.INSERT:
                    columns = {name: chosen.column(_value(number, name)) for name in self.inserted}
                    inserted.append(self._insertable(columns))
                elif clause.action is MergeAction.UPDATE:
                    updated += _by_table(chosen, {name: _value(number, name) for name in self.updated})
                elif clause.action is MergeAction.DELETE:
                    deleted += [
                        (each, batch.column(ROW_ADDRESS).to_numpy()) for each, batch in _by_table(chosen, {})
                    ]
        return MergedRows(tuple(updated), tuple(deleted), pa.concat_tables(inserted))

    def _columns(self, clause: MergeClause) -> dict[str, pa.DataType]:
        if clause.action is MergeAction.UPDATE:
            return self.updated
        return self.inserted if clause.action is MergeAction.INSERT else {}

    def _insertable(self, columns: dict[str, pa.ChunkedArray] | None) -> pa.Table:
        schema = pa.schema([self.schema.field(name) for name in self.inserted])
        return schema.empty_table() if columns is None else pa.table(list(columns.values()), schema=schema)

    def _number_of(self, kind: RowKind) -> str:
        """Return the expression for the number of the first clause that applies to a row of this kind."""
        cases = [
            f"WHEN (\n{clause.condition or 'TRUE'}\n) THEN "
            + ("CAST(NULL AS INT)" if clause.action is MergeAction.NOTHING else f"CAST({number} AS INT)")
            for number, clause in enumerate(self.change.clauses)
            if clause.rows is kind
        ]
        return f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS INT)"


def _completed(clause: MergeClause, names: Sequence[str], change: Merge) -> MergeClause:
    """Return a clause with all its assignments. In clauses about rows of one side, columns are qualified."""
    assignments = clause.assignments
    if clause.takes_all:
        owner = quote_identifier(change.source_alias)
        assignments = tuple((name, f"{owner}.{quote_identifier(name)}") for name in names)
    elif clause.values:
        if len(clause.values) != len(names):
            raise InvalidInputError(
                f"INSERT of a MERGE has {len(clause.values)} values, but the table has {len(names)} columns"
            )
        assignments = tuple(zip(names, clause.values, strict=True))
    condition = clause.condition
    if clause.rows is not RowKind.MATCHED:
        side = change.source_alias if clause.rows is RowKind.NOT_MATCHED else change.alias
        assignments = tuple((name, qualified(text, side, names)) for name, text in assignments)
        condition = None if condition is None else qualified(condition, side, names)
    return MergeClause(clause.rows, condition, clause.action, assignments)


def _set_by(clauses: Iterable[MergeClause], action: MergeAction) -> set[str]:
    return {name for clause in clauses if clause.action is action for name, _ in clause.assignments}


def _value(number: int, name: str) -> str:
    return f"{number} {name}"


def _check_distinct(target: Target, rows: pa.Table) -> None:
    keys = [name for name in (MEMBER.name, ROW_ADDRESS) if name in rows.schema.names]
    if grouped(rows.select(keys), keys).aggregate([]).num_rows != rows.num_rows:
        raise twice(target)


def _by_table(rows: pa.Table, columns: dict[str, str]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield table positions (0 for a single table), with addresses and columns of rows, in order."""
    has_members = MEMBER.name in rows.schema.names
    keys = [*([MEMBER.name] if has_members else []), ROW_ADDRESS]
    named = pa.table(
        [*(rows.column(key) for key in keys), *(rows.column(each) for each in columns.values())],
        names=[*keys, *columns],
    )
    if not named.num_rows:
        return
    order = pc.sort_indices(named.select(keys), sort_keys=[(key, "ascending") for key in keys])
    batches = named.take(order).combine_chunks().to_batches()
    if has_members:
        yield from by_member(iter(batches))
    else:
        yield from ((0, batch) for batch in batches)
