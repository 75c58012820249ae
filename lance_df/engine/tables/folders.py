"""Find the tables of a schema at each use: in folders, rows of a directory's ``__manifest``, and members."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, Protocol

from lance_df.engine.tables.parts import PartSource
from lance_df.engine.tables.source import TableSource
from lance_df.errors import (
    CorruptDataError,
    DatasetNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from lance_df.forks import new_lock
from lance_df.namespace.kind import holds_namespace
from lance_df.namespace.names import MANIFEST_FOLDER, SEPARATOR, is_member_folder
from lance_df.sql.splice import QuotedName
from lance_df.table.metadata.versions import VERSIONS_DIR
from lance_df.table.parallel import map_reads

if TYPE_CHECKING:
    from lance_df.namespace.directory.manifest import DirectoryManifest
    from lance_df.namespace.directory.names import Parts
    from lance_df.storage import Location

SUFFIX = ".lance"
_NOT_IN_NAMES: Final = frozenset('/\\$\0:*?"<>|')


class _Kind(Enum):
    """The kind of a folder that is a table in SQL."""

    TABLE = auto()
    NAMESPACE = auto()
    DAMAGED = auto()
    """Possibly a namespace, but it cannot be read."""


class Tables(Protocol):
    """A collection of named tables."""

    def names(self) -> list[str]:
        """Return the names of the current tables."""

    def namespaces(self) -> list[str]:
        """Return the names of the partitioned namespaces."""

    def source(self, name: str) -> TableSource | PartSource | None:
        """Return the table ``name``, or the one that differs only in case if SQL lower-cased the name.

        Raises
        ------
        InvalidInputError
            Several tables differ only in case, and none is spelt exactly like ``name``.
        """


class TableFolder:
    """The current tables of one folder. ``x`` is sub-folder ``x.lance``, or ``x`` if that holds a table.

    If the folder has a ``__manifest``, the tables in the root of the manifest take precedence.
    """

    def __init__(
        self,
        location: Location,
        storage_options: Mapping[str, Any] | None,
        above: TableFolder | None = None,
    ) -> None:
        self.location = location
        self._above = above
        self.directory = DirectoryRows(location, storage_options)
        self.storage_options = storage_options
        self._sources: dict[str, TableSource] = {}
        self._kinds: dict[str, _Kind] = {}
        self._subfolders: dict[str, TableFolder] = {}
        self._lock = new_lock()

    def names(self) -> list[str]:
        marked, others, rows = self._listing()
        names = [*rows, *marked, *self._tables_among([name for name in others if name not in marked])]
        return list(dict.fromkeys(names))

    def namespaces(self) -> list[str]:
        _, others, _ = self._listing()
        return [name for name, kind in self._kinds_among(others).items() if kind is not _Kind.TABLE]

    def subfolders(self) -> list[str]:
        """Return the names of the folders that are not tables. They are schemas."""
        _, others, _ = self._listing()
        tables = set(self._tables_among(others))
        return [name for name in others if name not in tables]

    def source(self, name: str) -> TableSource | PartSource | None:
        if self._is_marked(name):
            return self._source(name + SUFFIX)
        marked, others, rows = self._listing()
        same_but_case = [other for other in others if other not in marked and other.lower() == name.lower()]
        match = spelt_like(name, list(dict.fromkeys([*rows, *marked, *self._tables_among(same_but_case)])))
        if match is None:
            return None
        if match in rows:
            return self.directory.source((match,))
        return self._source(match + SUFFIX if match in marked else match)

    def free_caches(self) -> None:
        """Free the caches of the tables in this folder and its sub-folders."""
        with self._lock:
            sources, folders = list(self._sources.values()), list(self._subfolders.values())
        for source in sources:
            source.free_cache()
        for folder in folders:
            folder.free_caches()
        self.directory.free_caches()

    def _source(self, folder: str) -> TableSource:
        with self._lock:
            if folder not in self._sources:
                uri = (self.location / folder).uri
                self._sources[folder] = TableSource(uri, storage_options=self.storage_options)
            return self._sources[folder]

    def stored(self, name: str) -> Location | None:
        """Return the folder of a table that no row of a ``__manifest`` names."""
        marked, others, rows = self._listing()
        match = spelt_like(name, list(dict.fromkeys([*rows, *marked, *self._tables_among(others)])))
        if match is None or match in rows:
            return None
        return self.location / (match + SUFFIX if match in marked else match)

    def stored_names(self) -> list[str]:
        """Return the names of the tables that no row of a ``__manifest`` names."""
        marked, others, rows = self._listing()
        taken = {*rows, *marked}
        tables = self._tables_among([name for name in others if name not in taken])
        return [*(name for name in marked if name not in rows), *tables]

    def link(self) -> Location | None:
        """Return the symbolic link nearest to here on the path from the session's folder, or None."""
        if self._above is None:
            return None
        return self.location if self.location.is_link else self._above.link()

    def forget(self, folder: str) -> None:
        """Forget a deleted folder."""
        with self._lock:
            self._sources.pop(folder, None)
            self._kinds.pop(folder, None)

    def _is_marked(self, name: str) -> bool:
        """Whether the local folder ``name.lance`` exists and takes precedence, so no listing is needed."""
        if not self.location.is_local or "/" in name:
            return False
        here = self.location.path
        return os.path.isdir(f"{here}/{name}{SUFFIX}") and not os.path.isdir(f"{here}/{MANIFEST_FOLDER}")

    def subfolder(self, name: str) -> TableFolder | None:
        """Return the sub-folder ``name``, or ``a/b`` for a deeper one. Case is treated as for tables."""
        first, slash, rest = name.partition("/")
        as_written = type(name)
        match = spelt_like(as_written(first), self._listing()[1])
        if match is None:
            return None
        folder = self.folder_called(match)
        return folder.subfolder(as_written(rest)) if slash else folder

    def folder_called(self, name: str) -> TableFolder:
        """Return a direct sub-folder, which need not exist yet."""
        with self._lock:
            # always the same object, so that a statement has one source for each table
            if name not in self._subfolders:
                self._subfolders[name] = TableFolder(self.location / name, self.storage_options, self)
            return self._subfolders[name]

    def _listing(self) -> tuple[list[str], list[str], list[str]]:
        """Return the names of tables with the suffix, of other folders, and of tables in ``__manifest``."""
        folders = [entry.name for entry in self.location.list() if entry.is_directory]
        rows: list[str] = []
        if MANIFEST_FOLDER in folders:
            rows = self.directory.tables(())
            named = self.directory.folders()
            folders = [name for name in folders if name not in named and not is_member_folder(name)]
        marked = [name.removesuffix(SUFFIX) for name in folders if name.endswith(SUFFIX)]
        return marked, [name for name in folders if not name.endswith(SUFFIX) and name[0] not in "._"], rows

    def _tables_among(self, folders: list[str]) -> list[str]:
        return list(self._kinds_among(folders))

    def _kinds_among(self, folders: list[str]) -> dict[str, _Kind]:
        """Return the tables among some folders, by name. Opening a damaged one raises its error."""
        unknown = [name for name in folders if name not in self._kinds]
        answers = map_reads(lambda name: _kind_or_damage(self.location / name), unknown, where=self.location)
        new = {name: kind for name, kind in zip(unknown, answers, strict=True) if kind is not None}
        self._kinds.update((name, kind) for name, kind in new.items() if kind is not _Kind.DAMAGED)
        kinds = {name: self._kinds.get(name) or new.get(name) for name in folders}
        return {name: kind for name, kind in kinds.items() if kind is not None}


