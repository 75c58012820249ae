"""String views out of a dictionary: a view takes two words, and the bytes that it points to are shared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.gather import FEW
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    import numpy.typing as npt

_VIEW_BYTES = 16


class ViewLookup:
    """A dictionary of string views, made ready to be looked up.

    Parameters
    ----------
    values
        Without nulls.
    """

    __slots__ = ("_data", "_pairs", "values")

    def __init__(self, values: pa.Array) -> None:
        self.values = values
        _, views, *self._data = values.buffers()
        words = np.frombuffer(views, "<u8", 2 * len(values), values.offset * _VIEW_BYTES)
        self._pairs = words.reshape(-1, 2)
        self._pairs.flags.writeable = False

    def look_up(self, indices: npt.NDArray[np.unsignedinteger[Any]]) -> pa.Array:
        """Return the value of each index.

        Raises
        ------
        CorruptDataError
            An index lies outside the dictionary.
        """
        if len(indices) and int(indices.max()) >= len(self.values):
            raise CorruptDataError(f"dictionary index {indices.max()}, there are {len(self.values)} values")
        buffer = pa.allocate_buffer(len(indices) * _VIEW_BYTES)
        out = np.frombuffer(buffer, "<u8").reshape(-1, 2)
        if len(indices) < FEW:
            np.take(self._pairs, indices, axis=0, out=out, mode="clip")
        else:
            kernels.gather_pairs(self._pairs, indices, out)
        buffers = [None, buffer, *self._data]
        return pa.Array.from_buffers(self.values.type, len(indices), buffers, null_count=0)
