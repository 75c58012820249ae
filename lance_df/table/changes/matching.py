"""Find the rows of a table that have the keys of the rows to merge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.expr.nodes import And, Column, Comparison, In, Operator
from lance_df.records import dataclass
from lance_df.scan.options import ALL, NO_STATISTICS
from lance_df.scan.plan import MappedTask
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.table.changes.key_index import KeyIndex
from lance_df.table.scan.plan import plan_scan

if TYPE_CHECKING:
    from typing import Self

    import numpy.typing as npt

    from lance_df.expr.nodes import Predicate
    from lance_df.scan.plan import ScanTask
    from lance_df.table.changes.row_set import Addresses
    from lance_df.table.table import Table

# Up to so many keys are looked up in indices and statistics one by one; of more keys, only the bounds are.
_MAX_LISTED_KEYS = 1000
_REMOTE_THREADS = 8
_WINDOW_ROWS = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs of a row to merge and a row of the table with the same key, in table order.

    Attributes
    ----------
    rows
        Positions of the rows to merge.
    addresses
        Row addresses in the table.
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

    def where(self, mask: npt.NDArray[np.bool_]) -> Matches:
        """Return the pairs where the mask is true."""
        return Matches(self.rows[mask], self.addresses[mask])


def find_matches(
    table: Table, names: tuple[str, ...], keys: list[pa.Array], *, use_statistics: bool = True
) -> Matches:
    """Return the matches between the keys to find and the live rows of a table.

    Only key columns are read, and of these only rows that statistics and indices do not rule out.

    Parameters
    ----------
    names, keys
        The key columns of the table, and the keys to find, of the same types.
    """
    index = KeyIndex(keys)
    matches = [Matches.none()]
    if len(index):
        request = ScanRequest(
            columns=names,
            pruning_predicate=key_pruning_predicate(names, index) if use_statistics else None,
            with_row_address=True,
            window_rows=_WINDOW_ROWS,
            options=ALL if use_statistics else NO_STATISTICS,
            requires=Promise.ORDERED,
        )
        tasks = [pairs_task(task, index) for task in plan_scan(table, request).tasks]
        threads = None if table.location.is_local else _REMOTE_THREADS
        with closing(run_tasks(tasks, num_threads=threads)) as batches:
            matches += [Matches(batch["row"].to_numpy(), batch["address"].to_numpy()) for batch in batches]
    return Matches(
        np.concatenate([each.rows for each in matches]), np.concatenate([each.addresses for each in matches])
    )


def pairs_task(task: ScanTask, index: KeyIndex, number: int = 0) -> ScanTask:
    """Return a task that looks keys up where the batches are read.

    It yields pairs of the row with the key and the address where the key was found, together with ``number``,
    which distinguishes the tables of several scans.
    """
    return MappedTask(task, partial(_pairs, index, number))


def _pairs(index: KeyIndex, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        *keys, addresses = batch.columns
        rows, positions = index.pairs(keys)
        if len(rows):
            columns = {
                "row": pa.array(rows),
                "address": addresses.take(pa.array(positions)),
                "number": pa.repeat(pa.scalar(number), len(rows)),
            }
            yield pa.RecordBatch.from_pydict(columns)


def key_pruning_predicate(names: tuple[str, ...], index: KeyIndex) -> Predicate | None:
    """Return a predicate that is true for every row with one of the keys, or None if there is none."""
    conditions: list[Predicate] = []
    for name, keys, is_nested in zip(names, index.columns, index.are_nested, strict=True):
        # the index holds booleans, floats and nested values in another form
        if is_nested or pa.types.is_floating(keys.type) or keys.type == pa.uint8():
            continue
        column = Column((name,))
        if len(keys) <= _MAX_LISTED_KEYS:
            conditions.append(In(column, pc.unique(keys)))
            continue
        bounds = pc.min_max(keys)
        conditions.append(Comparison(column, Operator.GE, bounds["min"]))
        conditions.append(Comparison(column, Operator.LE, bounds["max"]))
    return And(tuple(conditions)) if conditions else None
