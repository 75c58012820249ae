"""The work of tasks in a merge: read the rows that it may need, and write the changed rows."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import InvalidInputError
from lance_df.records import dataclass
from lance_df.scan.request import Promise, ScanRequest
from lance_df.sliced_lists import unsliced
from lance_df.spark.changes.task_rows import ChangedRows, write_rows
from lance_df.spark.row_batches import joined
from lance_df.spark.types import to_spark, to_stored
from lance_df.sql.changes import MergeAction
from lance_df.table.changes.key_index import KeyIndex
from lance_df.table.changes.matching import key_pruning_predicate
from lance_df.table.commit.inserted_keys import inserted_keys, united_keys
from lance_df.table.reading.system_columns import ROW_ADDRESS
from lance_df.table.scan.plan import plan_scan
from lance_df.table.writing.conform import conform

if TYPE_CHECKING:
    import uuid
    from collections.abc import Mapping, Sequence

    from lance_df.format.operations import InsertedKeys
    from lance_df.format.schema import Schema
    from lance_df.spark.changes.targets import Pieces, Targets

TABLE: Final = "__lance_df_table"
"""The column with the position of a row's table; NULL for a new row."""
ADDRESS: Final = "__lance_df_address"
ACTION: Final = "__lance_df_action"
"""The column with the number of the clause that applies to a row."""

RESULT: Final = "result binary"
"""The column with the pickled results of tasks."""


@dataclass(frozen=True, slots=True)
class MergeScan:
    """The rows and columns of the target that a merge reads.

    Attributes
    ----------
    on
        The key columns.
    columns
        ``TABLE`` and ``ADDRESS``, then all columns to read, with Spark's types.
    exact
        Key columns whose Spark type lacks some of their values, with the names of copies. A copy is null
        where Spark lacks the value, which then matches nothing.
    keys
        The keys of the source, if they are few; rows with other keys are left out.
    """

    on: tuple[str, ...]
    columns: pa.Schema
    exact: Mapping[str, str]
    keys: tuple[pa.Array, ...] | None

    def rows(self, targets: Targets, pieces: Pieces) -> Iterator[pa.RecordBatch]:
        """Yield rows of some fragments in Spark's types."""
        names = [name for name in self.columns.names if name not in (TABLE, ADDRESS, *self.exact.values())]
        read = tuple(dict.fromkeys((*names, *self.on)))
        index = None if self.keys is None else KeyIndex(self.keys)
        pruning = None if index is None or not len(index) else key_pruning_predicate(self.on, index)
        for piece in () if index is not None and not len(index) else pieces:
            request = ScanRequest(
                columns=read,
                pruning_predicate=pruning,
                with_row_address=True,
                fragment_ids=piece.fragment_ids,
                requires=Promise.ORDERED,
            )
            for task in plan_scan(targets.open(piece.number), request).tasks:
                for batch in task.read():
                    rows = batch if index is None else self._with_keys(batch, index)
                    if rows.num_rows:
                        yield self._sent(rows, piece.number)

    def _with_keys(self, batch: pa.RecordBatch, index: KeyIndex) -> pa.RecordBatch:
        _, positions = index.pairs([batch.column(name) for name in self.on])
        return unsliced(batch).take(pa.array(np.unique(positions)))

    def _sent(self, batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
        columns = {name: batch.column(name) for name in batch.schema.names if name != ROW_ADDRESS}
        columns[TABLE] = pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows)
        columns[ADDRESS] = batch.column(ROW_ADDRESS).view(pa.int64())
        columns |= {copy: columns[name] for name, copy in self.exact.items()}
        rows = to_spark(pa.RecordBatch.from_pydict(columns), self.columns)
        for name, copy in self.exact.items():
            position = self.columns.get_field_index(copy)
            seen = rows.column(position)
            is_same = pc.equal(pc.cast(seen, columns[name].type), columns[name])
            exact = pc.if_else(is_same, seen, pa.scalar(None, seen.type))
            rows = rows.set_column(position, self.columns.field(position), exact)
        return rows


