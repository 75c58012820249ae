"""Constant pages in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.encodings.layouts.constant.page import ConstantPage
from lance_df.encodings.levels.nested import path_array
from lance_df.encodings.plan import RowRange
from lance_df.encodings.resident import Form, viewed
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.plan import RowPositions, Rows
    from lance_df.encodings.resident import RowReader, Run


_MAX_CACHED_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ResidentConstant:
    """One value, or null."""

    decoder: ConstantPage
    data_type: pa.DataType
    run: Run

    def reader(self, form: Form) -> RowReader:
        """Return what reads rows. See `ResidentPage`."""
        decode = viewed(lambda start, stop: self._decode(RowRange(start, stop)), self.data_type, form)
        cached: pa.Array | None = None

        def read(start: int, stop: int) -> pa.Array:
            nonlocal cached
            array = cached
            if array is not None and len(array) >= stop - start:
                return array.slice(0, stop - start)
            array = decode(start, stop)
            if self.decoder.is_uniform and array.nbytes <= _MAX_CACHED_BYTES:
                cached = array
            return array

        return read

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows. See `ResidentPage`."""
        del form
        return self._decode(rows)

    def page_take(self) -> None:
        """Return None: there is nothing to take from. See `ResidentPage`."""

    def _decode(self, rows: Rows) -> pa.Array:
        return path_array(self.run(self.decoder.decode(rows)), ())
