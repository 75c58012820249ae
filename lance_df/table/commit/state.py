"""The state of a table version that commits work on, and steps that all operations share.

Spec: table format, chapters 4 and 8.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from lance_df.errors import InvalidInputError
from lance_df.format.feature_flags import FeatureFlag
from lance_df.format.manifest import IndexMetadata, Manifest, WriterVersion
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_df.format.fragments import Fragment

# plain numbers, as operators of enums are slow
_STICKY = int(
    FeatureFlag.MIXED_FILE_VERSIONS
    | FeatureFlag.FRAGMENT_REUSE_INDEX
    | FeatureFlag.MANAGED_BLOBS
    | FeatureFlag.STABLE_ROW_IDS
)
_OF_THE_TABLE = int(FeatureFlag.NO_TRANSACTION_FILE | FeatureFlag.NON_REUSABLE_FIELD_IDS)
_DELETION_FILES = int(FeatureFlag.DELETION_FILES)
_BASE_PATHS = int(FeatureFlag.BASE_PATHS)
_TABLE_CONFIG = int(FeatureFlag.TABLE_CONFIG)


@dataclass(frozen=True, slots=True)
class TableState:
    """The state of a table version: its manifest and index entries."""

    manifest: Manifest
    indices: tuple[IndexMetadata, ...]

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether every fragment has a row id sequence."""
        return bool(self.manifest.writer_feature_flags & FeatureFlag.STABLE_ROW_IDS)

    @property
    def next_version(self) -> int:
        """The number of the next version."""
        return self.manifest.version + 1

    def followed_by(self, manifest: Manifest, indices: Iterable[IndexMetadata]) -> TableState:
        """Return the next version, with its number and the feature flags that its content needs."""
        reader, writer = _flags(manifest)
        numbered = dataclasses.replace(
            manifest,
            version=self.next_version,
            reader_feature_flags=reader,
            writer_feature_flags=writer,
        )
        return TableState(numbered, tuple(indices))


@cache
def library_version() -> WriterVersion:
    """Return the name and version of this library, for manifests."""
    try:
        return WriterVersion("lance_df", version("lance_df"))
    except PackageNotFoundError:
        return WriterVersion("lance_df", "0.0.0")


def with_mixed_versions(manifest: Manifest, fragments: Iterable[Fragment]) -> Manifest:
    """Set the flag for files of another version than that of the table; later versions keep it.

    Parameters
    ----------
    fragments
        Those that are new or have new files.

    Raises
    ------
    InvalidInputError
        The table has files of version 0.1 and the fragments of 2.x, or the other way round.
    """
    versions = {file.version for fragment in fragments for file in fragment.files}
    if manifest.data_format is None or versions <= {manifest.data_format}:
        return manifest
    if manifest.data_format == "0.1" or "0.1" in versions:
        raise InvalidInputError(
            f"files of version {', '.join(sorted(versions))} cannot be added to a table of version "
            f"{manifest.data_format}: other readers refuse tables with files of 0.1 and of 2.x; write "
            "all rows of the table again in one version"
        )
    return dataclasses.replace(
        manifest,
        reader_feature_flags=manifest.reader_feature_flags | FeatureFlag.MIXED_FILE_VERSIONS,
        writer_feature_flags=manifest.writer_feature_flags | FeatureFlag.MIXED_FILE_VERSIONS,
    )


def check_unmixed(manifest: Manifest) -> None:
    """Check that a version does not mix files of 0.1 and of 2.x, as release 0.16 did.

    Raises
    ------
    InvalidInputError
        It does. Other readers refuse to change it, too.
    """
    if manifest.data_format not in (None, "0.1"):
        return
    versions = sorted(manifest.fragments.file_versions)
    if len(versions) > 1:
        raise InvalidInputError(
            f"The dataset contains a mixture of file versions: version {manifest.version} has files of "
            f"{' and '.join(versions)}. It can be read, but not changed; overwrite it with its own rows, or "
            "restore an earlier version"
        )


def with_flags(manifest: Manifest) -> Manifest:
    """Return a manifest with the feature flags that its content needs."""
    reader, writer = _flags(manifest)
    return dataclasses.replace(manifest, reader_feature_flags=reader, writer_feature_flags=writer)


def _flags(manifest: Manifest) -> tuple[int, int]:
    """Compute the feature flags of readers and writers from the content; keep the sticky ones."""
    old_reader, old_writer = manifest.reader_feature_flags, manifest.writer_feature_flags
    both = old_reader & old_writer & _STICKY
    if manifest.fragments.has_any_deletions:
        both |= _DELETION_FILES
    if manifest.base_paths:
        both |= _BASE_PATHS
    writer = both | old_writer & _OF_THE_TABLE
    if manifest.config:
        writer |= _TABLE_CONFIG
    return both, writer