class DirectoryRows:
    """The namespaces and tables in a folder's ``__manifest``, without members of partitioned namespaces."""

    def __init__(self, root: Location, storage_options: Mapping[str, Any] | None) -> None:
        self._root = root
        self._storage_options = storage_options
        self._known: DirectoryManifest | None = None
        self._sources: dict[str, TableSource] = {}
        self._lock = new_lock()

    def namespaces(self) -> list[str]:
        """Return the ids of the namespaces at all levels."""
        manifest = self._manifest()
        if manifest is None:
            return []
        from lance_df.namespace.manifest_table import NAMESPACE

        ids: list[str] = manifest.ids(NAMESPACE).to_pylist()
        return [name for name in ids if not manifest.is_of_partitions(name)]

    def tables(self, parent: Parts) -> list[str]:
        """Return the names of the tables directly in a namespace."""
        manifest = self._manifest()
        from lance_df.namespace.directory.names import joined
        from lance_df.namespace.manifest_table import TABLE

        if manifest is None or (parent and manifest.is_of_partitions(joined(parent))):
            return []
        return manifest.children(parent, TABLE)

    def folders(self) -> frozenset[str]:
        """Return the top-level folders that contain tables of the ``__manifest``."""
        manifest = self._manifest()
        locations: Iterable[str] = () if manifest is None else manifest.locations().values()
        return frozenset(location.split("/", 1)[0] for location in locations)

    def source(self, parts: Parts) -> TableSource | None:
        """Return the table with the given id."""
        from lance_df.namespace.directory.names import folder_at, joined

        manifest = self._manifest()
        entry = None if manifest is None else manifest.find(joined(parts))
        if entry is None or not entry.is_table or entry.location is None:
            return None
        uri = folder_at(self._root, entry.location).uri
        with self._lock:
            return self._sources.setdefault(uri, TableSource(uri, storage_options=self._storage_options))

    def free_caches(self) -> None:
        """Free the caches of the tables."""
        with self._lock:
            sources = list(self._sources.values())
        for source in sources:
            source.free_cache()

    def _manifest(self) -> DirectoryManifest | None:
        from lance_df.namespace.directory.manifest import DirectoryManifest

        known = self._known
        try:
            self._known = DirectoryManifest.open(self._root) if known is None else known.latest()
        except DatasetNotFoundError:
            self._known = None
        return self._known


class DirectoryTables:
    """The tables directly in one namespace of a directory."""

    def __init__(self, directory: DirectoryRows, parent: Parts) -> None:
        self._directory = directory
        self._parent = parent

    def names(self) -> list[str]:
        return self._directory.tables(self._parent)

    def namespaces(self) -> list[str]:
        return []

    def source(self, name: str) -> TableSource | None:
        match = spelt_like(name, self.names())
        return None if match is None else self._directory.source((*self._parent, match))


