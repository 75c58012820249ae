"""Names in SQL: schemas in which Lance tables live beside what DataFusion itself keeps.

A name is looked up anew by every statement, so a statement always gets a provider of its own, for the newest
version.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.dataset

from lance_df.compute.compat import CatalogProvider, NameList, Schema, SchemaProvider, Table
from lance_df.engine.provider import LanceTableProvider
from lance_df.engine.source import TableSource
from lance_df.engine.statement import current_statement
from lance_df.errors import InvalidInputError, LanceError
from lance_df.namespace.snapshot import holds_namespace
from lance_df.storage import Location
from lance_df.table.parallel import map_reads
from lance_df.table.versions import VERSIONS_DIR

T = TypeVar("T")

SUFFIX = ".lance"


def outside_runtime(function: Callable[[], T]) -> T:
    """Call ``function`` on another thread: DataFusion panics when a callback of its own calls it directly."""
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(context.run, function).result()


class TableFolder:
    """The tables of one folder, live: ``x`` is sub-folder ``x.lance``, or ``x`` when it holds a table."""

    def __init__(self, location: Location, storage_options: Mapping[str, Any] | None) -> None:
        self.location = location
        self._storage_options = storage_options
        self._sources: dict[str, TableSource] = {}
        self._bare_tables: set[str] = set()
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        """Return the names of the tables that are there now."""
        marked, others = self._folders()
        return [*marked, *self._tables_among([name for name in others if name not in marked])]

    def subfolders(self) -> list[str]:
        """Return the names of the folders that are no tables: they are schemas."""
        _, others = self._folders()
        tables = set(self._tables_among(others))
        return [name for name in others if name not in tables]

    def source(self, name: str) -> TableSource | None:
        """Return the table called ``name``, or the one that differs only in case when SQL lower-cased it.

        Raises
        ------
        InvalidInputError
            Several tables differ only in case, and none is spelt like ``name``.
        """
        marked, others = self._folders()
        alike = [other for other in others if other not in marked and other.lower() == name.lower()]
        found = spelt_like(name, [*marked, *self._tables_among(alike)])
        if found is None:
            return None
        folder = found + SUFFIX if found in marked else found
        with self._lock:
            if folder not in self._sources:
                place = (self.location / folder).uri
                self._sources[folder] = TableSource(place, storage_options=self._storage_options)
            return self._sources[folder]

    def subfolder(self, name: str) -> TableFolder | None:
        """Return the folder ``name``, found as tables are."""
        found = spelt_like(name, self._folders()[1])
        return None if found is None else TableFolder(self.location / found, self._storage_options)

    def _folders(self) -> tuple[list[str], list[str]]:
        """Return the names of what is marked as a table by its suffix, and the other folders."""
        folders = [entry.name for entry in self.location.list() if entry.is_directory]
        marked = [name.removesuffix(SUFFIX) for name in folders if name.endswith(SUFFIX)]
        return marked, [name for name in folders if not name.endswith(SUFFIX) and name[0] not in "._"]

    def _tables_among(self, folders: list[str]) -> list[str]:
        unknown = [name for name in folders if name not in self._bare_tables]
        answers = map_reads(lambda name: holds_table(self.location / name), unknown, where=self.location)
        self._bare_tables.update(name for name, is_table in zip(unknown, answers, strict=True) if is_table)
        return [name for name in folders if name in self._bare_tables]


def holds_table(folder: Location) -> bool:
    """Whether a folder is a Lance table, or a partitioned namespace, which is one table in SQL."""
    return (folder / VERSIONS_DIR).exists() or holds_namespace(folder)


def spelt_like(name: str, names: list[str]) -> str | None:
    """Return the one of ``names`` that SQL's ``name`` means; SQL lower-cases what is not quoted."""
    if name in names:
        return name
    if name != name.lower():
        return None
    alike = [other for other in names if other.lower() == name]
    if len(alike) > 1:
        raise InvalidInputError(
            f"{name} may be any of {', '.join(map(repr, alike))}; quote the one that is meant"
        )
    return alike[0] if alike else None


def _noted(error: LanceError) -> LanceError:
    """Keep a callback's error with the current statement, which raises it again when DataFusion does."""
    if (statement := current_statement()) is not None:
        statement.errors.append(error)
    return error