@dataclass(frozen=True, slots=True)
class ClauseWrite:
    """The values that a clause writes.

    Attributes
    ----------
    given
        The columns that the clause sets, or the parts of columns.
    values
        The names of the query's columns with the values, in the order of ``given``.
    """

    action: MergeAction
    given: Schema
    values: tuple[str, ...]

    def stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the values in the stored types."""
        named = pa.RecordBatch.from_arrays([batch.column(name) for name in self.values], self.given.names)
        stored = to_stored(named, self.given.to_arrow())
        return pa.RecordBatch.from_arrays(conform(stored, self.given), self.given.names)


@dataclass(frozen=True, slots=True)
class MergeWrite:
    """Writes the changed rows of a task, and returns a `TaskResult`.

    Attributes
    ----------
    clauses
        The clauses, in the order of the numbers in ``ACTION``.
    schema
        The schema of whole rows.
    key_ids
        The field ids of the keys, if the commit needs a filter of inserted keys.
    is_primary
        Whether the keys are the primary key.
    uri
        The URI of the target, for messages.
    """

    clauses: tuple[ClauseWrite, ...]
    schema: Schema
    key_ids: tuple[int, ...] | None
    is_primary: bool
    uri: str

    def results(
        self, targets: Targets, job: uuid.UUID, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Write the rows of a task, sorted by table and address, new ones last."""
        first = next(batches, None)
        if first is None:
            return
        keys: list[InsertedKeys] = []
        changed = ChangedRows(targets)
        rows = self._rows(changed, joined(_with_first(first, batches)), keys)
        result = write_rows(targets, job, changed, rows)
        if keys:
            result = dataclasses.replace(result, keys=united_keys(keys))
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(result)], pa.binary())], ["result"])

    def _rows(
        self, changed: ChangedRows, batches: Iterator[pa.RecordBatch], keys: list[InsertedKeys]
    ) -> Iterator[pa.RecordBatch]:
        last: tuple[int, int] | None = None
        for batch in map(unsliced, batches):
            is_new = batch.column(TABLE).is_null()
            old = batch.filter(pc.invert(is_new))
            if old.num_rows:
                last = self._check_distinct(old, last)
                for number, rows in _by_table(old):
                    yield from self._changed(changed, number, rows)
            for clause, new in self._by_clause(batch.filter(is_new)):
                yield self._inserted(changed, clause, new, keys)
        if self.key_ids is not None and not keys:
            # a filter without keys states that no key was inserted
            columns = [self._key_field(number) for number in self.key_ids]
            keys.append(self._filter([pa.array([], each) for each in columns]))

    def _changed(self, changed: ChangedRows, number: int, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for clause, part in self._by_clause(rows):
            addresses = part.column(ADDRESS).view(pa.uint64()).to_numpy()
            if clause.action is MergeAction.UPDATE:
                yield from changed.update(number, addresses, clause.stored(part), clause.given)
            else:
                changed.delete(number, addresses)

    def _inserted(
        self, changed: ChangedRows, clause: ClauseWrite, new: pa.RecordBatch, keys: list[InsertedKeys]
    ) -> pa.RecordBatch:
        rows = changed.insert(clause.stored(new), clause.given, self.schema)
        if self.key_ids is not None:
            names = {field.id: field.name for field in self.schema.fields}
            keys.append(self._filter([rows.column(names[number]) for number in self.key_ids]))
        return rows

    def _filter(self, columns: Sequence[pa.Array]) -> InsertedKeys:
        return inserted_keys(self.key_ids or (), columns, is_primary=self.is_primary, is_part=True)

    def _key_field(self, number: int) -> pa.DataType:
        return self.schema.by_id()[number].arrow_type()

    def _by_clause(self, rows: pa.RecordBatch) -> Iterator[tuple[ClauseWrite, pa.RecordBatch]]:
        for number in pc.unique(rows.column(ACTION)).to_pylist():
            yield self.clauses[number], unsliced(rows).filter(pc.equal(rows.column(ACTION), number))

    def _check_distinct(self, rows: pa.RecordBatch, last: tuple[int, int] | None) -> tuple[int, int]:
        """Check that no row of the target occurs twice, and return the last row."""
        tables = rows.column(TABLE).to_numpy()
        addresses = rows.column(ADDRESS).to_numpy()
        is_twice = ((tables[1:] == tables[:-1]) & (addresses[1:] == addresses[:-1])).any()
        if is_twice or last == (int(tables[0]), int(addresses[0])):
            raise InvalidInputError(
                f"{self.uri}: several rows of the source match the same row; each row may match at most "
                "one row of the source"
            )
        return int(tables[-1]), int(addresses[-1])


def _with_first(first: pa.RecordBatch, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from batches


def _by_table(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    numbers = rows.column(TABLE).to_numpy()
    starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    for start, stop in pairwise([*starts, len(numbers)]):
        yield int(numbers[start]), rows.slice(start, stop - start)
