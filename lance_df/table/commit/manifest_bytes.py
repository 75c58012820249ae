"""Serialize manifest files: dictionaries of 0.1, index section, transaction section, manifest, footer.

`lance_df.table.metadata.manifest_io` reads them. Spec: table format, chapter 2.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import TYPE_CHECKING

from lance_df.file.legacy.dictionary_writer import check_dictionaries, write_dictionaries
from lance_df.format.manifest import serialize_indices
from lance_df.storage.source import BytesSource
from lance_df.table.metadata.manifest_io import ManifestFile

if TYPE_CHECKING:
    from lance_df.table.commit.state import TableState

_FOOTER_VERSION = (0, 2)


def make_manifest_file(path: str, state: TableState, transaction: bytes) -> tuple[bytes, ManifestFile]:
    """Return the bytes of the manifest file of a version, and the file as if it had been read.

    Parameters
    ----------
    path
        The file, for error messages.
    transaction
        The serialized transaction that made the version.

    Raises
    ------
    InvalidInputError
        A dictionary column of file version 0.1 lacks its values, so nobody could read it.
    """
    manifest = state.manifest
    if manifest.data_format == "0.1":
        check_dictionaries(manifest.schema)
    content, fields = write_dictionaries(manifest.schema.fields, 0)
    if content:
        manifest = dataclasses.replace(manifest, schema=dataclasses.replace(manifest.schema, fields=fields))
    index_section = None
    if state.indices:
        index_section = len(content)
        content += _block(serialize_indices(state.indices))
    block, manifest = manifest.serialized(index_section=index_section, transaction_section=len(content))
    content += _block(transaction)
    footer = struct.pack("<qHH4s", len(content), *_FOOTER_VERSION, b"LANC")
    data = content + _block(block) + footer
    return data, ManifestFile(BytesSource(path, data), manifest)


def _block(message: bytes) -> bytes:
    return struct.pack("<I", len(message)) + message
