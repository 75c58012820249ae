"""Arrays of string views. They have no size limit, but arrays with 32-bit offsets hold at most 2 GiB.

Arrow's own cast from views to such arrays does not detect that the limit is exceeded.
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
    """Whether a type is a view of strings or bytes."""
    return data_type.id in _VIEW_IDS


def type_without_views(data_type: pa.DataType) -> pa.DataType:
    """Return the type with strings and bytes in place of views, also within nested types."""
    # compared instead of looked up, because extension types of other packages may not be hashable
    if data_type == pa.string_view():
        return pa.string()
    if data_type == pa.binary_view():
        return pa.binary()
    types = pa.types
    if types.is_struct(data_type):
        return pa.struct([_field_without_views(field) for field in data_type])
    if types.is_map(data_type):
        key, item = _field_without_views(data_type.key_field), _field_without_views(data_type.item_field)
        return pa.map_(key, item, data_type.keys_sorted)
    if types.is_fixed_size_list(data_type):
        return pa.list_(_field_without_views(data_type.value_field), data_type.list_size)
    if types.is_list(data_type):
        return pa.list_(_field_without_views(data_type.value_field))
    if types.is_large_list(data_type):
        return pa.large_list(_field_without_views(data_type.value_field))
    return data_type


def _field_without_views(field: pa.Field) -> pa.Field:
    return field.with_type(type_without_views(field.type))


def schema_without_views(schema: pa.Schema) -> pa.Schema:
    """Return the schema with strings and bytes in place of views, which DataFusion's functions return."""
    return pa.schema([_field_without_views(field) for field in schema], schema.metadata)


def text_bytes(views: pa.Array) -> int:
    """Return the total number of bytes of the views' strings. Shared strings count once per view."""
    return int(_lengths(views).sum(dtype=np.int64))


def as_texts(views: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return the strings in a type without views.

    Raises
    ------
    InvalidInputError
        The strings exceed the size of an array of the type.
    """
    if data_type in _SHORT_OFFSETS and (num_bytes := text_bytes(views)) > _MAX_BYTES:
        raise InvalidInputError(
            f"a batch has {num_bytes} bytes of text, but {data_type} can hold at most {_MAX_BYTES}; use "
            "smaller batches"
        )
    return views.cast(data_type)


def parts_of_texts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows in parts whose views are small enough for arrays with 32-bit offsets."""
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
    # a view begins with the length of its string
    words = np.frombuffer(views.buffers()[1], np.int32, 4 * len(views), VIEW_BYTES * views.offset)[::4]
    # lengths at nulls are arbitrary
    return np.where(views.is_valid().to_numpy(zero_copy_only=False), words, 0) if views.null_count else words
