"""Serialize a manifest file: dictionaries of 0.1, index section, transaction section, manifest, footer.

The other direction is `lance_df.table.manifest_io`. Spec: table format, chapter 2.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import TYPE_CHECKING

from lance_df.file.legacy_dictionary_writer import check_dictionaries, place_dictionaries
from lance_df.format.manifest import serialize_indices

if TYPE_CHECKING:
    from lance_df.format.transaction import Transaction
    from lance_df.table.commit.state import TableState

_FOOTER_VERSION = (0, 2)


def serialize_manifest_file(state: TableState, transaction: Transaction) -> bytes:
    """Return the bytes of the manifest file of a version, with the transaction that made it.

    Raises
    ------
    InvalidInputError
        A dictionary column of file version 0.1 without its values, which nobody could read.
    """
    if state.manifest.data_format == "0.1":
        check_dictionaries(state.manifest.schema)
    content, fields = place_dictionaries(state.manifest.schema.fields, 0)
    schema = dataclasses.replace(state.manifest.schema, fields=fields)
    manifest = dataclasses.replace(state.manifest, schema=schema, index_section=None)
    if state.indices:
        manifest = dataclasses.replace(manifest, index_section=len(content))
        content += _block(serialize_indices(state.indices))
    manifest = dataclasses.replace(manifest, transaction_section=len(content))
    content += _block(transaction.serialize())
    footer = struct.pack("<qHH4s", len(content), *_FOOTER_VERSION, b"LANC")
    return content + _block(manifest.to_proto().SerializeToString()) + footer


def _block(message: bytes) -> bytes:
    return struct.pack("<I", len(message)) + message
