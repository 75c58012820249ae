"""Small files put together in memory: the bytes that `lance_df.file.v2.writer` writes, in less time.

For files that are written by the thousand, most of whose columns recur.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from lance_df.encodings.v2_0 import encode as encode_v2_0
from lance_df.encodings.v2_1 import encode_columns as encode_v2_1
from lance_df.format.column_metadata import PageInfo
from lance_df.format.file_metadata import ALIGNMENT_BYTES
from lance_df.format.file_tail import serialize_column, serialize_tables_and_footer
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lance_df.encodings.encoded_page import EncodedPage
    from lance_df.format.schema import Field

_column_metadata = lru_cache(maxsize=4096)(lambda *pages: serialize_column(pages))


def field_ids(field: Field) -> list[int]:
    """Return the field ids of the file columns that a top-level column takes in 2.1 and later."""
    return encode_v2_1.column_field_ids(field)


def encode_small(field: Field, array: pa.Array, *, version: str) -> list[EncodedPage]:
    """Encode at least one row, and no more than a page, for each file column of a top-level column.

    Raises
    ------
    InvalidInputError
        A null where the field allows none.
    """
    encode = encode_v2_0 if version == "2.0" else encode_v2_1
    return [page for (page,) in encode.encode_column(field, array, version=version)]


def small_file(descriptor: bytes, columns: Sequence[EncodedPage], *, version: str) -> bytes:
    """Return a file of columns of one page each.

    Parameters
    ----------
    descriptor
        See :func:`lance_df.format.file_tail.serialize_descriptor`.
    version
        ``"2.0"``, ``"2.1"`` or ``"2.2"``.
    """
    file = bytearray()

    def add(data: bytes | memoryview) -> ByteRange:
        start = len(file)
        file.extend(data)
        return ByteRange(start, len(file))

    def add_aligned(data: bytes | memoryview) -> ByteRange:
        file.extend(bytes(-len(file) % ALIGNMENT_BYTES))
        return add(data)

    pages = [
        PageInfo(
            buffers=tuple(add_aligned(buffer) for buffer in page.buffers),
            num_rows=page.num_rows,
            priority=0,
            encoding_url=page.encoding_url,
            encoding=page.encoding,
        )
        for page in columns
    ]
    described = add_aligned(descriptor)
    metadata = [add(_column_metadata(page)) for page in pages]
    file.extend(serialize_tables_and_footer(metadata, [described], position=len(file), version=version))
    return bytes(file)
