"""Dictionary pages: indices into values that the page stores once. Spec: file format 2.x, 4.4."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.v2_1.buffers import Bytes, allocate
from lance_df.encodings.v2_1.variable import Strings, check_total_bytes
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    import numpy.typing as npt

# two overlapping stores copy a value of at most so many bytes
_SHORT_BYTES = 16


class Dictionary:
    """The values of one page.

    Parameters
    ----------
    values
        Without nulls.
    data_type
        What indices are looked up as: the type of ``values``, or a dictionary type, for which indices and
        values are kept apart.
    """

    __slots__ = ("_data_type", "_lengths", "_padded", "_values")

    def __init__(self, values: pa.Array, data_type: pa.DataType) -> None:
        self._values = values
        self._data_type = data_type
        self._padded, self._lengths = _pad(values) if values.type == data_type else (None, None)

    def look_up(self, indices: pa.Array, is_null: npt.NDArray[np.bool_] | None) -> pa.Array:
        """Return the values that ``indices`` (unsigned) mean.

        Parameters
        ----------
        is_null
            Which indices are of nulls, and so have no meaning; None when none are.

        Raises
        ------
        CorruptDataError
            An index lies outside the dictionary.
        """
        numbers = np.asarray(indices)
        if is_null is not None and is_null.any():
            numbers = np.where(is_null, numbers.dtype.type(0), numbers)
            if not len(self._values) and is_null.all():
                return pa.nulls(len(numbers), self._data_type)
        if len(numbers) and int(numbers.max()) >= len(self._values):
            raise CorruptDataError(f"dictionary index {numbers.max()}, there are {len(self._values)} values")
        if pa.types.is_dictionary(self._data_type):
            return self._keep_apart(numbers)
        if self._padded is None or self._lengths is None:
            return self._values.take(pa.array(numbers))
        width = 4 if self._values.type in (pa.string(), pa.binary()) else 8
        total = int(self._lengths[numbers].sum(dtype=np.int64))
        check_total_bytes(total, width)
        _, offsets = allocate((len(numbers) + 1) * width)
        _, out = allocate(total + _SHORT_BYTES)
        typed = offsets.view(f"<i{width}")
        kernels.gather_short(numbers, self._padded, self._lengths, typed, out)
        return Strings(typed, out[:total]).to_arrow(self._data_type)

    def _keep_apart(self, numbers: npt.NDArray[np.unsignedinteger]) -> pa.Array:
        index_type = self._data_type.index_type
        if numbers.itemsize * 8 != index_type.bit_width:
            raise CorruptDataError(
                f"indices of {numbers.itemsize * 8} bits in a column of type {self._data_type}"
            )
        return pa.DictionaryArray.from_arrays(
            pa.array(numbers).view(index_type), self._values, ordered=self._data_type.ordered, safe=False
        )


def _pad(values: pa.Array) -> tuple[npt.NDArray[np.uint64] | None, Bytes | None]:
    """Return short strings as rows of two words, and their lengths; None where they are not short strings."""
    if values.type not in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary()):
        return None, None
    offsets, data = Strings.of(values)
    lengths = np.diff(offsets)
    if not len(lengths) or int(lengths.max()) > _SHORT_BYTES:
        return None, None
    padded = np.zeros((len(lengths), _SHORT_BYTES), np.uint8)
    inside = np.arange(_SHORT_BYTES) < lengths[:, None]
    padded[inside] = data[offsets[0] : offsets[-1]]
    return padded.view("<u8"), lengths.astype(np.uint8)