class MemberTables:
    """The members of a partitioned namespace, named by their ids. Listings of tables omit them."""

    def __init__(self, whole: TableSource) -> None:
        self._whole = whole

    def names(self) -> list[str]:
        return []

    def namespaces(self) -> list[str]:
        return []

    def source(self, name: str) -> PartSource | None:
        return self._whole.parts.source(name)


class SeveralTables:
    """Tables from several collections. The first collection that has a name takes precedence."""

    def __init__(self, schemas: Iterable[Tables]) -> None:
        self._schemas = tuple(schemas)

    def folders(self) -> list[TableFolder]:
        """Return the collections that are folders."""
        return [tables for tables in self._schemas if isinstance(tables, TableFolder)]

    def names(self) -> list[str]:
        return list(dict.fromkeys(name for tables in self._schemas for name in tables.names()))

    def namespaces(self) -> list[str]:
        return list(dict.fromkeys(name for tables in self._schemas for name in tables.namespaces()))

    def source(self, name: str) -> TableSource | PartSource | None:
        sources = (tables.source(name) for tables in self._schemas)
        return next((source for source in sources if source is not None), None)


def tables_of_schema(root: TableFolder, name: str) -> Tables | None:
    """Return the tables of a schema below a folder; None if there is no such schema.

    ``a$b`` is a namespace in the ``__manifest`` of the folder, and ``a/b`` a sub-folder. The name of a
    partitioned namespace is a schema of its members.
    """
    schemas: list[Tables] = []
    namespace = spelt_like(name, root.directory.namespaces())
    if namespace is not None:
        schemas.append(DirectoryTables(root.directory, tuple(namespace.split(SEPARATOR))))
    if spelt_like(name, root.namespaces()) is not None:
        whole = root.source(name)
        if isinstance(whole, TableSource):
            schemas.append(MemberTables(whole))
    elif (folder := root.subfolder(name)) is not None:
        schemas.append(folder)
    return SeveralTables(schemas) if schemas else None


def folder_for_tables(tables: Tables | None) -> TableFolder:
    """Return the folder in which statements create tables.

    Raises
    ------
    UnsupportedFeatureError
        The schema has no folder, or the ``__manifest`` of its directory names its tables.
    """
    folder = next(iter(_folders_of(tables)), None)
    if folder is None or (folder.location / MANIFEST_FOLDER).exists():
        raise UnsupportedFeatureError(
            "CREATE TABLE needs a plain folder; use DirectoryNamespace.create_table for a directory that "
            "names its tables"
        )
    return folder


def stored_folder(tables: Tables | None, name: str) -> tuple[TableFolder, Location] | None:
    """Return the parent folder of a table and the table's own folder; None if it has no folder of its own."""
    for folder in _folders_of(tables):
        if (location := folder.stored(name)) is not None:
            return folder, location
    return None


def check_folder_name(name: str, what: str) -> None:
    """Raise `InvalidInputError` if ``name`` is not a valid name for a folder that a statement creates."""
    if not name or name[0] in "._" or name.endswith(SUFFIX) or not _NOT_IN_NAMES.isdisjoint(name):
        raise InvalidInputError(
            f"{name!r} cannot be the name of a {what}, because it becomes the name of a folder; it must not "
            f"begin with . or _, must not end with {SUFFIX} and must not contain "
            f"{' '.join(sorted(_NOT_IN_NAMES - {chr(0)}))}"
        )


def _folders_of(tables: Tables | None) -> list[TableFolder]:
    if isinstance(tables, SeveralTables):
        return tables.folders()
    return [tables] if isinstance(tables, TableFolder) else []


def holds_table(folder: Location) -> bool:
    """Whether a folder is a Lance table or a partitioned namespace. Both are tables in SQL."""
    return _kind(folder) is not None


def spelt_like(name: str, names: list[str]) -> str | None:
    """Return the one of ``names`` that ``name`` refers to in SQL, which lower-cases unquoted names.

    A `QuotedName` matches only the exact spelling.
    """
    if name in names:
        return str(name)
    if isinstance(name, QuotedName) or name != name.lower():
        return None
    matches = [other for other in names if other.lower() == name]
    if len(matches) > 1:
        raise InvalidInputError(
            f"{name} is ambiguous, it may be any of {', '.join(map(repr, matches))}; write the name in "
            "double quotes"
        )
    return matches[0] if matches else None


def _kind_or_damage(folder: Location) -> _Kind | None:
    """Return the kind of a folder, or that it is a damaged namespace. Other folders stay usable."""
    try:
        return _kind(folder)
    except (CorruptDataError, UnsupportedFeatureError):
        return _Kind.DAMAGED


def _kind(folder: Location) -> _Kind | None:
    """Return the kind of a folder; None if it is neither a table nor a partitioned namespace."""
    if (folder / VERSIONS_DIR).exists():
        return _Kind.TABLE
    return _Kind.NAMESPACE if holds_namespace(folder) else None
