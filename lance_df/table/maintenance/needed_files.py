"""Find the files below the root of a table that its versions need, and versions of tables that build on it.

Branches and clones refer to files of the table that they come from, by base paths. Spec: table format, 10.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING

from lance_df.errors import LanceError, NotFoundError, UnsupportedFeatureError, VersionNotFoundError
from lance_df.format import operations as ops
from lance_df.format.feature_flags import READABLE, WRITABLE
from lance_df.format.fragment_files import data_file_names, deletion_file_names
from lance_df.records import dataclass
from lance_df.storage.listing import scan_folder
from lance_df.table.commit.loop import TRANSACTIONS_DIR
from lance_df.table.metadata.base_paths import DATA_DIR, DELETIONS_DIR, INDICES_DIR
from lance_df.table.metadata.manifest_io import read_manifest
from lance_df.table.metadata.missing_files import missing_files
from lance_df.table.metadata.refs import branch_location, list_branches
from lance_df.table.metadata.versions import VERSIONS_DIR, parse_manifest_name
from lance_df.table.parallel import map_reads

if TYPE_CHECKING:
    from lance_df.format.fragments import Fragment
    from lance_df.format.manifest import Manifest
    from lance_df.format.operations import Operation
    from lance_df.storage import Location
    from lance_df.table.metadata.manifest_io import ManifestFile
    from lance_df.table.table import Table

_TREE = "tree"
_TABLE_FOLDERS = frozenset({DATA_DIR, DELETIONS_DIR, INDICES_DIR, TRANSACTIONS_DIR, VERSIONS_DIR})
_READ_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class FileNames:
    """Names of files below the root of one table, by folder; for indices, the names of their folders."""

    data: set[str] = field(default_factory=set)
    deletions: set[str] = field(default_factory=set)
    indices: set[str] = field(default_factory=set)
    transactions: set[str] = field(default_factory=set)

    def add_version(self, file: ManifestFile, bases: frozenset[int | None]) -> None:
        """Add the files that a version needs, in the base paths that lead to the table.

        Raises
        ------
        UnsupportedFeatureError
            The version may need files that this release does not know of.
        """
        if not bases:
            return
        _check_known(file)
        chosen = bases if file.manifest.base_paths else None
        self.data.update(data_file_names(file.manifest.fragments, chosen))
        self.deletions.update(deletion_file_names(file.manifest.fragments, chosen))
        self.indices.update(str(index.uuid) for index in file.read_indices() if index.base_id in bases)
        if None in bases and file.manifest.transaction_file:
            self.transactions.add(file.manifest.transaction_file)

    def add_operation(self, operation: Operation) -> None:
        """Add the files that a commit in progress would bring into the table's own root."""
        for fragment in _fragments_of(operation):
            self.data.update(file.path for file in fragment.files if file.base_id is None)
            deletions = fragment.deletion_file
            if deletions is not None and deletions.base_id is None:
                self.deletions.add(deletions.name(fragment.id))
        if isinstance(operation, ops.DataReplacement):
            self.data.update(file.path for _, file in operation.replacements if file.base_id is None)
        if isinstance(operation, ops.CreateIndex):
            self.indices.update(str(index.uuid) for index in operation.new_indices)


class Bases:
    """Finds the base paths of manifests that lead to one table."""

    def __init__(self, target: Location) -> None:
        self._target = target
        self._known: dict[tuple[str, bool], bool] = {}

    def of(self, manifest: Manifest, at: Location) -> frozenset[int | None]:
        """Return the ids of these base paths, with ``None`` if the manifest is one of the table itself.

        Parameters
        ----------
        at
            The root of the table or branch that the manifest belongs to.
        """
        ids: set[int | None] = {None} if is_same_folder(at, self._target) else set()
        for base in manifest.base_paths:
            key = (base.path, base.is_dataset_root)
            if key not in self._known:
                wanted = self._target if base.is_dataset_root else self._target / DATA_DIR
                base_folder = _elsewhere(at, base.path)
                self._known[key] = base_folder is not None and is_same_folder(base_folder, wanted)
            if self._known[key]:
                ids.add(base.id)
        return frozenset(ids)


