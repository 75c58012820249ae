"""Bounds of filter columns that scans came across: windows in which nothing can match are read once only.

2.x files hold no statistics. Data files never change, so what a scan has seen of one holds for ever; it is
kept in memory, as long as the table is open.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.expr.bounds import Match, ZoneBounds, classify
from lance_df.table.scan_columns import StoredColumn

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from lance_df.encodings.plan import RowRange
    from lance_df.expr.nodes import Predicate
    from lance_df.table.fragment_reader import FragmentReader
    from lance_df.table.scan_columns import Column

_MAX_WINDOWS = 1 << 16


class _Bounds(NamedTuple):
    min: pa.Scalar
    max: pa.Scalar
    null_count: int


class LearnedBounds:
    """Smallest and largest values of columns over windows of rows. Safe to share between threads."""

    def __init__(self) -> None:
        self._known: dict[Hashable, _Bounds] = {}
        self._lock = threading.Lock()

    def learn(self, reader: FragmentReader, rows: RowRange, values: Mapping[Column, pa.Array]) -> None:
        """Remember the bounds of columns, of which ``values`` are those of all the rows."""
        for column, array in values.items():
            if (key := _key(reader, column, rows)) is None or key in self._known:
                continue
            bounds = pc.min_max(array)
            with self._lock:
                if len(self._known) >= _MAX_WINDOWS:
                    self._known.clear()
                self._known[key] = _Bounds(bounds["min"], bounds["max"], array.null_count)

    def rules_out(
        self, reader: FragmentReader, rows: RowRange, predicate: Predicate, columns: Sequence[Column]
    ) -> bool:
        """Return whether no row can match, as far as is known."""
        if not self._known:
            return False
        zones = {}
        for column in columns:
            key = _key(reader, column, rows)
            if key is not None and (known := self._known.get(key)) is not None:
                zones[column.path] = ZoneBounds(
                    min=pa.array([known.min]),
                    max=pa.array([known.max]),
                    null_count=np.array([known.null_count], np.int64),
                    num_rows=np.array([len(rows)], np.int64),
                )
        return bool(zones) and bool(classify(predicate, zones, 1)[0] == Match.CANNOT)


def _key(reader: FragmentReader, column: Column, rows: RowRange) -> Hashable | None:
    """Return what tells the values apart from all others; None for columns that are not bounded here."""
    if not isinstance(column, StoredColumn) or len(column.path) > 1 or not _is_ordered(column.output.type):
        return None
    parts = reader.parts(column.field)
    if len(parts) != 1:
        return None
    ((number, _),) = parts
    file = reader.open(number)
    return file.path, file.num_rows, column.field.id, column.output.type, rows.start, rows.stop


def _is_ordered(data_type: pa.DataType) -> bool:
    """Whether values are small and have an order without exceptions such as NaN."""
    types = pa.types
    return bool(
        types.is_integer(data_type)
        or types.is_decimal128(data_type)
        or types.is_date(data_type)
        or types.is_timestamp(data_type)
    )
