"""Change the newest manifest of a local table, field by field."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lance_df._pb import table_pb2
from lance_df.table.open import open_table


def edit_manifest(
    uri: str, edit: Callable[[Any], None], *, edit_index: Callable[[Any], None] | None = None
) -> None:
    """Let ``edit`` change the manifest message, and ``edit_index`` each entry of the index section."""
    path = Path(open_table(uri).manifest_file.path)
    data = path.read_bytes()
    position, *footer = struct.unpack("<qHH4s", data[-16:])
    content = data[:position]
    manifest = table_pb2.Manifest.FromString(block_at(data, position))
    edit(manifest)
    if edit_index is not None:
        section = table_pb2.IndexSection.FromString(block_at(data, manifest.index_section))
        for index in section.indices:
            edit_index(index)
        manifest.index_section = len(content)
        content += framed(section.SerializeToString())
    block = framed(manifest.SerializeToString())
    path.write_bytes(content + block + struct.pack("<qHH4s", len(content), *footer))


def block_at(data: bytes, position: int) -> bytes:
    (length,) = struct.unpack("<I", data[position : position + 4])
    return data[position + 4 : position + 4 + length]


def framed(message: bytes) -> bytes:
    return struct.pack("<I", len(message)) + message