def is_same_folder(left: Location, right: Location) -> bool:
    """Whether two locations are the same folder, after resolving symbolic links."""
    if left.is_local != right.is_local:
        return False
    if left.is_local:
        return os.path.realpath(left.path) == os.path.realpath(right.path)
    return left.path.strip("/") == right.path.strip("/")


def versions_at(folder: Location) -> Iterator[ManifestFile]:
    """Yield the manifests of one table or branch, detached ones included, except those deleted meanwhile."""
    versions = folder / VERSIONS_DIR
    names = [file.name for file in scan_folder(versions) if parse_manifest_name(file.name) is not None]

    def opened(name: str) -> ManifestFile | None:
        try:
            return read_manifest((versions / name).open())
        except NotFoundError:
            return None

    for start in range(0, len(names), _READ_AT_ONCE):
        for file in map_reads(opened, names[start : start + _READ_AT_ONCE], where=folder):
            if file is not None:
                yield file


def is_half_removed(version: Table) -> bool:
    """Whether a clean-up has removed files of a version, but not its manifest yet.

    Such a version cannot be read any more. Clean-ups spare the newest version and tagged ones, so if these
    lack files they are damaged, and the result is False.
    """
    tags = (tag.version for tag in version.tags().values() if tag.branch == version.branch)
    if version.version == version.latest_version() or version.version in tags:
        return False
    return bool(missing_files(version))


def data_files_at(folder: Location) -> Iterator[str]:
    """Yield the names of data files that the versions of one table or branch refer to, wherever these are.

    Raises
    ------
    UnsupportedFeatureError
        A version may need files that this release does not know of.
    LanceError
        A manifest cannot be read.
    """
    for file in versions_at(folder):
        _check_known(file)
        yield from data_file_names(file.manifest.fragments, None)


def tables_around(table: Table) -> list[Location]:
    """Return the other tables that may need files of this one: its root, branches, and base paths.

    Branches count as soon as their folder has a version.
    """
    root = table.shared.root
    folders = [root, *_branches(root)]
    for base in table.manifest.base_paths:
        base_folder = _elsewhere(table.location, base.path) if base.is_dataset_root else None
        if base_folder is not None:
            folders.append(base_folder)
    others: list[Location] = []
    for base_folder in folders:
        if not any(is_same_folder(base_folder, other) for other in (table.location, *others)):
            others.append(base_folder)
    return others


def _check_known(file: ManifestFile) -> None:
    flags = file.manifest.reader_feature_flags | file.manifest.writer_feature_flags
    if unknown := flags & ~(READABLE | WRITABLE):
        raise UnsupportedFeatureError(
            f"{file.path}: feature flags {unknown:#x} are unknown, so files may be in use that this "
            "release does not know; clean up with a newer release"
        )


def _branches(root: Location) -> Iterator[Location]:
    for name in list_branches(root):
        with suppress(VersionNotFoundError):
            yield branch_location(root, name)
    yield from _tables_below(root / _TREE)


def _tables_below(folder: Location) -> Iterator[Location]:
    names = {entry.name for entry in scan_folder(folder) if entry.is_directory}
    if VERSIONS_DIR in names:
        yield folder
    for name in sorted(names - _TABLE_FOLDERS):
        yield from _tables_below(folder / name)


def _elsewhere(at: Location, path: str) -> Location | None:
    """Return the location of a base path; None if it is in a store that cannot be opened here."""
    try:
        return at.elsewhere(path)
    except LanceError:
        return None


def _fragments_of(operation: Operation) -> Iterable[Fragment]:
    match operation:
        case ops.Append() | ops.Overwrite() | ops.Merge():
            return operation.fragments
        case ops.Delete():
            return operation.updated_fragments
        case ops.Update():
            return (*operation.updated_fragments, *operation.new_fragments)
        case ops.Rewrite():
            return tuple(fragment for group in operation.groups for fragment in group.new_fragments)
        case _:
            return ()
