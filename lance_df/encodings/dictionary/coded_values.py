"""The values that a page stores once, and conversions of indices into arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_df.encodings.gather import Lookup
from lance_df.encodings.kernels.lookup import look_up
from lance_df.encodings.loaded_page import Form
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

_VIEW_BYTES = 16
_NO_BYTES = np.empty(0, np.uint8)
_TABLE_BITS = (8, 16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class LookupTable:
    """The values of a dictionary in the form that kernels read.

    Attributes
    ----------
    data, size
        The bytes of the values, and the number of values.
    width
        The bytes of a value: 1, 2, 4, 8 or 16.
    data_type, shared
        The type of arrays of the values, and their buffers after the values buffer.
    """

    data: npt.NDArray[np.uint8]
    size: int
    width: int
    data_type: pa.DataType
    shared: tuple[pa.Buffer, ...]

    @classmethod
    def of(cls, values: pa.Array) -> LookupTable | None:
        """Return the table of an array, or None if its values have another width. Nulls count as values."""
        data_type = values.type
        if data_type == pa.string_view():
            width = _VIEW_BYTES
        elif (pa.types.is_primitive(data_type) or pa.types.is_decimal(data_type)) and (
            data_type.bit_width in _TABLE_BITS
        ):
            width = data_type.bit_width // 8
        else:
            return None
        _, _, *shared = values.buffers()
        return cls(_bytes_of(values, width), len(values), width, data_type, tuple(shared))


class CodedValues:
    """The values that a page stores once; converts indices into arrays.

    Parameters
    ----------
    values
        The values, without nulls unless the first one stands for null.
    null_first
        Whether the first value stands for null.
    """

    __slots__ = ("_filled", "_lookup", "_null_first", "_tables", "_types", "values")

    def __init__(self, values: pa.Array, *, null_first: bool) -> None:
        self.values = values
        self._null_first = null_first
        filled = pa.Array.from_buffers(values.type, len(values), [None, *values.buffers()[1:]], null_count=0)
        self._filled = filled if null_first else values
        self._lookup = Lookup(self._filled)
        self._types = {width: pa.dictionary(f"uint{8 * width}", values.type) for width in (1, 2, 4, 8)}
        self._tables: dict[bool, LookupTable | None] = {}

    def table(self, form: Form) -> LookupTable | None:
        """Return the values for kernels, or None if they are not of fixed width in this form."""
        as_viewed = Form.VIEWS in form and self.values.type == pa.string()
        if as_viewed not in self._tables:
            values = self._filled.cast(pa.string_view()) if as_viewed else self._filled
            # the first table stays if several threads get here: one that is being read must not be freed
            return self._tables.setdefault(as_viewed, LookupTable.of(values))
        return self._tables[as_viewed]

    def finisher(self, form: Form) -> Callable[[pa.Array, npt.NDArray[np.bool_] | None], pa.Array]:
        """Return a function that makes arrays from indices and a mask of the valid ones (None: all)."""
        table = None if Form.DICTIONARY in form else self.table(form)
        out_width = self.index_width() if table is None else table.width
        table_bytes = _NO_BYTES if table is None else table.data

        def finish(indices: pa.Array, valid: npt.NDArray[np.bool_] | None) -> pa.Array:
            count, width = len(indices), indices.type.bit_width // 8
            num_nulls, bits, marks = 0, None, _NO_BYTES
            if valid is not None and (num_nulls := count - int(np.count_nonzero(valid))):
                if num_nulls == count:
                    return pa.nulls(count, self.values.type if table is None else table.data_type)
                bits, marks = pa.py_buffer(np.packbits(valid, bitorder="little")), valid.view(np.uint8)
            data = pa.allocate_buffer(count * out_width)
            out, words = np.frombuffer(data, np.uint8), _bytes_of(indices, width)
            status = look_up(words, width, marks, table_bytes, len(self.values), out_width, out)
            if status < -1:
                raise self.beyond(-2 - status)
            if table is not None:
                return pa.Array.from_buffers(table.data_type, count, [bits, data, *table.shared], num_nulls)
            if Form.DICTIONARY in form:
                return self.wrap(count, out_width, data, bits, num_nulls)
            taken = self.take(count, out_width, data)
            return pa.Array.from_buffers(taken.type, count, [bits, *taken.buffers()[1:]], num_nulls)

        return finish

    def index_width(self) -> int:
        """Return the number of bytes of the narrowest index type that can number all values."""
        return next(width for width in (1, 2, 4, 8) if len(self.values) <= 1 << 8 * width)

    def wrap(
        self, count: int, width: int, indices: pa.Buffer, bits: pa.Buffer | None = None, num_nulls: int = 0
    ) -> pa.Array:
        """Return the dictionary array of indices that are in range."""
        buffers = [bits, indices]
        return pa.DictionaryArray.from_buffers(self._types[width], count, buffers, self.values, num_nulls)

    def take(self, count: int, width: int, indices: pa.Buffer) -> pa.Array:
        """Return the values of indices that are in range and not null."""
        return self._lookup.take(index_words(indices, width, count))

    def beyond(self, index: int) -> CorruptDataError:
        """Return the error for an index beyond the values."""
        first = int(self._null_first)
        return CorruptDataError(
            f"dictionary index {index - first} is out of range, the dictionary has "
            f"{len(self.values) - first} values"
        )

    def read(
        self,
        indices: npt.NDArray[np.unsignedinteger[Any]],
        data: pa.Buffer,
        form: Form,
        *,
        valid: npt.NDArray[np.bool_] | None = None,
    ) -> pa.Array:
        """Return the values of indices, which are checked; the caller converts them to views.

        Parameters
        ----------
        data
            The memory of ``indices``.
        valid
            Which indices are valid, if those of nulls have no meaning; None if all are valid.
        """
        count = len(indices)
        if valid is not None and not valid.all():
            if not valid.any():
                return pa.nulls(count, self.values.type)
            indices = indices * valid
            data = pa.py_buffer(indices)
        if count and (highest := int(indices.max())) >= len(self.values):
            raise self.beyond(highest)
        if self._null_first and count and not indices.min():
            valid = indices != 0
        bits, num_nulls = None, 0
        if valid is not None and (num_nulls := count - int(np.count_nonzero(valid))):
            bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
        if Form.DICTIONARY in form:
            return pa.DictionaryArray.from_buffers(
                self._types[indices.itemsize], count, [bits, data], self.values, num_nulls
            )
        taken = self._lookup.take(indices)
        if not num_nulls:
            return taken
        return pa.Array.from_buffers(taken.type, count, [bits, *taken.buffers()[1:]], num_nulls)


def _bytes_of(values: pa.Array, width: int) -> npt.NDArray[np.uint8]:
    """Return the bytes of values of ``width`` bytes each."""
    data, start = values.buffers()[1], values.offset * width
    return np.frombuffer(data, np.uint8, len(values) * width, start) if len(values) else _NO_BYTES


def index_words(data: pa.Buffer, width: int, count: int) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Return a view of the indices of ``width`` bytes in memory."""
    return np.frombuffer(data, f"<u{width}", count)
