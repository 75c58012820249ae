"""Keys of one side of a join, by which scans of the other side leave out rows.

DataFusion gives sources of its own such filters while a join runs, and those of Python none. So a scan reads
the keys itself, of a table that is small beside its own, when its first rows are asked for.
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

# where more rows are left, to look up keys takes more than to join a few rows more
_MAX_SELECTED: Final = 0.5
# of so many equal values most are decoded by whole windows, and others are not read
_LONG_RUN: Final = 64
# A scan that looks up each key saves the other columns of the rows that it leaves out. That takes less where
# few rows are left, of so many columns.
_FEW_ROWS: Final = 1 / 8
_MANY_COLUMNS: Final = 5
_FEWER_ROWS: Final = 1 / 16
_SOME_COLUMNS: Final = 3


class JoinKeys:
    """The values of a column in the rows that a join may take, perhaps with some others.

    They are read once, by the thread that asks first.

    Parameters
    ----------
    scan, column
        What has them.
    predicate
        True for all rows that the join may take; None if nothing is known.
    filters
        What else holds for these.
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
        """What they are, for people: ``SELECT id FROM file:///data/t.lance WHERE …``."""
        conditions = [] if self._predicate is None else [to_text(self._predicate)]
        conditions += [f"{each.column} IN ({each.source})" for each in self._filters]
        return f"SELECT {self._column} FROM {self._scan.source.uri} WHERE {' AND '.join(conditions)}"

    def estimated_rows(self) -> int | None:
        """Return about how many rows are read for them; None if that is not known."""
        return self._scan.source.estimated_rows(self._predicate)

    def values(self) -> pa.Array | None:
        """Return the distinct values but NULL; None if too many rows of the table have them.

        Raises
        ------
        LanceError
            They cannot be read.
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
    """A condition on the rows of a scan: a column has one of the values that any of some keys have.

    Attributes
    ----------
    applies
        Whether it is applied to each row in any case; otherwise it is where equal values follow each other,
        or it leaves few rows of many columns, and prunes pages elsewhere.
    """

    column: str
    keys: tuple[JoinKeys, ...]
    applies: bool = True

    @property
    def source(self) -> str:
        """Where the values come from, for people."""
        return " UNION ALL ".join(each.source for each in self.keys)

    def applies_to(self, source: Scannable, num_columns: int) -> bool:
        """Whether it is applied to each row of a source, of which a scan returns so many columns.

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
        """Return the condition; None if it would leave out too few rows.

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
