"""Read dictionary indices in memory, in which index 0 is null."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.buffers import bitmap
from lance_df.encodings.dictionary.coded_values import CodedValues
from lance_df.encodings.flat.loaded import LoadedFlat
from lance_df.encodings.gather import take_words
from lance_df.encodings.kernels.lookup import look_up
from lance_df.encodings.loaded_page import Form, viewed
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.dictionary.coded_values import LookupTable
    from lance_df.encodings.loaded_page import RowReader
    from lance_df.encodings.page_take import PageTake
    from lance_df.encodings.plan import RowPositions


_NO_BYTES = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class LoadedDictionary:
    """Indices into values, in which index 0 is null."""

    indices: LoadedFlat
    values: CodedValues

    def reader(self, form: Form) -> RowReader:
        """Return a reader of rows. See `LoadedPage`."""
        table = None if Form.DICTIONARY in form else self.values.table(form)
        read = viewed(partial(self._read, form=form), form)
        return read if table is None else self._value_reader(table, read)

    def _read(self, start: int, stop: int, form: Form) -> pa.Array:
        data = self.indices.bytes(start, stop)
        return self.values.read(np.frombuffer(data, f"<u{self.indices.width}"), data, form)

    def _value_reader(self, table: LookupTable, read_few: RowReader) -> RowReader:
        stored, out_width, coded = self.indices.width, table.width, self.values
        data_bytes = np.frombuffer(self.indices.data, np.uint8) if self.indices.data.size else _NO_BYTES
        allocate, array = pa.allocate_buffer, pa.Array.from_buffers

        def read(start: int, stop: int) -> pa.Array:
            count = stop - start
            if not kernels.COMPILED:
                return read_few(start, stop)
            data = allocate(count * out_width)
            words, out = data_bytes[start * stored : stop * stored], np.frombuffer(data, np.uint8)
            status = look_up(words, stored, _NO_BYTES, table.data, table.size, out_width, out)
            if status == -1:
                return array(table.data_type, count, [None, data, *table.shared], 0)
            if status < 0:
                raise coded.beyond(-2 - status)
            valid = np.frombuffer(self.indices.bytes(start, stop), f"<u{stored}") != 0
            num_nulls = count - int(np.count_nonzero(valid))
            return array(table.data_type, count, [bitmap(valid), data, *table.shared], num_nulls)

        return read

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows. See `LoadedPage`."""
        data = take_words(self.indices.data, self.indices.width, rows)
        numbers = np.frombuffer(data, f"<u{self.indices.width}") if len(rows) else np.empty(0, np.uint8)
        return self.values.read(numbers, data, form)

    def page_take(self) -> PageTake:
        """Return the object by which kernels take single rows. See `LoadedPage`."""
        return self.indices.page_take().decoding(self.values)
