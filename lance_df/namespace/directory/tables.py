"""Create, declare, register, find and drop the tables of a directory.

A row is added after its folder is written, and removed before its folder is removed. So an interrupted change
leaves at most a folder without a row. Spec: directory namespace; table format, chapter 15.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_df.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
)
from lance_df.namespace.directory import folders
from lance_df.namespace.directory.manifest import DirectoryManifest, Edit, Entry
from lance_df.namespace.directory.names import (
    check_location,
    check_no_link,
    folder_at,
    joined,
    overlap,
    root_folder,
)
from lance_df.namespace.manifest_table import TABLE
from lance_df.namespace.names import table_folder
from lance_df.records import dataclass
from lance_df.storage import Location
from lance_df.table.metadata.versions import list_versions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lance_df.namespace.directory.directory import Directory
    from lance_df.namespace.directory.names import Parts


@dataclass(frozen=True, slots=True)
class DirectoryTable:
    """A table of the directory.

    Attributes
    ----------
    location
        Its folder, relative to the root.
    is_listed
        Whether the table was found by its folder alone, without a row.
    """

    location: str
    properties: Mapping[str, str] | None
    is_listed: bool


@dataclass(frozen=True, slots=True)
class _Filling:
    """How the folder of a new table is filled.

    Attributes
    ----------
    fill
        Fills the folder. Leaves nothing if it fails.
    undo
        Removes what ``fill`` wrote, and nothing else.
    fills_declared
        Whether it also succeeds if another writer declares the table meanwhile.
    """

    fill: Callable[[Location], object]
    undo: Callable[[Location], object]
    fills_declared: bool


_DECLARING: Final = _Filling(folders.reserve, folders.release, fills_declared=False)


class DirectoryTables:
    """The tables of a directory. Safe to share between threads.

    Parameters
    ----------
    use_listing
        Whether folders ``x.lance`` in the root are tables even without a row.
    """

    def __init__(self, directory: Directory, *, use_listing: bool) -> None:
        self.root = directory.root
        self._directory = directory
        self._use_listing = use_listing

    # -- tables ---------------------------------------------------------------------------------------------

    def tables(self, parent: Parts) -> list[str]:
        """Return the sorted names of the tables directly in a namespace.

        Raises
        ------
        NotFoundError
            There is no such namespace.
        """
        manifest = self._directory.manifest()
        self._directory.check_listable(manifest, parent)
        names = set(manifest.children(parent, TABLE)) if manifest else set()
        if self._use_listing and not parent:
            names.update(self._listed(manifest))
        return sorted(names)

    def all_tables(self) -> list[str]:
        """Return the ids of all tables, sorted."""
        manifest = self._directory.manifest()
        ids = set(manifest.ids(TABLE).to_pylist()) if manifest else set()
        if self._use_listing:
            ids.update(self._listed(manifest))
        return sorted(ids)

    def table(self, parts: Parts) -> DirectoryTable:
        """Return a table.

        Raises
        ------
        DatasetNotFoundError
            There is none, or its folder is gone.
        """
        known = self.find_table(parts)
        if known is None:
            raise DatasetNotFoundError(f"{self.root.uri}: table {joined(parts)!r} not found")
        is_there = known.is_listed or self.folder(known).exists()
        if not is_there and not folders.is_declared_by_pylance(self.root, known.location):
            raise DatasetNotFoundError(
                f"{self.root.uri}: the folder {known.location!r} of table {joined(parts)!r} does not exist"
            )
        return known

    def find_table(self, parts: Parts) -> DirectoryTable | None:
        """Return a table, or None if there is none; its folder may be gone."""
        self._check_table_id(parts)
        return self._find(self._directory.manifest(), parts)

    def folder(self, table: DirectoryTable) -> Location:
        """Return the folder of a table; raises `CorruptDataError` if its location is outside the root."""
        return folder_at(self.root, table.location)

    def create_table(
        self, parts: Parts, properties: Mapping[str, str] | None, write: Callable[[Location], object]
    ) -> DirectoryTable:
        """Create a table, or write one that is only declared.

        Parameters
        ----------
        properties
            The properties of the table; None keeps those of a declared table.
        write
            Creates a table in a folder that has none.

        Raises
        ------
        AlreadyExistsError
            The id is taken.
        NotFoundError
            The namespace does not exist.
        CommitStateUnknownError
            It is not known whether the table was created.
        """
        known = self.find_table(parts)
        if known is None:
            return self._add_table(parts, properties, _Filling(write, _remove_unchanged, fills_declared=True))
        if folders.holds_table(self.folder(known)):
            raise AlreadyExistsError(f"{self.root.uri}: table {joined(parts)!r} already exists")
        self.check_changeable(parts, properties)
        if known.is_listed and self._directory.uses_manifest:
            entry = Entry(joined(parts), TABLE, known.location, properties)
            return self._fill(parts, entry, _Filling(write, _leave, fills_declared=True))
        write(self.folder(known))
        return self.set_properties(parts, known, properties) if properties else known

    def declare_table(self, parts: Parts, properties: Mapping[str, str] | None) -> DirectoryTable:
        """Reserve an id for a table that is written later; raises the errors of `create_table`."""
        if self.find_table(parts) is not None:
            raise AlreadyExistsError(f"{self.root.uri}: table {joined(parts)!r} already exists")
        return self._add_table(parts, properties, _DECLARING)

    def register_table(
        self, parts: Parts, location: str, properties: Mapping[str, str] | None
    ) -> DirectoryTable:
        """Add a row for a table that exists in a folder of the root.

        Raises
        ------
        AlreadyExistsError
            The id is taken, or the folder is that of another table.
        NotFoundError
            The namespace does not exist, or there is no table in the folder.
        InvalidInputError
            The location is not a path within the root, or the directory does not use ``__manifest``.
        """
        self._check_table_id(parts)
        self._directory.check_uses_manifest()
        location = check_location(self.root, location)
        folder = folder_at(self.root, location)
        if not (folders.holds_table(folder) or folders.is_reserved(folder)):
            raise DatasetNotFoundError(f"{folder.uri}: no table exists here")
        entry = Entry(joined(parts), TABLE, location, properties)

        def addition(manifest: DirectoryManifest) -> Edit:
            if other := _sharing(manifest, entry.object_id, location):
                raise AlreadyExistsError(f"{folder.uri}: this folder already belongs to table {other!r}")
            known = self._find(manifest, parts)
            if known is not None and known.location != location:
                raise AlreadyExistsError(f"{self.root.uri}: table {entry.object_id!r} already exists")
            return self._directory.addition(manifest, parts, entry)

        self._directory.edit(addition)
        folders.register_again(folder)
        return DirectoryTable(location, properties, is_listed=False)

    def set_properties(
        self, parts: Parts, table: DirectoryTable, properties: Mapping[str, str] | None
    ) -> DirectoryTable:
        """Replace the properties of a table.

        Raises
        ------
        DatasetNotFoundError
            The table was removed meanwhile.
        """
        name = joined(parts)
        entry = Entry(name, TABLE, table.location, properties)

        def replacement(manifest: DirectoryManifest) -> Edit:
            manifest.check_changeable(name)
            known = self._find(manifest, parts)
            if known is None or known.location != table.location:
                raise DatasetNotFoundError(f"{self.root.uri}: table {name!r} was dropped in the meantime")
            if known.is_listed:
                return self._directory.addition(manifest, parts, entry)
            return Edit((entry,), (name,))

        self._directory.edit(replacement)
        return DirectoryTable(table.location, properties, is_listed=False)

    def deregister_table(self, parts: Parts) -> DirectoryTable:
        """Remove a table from the directory, but keep its folder.

        Raises
        ------
        DatasetNotFoundError
            There is none.
        """
        known = self._existing(parts)
        if self._use_listing and known.location == root_folder(parts[0]) and self.folder(known).exists():
            folders.deregister(self.folder(known))
        self._remove_row(parts, known)
        return known

    def drop_table(self, parts: Parts) -> DirectoryTable:
        """Remove a table and its folder.

        Raises
        ------
        DatasetNotFoundError
            There is none.
        InvalidInputError
            The folder overlaps with that of another table, or the path to it has a symbolic link.
        """
        known = self._existing(parts)
        folder = self.folder(known)
        check_no_link(self.root, known.location)
        self._remove_row(parts, known, is_alone=True)
        folder.remove_tree()
        return known

    def check_changeable(self, parts: Parts, properties: Mapping[str, str] | None = None) -> None:
        """Check that a table can be changed, and can have properties if some are given.

        Raises
        ------
        InvalidInputError, UnsupportedFeatureError
            See `DirectoryManifest.check_changeable`.
        """
        if properties:
            self._directory.check_uses_manifest()
        if (manifest := self._directory.manifest()) is not None:
            manifest.check_changeable(joined(parts))

    # -- how ------------------------------------------------------------------------------------------------

    def _listed(self, manifest: DirectoryManifest | None) -> list[str]:
        known = frozenset(manifest.children((), TABLE)) if manifest else frozenset()
        return folders.listed_tables(self.root, known)

    def _find(self, manifest: DirectoryManifest | None, parts: Parts) -> DirectoryTable | None:
        entry = None if manifest is None else manifest.find(joined(parts))
        if entry is not None and entry.is_table and entry.location is not None:
            return DirectoryTable(entry.location, entry.properties, is_listed=False)
        if not self._use_listing or len(parts) != 1:
            return None
        folder = self.root / root_folder(parts[0])
        if not folder.exists() or folders.is_deregistered(folder):
            return None
        return DirectoryTable(root_folder(parts[0]), None, is_listed=True)

    def _existing(self, parts: Parts) -> DirectoryTable:
        known = self.find_table(parts)
        if known is None:
            raise DatasetNotFoundError(f"{self.root.uri}: table {joined(parts)!r} not found")
        self.check_changeable(parts)
        return known

    def _add_table(
        self, parts: Parts, properties: Mapping[str, str] | None, filling: _Filling
    ) -> DirectoryTable:
        """Fill a new folder and add its row; if the row cannot be added, remove the folder."""
        name = joined(parts)
        is_plain = self._use_listing and len(parts) == 1
        location = root_folder(name) if is_plain else table_folder(name)
        folder = self.root / location
        if properties or not is_plain:
            self._directory.check_uses_manifest()
        if folder.exists():
            raise AlreadyExistsError(
                f"{folder.uri}: this folder contains a deregistered table; register it again"
            )
        if not self._directory.uses_manifest:
            filling.fill(folder)
            return DirectoryTable(location, properties, is_listed=True)
        return self._fill(parts, Entry(name, TABLE, location, properties), filling)

    def _fill(self, parts: Parts, entry: Entry, filling: _Filling) -> DirectoryTable:
        def addition(manifest: DirectoryManifest) -> Edit:
            return self._directory.addition(manifest, parts, entry)

        known = DirectoryTable(entry.location or "", entry.properties, is_listed=False)
        folder = self.folder(known)
        addition(self._directory.manifest_to_change())
        filling.fill(folder)
        try:
            self._directory.edit(addition)
        except CommitStateUnknownError:
            raise
        except LanceError:
            other = self._find(self._directory.manifest(), parts)
            if other is None or other.is_listed or other.location != entry.location:
                filling.undo(folder)
                raise
            if not filling.fills_declared:
                raise
            return other
        return known

    def _remove_row(self, parts: Parts, table: DirectoryTable, *, is_alone: bool = False) -> None:
        name = joined(parts)
        manifest = self._directory.manifest()

        def check_alone(manifest: DirectoryManifest) -> None:
            if is_alone and (other := _sharing(manifest, name, table.location)):
                raise InvalidInputError(
                    f"{self.root.uri}: the folder {table.location!r} also belongs to table {other!r}"
                )

        def removal(manifest: DirectoryManifest) -> Edit:
            check_alone(manifest)
            known = self._find(manifest, parts)
            if known != table:
                raise DatasetNotFoundError(f"{self.root.uri}: table {name!r} was dropped in the meantime")
            return Edit(removed=(name,))

        if not table.is_listed:
            self._directory.edit(removal)
        elif manifest is not None:
            check_alone(manifest)

    def _check_table_id(self, parts: Parts) -> None:
        if not parts:
            raise InvalidInputError("the id of a table must have at least one name")
        if len(parts) > 1:
            self._directory.check_uses_manifest()


def _sharing(manifest: DirectoryManifest, name: str, location: str) -> str | None:
    """Return the id of another table whose folder overlaps with that of a table."""
    others = manifest.locations().items()
    return next(
        (other for other, other_location in others if other != name and overlap(other_location, location)),
        None,
    )


def _remove_unchanged(folder: Location) -> None:
    """Remove a table that was just created, unless another writer has changed it."""
    if len(list_versions(folder).entries) <= 1:
        folder.remove_tree()


def _leave(folder: Location) -> None:
    """Keep a table that was declared before and is now written."""
