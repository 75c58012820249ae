"""Metadata tables: the partitions, specs, data files and versions of a namespace, as of one version.

Columns that require reading more than ``__manifest`` are computed only if a query needs them, and only for
the rows that satisfy the predicates on the other columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.cache import CacheKind, Entries, TableCache
from lance_df.errors import ColumnNotFoundError
from lance_df.expr.evaluate import evaluate, gather_columns
from lance_df.expr.walk import columns as columns_of
from lance_df.expr.walk import conjuncts
from lance_df.scan.aggregate import aggregated
from lance_df.scan.plan import ScanPlan
from lance_df.scan.report import Count, TableReport
from lance_df.scan.request import Rows
from lance_df.table.reading.batches import count_batch

if TYPE_CHECKING:
    from lance_df.expr.nodes import Predicate
    from lance_df.namespace.snapshot import NamespaceSnapshot
    from lance_df.scan.request import ScanRequest

_BATCH_ROWS: Final = 64 * 1024


class MetadataTable(ABC):
    """A metadata table of one version of a namespace. Scanned like any table; immutable.

    Attributes
    ----------
    kind
        The suffix of its name after ``$``.
    """

    kind: ClassVar[str]

    def __init__(self, snapshot: NamespaceSnapshot) -> None:
        self.snapshot = snapshot
        self.uri = f"{snapshot.uri}${self.kind}"
        self.version = snapshot.version
        self.arrow_schema = self.columns()

    @abstractmethod
    def columns(self) -> pa.Schema:
        """Return the columns."""

    @abstractmethod
    def known(self) -> pa.Table:
        """Return rows with the columns that need no further reads. They may have additional columns."""

    def completed(self, rows: pa.Table, names: frozenset[str]) -> pa.Table:  # noqa: ARG002 - for subclasses
        """Return rows that also have these columns; a row may become several rows or none."""
        return rows

    @property
    def is_complete(self) -> bool:
        """Whether `known` has exactly the rows of the table."""
        return True

    @property
    def is_local(self) -> bool:
        """True: most of the data is in memory."""
        return True

    @cached_property
    def plan_cache(self) -> Entries[Any]:
        """A cache of this object alone, which belongs to one statement."""
        return TableCache().entries(CacheKind.PLANS)

    @property
    def is_partitioned(self) -> bool:
        """False."""
        return False

    @property
    def namespace(self) -> None:
        """None: its rows are not those of a namespace."""
        return None

    def estimated_rows(self, pruning_predicate: Predicate | None) -> int | None:  # noqa: ARG002
        """Return None: rows are computed when they are read."""
        return None

    def sample(self, pruning_predicate: Predicate | None) -> None:  # noqa: ARG002
        """Return None, as there are no stored rows."""
        return

    def plan(self, request: ScanRequest) -> ScanPlan:
        """Plan a scan; see `lance_df.scan.source.Scannable`. Pruning predicates are not needed.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        """
        promises = request.promises()
        output = request.output
        names = request.columns if isinstance(output, Rows) else output.columns
        if names is None:
            names = tuple(self.arrow_schema.names)
        for name in names:
            if name not in self.arrow_schema.names:
                raise ColumnNotFoundError(f"{self.uri}: column {name!r} does not exist")
        schema = pa.schema([self.arrow_schema.field(name) for name in names])
        nothing = Count(0, 0)
        report = TableReport(self.uri, self.version, fragments=nothing, pages=nothing, bytes=nothing)
        plan = ScanPlan(schema, promises, [MetadataTask(self, schema, request.predicate)], lambda: report)
        return plan if isinstance(output, Rows) else aggregated(plan, output)

    def rows(self, names: frozenset[str], predicate: Predicate | None) -> pa.Table:
        """Return the rows that satisfy a predicate, with at least these columns."""
        rows = self.known()
        wanted = names | {path[0] for path in columns_of(predicate)} if predicate is not None else names
        late = wanted.difference(rows.column_names)
        parts = () if predicate is None else conjuncts(predicate)
        first = [part for part in parts if not _roots(part) & late]
        rows = _filtered(rows, first)
        if late or not self.is_complete:
            rows = self.completed(rows, wanted)
        return _filtered(rows, [part for part in parts if part not in first])


class MetadataTask:
    """A scan task for all rows of a metadata table."""

    def __init__(self, table: MetadataTable, schema: pa.Schema, predicate: Predicate | None) -> None:
        self._table = table
        self._schema = schema
        self._predicate = predicate

    @property
    def num_rows(self) -> int:
        """The number of rows; with a predicate, the rows are read to count them."""
        return len(self._table.rows(frozenset(), self._predicate))

    @property
    def num_bytes(self) -> int:
        """Zero: no column of a data file is read."""
        return 0

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        rows = self._table.rows(frozenset(self._schema.names), self._predicate)
        columns = [_cast(rows[field.name], field.type) for field in self._schema]
        if not columns:
            yield count_batch(len(rows))
            return
        yield from pa.table(columns, schema=self._schema).to_batches(max_chunksize=_BATCH_ROWS)


def _roots(predicate: Predicate) -> set[str]:
    return {path[0] for path in columns_of(predicate)}


def _filtered(rows: pa.Table, parts: list[Predicate]) -> pa.Table:
    for part in parts:
        mask = evaluate(part, gather_columns(rows, columns_of(part)), len(rows))
        rows = rows.filter(pc.fill_null(mask, False))
    return rows


def _cast(column: pa.ChunkedArray, data_type: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == data_type else column.cast(data_type)
