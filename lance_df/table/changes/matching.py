"""Find the rows of a table that have the keys of the rows to merge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.expr.nodes import And, Column, Comparison, In, Operator
from lance_df.table.changes.key_index import KeyIndex
from lance_df.table.scan import plan_scan
from lance_df.table.scan_plan import ScanRequest
from lance_df.table.scan_run import run_tasks

if TYPE_CHECKING:
    from typing import Self

    import numpy.typing as npt

    from lance_df.expr.nodes import Predicate
    from lance_df.table.changes.row_set import Addresses
    from lance_df.table.scan_plan import ScanTask
    from lance_df.table.table import Table

# The exact search prepares itself for each call, so it waits for so many rows.
_ROWS_PER_SEARCH = 256 * 1024
# So few keys are looked up one by one in indices and statistics; of more, the smallest and largest are.
_MAX_LISTED_KEYS = 1000
_REMOTE_THREADS = 8


@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs of a row to merge and a row of the table that have the same key, in the order of the table.

    Attributes
    ----------
    rows
        Numbers of the rows to merge.
    addresses
        Of the table's rows.
    """

    rows: npt.NDArray[np.int64]
    addresses: Addresses

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def none(cls) -> Self:
        """Return no pairs."""
        return cls(np.empty(0, np.int64), np.empty(0, np.uint64))

    def slice(self, start: int, stop: int) -> Matches:
        """Return the pairs from ``start`` to ``stop`` (exclusive)."""
        return Matches(self.rows[start:stop], self.addresses[start:stop])

    def where(self, kept: npt.NDArray[np.bool_]) -> Matches:
        """Return some of the pairs."""
        return Matches(self.rows[kept], self.addresses[kept])


def find_matches(
    table: Table, names: tuple[str, ...], keys: list[pa.Array], *, use_statistics: bool = True
) -> Matches:
    """Return the matches between rows with some keys and the live rows of a table.

    Reads the key columns only, and of these what statistics and indices do not rule out.

    Parameters
    ----------
    names, keys
        The key columns of the table, and the keys to find, of the same types.
    """
    index = KeyIndex(keys)
    found = [Matches.none()]
    if len(index):
        request = ScanRequest(
            columns=names,
            hint=_hint(names, index) if use_statistics else None,
            with_row_address=True,
            use_statistics=use_statistics,
        )
        tasks = [_PromisingRows(task, index) for task in plan_scan(table, request).tasks]
        threads = None if table.location.is_local else _REMOTE_THREADS
        for rows in _gathered(run_tasks(tasks, num_threads=threads)):
            *columns, addresses = rows.columns
            pairs = index.pairs(columns)
            found.append(Matches(pairs[0], addresses.to_numpy()[pairs[1]]))
    return Matches(
        np.concatenate([each.rows for each in found]), np.concatenate([each.addresses for each in found])
    )


@dataclass(frozen=True, slots=True)
class _PromisingRows:
    """A task whose rows are sorted out where they are read. A `ScanTask`."""

    task: ScanTask
    index: KeyIndex

    @property
    def num_rows(self) -> int:
        return self.task.num_rows

    @property
    def num_bytes(self) -> int:
        return self.task.num_bytes

    def read(self) -> Iterator[pa.RecordBatch]:
        for batch in self.task.read():
            promising = self.index.promising(batch.columns[:-1])
            if len(promising):
                yield batch.take(pa.array(promising))


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    num_rows = 0
    for batch in batches:
        waiting.append(batch)
        num_rows += batch.num_rows
        if num_rows >= _ROWS_PER_SEARCH:
            yield pa.concat_batches(waiting)
            waiting, num_rows = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def _hint(names: tuple[str, ...], index: KeyIndex) -> Predicate | None:
    """Return a condition that every row with one of the keys fulfils."""
    conditions: list[Predicate] = []
    for name, values in zip(names, index.values, strict=True):
        # floats are in a form of their own here, and values of dictionaries have lost theirs
        if pa.types.is_floating(values.type) or pa.types.is_boolean(values.type):
            continue
        column = Column((name,))
        if len(values) <= _MAX_LISTED_KEYS:
            conditions.append(In(column, values))
            continue
        bounds = pc.min_max(values)
        conditions.append(Comparison(column, Operator.GE, bounds["min"]))
        conditions.append(Comparison(column, Operator.LE, bounds["max"]))
    return And(tuple(conditions)) if conditions else None
