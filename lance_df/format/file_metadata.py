"""Parse the tail of a 2.x file: footer and descriptor.

Spec: file format 2.x, container. The footer of a 2.0 file has version 0.3, while `DataFile` entries of the
same file have 2.0.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from lance_df._pb import file_pb2
from lance_df.errors import CorruptDataError, LanceError, UnsupportedFeatureError
from lance_df.format.messages import parse_message
from lance_df.format.schema import Schema
from lance_df.records import dataclass
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from typing import Self

    import pyarrow as pa

MAGIC = b"LANC"
ALIGNMENT_BYTES = 64

# schemas are cached, since the files of a table have the same schema
_COMMON_SCHEMA_BYTES = 4096
_MAX_SCHEMAS = 256

_ENDING = struct.Struct("<HH4s")
_FOOTER = struct.Struct("<QQQIIHH4s")
_VERSIONS = {
    (0, 0): "0.1",
    (0, 1): "0.1",
    (0, 2): "0.1",
    (0, 3): "2.0",
    (2, 0): "2.0",
    (2, 1): "2.1",
    (2, 2): "2.2",
}


def file_version(ending: bytes, *, source: str) -> str:
    """Return the version in the last bytes of a file: ``"0.1"``, ``"2.0"``, ``"2.1"`` or ``"2.2"``.

    Parameters
    ----------
    ending
        At least the last 8 bytes of the file, or the whole of a shorter one.
    source
        The file's name, for error messages.

    Raises
    ------
    CorruptDataError
        This is not a Lance file, or its end is missing.
    UnsupportedFeatureError
        This release cannot read the version.
    """
    if len(ending) < _ENDING.size:
        raise CorruptDataError(f"{source}: not a Lance file: it has only {len(ending)} bytes")
    major, minor, magic = _ENDING.unpack(ending[-_ENDING.size :])
    if magic != MAGIC:
        raise CorruptDataError(
            f"{source}: not a Lance file, or a truncated one: "
            f"its last bytes are {magic!r}, expected {MAGIC!r}"
        )
    if (version := _VERSIONS.get((major, minor))) is None:
        remark = ", which is unstable" if (major, minor) == (2, 3) else ""
        raise UnsupportedFeatureError(
            f"{source}: written in file version {major}.{minor}{remark}; "
            "this release reads 0.1, 2.0, 2.1 and 2.2"
        )
    return version


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The last 40 bytes of a 2.x file. Offsets are absolute.

    Attributes
    ----------
    version
        ``"2.0"``, ``"2.1"`` or ``"2.2"``.
    columns_start
        Where the metadata of the first column starts.
    column_table, global_buffer_table
        The offset tables of the column metadata and of the global buffers.
    """

    version: str
    columns_start: int
    column_table: ByteRange
    global_buffer_table: ByteRange
    num_columns: int
    num_global_buffers: int

    NUM_BYTES = _FOOTER.size
    TABLE_ENTRY_BYTES = 16

    @classmethod
    def parse(cls, data: bytes, *, file_size: int, source: str) -> Self:
        """Parse and check the last 40 bytes of a file of ``file_size`` bytes.

        Raises
        ------
        CorruptDataError
            The bytes are too few, the magic is wrong, or a table does not lie before the footer.
        UnsupportedFeatureError
            This release cannot read the version as 2.x.
        """
        version = file_version(data, source=source)
        if version == "0.1":
            raise UnsupportedFeatureError(f"{source}: a 0.1 file has no 2.x footer")
        if len(data) < cls.NUM_BYTES:
            raise CorruptDataError(
                f"{source}: the file is truncated: it has {file_size} bytes, expected at least "
                f"{cls.NUM_BYTES} for the footer"
            )
        (columns_start, column_table, global_table, num_global, num_columns, *_) = _FOOTER.unpack(
            data[-cls.NUM_BYTES :]
        )
        footer = cls(
            version=version,
            columns_start=columns_start,
            column_table=ByteRange(column_table, column_table + num_columns * cls.TABLE_ENTRY_BYTES),
            global_buffer_table=ByteRange(global_table, global_table + num_global * cls.TABLE_ENTRY_BYTES),
            num_columns=num_columns,
            num_global_buffers=num_global,
        )
        footer._check(file_size - cls.NUM_BYTES, source)
        return footer

    def _check(self, stop: int, source: str) -> None:
        if self.columns_start > stop:
            raise CorruptDataError(
                f"{source}: column metadata starts at byte {self.columns_start}, but the footer starts at "
                f"{stop}"
            )
        for name, table in (
            ("column metadata", self.column_table),
            ("global buffers", self.global_buffer_table),
        ):
            if table.stop > stop:
                raise CorruptDataError(
                    f"{source}: the table of {name} takes bytes {table.start} to {table.stop}, "
                    f"but the footer starts at {stop}"
                )
        if self.num_global_buffers < 1:
            raise CorruptDataError(
                f"{source}: the file has no global buffers, expected at least the file descriptor"
            )


def parse_descriptor(data: bytes | pa.Buffer, *, source: str) -> tuple[Schema, int]:
    """Return the schema and the number of rows that global buffer 0 of a 2.x file holds.

    Raises
    ------
    CorruptDataError
        The bytes are not a `FileDescriptor`, or its schema is not a tree.
    """
    message = parse_message(file_pb2.FileDescriptor, data, source=source, what="the file descriptor")
    if message.schema.ByteSize() <= _COMMON_SCHEMA_BYTES:
        with suppress(LanceError):  # the error would not name the file; parse again below
            return _common_schema(message.schema.SerializeToString(deterministic=True)), message.length
    return _schema_of(message.schema, source), message.length


def _schema_of(message: file_pb2.Schema, source: str) -> Schema:
    return Schema.from_proto(message.fields, message.metadata, source=source)


@lru_cache(_MAX_SCHEMAS)
def _common_schema(data: bytes) -> Schema:
    return _schema_of(file_pb2.Schema.FromString(data), "")
