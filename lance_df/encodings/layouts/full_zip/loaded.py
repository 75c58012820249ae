"""Read records of full-zip pages in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_df.encodings.kernels import full_zip
from lance_df.encodings.layouts.full_zip.per_value import decode_fixed_records, decode_variable_records
from lance_df.encodings.layouts.leveled_page import LeveledPage
from lance_df.encodings.levels.decode import LevelScheme, Slots
from lance_df.encodings.loaded_page import Form, read_rows
from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.buffers import Bytes, Counts
    from lance_df.encodings.flat.loaded import LoadedFlat
    from lance_df.encodings.levels.decode import Levels
    from lance_df.encodings.loaded_page import RowReader
    from lance_df.encodings.page_take import PageTake
    from lance_df.encodings.plan import RowPositions, Rows
    from lance_df.format.encodings_v2_1 import FullZipLayout


class LoadedValues(LeveledPage):
    """Values without levels that the file stores in Arrow's layout."""

    __slots__ = ("_scheme", "_values")

    def __init__(self, scheme: LevelScheme, values: LoadedFlat) -> None:
        self._scheme = scheme
        self._values = values

    def slots(self, rows: Rows) -> Slots:
        """Return the slots of rows. See `LeveledPage`."""
        return Slots(self._scheme, None, None, read_rows(self._values, rows, Form.PLAIN))

    def reader(self, form: Form) -> RowReader:
        """Return a reader of rows. See `LoadedPage`."""
        return self._values.reader(form)

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows. See `LoadedPage`."""
        return self._values.take(rows, form)

    def page_take(self) -> PageTake:
        """Return the object by which kernels take single rows. See `LoadedPage`."""
        return self._values.page_take()


class LoadedRecords(LeveledPage):
    """``control word [| length] | value`` for each slot, without padding.

    Parameters
    ----------
    positions, sizes
        The start of the slots of each row in the data, and their size in bytes.
    """

    __slots__ = ("_data", "_data_type", "_layout", "_positions", "_scheme", "_sizes")

    def __init__(
        self, layout: FullZipLayout, data_type: pa.DataType, data: Bytes, positions: Counts, sizes: Counts
    ) -> None:
        self._layout = layout
        self._data_type = data_type
        self._data = data
        self._positions = positions
        self._sizes = sizes
        self._scheme = LevelScheme.of(layout.layers)

    def slots(self, rows: Rows) -> Slots:
        """Return the slots of rows. See `LeveledPage`."""
        index = slice(rows.start, rows.stop) if isinstance(rows, RowRange) else rows
        positions, sizes = self._positions[index], self._sizes[index]
        if self._layout.bits_per_offset is not None:
            return self._decode_variable(positions, sizes)
        return self._decode_fixed(positions, sizes)

    def _decode_fixed(self, positions: Counts, sizes: Counts) -> Slots:
        layout, data, count = self._layout, self._data, len(positions)
        value_bytes = (layout.bits_per_value or 0) // 8
        word_bytes = control_word_bytes(layout)
        if word_bytes == 0 and not is_indexed(layout):
            values = decode_fixed_records(layout.values, data, positions, value_bytes, self._data_type)
            return Slots(self._scheme, None, None, values).checked()
        capacity = count
        if is_indexed(layout):
            capacity = min(int(sizes.sum()) // max(word_bytes, 1), layout.num_slots)
        repetition, definition = np.empty(capacity, np.uint16), np.empty(capacity, np.uint16)
        starts, lengths = np.empty(capacity, np.int64), np.empty(0, np.int64)
        num_slots, num_values, broken = self._parse(
            positions, sizes, value_bytes, repetition, definition, starts, lengths
        )
        _check_row(broken)
        values = decode_fixed_records(layout.values, data, starts[:num_values], value_bytes, self._data_type)
        return self._slots(repetition[:num_slots], definition[:num_slots], values)

    def _decode_variable(self, positions: Counts, sizes: Counts) -> Slots:
        layout = self._layout
        capacity = len(positions)
        if self._scheme.max_repetition:
            capacity = min(int(sizes.sum()) // max(control_word_bytes(layout), 1), layout.num_slots)
        repetition, definition = np.empty(capacity, np.uint16), np.empty(capacity, np.uint16)
        starts, lengths = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        num_slots, num_values, broken = self._parse(
            positions, sizes, 0, repetition, definition, starts, lengths
        )
        _check_row(broken)
        if not self._scheme.max_repetition and num_slots != len(positions):
            raise CorruptDataError(
                f"a page without lists has {num_slots} records, expected {len(positions)}, one for each row"
            )
        values = decode_variable_records(
            layout.values, self._data, starts[:num_values], lengths[:num_values], self._data_type
        )
        return self._slots(repetition[:num_slots], definition[:num_slots], values)

    def _parse(
        self, positions: Counts, sizes: Counts, value_bytes: int, *targets: npt.NDArray[Any]
    ) -> tuple[int, int, int]:
        """Find levels and values; return the numbers of slots and of values, and the broken row or -1."""
        return full_zip.parse_records(
            self._data,
            positions,
            positions + sizes,
            control_word_bytes(self._layout),
            self._layout.bits_per_definition,
            (self._layout.bits_per_offset or 0) // 8,
            value_bytes,
            self._scheme.max_visible,
            *targets,
        )

    def _slots(self, repetition: Levels, definition: Levels, values: pa.Array) -> Slots:
        has_lists = self._scheme.max_repetition > 0
        has_nulls = self._layout.bits_per_definition > 0
        return Slots(
            self._scheme,
            repetition if has_lists else None,
            definition if has_nulls else None,
            values,
        ).checked()


def is_indexed(layout: FullZipLayout) -> bool:
    """Return whether records vary in width, so that the page has an index of its rows."""
    return layout.bits_per_offset is not None or any(layer.is_list for layer in layout.layers)


def control_word_bytes(layout: FullZipLayout) -> int:
    """Return the number of bytes of the levels of a slot."""
    bits = layout.bits_per_repetition + layout.bits_per_definition
    if bits == 0:
        return 0
    return 1 if bits <= 8 else 2 if bits <= 16 else 4


def _check_row(broken: int) -> None:
    if broken >= 0:
        raise CorruptDataError(f"the records of row {broken} of the requested rows do not match its size")
