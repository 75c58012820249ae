"""Decode dictionary pages: indices into values stored once. Format: docs/format/dictionary.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.dictionary.coded_values import CodedValues
from lance_df.encodings.gather import Lookup
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    import numpy.typing as npt


class Dictionary:
    """The dictionary values of one page.

    Parameters
    ----------
    values
        The values, without nulls.
    data_type
        The type of the result: that of ``values``, or a dictionary type, in which case the indices are not
        looked up.
    """

    __slots__ = ("_coded", "_data_type", "_lookup", "values")

    def __init__(self, values: pa.Array, data_type: pa.DataType) -> None:
        self.values = values
        self._data_type = data_type
        self._lookup = Lookup(values)
        self._coded: CodedValues | None = None

    @property
    def coded(self) -> CodedValues:
        """The values of a plain column, for every form that readers of plain columns return."""
        if self._coded is None:
            self._coded = CodedValues(self.values, null_first=False)
        return self._coded

    def look_up(self, indices: pa.Array, is_null: npt.NDArray[np.bool_] | None) -> pa.Array:
        """Return the values of ``indices``, which are unsigned.

        Parameters
        ----------
        is_null
            Which indices belong to nulls and have no meaning; None if none do.

        Raises
        ------
        CorruptDataError
            An index lies outside the dictionary.
        """
        numbers = np.asarray(indices)
        if is_null is not None and is_null.any():
            numbers = np.where(is_null, numbers.dtype.type(0), numbers)
            if not len(self.values) and is_null.all():
                return pa.nulls(len(numbers), self._data_type)
        if not pa.types.is_dictionary(self._data_type):
            return self._lookup.look_up(numbers)
        if len(numbers) and int(numbers.max()) >= len(self.values):
            raise CorruptDataError(
                f"dictionary index {numbers.max()} is out of range, the dictionary has {len(self.values)} "
                "values"
            )
        return self._keep_apart(numbers)

    def _keep_apart(self, numbers: npt.NDArray[np.unsignedinteger]) -> pa.Array:
        index_type = self._data_type.index_type
        if numbers.itemsize * 8 != index_type.bit_width:
            raise CorruptDataError(
                f"dictionary indices of {numbers.itemsize * 8} bits do not match type {self._data_type}"
            )
        signed = pa.types.is_signed_integer(index_type)
        if signed and len(numbers) and int(numbers.max()) >> (index_type.bit_width - 1):
            raise CorruptDataError(
                f"dictionary index {numbers.max()} is out of range for type {self._data_type}"
            )
        return pa.DictionaryArray.from_arrays(
            pa.array(numbers).view(index_type), self.values, ordered=self._data_type.ordered, safe=False
        )
