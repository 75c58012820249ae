"""Scan small members as fragments of one table, because most of the planning cost is per table."""

from __future__ import annotations

import dataclasses
from itertools import repeat
from typing import TYPE_CHECKING, Final

from lance_df.cache import CacheKind
from lance_df.format.feature_flags import FeatureFlag
from lance_df.format.fragment_list import FragmentList
from lance_df.format.manifest import BasePath
from lance_df.format.manifest_template import ManifestTemplate
from lance_df.format.moved_fragments import moved_if_small
from lance_df.namespace.directory.names import location_of
from lance_df.namespace.limits import NAMESPACE_LIMITS
from lance_df.namespace.published import check_published, manifest_sources
from lance_df.records import dataclass
from lance_df.table.metadata.base_paths import DATA_DIR
from lance_df.table.metadata.manifest_io import ManifestFile, manifest_block, read_manifest
from lance_df.table.parallel import map_reads
from lance_df.table.shared import Shared
from lance_df.table.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lance_df.cache import Entries, TableCache
    from lance_df.format.moved_fragments import FragmentMessages
    from lance_df.format.schema import Schema
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.published import Member
    from lance_df.storage import ByteSource, Location

_ROOT: Final = 1


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring members with the same residual: one table for each, or one table for all of them."""

    tables: tuple[Table, ...]
    choice: int


class JoinedMembers:
    """Makes tables that consist of the fragments of small members.

    It caches only the fragments of each member, which take far less memory than its table.

    Parameters
    ----------
    root, schema, cache
        Those of the namespace.
    """

    def __init__(self, root: Location, schema: Schema, cache: TableCache) -> None:
        self._root = root
        self._schema = schema
        # the manifest of a small member; all small members agree on the parts that are not replaced
        self._pattern: ManifestFile | None = None
        self._templates: ManifestTemplate | None = None
        self._shared = Shared(root, cache=cache)
        self._fragments: Entries[tuple[bytes, ...]] = cache.part().entries(CacheKind.MEMBER_FRAGMENTS)

    def runs(
        self,
        manifest: NamespaceManifest,
        members: Sequence[Member],
        choices: Sequence[int],
        opened: Callable[[Member], Table],
        *,
        cached_only: bool,
    ) -> Iterator[Run]:
        """Split members into runs, in their order.

        Parameters
        ----------
        manifest
            The version of the namespace that publishes the members.
        opened
            Opens the table of a member; the table stays open.
        cached_only
            Read the manifest files of members instead of opening their tables.
        """
        least = NAMESPACE_LIMITS.current.min_joined_members
        if len(members) < least:
            yield from (Run((opened(each),), choice) for each, choice in zip(members, choices, strict=True))
            return

        fragments_of_members = self._look_up(manifest, members, opened, cached_only=cached_only)

        def run(small: Sequence[Member], fragments: Sequence[bytes], choice: int) -> Run:
            if len(small) < least:
                return Run(tuple(map(opened, small)), choice)
            pattern = opened(small[0]).manifest_file if self._pattern is None else self._pattern
            return Run((self._joined(pattern, fragments),), choice)

        small: list[Member] = []
        fragments: list[bytes] = []
        last = -1
        for member, of_member, choice in zip(members, fragments_of_members, choices, strict=True):
            if small and (not of_member or choice != last):
                yield run(small, fragments, last)
                small, fragments = [], []
            if not of_member:
                yield Run((opened(member),), choice)
                continue
            small.append(member)
            fragments += of_member
            last = choice
        if small:
            yield run(small, fragments, last)

    def _look_up(
        self,
        manifest: NamespaceManifest,
        members: Sequence[Member],
        opened: Callable[[Member], Table],
        *,
        cached_only: bool,
    ) -> list[tuple[bytes, ...]]:
        """Return the fragments of each member, or an empty tuple if it is not small."""
        keys = [(member.folder.path, member.version) for member in members]
        fragments_of_members = [
            self._fragments.find(key) if member.is_main_version else ()
            for key, member in zip(keys, members, strict=True)
        ]
        missing = [number for number, of_member in enumerate(fragments_of_members) if of_member is None]
        at_once = NAMESPACE_LIMITS.current.manifests_at_once
        for start in range(0, len(missing), at_once):
            part = missing[start : start + at_once]
            looked_at = [members[number] for number in part]
            if cached_only:
                parts = map(self._of_source, repeat(manifest), looked_at, manifest_sources(looked_at))
            else:
                tables = map_reads(opened, looked_at, where=self._root)
                parts = map(self._of, looked_at, (table.manifest_file for table in tables))
            for number, of_member in zip(part, parts, strict=True):
                fragments_of_members[number] = self._fragments.put(
                    keys[number], of_member, sum(map(len, of_member))
                )
        return [of_member or () for of_member in fragments_of_members]

    def _of_source(
        self, manifest: NamespaceManifest, member: Member, source: ByteSource
    ) -> tuple[bytes, ...]:
        """Return the fragments of a small member from its manifest file."""
        if self._templates is not None:
            until = manifest.table.manifest.timestamp_ns
            fragments = self._templates.fragments(manifest_block(source), source=source.path, until_ns=until)
            if fragments is not None:
                check_published(manifest, source.path, until)
                return _moved(self._root, member.folder, fragments)
        file = read_manifest(source)
        file.check_readable()
        check_published(manifest, file.path, file.manifest.timestamp_ns)
        return self._of(member, file)

    def _of(self, member: Member, file: ManifestFile) -> tuple[bytes, ...]:
        """Return the fragments of a small member, with paths relative to the root; none for other members."""
        manifest = file.manifest
        if (
            manifest.base_paths
            or manifest.index_section is not None
            or manifest.writer_version is None
            or manifest.reader_feature_flags & FeatureFlag.STABLE_ROW_IDS
            or manifest.schema.fields != self._schema.fields
        ):
            return ()
        of_member = _moved(self._root, member.folder, manifest.fragments.to_proto())
        if of_member and self._pattern is None and manifest.data_format not in (None, "0.1"):
            self._pattern, self._templates = file, ManifestTemplate(manifest)
        return of_member

    def _joined(self, pattern: ManifestFile, fragments: Sequence[bytes]) -> Table:
        """Return the fragments of small members as one table, with the manifest of one of them."""
        root = self._root.path if self._root.is_local else self._root.uri
        manifest = dataclasses.replace(
            pattern.manifest,
            schema=self._schema,
            fragments=FragmentList.joined(fragments),
            base_paths=(BasePath(id=_ROOT, path=root),),
        )
        file = ManifestFile(pattern.source, manifest)
        return Table(file, location=self._root, branch=None, shared=self._shared)


def _moved(root: Location, folder: Location, fragments: FragmentMessages) -> tuple[bytes, ...]:
    """Return fragments with paths relative to the root, if they are few, small and without deleted rows."""
    limits = NAMESPACE_LIMITS.current
    return moved_if_small(
        fragments,
        f"{location_of(root, folder)}/{DATA_DIR}",
        _ROOT,
        max_fragments=limits.joined_member_fragments,
        max_rows=limits.joined_member_rows,
    )
