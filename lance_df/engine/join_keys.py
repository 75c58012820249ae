"""Keys of one side of a join, with which scans of the other side skip rows.

While a join runs, DataFusion passes such filters to its own sources, but not to sources written in Python.
Instead, a scan reads the keys itself when its first rows are requested. The table with the keys is small
compared to the scanned table.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.expr.nodes import And, Column, In, Literal, Predicate
from lance_df.expr.text import to_text
from lance_df.forks import new_lock
from lance_df.records import dataclass
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.engine.provider import SourceScan
    from lance_df.scan.source import Scannable

# if more rows remain, looking up keys takes longer than joining the extra rows
_MAX_SELECTED: Final = 0.5
# with this many equal values, most are decoded by whole windows, and others are not read
_LONG_RUN: Final = 64
# A scan that looks up each key does not read the other columns of the rows that it drops. This is faster if
# few rows remain and the scan returns many columns.
_FEW_ROWS: Final = 1 / 8
_MANY_COLUMNS: Final = 5
_FEWER_ROWS: Final = 1 / 16
_SOME_COLUMNS: Final = 3


class JoinKeys:
    """The values of a column in the rows that a join may need, and possibly other values.

    The first thread that needs the values reads them, once.

    Parameters
    ----------
    scan, column
        The scan and the column that contain the keys.
    predicate
        A predicate that is true for all rows that the join may need; None if nothing is known.
    filters
        Other conditions on these rows.
    """

    def __init__(
        self, scan: SourceScan, column: str, predicate: Predicate | None, filters: Sequence[JoinFilter]
    ) -> None:
        self._scan = scan
        self._column = column
        self._predicate = predicate
        self._filters = filters
        self._lock = new_lock()
        self._read: tuple[pa.Array | None] | None = None

    @property
    def source(self) -> str:
        """The origin of the keys, for people: ``SELECT id FROM file:///data/t.lance WHERE …``."""
        conditions = [] if self._predicate is None else [to_text(self._predicate)]
        conditions += [f"{each.column} IN ({each.source})" for each in self._filters]
        return f"SELECT {self._column} FROM {self._scan.source.uri} WHERE {' AND '.join(conditions)}"

    def estimated_rows(self) -> int | None:
        """Return the estimated number of rows that are read for the keys; None if it is not known."""
        return self._scan.source.estimated_rows(self._predicate)

    def values(self) -> pa.Array | None:
        """Return the distinct values without NULL; None if too many rows of the table have them.

        Raises
        ------
        LanceError
            The keys cannot be read.
        """
        with self._lock:
            if self._read is None:
                self._read = (self._values(),)
            return self._read[0]

    def _values(self) -> pa.Array | None:
        conditions = [] if self._predicate is None else [self._predicate]
        conditions += [each for each in (one.predicate() for one in self._filters) if each is not None]
        source = self._scan.source
        request = ScanRequest(
            columns=(self._column,),
            predicate=And(tuple(conditions)) if conditions else None,
            requires=Promise.COMPLETE,
            options=self._scan.request.options,
            include_deleted_rows=self._scan.request.include_deleted_rows,
        )
        all_rows = source.estimated_rows(None)
        most = math.inf if all_rows is None else _MAX_SELECTED * all_rows
        plan = source.plan(request)
        num_rows, chunks = 0, []
        for batch in run_tasks(plan.tasks, num_threads=1):
            num_rows += batch.num_rows
            if num_rows > most:
                return None
            chunks.append(batch.column(0))
        return pc.unique(pa.chunked_array(chunks, plan.schema.field(0).type)).drop_null()


@dataclass(frozen=True, slots=True)
class JoinFilter:
    """A condition on the rows of a scan: the value of a column is among the given keys.

    Attributes
    ----------
    applies
        Whether the scan always applies the condition to each row. If not, the scan applies it only if equal
        values are stored next to each other, or if few rows remain and many columns are read. Otherwise the
        condition only prunes pages.
    """

    column: str
    keys: tuple[JoinKeys, ...]
    applies: bool = True

    @property
    def source(self) -> str:
        """The origin of the keys, for people."""
        return " UNION ALL ".join(each.source for each in self.keys)

    def applies_to(self, source: Scannable, num_columns: int) -> bool:
        """Whether a scan of ``source`` with ``num_columns`` columns applies the condition to each row.

        Raises
        ------
        LanceError
            The keys cannot be read.
        """
        if self.applies:
            return True
        sample = source.sample(None)
        if sample is None:
            return False
        if sample.rows_per_run((self.column,)) >= _LONG_RUN:
            return True
        values = self._values() if num_columns >= _SOME_COLUMNS else None
        if values is None:
            return False
        share = sample.share_among(self.column, values)
        return share <= (_FEW_ROWS if num_columns >= _MANY_COLUMNS else _FEWER_ROWS)

    def predicate(self) -> Predicate | None:
        """Return the condition as a predicate; None if it would drop too few rows.

        Raises
        ------
        LanceError
            The keys cannot be read.
        """
        values = self._values()
        if values is None:
            return None
        return In(Column((self.column,)), values) if len(values) else Literal(False)

    def _values(self) -> pa.Array | None:
        by_keys = []
        for each in self.keys:
            values = each.values()
            if values is None:
                return None
            by_keys.append(values)
        return pc.unique(pa.chunked_array(by_keys)) if len(by_keys) > 1 else by_keys[0]
