"""Read one column of one Arrow IPC file without trusting the sizes in it.

pyarrow allocates the memory that a compressed buffer claims to need before it decompresses. Deletion files
may come from anywhere, so here the claim is compared with the number of rows first. pyarrow verifies the
structure of the messages; only the few relevant numbers are then read from the flatbuffer of the record
batch.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

_TRAILER = struct.Struct("<i6s")
_BLOCK = struct.Struct("<qi4xq")
_PAIR = struct.Struct("<qq")
_CODECS = {0: "lz4", 1: "zstd"}
_STORED = -1
_PADDING = 64
# Distinct 4-byte numbers do not compress better than this.
_MAX_RATIO = 1024

# Field numbers in Arrow's Footer, Message, RecordBatch and BodyCompression.
_RECORD_BATCHES = 3
_HEADER = 2
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = 0, 1, 2, 3
_CODEC = 0


def read_uint32_column(data: pa.Buffer, *, name: str, max_rows: int, source: str) -> npt.NDArray[np.uint32]:
    """Return the values of the only column.

    Parameters
    ----------
    data
        The file. It must hold one record batch with one column, ``name``, uint32, not nullable.
    max_rows
        A file with more rows is refused before memory is allocated for them.

    Raises
    ------
    CorruptDataError
        The file is not of this form, or is truncated or damaged.
    """
    try:
        with pa.ipc.open_file(data) as file:
            schema, num_batches = file.schema, file.num_record_batches
        values = _values(_first_batch(data), max_rows) if num_batches else None
        shown = ", ".join(
            f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in schema
        )
    except (pa.ArrowException, OSError, EOFError, struct.error, ValueError, LookupError) as err:
        raise CorruptDataError(f"{source}: not a valid Arrow file with one uint32 column: {err}") from err
    expected = pa.schema([pa.field(name, pa.uint32(), nullable=False)])
    if not schema.equals(expected) or num_batches != 1 or values is None:
        raise CorruptDataError(
            f"{source}: the file has {num_batches} record batches with the columns ({shown}), expected one "
            f"with ({name}: uint32 not null)"
        )
    return values


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a flatbuffer."""

    data: bytes
    position: int

    def field(self, number: int) -> int | None:
        """Return the position of the field, or None if it has its default."""
        (back,) = struct.unpack_from("<i", self.data, self.position)
        vtable = self.position - back
        (size,) = struct.unpack_from("<H", self.data, vtable)
        if 4 + 2 * number >= size:
            return None
        (offset,) = struct.unpack_from("<H", self.data, vtable + 4 + 2 * number)
        return self.position + offset if offset else None

    def follow(self, number: int) -> int | None:
        """Return the position that the field's offset refers to."""
        at = self.field(number)
        return None if at is None else at + struct.unpack_from("<I", self.data, at)[0]

    def vector(self, number: int, item: struct.Struct) -> list[tuple[int, ...]]:
        """Return a vector of structs."""
        at = self.follow(number)
        if at is None:
            return []
        (count,) = struct.unpack_from("<I", self.data, at)
        if count * item.size > len(self.data):
            raise ValueError("a vector extends beyond its message")
        return [item.unpack_from(self.data, at + 4 + item.size * i) for i in range(count)]


def _root(data: bytes) -> _Table:
    return _Table(data, struct.unpack_from("<I", data)[0])


def _first_batch(data: pa.Buffer) -> pa.Message:
    """Return the first record batch in the footer; it may be anywhere in the file."""
    length, _ = _TRAILER.unpack(data.slice(data.size - _TRAILER.size))
    footer = _root(data.slice(data.size - _TRAILER.size - length, length).to_pybytes())
    offset, metadata_length, body_length = footer.vector(_RECORD_BATCHES, _BLOCK)[0]
    if not 0 <= offset <= offset + metadata_length + body_length <= data.size:
        raise ValueError("a record batch is not within the file")
    message = pa.ipc.read_message(data.slice(offset, metadata_length + body_length))
    if message.type != "record batch":
        raise ValueError(f"found a {message.type}, expected a record batch")
    return message


def _values(message: pa.Message, max_rows: int) -> npt.NDArray[np.uint32]:
    metadata = bytes(message.metadata)
    header = _root(metadata).follow(_HEADER)
    if header is None:
        raise ValueError("a record batch has no header")
    batch = _Table(metadata, header)
    at = batch.field(_LENGTH)
    num_rows = 0 if at is None else struct.unpack_from("<q", metadata, at)[0]
    nodes, buffers = batch.vector(_NODES, _PAIR), batch.vector(_BUFFERS, _PAIR)
    if len(nodes) != 1 or len(buffers) != 2 or nodes[0][0] != num_rows:
        raise ValueError(f"the record batch has {len(nodes)} arrays in {len(buffers)} buffers")
    if nodes[0][1] != 0:
        raise ValueError(f"the record batch has {nodes[0][1]} nulls")
    if not 0 <= num_rows <= max_rows:
        raise ValueError(f"the record batch has {num_rows} values, expected at most {max_rows}")
    offset, length = buffers[1]
    body = message.body
    if body is None or not 0 <= offset <= offset + length <= body.size:
        raise ValueError(f"a buffer of {length} bytes at byte {offset} is not within the file")
    content = _plain(body.slice(offset, length), batch, 4 * num_rows)
    return np.frombuffer(content, dtype="<u4", count=num_rows)


def _plain(buffer: pa.Buffer, batch: _Table, num_bytes: int) -> pa.Buffer:
    """Return at least ``num_bytes`` decompressed bytes."""
    compression = batch.follow(_COMPRESSION)
    if compression is not None and num_bytes:
        (claimed,) = struct.unpack_from("<q", buffer)
        content = buffer.slice(8)
        if claimed == _STORED:
            buffer = content
        elif num_bytes <= claimed <= min(num_bytes + _PADDING, _MAX_RATIO * (content.size + 1)):
            at = _Table(batch.data, compression).field(_CODEC)
            codec = _CODECS[0 if at is None else batch.data[at]]
            # As a stream: this reports missing bytes, while one-shot LZ4 leaves the rest undefined.
            with pa.CompressedInputStream(pa.BufferReader(content), codec) as stream:
                buffer = stream.read_buffer(num_bytes)
        else:
            raise ValueError(
                f"a buffer of {content.size} compressed bytes claims to have {claimed} "
                f"uncompressed bytes, expected {num_bytes}"
            )
    if buffer.size < num_bytes:
        raise ValueError(f"a buffer has {buffer.size} bytes, too few for {num_bytes // 4} values")
    return buffer
