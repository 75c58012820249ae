"""Views of texts: an array of them refers to any amount, one of strings with 32-bit offsets holds 2 GiB.

Arrow's own cast from one to the other does not notice when that is exceeded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

VIEW_BYTES: Final = 16
_VIEW_IDS: Final = (pa.string_view().id, pa.binary_view().id)
_SHORT_OFFSETS: Final = (pa.string(), pa.binary())
_MAX_BYTES: Final = 2**31 - 1
_PART_BYTES: Final = 2**30


def is_view(data_type: pa.DataType) -> bool:
    """Whether values of a type are views of texts or bytes."""
    return data_type.id in _VIEW_IDS


def text_bytes(views: pa.Array) -> int:
    """Return how many bytes the texts have together that views refer to, each as often as there are views."""
    return int(_lengths(views).sum(dtype=np.int64))


def as_texts(views: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return the texts themselves.

    Raises
    ------
    InvalidInputError
        They are more than an array of the type holds.
    """
    if data_type in _SHORT_OFFSETS and (num_bytes := text_bytes(views)) > _MAX_BYTES:
        raise InvalidInputError(
            f"{num_bytes} bytes of text in one batch, of which {data_type} holds {_MAX_BYTES} at most: "
            "hand over smaller batches"
        )
    return views.cast(data_type)


def parts_of_texts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield rows in parts, of which each column of views has few enough texts for an array of strings."""
    views = [column for column in batch.columns if is_view(column.type)]
    if sum(map(text_bytes, views)) <= _PART_BYTES:
        yield batch
        return
    ends = np.cumsum(sum(_lengths(each).astype(np.int64) for each in views))
    start = before = 0
    while start < batch.num_rows:
        stop = max(start + 1, int(np.searchsorted(ends, before + _PART_BYTES, side="right")))
        yield batch.slice(start, stop - start)
        start, before = stop, int(ends[stop - 1])


def _lengths(views: pa.Array) -> npt.NDArray[np.int32]:
    if not len(views):
        return np.empty(0, np.int32)
    # a view begins with the length of its text
    words = np.frombuffer(views.buffers()[1], np.int32, 4 * len(views), VIEW_BYTES * views.offset)[::4]
    # what lies under nulls may be anything
    return np.where(views.is_valid().to_numpy(zero_copy_only=False), words, 0) if views.null_count else words
