"""Build 2.0 files as pre-releases of Lance 0.13 wrote them: strings and binaries are lists of bytes.

A text field takes two columns, the ends of its values and their bytes, of which only the first belongs to a
field.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df._pb import file_pb2
from lance_df.file import LanceFileWriter
from lance_df.format.schema import schema_from_arrow

if TYPE_CHECKING:
    from pathlib import Path

_ENTRY = struct.Struct("<QQ")
_FOOTER = struct.Struct("<QQQIIHH4s")


def write_listed(path: Path, tables: list[pa.Table]) -> list[int]:
    """Write a file, a page for each of some tables of one schema, and return the column of each field."""
    schema = tables[0].schema
    listed = [(field.name, pa.list_(pa.uint8()) if _is_text(field.type) else field.type) for field in schema]
    with LanceFileWriter(path, pa.schema(listed), version="2.0", data_cache_bytes=1) as writer:
        for table in tables:
            writer.write_batch(pa.table([_as_lists(column) for column in table], pa.schema(listed)))
    _tell(path, schema)
    columns, column = [], 0
    for field in schema:
        columns.append(column)
        column += 2 if _is_text(field.type) else 1
    return columns


def _is_text(data_type: pa.DataType) -> bool:
    types = pa.types
    return types.is_string(data_type) or types.is_binary(data_type) or types.is_large_string(data_type)


def _as_lists(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if not _is_text(column.type):
        return column
    values = [None if each is None else list(each) for each in column.cast(pa.large_binary()).to_pylist()]
    return pa.array(values, pa.list_(pa.uint8()))


def _tell(path: Path, schema: pa.Schema) -> None:
    """Let the file say that it has a schema: a descriptor more, and what lies behind it anew."""
    data = path.read_bytes()
    start, table, globals_, num_globals, num_columns, *version = _FOOTER.unpack(data[-_FOOTER.size :])
    assert num_globals == 1
    place, size = _ENTRY.unpack_from(data, globals_)
    descriptor = file_pb2.FileDescriptor.FromString(data[place : place + size])
    descriptor.schema.CopyFrom(file_pb2.Schema(fields=schema_from_arrow(schema).to_proto()))
    message = descriptor.SerializeToString()
    content = bytearray(data[:start] + message)
    entries = []
    for offset, length in _ENTRY.iter_unpack(data[table : table + num_columns * _ENTRY.size]):
        entries.append(_ENTRY.pack(len(content), length))
        content += data[offset : offset + length]
    new_table = len(content)
    content += b"".join(entries)
    new_globals = len(content)
    content += _ENTRY.pack(start, len(message))
    content += _FOOTER.pack(start + len(message), new_table, new_globals, num_globals, num_columns, *version)
    path.write_bytes(content)
