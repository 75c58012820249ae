"""Build small files in memory: the same bytes as those of `lance_df.file.v2.writer`, in less time.

This is for files that are written by the thousand, most of whose columns recur.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from lance_df.encodings.v2_0 import encode as encode_v2_0
from lance_df.encodings.v2_1 import encode_columns as encode_v2_1
from lance_df.file.v2.container_writer import ContainerWriter
from lance_df.format.file_tail import serialize_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lance_df.encodings.encoded_page import EncodedPage
    from lance_df.format.schema import Field

_column_metadata = lru_cache(maxsize=4096)(lambda *pages: serialize_column(pages))


def field_ids(field: Field) -> list[int]:
    """Return the field ids of the file columns of a top-level column, for 2.1 and later."""
    return encode_v2_1.column_field_ids(field)


def encode_small(field: Field, array: pa.Array, *, version: str) -> list[EncodedPage]:
    """Encode the rows of a top-level column (1 up to a page) as one page for each of its file columns.

    Raises
    ------
    InvalidInputError
        A value is null, and the field does not allow it.
    """
    encode = encode_v2_0 if version == "2.0" else encode_v2_1
    return [page for (page,) in encode.encode_column(field, array, version=version)]


def small_file(descriptor: bytes, columns: Sequence[EncodedPage], *, version: str) -> bytes:
    """Return the bytes of a file whose columns have one page each.

    Parameters
    ----------
    descriptor
        See :func:`lance_df.format.file_tail.serialize_descriptor`.
    version
        ``"2.0"``, ``"2.1"`` or ``"2.2"``.
    """
    file = _Memory()
    container = ContainerWriter(file, version)
    pages = [container.write_page(page, first_row=0) for page in columns]
    container.finish(descriptor, map(_column_metadata, pages))
    return bytes(file)


class _Memory(bytearray):
    """A `Sink` that collects the bytes of a file."""

    @property
    def position(self) -> int:
        return len(self)

    write = bytearray.extend