class LanceSchema(SchemaProvider):  # type: ignore[misc]
    """A schema of Lance tables, of a folder or registered, over a schema of DataFusion's own.

    Parameters
    ----------
    name
        As in SQL.
    inner
        Keeps everything else: tables and views that statements create.
    folder
        Tables that are found live.
    lenient
        Whether a lookup outside of a statement is a listing, in which a table that does not open is still
        shown.
    """

    def __init__(
        self, name: str, inner: Schema, *, folder: TableFolder | None = None, lenient: bool = False
    ) -> None:
        self.name = name
        self.lenient = lenient
        self._inner = inner
        self._folder = folder
        self._registered: dict[str, TableSource] = {}
        self._views: dict[str, Callable[[], Any]] = {}

    @property
    def table_names(self) -> NameList:
        found = [] if self._folder is None else self._folder.names()
        return NameList(dict.fromkeys([*self._registered, *self._inner.table_names(), *found]))

    @property
    def owner_name(self) -> None:  # DataFusion reads an attribute
        return None

    def table(self, name: str) -> Any:
        """Return what ``name`` stands for in the current statement, or None."""
        try:
            return self._find(name)
        except LanceError as err:
            _noted(err)
            raise

    def table_exist(self, name: str) -> bool:
        return name in self._registered or name in self._inner.table_names() or self._in_folder(name)

    def add(self, name: str, source: TableSource) -> None:
        """Give ``name`` to a Lance table, taking it from whatever had it."""
        if name in self._inner.table_names():
            self.deregister_table(name)
        self._registered[name] = source

    def add_view(self, name: str, plan: Callable[[], Any]) -> None:
        """Plan the view ``name``, which exists, anew at every use, so that it follows new versions."""
        self._views[name] = plan

    def register_table(self, name: str, table: Any) -> None:
        if name in self._registered or self._in_folder(name):
            raise _noted(InvalidInputError(f"the name {name!r} belongs to a Lance table"))
        self._views.pop(name, None)
        self._inner.register_table(name, table if isinstance(table, Table) else Table(table))

    def deregister_table(self, name: str, cascade: bool = True) -> None:  # noqa: ARG002
        if self._registered.pop(name, None) is not None:
            return
        if name not in self._inner.table_names():
            message = f"{name!r} is a table of a folder; it goes when its folder is deleted"
            raise _noted(InvalidInputError(message))
        self._views.pop(name, None)
        outside_runtime(lambda: self._inner.deregister_table(name))

    def _find(self, name: str) -> Any:
        source = self._registered.get(name)
        if source is None and name in self._inner.table_names():
            return outside_runtime(self._views.get(name) or (lambda: self._inner.table(name)))
        if source is None and self._folder is not None:
            source = self._folder.source(name)
        return None if source is None else self._provider(source, name)

    def _in_folder(self, name: str) -> bool:
        return self._folder is not None and spelt_like(name, self._folder.names()) is not None

    def _provider(self, source: TableSource, name: str) -> Any:
        statement = current_statement()
        if statement is not None:
            return statement.resolve(source, self.name, name)
        if not self.lenient:
            return LanceTableProvider(source.current())
        try:
            return LanceTableProvider(source.current())
        except LanceError as err:
            return UnreadableTable(err)


class UnreadableTable(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """Stands in listings for a table that does not open."""

    schema = pa.schema([])

    def __init__(self, error: LanceError) -> None:
        self._error = error

    def scanner(self, **_: Any) -> Any:
        raise self._error


class FolderCatalog(CatalogProvider):  # type: ignore[misc]
    """A catalog whose default schema is a folder; the folders in it are the other schemas."""

    def __init__(self, inner: Any, default: LanceSchema, folder: TableFolder) -> None:
        self._inner = inner
        self._default = default
        self._folder = folder
        self._schemas: dict[str, LanceSchema] = {}

    @property
    def schema_names(self) -> NameList:
        return NameList({*self._inner.schema_names(), *self._folder.subfolders(), self._default.name})

    def schema(self, name: str) -> LanceSchema | None:
        if name == self._default.name:
            return self._default
        if name in self._inner.schema_names():
            return self._inner.schema(name)
        folder = self._folder.subfolder(name)
        if folder is None:
            return None
        return self._schemas.setdefault(
            folder.location.name, LanceSchema(name, Schema.memory_schema(), folder=folder, lenient=True)
        )

    def register_schema(self, name: str, schema: Any) -> None:
        if not isinstance(schema, LanceSchema):
            schema = LanceSchema(name, schema if isinstance(schema, Schema) else Schema(schema), lenient=True)
        self._inner.register_schema(name, schema)

    def deregister_schema(self, name: str, cascade: bool) -> None:
        self._inner.deregister_schema(name, cascade)
