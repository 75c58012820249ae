"""Scan small members as fragments of one table: what a table costs is mostly what planning a scan costs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from lance_df.format.fragment_list import FragmentList
from lance_df.format.fragments import Fragment
from lance_df.format.manifest import BasePath
from lance_df.table.base_paths import DATA_DIR
from lance_df.table.caches import LruCache
from lance_df.table.manifest_io import ManifestFile
from lance_df.table.table import Shared, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_df.format.schema import Schema
    from lance_df.storage import Location

_MAX_FRAGMENTS: Final = 4
_MAX_ROWS: Final = 64 * 1024
_MIN_MEMBERS: Final = 4
_ROOT: Final = 1
_MAX_KNOWN: Final = 16_384
_MAX_TABLES: Final = 8


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring members that are asked the same: one table each, or all together one."""

    tables: tuple[Table, ...]
    choice: int


class JoinedMembers:
    """Makes tables of which the fragments are those of small members. Keeps what it has made.

    Parameters
    ----------
    root, schema
        Of the namespace.
    """

    def __init__(self, root: Location, schema: Schema) -> None:
        self._root = root
        self._schema = schema
        self._shared = Shared(root)
        self._fragments: LruCache[tuple[Fragment, ...]] = LruCache(_MAX_KNOWN)
        self._tables: LruCache[Table] = LruCache(_MAX_TABLES)

    def runs(self, tables: Sequence[Table], choices: Sequence[int]) -> Iterator[Run]:
        """Cut members into runs, in their order."""
        small: list[Table] = []
        fragments: list[Fragment] = []
        last = -1
        for table, choice in zip(tables, choices, strict=True):
            own = self._fragments.get(table, partial(self._of, table))
            if small and (not own or choice != last):
                yield self._run(small, fragments, last)
                small, fragments = [], []
            if not own:
                yield Run((table,), choice)
                continue
            small.append(table)
            fragments += own
            last = choice
        if small:
            yield self._run(small, fragments, last)

    def _run(self, tables: list[Table], fragments: list[Fragment], choice: int) -> Run:
        if len(tables) < _MIN_MEMBERS:
            return Run(tuple(tables), choice)
        key = tuple((table.uri, table.version) for table in tables)
        return Run((self._tables.get(key, lambda: self._joined(tables[0], fragments)),), choice)

    def _of(self, table: Table) -> tuple[Fragment, ...]:
        """Return the fragments of a small member, with files named from the root; none for others."""
        manifest, fragments = table.manifest, table.fragments
        if (
            not 0 < len(fragments) <= _MAX_FRAGMENTS
            or manifest.base_paths
            or manifest.index_section is not None
            or manifest.writer_version is None
            or table.uses_stable_row_ids
            or fragments.has_deletions.any()
            or int(fragments.physical_rows.sum()) > _MAX_ROWS
            or (fragments.physical_rows == 0).any()
            or table.branch is not None
            or manifest.schema.fields != self._schema.fields
        ):
            return ()
        folder = f"{table.location.name}/{DATA_DIR}"
        return tuple(
            Fragment(
                id=0,
                physical_rows=fragment.physical_rows,
                files=tuple(
                    dataclasses.replace(file, path=f"{folder}/{file.path}", base_id=_ROOT)
                    for file in fragment.files
                ),
            )
            for fragment in fragments
        )

    def _joined(self, first: Table, fragments: Sequence[Fragment]) -> Table:
        root = self._root.path if self._root.is_local else self._root.uri
        numbered = [dataclasses.replace(fragment, id=number) for number, fragment in enumerate(fragments)]
        manifest = dataclasses.replace(
            first.manifest,
            schema=self._schema,
            fragments=FragmentList.of(numbered),
            base_paths=(BasePath(id=_ROOT, path=root),),
        )
        file = ManifestFile(first.manifest_file.source, manifest)
        return Table(file, location=self._root, branch=None, shared=self._shared)
