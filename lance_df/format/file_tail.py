"""Serialize the tail of a 2.x file: descriptor, column metadata, offset tables, footer.

`lance_df.format.file_metadata` parses it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from google.protobuf.any_pb2 import Any
from google.protobuf.empty_pb2 import Empty

from lance_df._pb import encodings_v2_0_pb2, file_pb2
from lance_df.format.column_metadata import COLUMN_ENCODING_URL
from lance_df.format.file_metadata import MAGIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.format.column_metadata import PageInfo
    from lance_df.format.schema import Schema
    from lance_df.storage import ByteRange

_FOOTER = struct.Struct("<QQQIIHH4s")
# the footer of a 2.0 file has version 0.3, although manifests have 2.0 for the same file
_FOOTER_VERSIONS = {"2.0": (0, 3), "2.1": (2, 1), "2.2": (2, 2)}


def serialize_descriptor(schema: Schema, num_rows: int) -> bytes:
    """Return global buffer 0."""
    message = file_pb2.FileDescriptor(
        schema=file_pb2.Schema(fields=schema.to_proto(), metadata=dict(schema.metadata)), length=num_rows
    )
    return message.SerializeToString(deterministic=True)


def serialize_column(pages: Sequence[PageInfo], *, is_blob: bool = False) -> bytes:
    """Return the metadata of a column that holds values or, if ``is_blob``, the descriptions of 2.0 blobs."""
    message = file_pb2.ColumnMetadata(
        encoding=_BLOBS if is_blob else _VALUES,
        pages=[
            file_pb2.ColumnMetadata.Page(
                buffer_offsets=[buffer.start for buffer in page.buffers],
                buffer_sizes=[buffer.num_bytes for buffer in page.buffers],
                length=page.num_rows,
                encoding=_direct(page.encoding_url, page.encoding),
                priority=page.priority,
            )
            for page in pages
        ],
    )
    return message.SerializeToString()


def serialize_tables_and_footer(
    columns: Sequence[ByteRange], global_buffers: Sequence[ByteRange], *, position: int, version: str
) -> bytes:
    """Return the end of the file.

    Parameters
    ----------
    columns
        The position of the metadata of each column.
    global_buffers
        The position of each global buffer; the descriptor comes first.
    position
        The position at which the result will be written.
    version
        ``"2.0"``, ``"2.1"`` or ``"2.2"``.
    """
    column_table, buffer_table = (
        b"".join(struct.pack("<QQ", entry.start, entry.num_bytes) for entry in entries)
        for entries in (columns, global_buffers)
    )
    footer = _FOOTER.pack(
        columns[0].start if columns else position,
        position,
        position + len(column_table),
        len(global_buffers),
        len(columns),
        *_FOOTER_VERSIONS[version],
        MAGIC,
    )
    return column_table + buffer_table + footer


def _direct(type_url: str, encoding: bytes) -> file_pb2.Encoding:
    wrapped = Any(type_url=type_url, value=encoding).SerializeToString()
    return file_pb2.Encoding(direct=file_pb2.DirectEncoding(encoding=wrapped))


_values = encodings_v2_0_pb2.ColumnEncoding(values=Empty())
_blobs = encodings_v2_0_pb2.ColumnEncoding(blob=encodings_v2_0_pb2.ColumnEncoding.Blob(inner=_values))
_VALUES = _direct(COLUMN_ENCODING_URL, _values.SerializeToString())
_BLOBS = _direct(COLUMN_ENCODING_URL, _blobs.SerializeToString())
