"""Pages of files in memory: their rows are read without a plan, and what a page tells once is kept.

Most pages of most tables are plain: no lists, an encoding that every writer uses. Such pages of a
memory-mapped file are read by a few calls for a range of rows. Any other page is read by its general decoder.
"""

from __future__ import annotations

from enum import Flag
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.gather import Lookup
from lance_df.encodings.string_views import as_views
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from lance_df.encodings.picks import PagePicks
    from lance_df.encodings.plan import RowPositions

    RowReader: TypeAlias = Callable[[int, int], pa.Array]


_VIEW_BYTES = 16
_TABLE_BITS = (8, 16, 32, 64, 128)


class Form(Flag):
    """What arrays are: plain ones of their type, strings (of 32-bit offsets) as views, or dictionaries.

    Only where a page is stored with a dictionary it is kept; then views are not made.
    """

    PLAIN = 0
    DICTIONARY = 1
    VIEWS = 2


class ResidentPage(Protocol):
    """Reads rows of one page."""

    def reader(self, form: Form) -> RowReader:
        """Return what reads rows from a first to a last (exclusive), at least one, all of which exist.

        It is made once, and may be called by several threads. Where what is stored is impossible, it raises
        `CorruptDataError`, which names neither file nor column.
        """
        ...

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows, which exist. Raises as readers do."""
        ...

    def picks(self) -> PagePicks | None:
        """Return how kernels pick single rows, of this page and others; None where they do not.

        It is for pages that have no nulls, unless null is a value of their dictionary.
        """
        ...


def viewed(read: RowReader, data_type: pa.DataType, form: Form) -> RowReader:
    """Return a reader of strings as views, if that is the form, for one of arrays of their type."""
    if Form.VIEWS not in form or data_type != pa.string():
        return read

    def read_views(start: int, stop: int) -> pa.Array:
        array = read(start, stop)
        return as_views(array) if array.type == data_type else array

    return read_views


def is_plain_type(data_type: pa.DataType) -> bool:
    """Return whether values are words or strings, as resident pages have them."""
    types = pa.types
    return (
        is_text(data_type)
        or is_bytes(data_type)
        or types.is_decimal(data_type)
        or types.is_fixed_size_binary(data_type)
        or (types.is_primitive(data_type) and data_type.bit_width >= 8)
    )


def is_text(data_type: pa.DataType) -> bool:
    """Return whether values are strings."""
    return pa.types.is_string(data_type) or pa.types.is_large_string(data_type)


def is_bytes(data_type: pa.DataType) -> bool:
    """Return whether values are binaries of any width."""
    return pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type)


def is_large(data_type: pa.DataType) -> bool:
    """Return whether offsets of strings or binaries have 64 bits."""
    return pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type)


@dataclass(frozen=True, slots=True)
class LookupTable:
    """Where kernels find the values that indices mean.

    Attributes
    ----------
    address, size
        Of the values, and how many there are.
    width
        Bytes of a value: 1, 2, 4, 8 or 16.
    data_type, shared
        Of arrays of them: the type, and the buffers after the values.
    """

    address: int
    size: int
    width: int
    data_type: pa.DataType
    shared: tuple[pa.Buffer, ...]
    values: pa.Array

    @classmethod
    def of(cls, values: pa.Array) -> LookupTable | None:
        """Return the table of an array; None where values have other widths. Nulls count as values."""
        data_type = values.type
        if data_type == pa.string_view():
            width = _VIEW_BYTES
        elif (pa.types.is_primitive(data_type) or pa.types.is_decimal(data_type)) and (
            data_type.bit_width in _TABLE_BITS
        ):
            width = data_type.bit_width // 8
        else:
            return None
        _, data, *shared = values.buffers()
        address = data.address + values.offset * width if len(values) else 0
        return cls(address, len(values), width, data_type, tuple(shared), values)


class CodedValues:
    """The values that a page stores once, and arrays of indices into them.

    Parameters
    ----------
    values
        Without nulls, unless the first of them stands for null.
    null_first
        Whether it does.
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
        """Return where kernels find the values; None where they are not of fixed width in this form."""
        as_viewed = Form.VIEWS in form and self.values.type == pa.string()
        if as_viewed not in self._tables:
            values = self._filled.cast(pa.string_view()) if as_viewed else self._filled
            # of threads that come at once the first is right: what another reads must not be freed
            return self._tables.setdefault(as_viewed, LookupTable.of(values))
        return self._tables[as_viewed]

    def finisher(self, form: Form) -> Callable[[pa.Array, npt.NDArray[np.bool_] | None], pa.Array]:
        """Return what makes arrays of some indices, and of which of them have a meaning; None when all."""
        table = None if Form.DICTIONARY in form else self.table(form)
        out_width = self.index_width() if table is None else table.width
        place = 0 if table is None else table.address

        def finish(indices: pa.Array, valid: npt.NDArray[np.bool_] | None) -> pa.Array:
            count, width = len(indices), indices.type.bit_width // 8
            num_nulls, bits, valid_place = 0, None, 0
            if valid is not None and (num_nulls := count - int(np.count_nonzero(valid))):
                if num_nulls == count:
                    return pa.nulls(count, self.values.type if table is None else table.data_type)
                bits, valid_place = pa.py_buffer(np.packbits(valid, bitorder="little")), valid.ctypes.data
            data = pa.allocate_buffer(count * out_width)
            source = indices.buffers()[1].address + indices.offset * width
            look_up = getattr(kernels, f"look_up_{8 * width}")
            found = look_up(source, count, valid_place, place, len(self.values), out_width, data.address)
            if found < -1:
                raise self.beyond(-2 - found)
            if table is not None:
                return pa.Array.from_buffers(table.data_type, count, [bits, data, *table.shared], num_nulls)
            if Form.DICTIONARY in form:
                return self.wrap(count, out_width, data, bits, num_nulls)
            picked = self.pick(count, out_width, data)
            return pa.Array.from_buffers(picked.type, count, [bits, *picked.buffers()[1:]], num_nulls)

        return finish

    def index_width(self) -> int:
        """Return the bytes of the narrowest indices of all values."""
        return next(width for width in (1, 2, 4, 8) if len(self.values) <= 1 << 8 * width)

    def wrap(
        self, count: int, width: int, indices: pa.Buffer, bits: pa.Buffer | None = None, num_nulls: int = 0
    ) -> pa.Array:
        """Return the dictionary array of indices that lie within."""
        buffers = [bits, indices]
        return pa.DictionaryArray.from_buffers(self._types[width], count, buffers, self.values, num_nulls)

    def pick(self, count: int, width: int, indices: pa.Buffer) -> pa.Array:
        """Return the values of indices that lie within, none of them null."""
        return self._lookup.pick(index_words(indices, width, count))

    def beyond(self, index: int) -> CorruptDataError:
        """Return the error of an index beyond the values."""
        first = int(self._null_first)
        return CorruptDataError(
            f"dictionary index {index - first}, there are {len(self.values) - first} values"
        )

    def read(
        self,
        indices: npt.NDArray[np.unsignedinteger[Any]],
        data: pa.Buffer,
        form: Form,
        *,
        valid: npt.NDArray[np.bool_] | None = None,
    ) -> pa.Array:
        """Return the values that any indices mean, as views only where the caller makes them.

        Parameters
        ----------
        data
            The memory of ``indices``.
        valid
            Which indices have a meaning, where those of nulls have none; None when all have.
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
        found = self._lookup.pick(indices)
        if not num_nulls:
            return found
        return pa.Array.from_buffers(found.type, count, [bits, *found.buffers()[1:]], num_nulls)


def index_words(data: pa.Buffer, width: int, count: int) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Return the indices of ``width`` bytes that lie in memory."""
    numbers = np.frombuffer(data, f"<u{width}", count)
    numbers.flags.writeable = False  # as kernels are compiled for
    return numbers
