"""Parse and serialize the tail of a 0.1 file: batches, page table, statistics, schema.

Spec: file format 0.1, sections 2, 3 and 7.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lance_df._pb import file_pb2, table_pb2
from lance_df.errors import CorruptDataError
from lance_df.format.file_metadata import MAGIC, file_version
from lance_df.format.messages import parse_message
from lance_df.format.schema import Schema
from lance_df.records import dataclass

if TYPE_CHECKING:
    from typing import Self

    import pyarrow as pa

_FOOTER = struct.Struct("<qHH4s")

# the version of 0.1 files in footers and manifests since release 0.15
LEGACY_VERSION = (0, 2)
FOOTER_BYTES = _FOOTER.size
LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True)
class LegacyStatisticsInfo:
    """The position of the statistics: a table with one row for each batch, its own schema and page table.

    ``schema`` has a struct for each field, named by the field's id.
    """

    schema: Schema
    page_table_position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyMetadata:
    """The `Metadata` message.

    Attributes
    ----------
    manifest_position
        The position of the embedded manifest; 0 if there is none.
    batch_starts
        The first row of each batch, followed by the total number of rows. At least ``[0]``.
    page_table_position
        The position of the page table.
    statistics
        None if there are no statistics.
    """

    manifest_position: int
    batch_starts: npt.NDArray[np.int64]
    page_table_position: int
    statistics: LegacyStatisticsInfo | None

    @property
    def num_batches(self) -> int:
        return len(self.batch_starts) - 1

    @property
    def num_rows(self) -> int:
        return int(self.batch_starts[-1])

    def serialize(self) -> bytes:
        """Return the message's bytes."""
        message = file_pb2.Metadata(
            manifest_position=self.manifest_position,
            batch_offsets=self.batch_starts.tolist(),
            page_table_position=self.page_table_position,
        )
        if self.statistics is not None:
            schema = self.statistics.schema
            message.statistics.schema.extend(schema.to_proto())
            message.statistics.fields.extend(field.id for field in schema.walk())
            message.statistics.page_table_position = self.statistics.page_table_position
        return message.SerializeToString()

    @classmethod
    def from_proto(cls, data: pa.Buffer, *, source: str) -> Self:
        """Parse the message's bytes.

        Raises
        ------
        CorruptDataError
            The bytes are not such a message, or the batches do not ascend from row 0.
        """
        message = parse_message(file_pb2.Metadata, data, source=source, what="the metadata")
        starts = np.array(message.batch_offsets or [0], np.int64)
        if starts[0] != 0 or (starts[1:] < starts[:-1]).any():
            raise CorruptDataError(f"{source}: the start rows of batches must ascend from 0")
        statistics = None
        if message.HasField("statistics"):
            statistics = LegacyStatisticsInfo(
                Schema.from_proto(message.statistics.schema, source=source),
                message.statistics.page_table_position,
            )
        return cls(
            manifest_position=message.manifest_position,
            batch_starts=starts,
            page_table_position=message.page_table_position,
            statistics=statistics,
        )


def parse_legacy_footer(data: bytes, *, file_size: int, source: str) -> int:
    """Return the position of the metadata block.

    Parameters
    ----------
    data
        The last `FOOTER_BYTES` of the file, or the whole of a shorter one.
    file_size, source
        The size of the file, for checks, and its name, for error messages.

    Raises
    ------
    CorruptDataError
        This is not a 0.1 file, or it is truncated.
    """
    if file_version(data, source=source) != "0.1" or len(data) < FOOTER_BYTES:
        raise CorruptDataError(f"{source}: the last {len(data)} bytes are not the footer of a 0.1 file")
    position: int = _FOOTER.unpack(data)[0]
    if not 0 <= position <= file_size - FOOTER_BYTES - LENGTH_BYTES:
        raise CorruptDataError(
            f"{source}: the file is truncated or damaged: the metadata starts at byte {position}, but the "
            f"file has {file_size} bytes"
        )
    return position


def serialize_legacy_footer(metadata_position: int) -> bytes:
    """Return the end of the file."""
    return _FOOTER.pack(metadata_position, *LEGACY_VERSION, MAGIC)


def serialize_embedded_schema(schema: Schema) -> bytes:
    """Return the manifest that a 0.1 file embeds, so that it can be read without a table."""
    message = table_pb2.Manifest(
        fields=schema.to_proto(),
        schema_metadata=dict(schema.metadata),
        version=1,
        data_format=table_pb2.DataStorageFormat(file_format="lance", version="0.1"),
    )
    return message.SerializeToString(deterministic=True)


def parse_embedded_schema(data: pa.Buffer, *, source: str) -> Schema:
    """Return the schema in the manifest that a 0.1 file embeds.

    Raises
    ------
    CorruptDataError
        The bytes are not a manifest, or its fields are not a tree.
    """
    message = parse_message(table_pb2.Manifest, data, source=source, what="the embedded manifest")
    return Schema.from_proto(message.fields, message.schema_metadata, source=source)
