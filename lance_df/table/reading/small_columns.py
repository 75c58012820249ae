"""Cache columns of small fragments as they were read: decoding few values costs little more than calls.

Data files never change, so cached arrays stay valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from lance_df.cache import CacheKind
from lance_df.encodings.plan import RowRange
from lance_df.table.reading.fragment_reader import FragmentReader

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lance_df.cache import Entries, TableCache
    from lance_df.encodings.plan import Rows
    from lance_df.file.read_options import ReadOptions
    from lance_df.format.schema import Field

    _Key: TypeAlias = tuple[str, tuple[Field, ...], ReadOptions]

_MAX_ROWS = 4096
_MAX_BYTES_AT_ONCE = 64 * 1024
# Memory of an array, besides its values.
_ARRAY_BYTES = 512


class SmallColumns:
    """A cache of columns of small fragments. Threads may share it."""

    def __init__(self, cache: TableCache) -> None:
        self._arrays: Entries[list[pa.Array]] = cache.entries(CacheKind.SMALL_COLUMNS)

    def read(
        self,
        reader: FragmentReader,
        fields: Sequence[Field],
        rows: Rows,
        options: ReadOptions,
        *,
        views: Collection[Field] = (),
    ) -> list[pa.Array]:
        """Return the reader's result; columns may be dictionaries, see `FragmentReader.read`."""
        is_whole = is_cached(reader) and isinstance(rows, RowRange) and len(rows) == reader.num_rows
        key = _key(reader, tuple(fields), options) if is_whole else None
        if key is None:
            return reader.read(fields, rows, keep_dictionaries=True, views=views, options=options)
        if (cached := self._arrays.find(key)) is not None:
            return cached
        arrays = reader.read(fields, rows, keep_dictionaries=True, options=options)
        num_bytes = sum(array.nbytes + _ARRAY_BYTES for array in arrays)
        # deleted rows may be null in columns that are not nullable; which rows are deleted differs by version
        is_sure = all(
            field.nullable or not array.null_count for field, array in zip(fields, arrays, strict=True)
        )
        if num_bytes > _MAX_BYTES_AT_ONCE or not is_sure:
            return arrays
        return self._arrays.put(key, arrays, num_bytes)


def is_cached(reader: FragmentReader) -> bool:
    """Return whether whole columns of a fragment may be cached."""
    return reader.num_rows <= _MAX_ROWS


def _key(reader: FragmentReader, fields: tuple[Field, ...], options: ReadOptions) -> _Key | None:
    """Return a key of the columns; None if they are not in one file."""
    if type(reader) is not FragmentReader:  # a reader of several files as one
        return None
    numbers = {tuple(number for number, _ in reader.parts(field)) for field in fields}
    if len(numbers) != 1 or len(number := numbers.pop()) != 1:
        return None
    return reader.open(number[0]).path, fields, options
