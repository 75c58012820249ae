"""Pages of files in memory: their rows are read without a plan, and what a page tells once is kept.

Most pages of most tables are plain: no lists, an encoding that every writer uses. Such pages of a
memory-mapped file are read by a few calls for a range of rows. Any other page is read by its general decoder.
"""

from __future__ import annotations

from enum import Flag
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from lance_df.encodings.gather import Lookup
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.plan import RowPositions


class Form(Flag):
    """What arrays may be, beside plain ones of their type, where a page has it so; see `FileReader.read`."""

    PLAIN = 0
    DICTIONARY = 1
    VIEWS = 2


class ResidentPage(Protocol):
    """Reads rows of one page."""

    def read(self, start: int, stop: int, form: Form) -> pa.Array:
        """Return rows ``start`` to ``stop`` (exclusive), which exist.

        Raises
        ------
        CorruptDataError
            What is stored is impossible. Names neither file nor column.
        """
        ...

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows, which exist. Raises as :meth:`read`."""
        ...


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


class CodedValues:
    """The values that a page stores once, and arrays of indices into them.

    Parameters
    ----------
    values
        Without nulls, unless the first of them stands for null.
    null_first
        Whether it does.
    """

    __slots__ = ("_lookup", "_null_first", "_types", "values")

    def __init__(self, values: pa.Array, *, null_first: bool) -> None:
        self.values = values
        self._null_first = null_first
        filled = pa.Array.from_buffers(values.type, len(values), [None, *values.buffers()[1:]], null_count=0)
        self._lookup = Lookup(filled if null_first else values)
        self._types = {width: pa.dictionary(f"uint{8 * width}", values.type) for width in (1, 2, 4, 8)}

    def read(
        self,
        indices: npt.NDArray[np.unsignedinteger[Any]],
        data: pa.Buffer,
        form: Form,
        *,
        valid: npt.NDArray[np.bool_] | None = None,
    ) -> pa.Array:
        """Return the values that indices mean.

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
            first = int(self._null_first)
            raise CorruptDataError(
                f"dictionary index {highest - first}, there are {len(self.values) - first} values"
            )
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
