"""Read constant pages in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.codecs.values import bits_per_offset, bits_per_value, checked_text, fixed_width_array
from lance_df.encodings.layouts.leveled_page import LeveledPage
from lance_df.encodings.levels.decode import Slots, rows_of_slots
from lance_df.encodings.plan import RowRange
from lance_df.encodings.variable.decode import check_total_bytes
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.encodings.buffers import Counts
    from lance_df.encodings.levels.decode import Levels, LevelScheme
    from lance_df.encodings.loaded_page import Form, RowReader
    from lance_df.encodings.plan import Rows


_MAX_CACHED_BYTES = 1024 * 1024


class LoadedConstant(LeveledPage):
    """Repeats a value, or null, for all slots.

    Parameters
    ----------
    repetition, definition
        The levels of the page; None if all are 0, or if all rows are null.
    value
        The value in the form that layouts store.
    num_rows
        The number of rows of the page.
    """

    __slots__ = ("_data_type", "_definition", "_num_rows", "_repetition", "_scheme", "_value")

    def __init__(
        self,
        scheme: LevelScheme,
        repetition: Levels | None,
        definition: Levels | None,
        value: bytes | None,
        num_rows: int,
        data_type: pa.DataType,
    ) -> None:
        self._scheme = scheme
        self._repetition = repetition
        self._definition = definition
        self._value = value
        self._num_rows = num_rows
        self._data_type = data_type

    def slots(self, rows: Rows) -> Slots:
        """Return the slots of rows. See `LeveledPage`."""
        scheme, repetition, definition = self._scheme, self._repetition, self._definition
        if repetition is None:
            if definition is not None:
                definition = definition[slice(rows.start, rows.stop) if isinstance(rows, RowRange) else rows]
            elif self._value is None and scheme.max_definition:
                definition = np.ones(len(rows), np.uint16)
            slots = Slots(scheme, None, definition, self._repeat(len(rows))).checked()
            self._check_nulls(slots)
            return slots
        row_of_slot = rows_of_slots(repetition, scheme.max_repetition, 0)
        if not len(row_of_slot) or row_of_slot[0] != 0 or row_of_slot[-1] != self._num_rows - 1:
            raise CorruptDataError(
                f"the repetition levels of a constant page do not add up to its {self._num_rows} rows"
            )
        levels = Slots(scheme, repetition, definition, pa.nulls(0))
        visible = levels.visible()
        count = len(repetition) if visible is None else int(np.count_nonzero(visible))
        chosen = Slots(scheme, repetition, definition, pa.nulls(count)).checked().select(rows, row_of_slot)
        self._check_nulls(chosen)
        return Slots(scheme, chosen.repetition, chosen.definition, self._repeat(len(chosen.values)))

    def reader(self, form: Form) -> RowReader:
        """Return a reader of rows. See `LoadedPage`."""
        read = super().reader(form)
        if self._repetition is not None or self._definition is not None:
            return read
        # all rows are equal
        cached: pa.Array | None = None

        def read_cached(start: int, stop: int) -> pa.Array:
            nonlocal cached
            array = cached
            if array is not None and len(array) >= stop - start:
                return array.slice(0, stop - start)
            array = read(start, stop)
            if array.nbytes <= _MAX_CACHED_BYTES:
                cached = array
            return array

        return read_cached

    def _check_nulls(self, slots: Slots) -> None:
        if self._value is not None or not len(slots.values) or pa.types.is_null(self._data_type):
            return
        nulls = slots.nulls()
        if nulls is None or not nulls.all():
            raise CorruptDataError("a constant page without a value has entries that are not null")

    def _repeat(self, count: int) -> pa.Array:
        if self._value is None or count == 0:
            return _placeholders(count, self._data_type)
        return repeated([self._value], np.array([count], np.int64), self._data_type)


def repeated(values: Sequence[bytes], counts: Counts, data_type: pa.DataType) -> pa.Array:
    """Return each value, in the form that layouts store, ``counts[i]`` times.

    Raises
    ------
    CorruptDataError
        A value is not of the type.
    """
    total = int(counts.sum())
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    offset_bits = bits_per_offset(data_type)
    if offset_bits is not None:
        check_total_bytes(int(sizes @ counts), offset_bits // 8)
    elif pa.types.is_boolean(data_type):
        bits = np.repeat(np.fromiter((value != b"\0" for value in values), np.bool_, len(values)), counts)
        return fixed_width_array(np.packbits(bits, bitorder="little"), total, data_type)
    elif (wrong := sizes * 8 != bits_per_value(data_type)).any():
        raise CorruptDataError(
            f"a constant has {sizes[wrong.argmax()]} bytes, which does not match type {data_type}"
        )
    data = b"".join(value * count for value, count in zip(values, counts.tolist(), strict=True))
    if offset_bits is None:
        return fixed_width_array(np.frombuffer(data, np.uint8), total, data_type)
    offsets = np.zeros(total + 1, f"<i{offset_bits // 8}")
    np.cumsum(np.repeat(sizes, counts), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return checked_text(pa.Array.from_buffers(data_type, total, buffers, null_count=0))


def _placeholders(count: int, data_type: pa.DataType) -> pa.Array:
    """Return ``count`` arbitrary values, which levels hide."""
    if pa.types.is_null(data_type):
        return pa.nulls(count)
    if pa.types.is_struct(data_type):
        children = [_placeholders(count, child.type) for child in data_type]
        return pa.Array.from_buffers(data_type, count, [None], null_count=0, children=children)
    if pa.types.is_fixed_size_list(data_type):
        items = _placeholders(count * data_type.list_size, data_type.value_type)
        return pa.Array.from_buffers(data_type, count, [None], null_count=0, children=[items])
    if pa.types.is_dictionary(data_type):
        indices = _placeholders(count, data_type.index_type)
        values = _placeholders(min(count, 1), data_type.value_type)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=data_type.ordered, safe=False)
    zeros = pa.nulls(count, data_type).buffers()
    return pa.Array.from_buffers(data_type, count, [None, *zeros[1:]], null_count=0)
