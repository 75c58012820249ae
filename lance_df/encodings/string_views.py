"""String views: two words each, that hold short values and point to the bytes of others, which are shared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.gather import FEW

if TYPE_CHECKING:
    import numpy.typing as npt

_VIEW_BYTES = 16


def as_views(strings: pa.Array) -> pa.Array:
    """Return strings (of 32-bit offsets) as views, several times as fast as pyarrow's cast."""
    if len(strings) < FEW or strings.offset or (data := strings.buffers()[2]) is None:
        return strings.cast(pa.string_view())
    valid, offsets, _ = strings.buffers()
    buffer = pa.allocate_buffer(len(strings) * _VIEW_BYTES)
    kernels.string_views(
        np.frombuffer(offsets, "<i4", len(strings) + 1),
        np.frombuffer(data, np.uint8),
        np.frombuffer(buffer, "<u8").reshape(-1, 2),
    )
    return pa.Array.from_buffers(
        pa.string_view(), len(strings), [valid, buffer, data], null_count=strings.null_count
    )


def pick_views(views: pa.Array, positions: npt.NDArray[np.int64]) -> pa.Array:
    """Return the views at ``positions``, all of which the caller knows to lie within."""
    picked = ViewLookup(views).pick(positions)
    if not views.null_count:
        return picked
    valid = views.is_valid().take(pa.array(positions))
    num_nulls = len(valid) - valid.true_count
    return pa.Array.from_buffers(
        views.type, len(picked), [valid.buffers()[1], *picked.buffers()[1:]], null_count=num_nulls
    )


class ViewLookup:
    """A dictionary of string views, made ready to be looked up.

    Parameters
    ----------
    values
        Nulls count as values of any content.
    """

    __slots__ = ("_data", "_pairs", "values")

    def __init__(self, values: pa.Array) -> None:
        self.values = values
        _, views, *self._data = values.buffers()
        words = np.frombuffer(views, "<u8", 2 * len(values), values.offset * _VIEW_BYTES)
        self._pairs = words.reshape(-1, 2)
        self._pairs.flags.writeable = False

    def pick(self, indices: npt.NDArray[np.integer[Any]]) -> pa.Array:
        """Return the value of each index, all of which the caller knows to lie within the dictionary."""
        buffer = pa.allocate_buffer(len(indices) * _VIEW_BYTES)
        out = np.frombuffer(buffer, "<u8").reshape(-1, 2)
        if len(indices) < FEW:
            np.take(self._pairs, indices.astype(np.intp), axis=0, out=out, mode="clip")
        else:
            kernels.gather_pairs(self._pairs, indices, out)
        buffers = [None, buffer, *self._data]
        return pa.Array.from_buffers(self.values.type, len(indices), buffers, null_count=0)
