"""Read manifest files: footer, manifest block, index section, transaction section.

Spec: table format, manifest file bytes. The footer's version is not checked: no release does.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import TYPE_CHECKING

from lance_df.errors import CorruptDataError
from lance_df.file.tail import with_tail
from lance_df.format.feature_flags import check_readable
from lance_df.format.manifest import IndexMetadata, Manifest, parse_indices
from lance_df.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.format.transaction import Transaction
    from lance_df.storage import ByteSource

MAGIC = b"LANC"
_FOOTER = struct.Struct("<qHH4s")
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """An open manifest file; sections other than the manifest are read on demand."""

    source: ByteSource
    manifest: Manifest

    @property
    def path(self) -> str:
        return self.source.path

    def check_readable(self) -> None:
        """Raise if the table must not be read; see :func:`lance_df.format.feature_flags.check_readable`."""
        check_readable(
            reader=self.manifest.reader_feature_flags,
            writer=self.manifest.writer_feature_flags,
            has_max_allocated_field_id=self.manifest.max_allocated_field_id is not None,
            source=self.path,
        )

    def read_indices(self) -> tuple[IndexMetadata, ...]:
        """Return the entries of the index section; an empty tuple if there is no such section."""
        position = self.manifest.index_section
        if position is None:
            return ()
        return parse_indices(_read_block(self.source, position, "the index section"), source=self.path)

    def read_transaction(self) -> Transaction | None:
        """Return the transaction in the file, or None if there is none."""
        position = self.manifest.transaction_section
        if position is None:
            return None
        from lance_df.format.transaction import Transaction

        return Transaction.parse(
            _read_block(self.source, position, "the transaction section"), source=self.path
        )


def identity(file: ManifestFile) -> tuple[object, ...]:
    """Return a key that differs between versions of the same number; it holds the commit's unique id."""
    return file.manifest.timestamp_ns, file.manifest.transaction_file, file.source.size


def read_manifest(source: ByteSource) -> ManifestFile:
    """Read the manifest of a manifest file.

    Raises
    ------
    CorruptDataError
        The file is truncated or damaged.
    UnsupportedFeatureError
        The manifest names a data format that this release does not know.
    """
    source = with_tail(source)
    manifest = Manifest.parse(manifest_block(source), source=source.path)
    return ManifestFile(source, _with_dictionaries(manifest, source))


def manifest_block(source: ByteSource) -> pa.Buffer:
    """Return the bytes of the manifest block of a manifest file.

    Raises
    ------
    CorruptDataError
        The file is truncated or damaged.
    """
    if source.size < _FOOTER.size:
        raise CorruptDataError(
            f"{source.path}: the file has {source.size} bytes, but a manifest file has at least "
            f"{_FOOTER.size}"
        )
    position, _, _, magic = _FOOTER.unpack(source.read_tail(_FOOTER.size))
    if magic != MAGIC:
        raise CorruptDataError(
            f"{source.path}: the file ends with {magic!r}, but a manifest file ends with {MAGIC!r}"
        )
    return _read_block(source, position, "the manifest")


def _with_dictionaries(manifest: Manifest, source: ByteSource) -> Manifest:
    """Add the dictionary values that all 0.1 files of the table share: the next version needs them, too."""
    if manifest.data_format not in (None, "0.1"):
        return manifest
    from lance_df.file.legacy.dictionaries import DictionaryLoader

    loader = DictionaryLoader(source)
    # pylance ignores dictionaries of columns of other types, too
    values = {
        field.id: loader.load(field)
        for field in manifest.schema.walk()
        if field.dictionary is not None and field.has_dictionary
    }
    if not values:
        return manifest
    return dataclasses.replace(manifest, schema=manifest.schema.with_dictionaries(values))


def _read_block(source: ByteSource, position: int, what: str) -> pa.Buffer:
    """Return a block without its length prefix. Bytes after the last block are ignored, as in pylance."""
    stop = source.size - _FOOTER.size
    if not 0 <= position <= stop - _LENGTH.size:
        raise CorruptDataError(
            f"{source.path}: {what} should be at byte {position}, but the file has {source.size} bytes"
        )
    start = position + _LENGTH.size
    (length,) = _LENGTH.unpack(source.read_range(position, start))
    if length > stop - start:
        raise CorruptDataError(
            f"{source.path}: {what} should have {length} bytes, but only {stop - start} are left"
        )
    return source.read_range(start, start + length)
