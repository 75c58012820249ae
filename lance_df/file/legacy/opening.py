"""Open the parts of a 0.1 file: metadata, embedded schema, columns."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.encodings.leaf_values import is_variable
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.file.legacy.columns import (
    DictionaryColumn,
    LeafPages,
    ListColumn,
    NullColumn,
    PlainColumn,
    StructColumn,
    VarBinaryColumn,
)
from lance_df.format.legacy_metadata import (
    FOOTER_BYTES,
    LENGTH_BYTES,
    LegacyMetadata,
    parse_embedded_schema,
    parse_legacy_footer,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_df.file.legacy.columns import Column
    from lance_df.file.legacy.dictionaries import DictionaryLoader
    from lance_df.file.legacy.pages import PageTable
    from lance_df.format.schema import Field, Schema
    from lance_df.storage import ByteSource


def load_metadata(source: ByteSource) -> LegacyMetadata:
    """Read the footer and the metadata block."""
    footer = source.read_tail(FOOTER_BYTES).to_pybytes()
    position = parse_legacy_footer(footer, file_size=source.size, source=source.path)
    return LegacyMetadata.from_proto(_read_block(source, position), source=source.path)


def load_schema(source: ByteSource, manifest_position: int) -> Schema:
    """Read the schema that the file embeds.

    Raises
    ------
    UnsupportedFeatureError
        The file embeds no schema, and can be read only through its table.
    """
    if manifest_position == 0:
        raise UnsupportedFeatureError(
            f"{source.path}: this 0.1 file does not store its schema; read it through its table"
        )
    return parse_embedded_schema(_read_block(source, manifest_position), source=source.path)


def build_column(
    field: Field,
    table: PageTable,
    dictionaries: DictionaryLoader,
    stored_fields: Mapping[int, Field] = MappingProxyType({}),
) -> Column:
    """Return the reader of a field of a 0.1 file. All fields below it must be in the file.

    Parameters
    ----------
    stored_fields
        Fields by their ids that say how values are stored, if they differ from ``field`` and those below it.
    """
    data_type = field.arrow_type()
    if field.is_struct:
        children = [build_column(child, table, dictionaries, stored_fields) for child in field.children]
        return StructColumn(field.name, data_type, children)
    leaf = LeafPages(table.pages(field.id), table.source.size)
    if field.is_list:
        (item,) = field.children
        return ListColumn(data_type, leaf, build_column(item, table, dictionaries, stored_fields))
    if pa.types.is_null(data_type):
        return NullColumn(leaf)
    stored = stored_fields.get(field.id, field)
    if is_variable(data_type):
        return VarBinaryColumn(data_type, leaf, stored.nullable)
    if pa.types.is_dictionary(data_type):
        keys = PlainColumn(data_type.index_type, leaf)
        return DictionaryColumn(data_type, keys, lambda: dictionaries.load(stored))
    return PlainColumn(data_type, leaf)


def _read_block(source: ByteSource, position: int) -> pa.Buffer:
    """Read a message that is preceded by its length."""
    length = int.from_bytes(source.read_range(position, position + LENGTH_BYTES).to_pybytes(), "little")
    start = position + LENGTH_BYTES
    if start + length > source.size:
        raise CorruptDataError(
            f"{source.path}: the message at byte {position} has {length} bytes, which is out of range: the "
            f"file has {source.size} bytes"
        )
    return source.read_range(start, start + length)
