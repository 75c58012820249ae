"""A version of a table as commits see it, and what every operation does to it alike.

Spec: table format, chapters 4 and 8.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from lance_df.format.feature_flags import FeatureFlag
from lance_df.format.manifest import IndexMetadata, Manifest, WriterVersion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_df.format.fragments import Fragment

_STICKY = FeatureFlag.MIXED_FILE_VERSIONS | FeatureFlag.FRAGMENT_REUSE_INDEX | FeatureFlag.MANAGED_BLOBS
_OF_THE_TABLE = FeatureFlag.NO_TRANSACTION_FILE | FeatureFlag.NON_REUSABLE_FIELD_IDS


@dataclass(frozen=True, slots=True)
class TableState:
    """A version of a table as commits see it."""

    manifest: Manifest
    indices: tuple[IndexMetadata, ...]

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether every fragment has a row id sequence."""
        return bool(self.manifest.writer_feature_flags & FeatureFlag.STABLE_ROW_IDS)

    @property
    def next_version(self) -> int:
        """The version that is being made from this one."""
        return self.manifest.version + 1

    def followed_by(self, manifest: Manifest, indices: Iterable[IndexMetadata]) -> TableState:
        """Return the next version: with its number, and the feature flags that its content demands."""
        numbered = dataclasses.replace(manifest, version=self.next_version)
        return TableState(with_flags(numbered), tuple(indices))


@cache
def library_version() -> WriterVersion:
    """Return what manifests say of the library that wrote them."""
    try:
        return WriterVersion("lance_df", version("lance_df"))
    except PackageNotFoundError:
        return WriterVersion("lance_df", "0.0.0")


def with_mixed_versions(manifest: Manifest, added: Iterable[Fragment]) -> Manifest:
    """Set the flag that new files of another version than the table's demand; later versions keep it."""
    versions = {file.version for fragment in added for file in fragment.files}
    if manifest.data_format is None or versions <= {manifest.data_format}:
        return manifest
    return dataclasses.replace(
        manifest,
        reader_feature_flags=manifest.reader_feature_flags | FeatureFlag.MIXED_FILE_VERSIONS,
        writer_feature_flags=manifest.writer_feature_flags | FeatureFlag.MIXED_FILE_VERSIONS,
    )


def with_flags(manifest: Manifest) -> Manifest:
    """Compute the feature flags from the content, and carry the sticky ones on."""
    old_reader, old_writer = manifest.reader_feature_flags, manifest.writer_feature_flags
    both = old_reader & old_writer & (_STICKY | FeatureFlag.STABLE_ROW_IDS)
    if bool(manifest.fragments.has_deletions.any()):
        both |= FeatureFlag.DELETION_FILES
    if manifest.base_paths:
        both |= FeatureFlag.BASE_PATHS
    writer = both | old_writer & _OF_THE_TABLE
    if manifest.config:
        writer |= FeatureFlag.TABLE_CONFIG
    return dataclasses.replace(manifest, reader_feature_flags=int(both), writer_feature_flags=int(writer))
