"""Full-zip pages: one record a slot, ``control word [| length] | value``, without padding.

Buffers: ``records [| repetition index]``. The index gives the start of each row and the end of the last; it
exists where records vary in width. Format: docs/format/full_zip.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_df.encodings.buffers import Bytes, Counts, read_spans
from lance_df.encodings.codecs.values import bits_per_offset, bits_per_value
from lance_df.encodings.kernels import full_zip
from lance_df.encodings.layouts.full_zip.per_value import decode_fixed_records, decode_variable_records
from lance_df.encodings.levels.decode import LevelScheme, Slots
from lance_df.encodings.plan import RowRange
from lance_df.encodings.rows import with_next
from lance_df.errors import CorruptDataError
from lance_df.format.encodings_v2_1 import Flat, RepDefLayer
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lance_df.encodings.levels.decode import Levels
    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.format.encodings_v2_1 import FullZipLayout

_MAX_LEVEL_BITS = 16


class FullZipPage:
    """Decodes the records of rows and nothing else. Keeps nothing of the page."""

    __slots__ = ("_buffers", "_data_type", "_layout", "_mapped", "_num_rows", "_scheme", "_word_bytes")

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
        self._scheme = LevelScheme.of(layout.layers)
        level_bits = layout.bits_per_repetition, layout.bits_per_definition
        if max(level_bits) > _MAX_LEVEL_BITS:
            raise CorruptDataError(f"levels of {level_bits} bits in the control words of a full-zip page")
        self._word_bytes = _control_word_bytes(layout.bits_per_repetition + layout.bits_per_definition)
        expected = 2 if self._is_indexed else 1
        if len(buffers) != expected:
            raise CorruptDataError(f"a full-zip page with {len(buffers)} buffers, expected {expected}")
        if (layout.bits_per_value or 0) % 8:
            raise CorruptDataError(f"full-zip values of {layout.bits_per_value} bits")
        if layout.bits_per_offset not in (None, 32, 64):
            raise CorruptDataError(f"full-zip lengths of {layout.bits_per_offset} bits")

    @property
    def _is_indexed(self) -> bool:
        return self._layout.bits_per_offset is not None or self._scheme.max_repetition > 0

    def decode(self, rows: Rows) -> IoPlan[Slots]:
        """Plan the slots of ``rows``."""
        starts, stops = yield from self._row_bounds(rows)
        data, positions = yield from read_spans(self._buffers[0], starts, stops, mapped=self._mapped)
        sizes = stops - starts
        if self._layout.bits_per_offset is not None:
            return self._decode_variable(data, positions, sizes)
        return self._decode_fixed(data, positions, sizes)

    def whole_values(self) -> IoPlan[pa.Array | None]:
        """Plan all values, uncopied; None where records are not the values alone."""
        layout, start = self._layout, self._buffers[0].start
        if layout.layers != (RepDefLayer.ALL_VALID_ITEM,) or self._word_bytes or self._is_indexed:
            return None
        if bits_per_offset(self._data_type) is not None:
            return None
        width = bits_per_value(self._data_type)
        num_bytes = self._num_rows * width // 8
        is_flat = layout.values == Flat(width) and layout.bits_per_value == width and width >= 8
        if not is_flat or num_bytes > self._buffers[0].num_bytes:
            return None
        (data,) = yield [ByteRange(start, start + num_bytes)]
        return pa.Array.from_buffers(self._data_type, self._num_rows, [None, data], 0)

    def _row_bounds(self, rows: Rows) -> IoPlan[tuple[Counts, Counts]]:
        """Return where the records of each row start and stop."""
        first = np.arange(rows.start, rows.stop) if isinstance(rows, RowRange) else rows
        if not self._is_indexed:
            size = self._word_bytes + (self._layout.bits_per_value or 0) // 8
            if size * self._num_rows > self._buffers[0].num_bytes:
                raise CorruptDataError(
                    f"{self._num_rows} records of {size} bytes in {self._buffers[0].num_bytes} bytes"
                )
            return first * size, (first + 1) * size
        index = self._buffers[1]
        width = index.num_bytes // (self._num_rows + 1)
        if width not in (1, 2, 4, 8) or width * (self._num_rows + 1) != index.num_bytes:
            raise CorruptDataError(f"a repetition index of {index.num_bytes} bytes for {self._num_rows} rows")
        # entries of rows that follow each other overlap; ask for each only once
        needed = with_next(first)
        data, at = yield from read_spans(index, needed * width, (needed + 1) * width, mapped=self._mapped)
        entries = data[at[:, None] + np.arange(width)].reshape(-1).view(f"<u{width}")
        if len(entries) and int(entries.max()) > self._buffers[0].num_bytes:
            raise CorruptDataError(
                f"a row starts at byte {entries.max()} of a buffer of {self._buffers[0].num_bytes} bytes"
            )
        offsets = entries.astype(np.int64)
        if (np.diff(offsets) < 0).any():
            raise CorruptDataError("the repetition index does not ascend")
        at_first = np.searchsorted(needed, first)
        return offsets[at_first], offsets[at_first + 1]

    def _decode_fixed(self, data: Bytes, positions: Counts, sizes: Counts) -> Slots:
        layout, count = self._layout, len(positions)
        value_bytes = (layout.bits_per_value or 0) // 8
        if self._word_bytes == 0 and not self._is_indexed:
            values = decode_fixed_records(layout.values, data, positions, value_bytes, self._data_type)
            return Slots(self._scheme, None, None, values).checked()
        capacity = count
        if self._is_indexed:
            capacity = min(int(sizes.sum()) // max(self._word_bytes, 1), layout.num_slots)
        repetition, definition = np.empty(capacity, np.uint16), np.empty(capacity, np.uint16)
        starts, lengths = np.empty(capacity, np.int64), np.empty(0, np.int64)
        num_slots, num_values, broken = self._parse(
            data, positions, sizes, value_bytes, repetition, definition, starts, lengths
        )
        self._check_row(broken)
        values = decode_fixed_records(layout.values, data, starts[:num_values], value_bytes, self._data_type)
        return self._slots(repetition[:num_slots], definition[:num_slots], values)

    def _decode_variable(self, data: Bytes, positions: Counts, sizes: Counts) -> Slots:
        layout = self._layout
        capacity = len(positions)
        if self._scheme.max_repetition:
            capacity = min(int(sizes.sum()) // max(self._word_bytes, 1), layout.num_slots)
        repetition, definition = np.empty(capacity, np.uint16), np.empty(capacity, np.uint16)
        starts, lengths = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        num_slots, num_values, broken = self._parse(
            data, positions, sizes, 0, repetition, definition, starts, lengths
        )
        self._check_row(broken)
        if not self._scheme.max_repetition and num_slots != len(positions):
            raise CorruptDataError(f"{num_slots} records in {len(positions)} rows of a page without lists")
        values = decode_variable_records(
            layout.values, data, starts[:num_values], lengths[:num_values], self._data_type
        )
        return self._slots(repetition[:num_slots], definition[:num_slots], values)

    def _parse(
        self, data: Bytes, positions: Counts, sizes: Counts, value_bytes: int, *targets: npt.NDArray[Any]
    ) -> tuple[int, int, int]:
        """Find levels and values; return how many slots and values there are, and the broken row or -1."""
        return full_zip.parse_records(
            data,
            positions,
            positions + sizes,
            self._word_bytes,
            self._layout.bits_per_definition,
            (self._layout.bits_per_offset or 0) // 8,
            value_bytes,
            self._scheme.max_visible,
            *targets,
        )

    def _check_row(self, broken: int) -> None:
        if broken >= 0:
            raise CorruptDataError(f"the records of row {broken} of those asked for do not fill its bytes")

    def _slots(self, repetition: Levels, definition: Levels, values: pa.Array) -> Slots:
        has_lists = self._scheme.max_repetition > 0
        has_nulls = self._layout.bits_per_definition > 0
        return Slots(
            self._scheme,
            repetition if has_lists else None,
            definition if has_nulls else None,
            values,
        ).checked()


def _control_word_bytes(bits: int) -> int:
    if bits == 0:
        return 0
    return 1 if bits <= 8 else 2 if bits <= 16 else 4
