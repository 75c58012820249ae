"""B-tree indices: all values in order, in pages, and the bounds of the pages.

``page_data.lance`` has ``values`` in ascending order, nulls first and NaN last, and the ``ids`` of their
rows. ``page_lookup.lance`` has ``min``, ``max``, ``null_count`` and ``page_idx`` of each page: its first and
its last value, its number of nulls, and its number. Pages have ``batch_size`` rows. Spec: table format, 14.2.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.expr.bounds import Match, ZoneBounds, classify
from lance_df.expr.evaluate import evaluate
from lance_df.expr.floats import float_values
from lance_df.expr.nodes import Predicate
from lance_df.expr.walk import columns
from lance_df.table.indices.answer import Answer, FragmentIds
from lance_df.table.indices.index_file import IndexFile, IndexFolder
from lance_df.table.reading.selection import RowRanges

_LOOKUP_FILE = "page_lookup.lance"
_DATA_FILE = "page_data.lance"
# Reading a value and its id costs about as much as reading two values of the column in the scan.
_MAX_SHARE = 4
_MIN_ROWS, _MAX_ROWS = 1 << 16, 1 << 22


class BTree:
    """An open B-tree: page bounds are in memory, pages are read on demand."""

    def __init__(self, folder: IndexFolder) -> None:
        self._folder = folder
        self._lookup = folder.open(_LOOKUP_FILE)
        minimum, maximum = self._lookup.read(["min", "max"])
        if minimum.type != maximum.type:
            raise CorruptDataError(
                f"{self._lookup.name}: min has type {minimum.type}, but max has type {maximum.type}"
            )
        self._page_numbers, nulls = self._lookup.read_counts(["page_idx", "null_count"])
        if "batch_size" not in self._lookup.metadata:
            # the pages of old releases are row groups of a 0.1 file; scans do not use such an index
            raise UnsupportedFeatureError(
                f"{self._lookup.name}: this B-tree index was built by an old release and has no batch_size"
            )
        self._batch_rows = self._lookup.number("batch_size")
        if not 0 < self._batch_rows < 2**31:
            raise CorruptDataError(
                f"{self._lookup.name}: pages must have at least 1 and less than 2**31 rows, got "
                f"{self._batch_rows}"
            )
        self._bounds = _page_bounds(minimum, maximum, nulls, self._batch_rows)

    @property
    def key_type(self) -> pa.DataType | None:
        if self._lookup.metadata.get("range_partitioned", b"false") != b"false":
            return None  # the pages are spread over several files, which pylance 14 does not write
        return self._bounds.min.type

    @cached_property
    def _data(self) -> IndexFile:
        return self._folder.open(_DATA_FILE)

    def search(
        self,
        predicate: Predicate,
        fragment_ids: FragmentIds,  # noqa: ARG002 - values, not fragments, decide what is read
    ) -> Answer | None:
        (path,) = columns(predicate)
        matches = classify(predicate, {path: self._bounds}, len(self._bounds))
        rows = self._page_rows(self._page_numbers[matches != Match.CANNOT])
        if rows.num_rows > min(_MAX_ROWS, max(_MIN_ROWS, self._data.num_rows // _MAX_SHARE)):
            return None
        if rows.num_rows == 0:
            return Answer(RowRanges.none(), is_exact=True)
        wanted = RowRange(*rows.bounds[0].tolist()) if len(rows) == 1 else rows.positions()
        values, ids = self._data.read(["values", "ids"], wanted, [None, pa.uint64()])
        if values.type != self._bounds.min.type:
            raise CorruptDataError(
                f"{self._data.name}: values have type {values.type}, but the page bounds have type "
                f"{self._bounds.min.type}"
            )
        truth = evaluate(predicate, {path: values}, len(values)).fill_null(False)
        matching = np.asarray(ids)[np.asarray(truth)]
        if matching.size and matching.max() >= 1 << 63:
            raise CorruptDataError(f"{self._data.name}: row {matching.max()} is out of range")
        return Answer(RowRanges.from_positions(matching), is_exact=True)

    def _page_rows(self, page_numbers: npt.NDArray[np.int64]) -> RowRanges:
        starts = page_numbers * self._batch_rows
        if starts.size and starts.max() >= self._data.num_rows:
            raise CorruptDataError(
                f"{self._lookup.name}: page {page_numbers.max()} of {self._batch_rows} rows is out of "
                f"range, {_DATA_FILE} has {self._data.num_rows} rows"
            )
        return RowRanges.from_ranges(starts, np.minimum(starts + self._batch_rows, self._data.num_rows))


def _page_bounds(
    minimum: pa.Array, maximum: pa.Array, nulls: npt.NDArray[np.int64], batch_rows: int
) -> ZoneBounds:
    """Return bounds of pages; the stored ones are their first and last values.

    Values are in order, so a page has a NaN only if its first or last value is NaN, or the NaN follows nulls.
    The number of NaNs is unknown, so the number of rows is set too high, to leave room for values.
    """
    rows = np.full(len(nulls), batch_rows, dtype=np.int64)
    only_null = np.asarray(maximum.is_null())
    rows[only_null] = nulls[only_null]
    if not pa.types.is_floating(minimum.type):
        return ZoneBounds(min=minimum, max=maximum, null_count=nulls, num_rows=rows)
    may_have_nan = np.asarray(minimum.is_null()) | _is_nan(minimum) | _is_nan(maximum)
    return ZoneBounds(
        min=minimum,
        max=maximum,
        null_count=nulls,
        nan_count=(may_have_nan & ~only_null).astype(np.int64),
        num_rows=rows + ~only_null,
    )


def _is_nan(values: pa.Array) -> npt.NDArray[np.bool_]:
    return np.isnan(float_values(values)) & np.asarray(values.is_valid())
