"""Decode full-zip pages: a record ``control word [| length] | value`` for each slot, without padding.

Buffers: ``records [| repetition index]``. The index has the start of each row and the end of the last one; it
exists if records vary in width. Format: docs/format/full_zip.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import aligned
from lance_df.encodings.buffers import read_spans
from lance_df.encodings.codecs.values import bits_per_offset, bits_per_value
from lance_df.encodings.fetch import fetch_fixed
from lance_df.encodings.flat.loaded import LoadedFlat
from lance_df.encodings.layouts.full_zip.loaded import (
    LoadedRecords,
    LoadedValues,
    control_word_bytes,
    is_indexed,
)
from lance_df.encodings.levels.decode import LevelScheme
from lance_df.encodings.loaded_page import is_plain_type
from lance_df.encodings.plan import RowRange
from lance_df.encodings.rows import as_positions, with_next
from lance_df.errors import CorruptDataError
from lance_df.format.encodings_v2_1 import Flat, RepDefLayer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.encodings.buffers import Counts
    from lance_df.encodings.layouts.leveled_page import LeveledPage
    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.format.encodings_v2_1 import FullZipLayout
    from lance_df.storage import ByteRange

_MAX_LEVEL_BITS = 16


class FullZipPage:
    """Loads only the records of the wanted rows, and caches nothing."""

    __slots__ = ("_buffers", "_data_type", "_layout", "_mapped", "_num_rows")

    def __init__(
        self,
        layout: FullZipLayout,
        buffers: Sequence[ByteRange],
        num_rows: int,
        data_type: pa.DataType,
        *,
        mapped: bool,
    ) -> None:
        self._layout = layout
        self._buffers = buffers
        self._num_rows = num_rows
        self._data_type = data_type
        self._mapped = mapped
        level_bits = layout.bits_per_repetition, layout.bits_per_definition
        if max(level_bits) > _MAX_LEVEL_BITS:
            raise CorruptDataError(
                f"the levels of a full-zip page have {level_bits} bits, expected at most {_MAX_LEVEL_BITS}"
            )
        expected = 2 if is_indexed(layout) else 1
        if len(buffers) != expected:
            raise CorruptDataError(f"a full-zip page has {len(buffers)} buffers, expected {expected}")
        if (layout.bits_per_value or 0) % 8:
            raise CorruptDataError(
                f"full-zip values have {layout.bits_per_value} bits, expected a multiple of 8"
            )
        if layout.bits_per_offset not in (None, 32, 64):
            raise CorruptDataError(f"full-zip lengths have {layout.bits_per_offset} bits, expected 32 or 64")

    def load(self, rows: Rows) -> IoPlan[tuple[LeveledPage, Rows]]:
        """Plan to load the records of ``rows``. See `PageDecoder`."""
        here = RowRange(0, len(rows))
        if self._width:
            self._check_values()
            data = yield from fetch_fixed(self._buffers[0], self._width, rows)
            return self._values(data), here
        starts, stops = yield from self._row_bounds(rows)
        data, positions = yield from read_spans(self._buffers[0], starts, stops, mapped=self._mapped)
        return LoadedRecords(self._layout, self._data_type, data, positions, stops - starts), here

    def whole(self) -> IoPlan[LeveledPage | None]:
        """Plan to load all records, if they consist of values only. See `PageDecoder`."""
        if not self._width or not is_plain_type(self._data_type):
            return None
        self._check_values()
        data = yield from fetch_fixed(self._buffers[0], self._width, RowRange(0, self._num_rows))
        return self._values(data)

    @property
    def _width(self) -> int:
        """The bytes of a value if records consist only of values in Arrow's layout; otherwise 0."""
        layout, data_type = self._layout, self._data_type
        if layout.layers != (RepDefLayer.ALL_VALID_ITEM,) or control_word_bytes(layout) or is_indexed(layout):
            return 0
        if not is_plain_type(data_type) or bits_per_offset(data_type) is not None:
            return 0
        bits = bits_per_value(data_type)
        is_flat = layout.values == Flat(bits) and layout.bits_per_value == bits
        return bits // 8 if is_flat and bits % 8 == 0 else 0

    def _check_values(self) -> None:
        if self._num_rows * self._width > self._buffers[0].num_bytes:
            raise self._too_many(self._width)

    def _too_many(self, size: int) -> CorruptDataError:
        return CorruptDataError(
            f"{self._num_rows} records of {size} bytes do not fit into a buffer of "
            f"{self._buffers[0].num_bytes} bytes"
        )

    def _values(self, data: pa.Buffer) -> LoadedValues:
        values = LoadedFlat(self._data_type, self._width, aligned(data, self._data_type))
        return LoadedValues(LevelScheme.of(self._layout.layers), values)

    def _row_bounds(self, rows: Rows) -> IoPlan[tuple[Counts, Counts]]:
        """Return the start and the end of the records of each row."""
        first = as_positions(rows)
        if not is_indexed(self._layout):
            size = control_word_bytes(self._layout) + (self._layout.bits_per_value or 0) // 8
            if size * self._num_rows > self._buffers[0].num_bytes:
                raise self._too_many(size)
            return first * size, (first + 1) * size
        index = self._buffers[1]
        width = index.num_bytes // (self._num_rows + 1)
        if width not in (1, 2, 4, 8) or width * (self._num_rows + 1) != index.num_bytes:
            raise CorruptDataError(
                f"a repetition index of {index.num_bytes} bytes does not match {self._num_rows} rows"
            )
        # the index entries of consecutive rows overlap; request each entry only once
        needed = with_next(first)
        data, at = yield from read_spans(index, needed * width, (needed + 1) * width, mapped=self._mapped)
        entries = data[at[:, None] + np.arange(width)].reshape(-1).view(f"<u{width}")
        if len(entries) and int(entries.max()) > self._buffers[0].num_bytes:
            raise CorruptDataError(
                f"a row starts at byte {entries.max()}, which is out of range: the buffer has "
                f"{self._buffers[0].num_bytes} bytes"
            )
        offsets = entries.astype(np.int64)
        if (np.diff(offsets) < 0).any():
            raise CorruptDataError("the offsets in the repetition index do not ascend")
        at_first = np.searchsorted(needed, first)
        return offsets[at_first], offsets[at_first + 1]
