"""Bitmap indices: the set of rows of each distinct value.

``bitmap_page_lookup.lance`` has one row for each value: ``keys``, where a null key stands for NULL, and
``bitmaps``, each a RowAddrTreeMap. Spec: table format, 14.3.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa

from lance_df.errors import CorruptDataError
from lance_df.expr.evaluate import evaluate
from lance_df.expr.nodes import Predicate
from lance_df.expr.walk import columns
from lance_df.table.indices.answer import Answer, FragmentIds
from lance_df.table.indices.index_file import IndexFolder
from lance_df.table.indices.row_address_map import MAX_RANGES, parse_row_address_map
from lance_df.table.reading.selection import RowRanges

_FILE = "bitmap_page_lookup.lance"
# With more matching keys, or more than half of all, the row set is too large to be worth building.
_MAX_KEYS = 1 << 14


class Bitmap:
    """An open bitmap index: keys are loaded at first use, bitmaps are read on demand."""

    def __init__(self, folder: IndexFolder) -> None:
        self._file = folder.open(_FILE)

    @property
    def key_type(self) -> pa.DataType | None:
        return self._file.type_of("keys")

    @cached_property
    def _keys(self) -> pa.Array:
        return self._file.read(["keys"])[0]

    def search(
        self,
        predicate: Predicate,
        fragment_ids: FragmentIds,  # noqa: ARG002 - values, not fragments, decide what is read
    ) -> Answer | None:
        (path,) = columns(predicate)
        truth = evaluate(predicate, {path: self._keys}, len(self._keys)).fill_null(False)
        selected = np.flatnonzero(np.asarray(truth))
        if selected.size > min(_MAX_KEYS, max(1, len(self._keys) // 2)):
            return None
        if selected.size == 0:
            return Answer(RowRanges.none(), is_exact=True)
        (bitmaps,) = self._file.read(["bitmaps"], selected)
        if not pa.types.is_binary(bitmaps.type) and not pa.types.is_large_binary(bitmaps.type):
            raise CorruptDataError(f"{self._file.name}: bitmaps have type {bitmaps.type}, expected binary")
        if bitmaps.null_count:
            raise CorruptDataError(f"{self._file.name}: a bitmap is null")
        parts = []
        num_ranges = 0
        for item in bitmaps:
            part = parse_row_address_map(item.as_buffer(), source=self._file.name)
            num_ranges += MAX_RANGES if part is None else len(part)
            if part is None or num_ranges > MAX_RANGES:
                return None
            parts.append(part.bounds)
        bounds = np.concatenate(parts)
        return Answer(RowRanges.from_ranges(bounds[:, 0], bounds[:, 1]), is_exact=True)
