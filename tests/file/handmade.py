"""Build 2.x files by hand: buffers, page encodings and a schema of one column."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from google.protobuf.any_pb2 import Any

from lance_df._pb import encodings_v2_0_pb2 as pb
from lance_df._pb import file_pb2
from lance_df.format.column_metadata import ARRAY_ENCODING_URL, COLUMN_ENCODING_URL
from lance_df.format.schema import schema_from_arrow

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Page:
    """One page of the column."""

    num_rows: int
    encoding: pb.ArrayEncoding
    buffers: list[bytes]
    url: str = ARRAY_ENCODING_URL


@dataclass
class Handmade:
    """What to write; every part can be made wrong."""

    pages: list[Page]
    num_rows: int | None = None
    column_buffers: list[bytes] = field(default_factory=list)
    global_buffers: list[bytes] = field(default_factory=list)
    footer_version: tuple[int, int] = (0, 3)
    num_columns: int = 1
    alignment: int = 64

    def write(self, path: Path, column: pa.Field) -> Path:
        """Write a file with one column and return its path."""
        content = bytearray()

        def put(data: bytes) -> tuple[int, int]:
            content.extend(b"H" * (-len(content) % self.alignment))
            content.extend(data)
            return len(content) - len(data), len(data)

        metadata = file_pb2.ColumnMetadata(encoding=_wrap(COLUMN_ENCODING_URL, pb.ColumnEncoding(values={})))
        for page in self.pages:
            message = metadata.pages.add(length=page.num_rows, encoding=_wrap(page.url, page.encoding))
            for buffer in page.buffers:
                offset, size = put(buffer)
                message.buffer_offsets.append(offset)
                message.buffer_sizes.append(size)
        for buffer in self.column_buffers:
            offset, size = put(buffer)
            metadata.buffer_offsets.append(offset)
            metadata.buffer_sizes.append(size)
        extra = [put(buffer) for buffer in self.global_buffers]
        num_rows = sum(page.num_rows for page in self.pages) if self.num_rows is None else self.num_rows
        schema = schema_from_arrow(pa.schema([column])).to_proto()
        descriptor = file_pb2.FileDescriptor(schema=file_pb2.Schema(fields=schema), length=num_rows)
        tables = [[put(descriptor.SerializeToString()), *extra]]
        start = len(content)
        serialized = metadata.SerializeToString()
        content.extend(serialized)
        tables.insert(0, [(start, len(serialized))] * self.num_columns)
        positions = []
        for table in tables:
            positions.append(len(content))
            content.extend(b"".join(struct.pack("<QQ", *entry) for entry in table))
        content.extend(
            struct.pack(
                "<QQQIIHH4s",
                start,
                *positions,
                len(tables[1]),
                self.num_columns,
                *self.footer_version,
                b"LANC",
            )
        )
        path.write_bytes(content)
        return path


def _wrap(url: str, message: pb.ArrayEncoding | pb.ColumnEncoding) -> file_pb2.Encoding:
    wrapped = Any(type_url=url, value=message.SerializeToString())
    return file_pb2.Encoding(direct=file_pb2.DirectEncoding(encoding=wrapped.SerializeToString()))


def flat(bits: int, buffer: int = 0, scheme: str | None = None, kind: int = 0) -> pb.ArrayEncoding:
    """Return the encoding of values of equal width."""
    compression = pb.Compression(scheme=scheme) if scheme else None
    return pb.ArrayEncoding(
        flat=pb.Flat(
            bits_per_value=bits,
            buffer=pb.Buffer(buffer_index=buffer, buffer_type=kind),  # type: ignore[arg-type]
            compression=compression,
        )
    )


def no_nulls(values: pb.ArrayEncoding) -> pb.ArrayEncoding:
    """Return the encoding of values none of which is null."""
    return pb.ArrayEncoding(nullable=pb.Nullable(no_nulls=pb.Nullable.NoNulls(values=values)))


def some_nulls(validity: pb.ArrayEncoding, values: pb.ArrayEncoding) -> pb.ArrayEncoding:
    """Return the encoding of values beside a bitmap."""
    return pb.ArrayEncoding(
        nullable=pb.Nullable(some_nulls=pb.Nullable.SomeNulls(validity=validity, values=values))
    )


def binary(indices: pb.ArrayEncoding, data: pb.ArrayEncoding, null_adjustment: int) -> pb.ArrayEncoding:
    """Return the encoding of values of any width."""
    return pb.ArrayEncoding(binary=pb.Binary(indices=indices, bytes=data, null_adjustment=null_adjustment))
