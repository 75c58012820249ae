"""Count the rows of members from their manifests alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.format.fragment_list import num_live_rows
from lance_df.format.manifest_template import ManifestTemplate
from lance_df.namespace.limits import NAMESPACE_LIMITS
from lance_df.namespace.published import check_published, manifest_sources
from lance_df.table.metadata.manifest_io import manifest_block, read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.published import Member
    from lance_df.storage import ByteSource


def rows_of_members(manifest: NamespaceManifest, members: Sequence[Member]) -> Iterator[int | None]:
    """Yield the number of rows of each member, or None if its table has to be opened to count them.

    Parameters
    ----------
    manifest
        The version of the namespace that publishes the members.
    members
        Members that name versions of main.

    Raises
    ------
    NotFoundError
        There is no such table or version.
    UnsupportedFeatureError
        This release cannot read a table.
    """
    counts = _MemberCounts(manifest)
    at_once = NAMESPACE_LIMITS.current.manifests_at_once
    for start in range(0, len(members), at_once):
        yield from map(counts.rows_of, manifest_sources(members[start : start + at_once]))


class _MemberCounts:
    """Counts rows; the manifests of most members differ from the first one only in their fragments."""

    def __init__(self, manifest: NamespaceManifest) -> None:
        self._manifest = manifest
        self._template: ManifestTemplate | None = None

    def rows_of(self, source: ByteSource) -> int | None:
        if self._template is not None:
            until = self._manifest.table.manifest.timestamp_ns
            fragments = self._template.fragments(manifest_block(source), source=source.path, until_ns=until)
            if fragments is not None:
                check_published(self._manifest, source.path, until)
                return num_live_rows(fragments)
        file = read_manifest(source)
        file.check_readable()
        manifest = file.manifest
        check_published(self._manifest, file.path, manifest.timestamp_ns)
        # earlier releases wrote wrong numbers; members with other columns have to be opened
        if manifest.writer_version is None or manifest.schema.fields != self._manifest.schema.columns.fields:
            return None
        if self._template is None and manifest.data_format not in (None, "0.1"):
            self._template = ManifestTemplate(manifest)
        return num_live_rows(manifest.fragments.to_proto())
