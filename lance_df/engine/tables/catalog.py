"""Schemas and catalogs for DataFusion in which Lance tables exist beside DataFusion's own tables.

Every statement looks up names again, so it always gets its own provider, for the newest version.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from lance_df.compute.calls import outside_runtime
from lance_df.compute.compat import NO_TABLE, CatalogProvider, NameList, Schema, SchemaProvider, Table
from lance_df.engine.provider import LanceTableProvider, SourceScan
from lance_df.engine.statement import current_statement
from lance_df.engine.tables.created import defined_name
from lance_df.engine.tables.folders import (
    MemberTables,
    TableFolder,
    Tables,
    check_folder_name,
    spelt_like,
    tables_of_schema,
)
from lance_df.engine.tables.parts import PartSource, metadata_names
from lance_df.engine.tables.plain_table import plain_table
from lance_df.engine.tables.source import TableSource
from lance_df.engine.tables.version_text import VERSION_MARK, VersionText
from lance_df.errors import InvalidInputError, LanceError
from lance_df.interrupts import callback
from lance_df.namespace.names import SEPARATOR
from lance_df.scan.options import ALL
from lance_df.scan.request import ScanRequest


def _noted(error: LanceError) -> LanceError:
    """Record a callback's error in the current statement, which raises it again when DataFusion raises."""
    if (statement := current_statement()) is not None:
        statement.errors.append(error)
    return error


def _listed_view(created: Any, plan: Callable[[], Any]) -> Any:
    """Return a view for listings: the view as it was created, because only that one has a definition.

    If its columns have changed since, return the view that is planned again.
    """
    try:
        planned = plan()
    except Exception:  # noqa: BLE001 - a table may not exist any more; other names are still listed
        return created
    return created if planned is None or planned.schema == created.schema else planned


class LanceSchema(SchemaProvider):  # type: ignore[misc]
    """A schema of Lance tables, from a folder or registered, on top of a schema of DataFusion.

    Parameters
    ----------
    name
        The name in SQL.
    inner
        The schema that holds everything else: tables and views that statements create.
    folder
        Tables that are looked up each time they are used.
    lenient
        Whether a lookup outside of a statement is part of a listing, which also shows tables that cannot be
        opened.
    """

    def __init__(
        self, name: str, inner: Schema, *, folder: Tables | None = None, lenient: bool = False
    ) -> None:
        self.name = name
        self.lenient = lenient
        self._inner = inner
        self.folder = folder
        self._registered: dict[str, TableSource] = {}
        self._views: dict[str, Callable[[], Any]] = {}

    @property
    def table_names(self) -> NameList:
        in_folder = [] if self.folder is None else self.folder.names()
        whole = [*self.namespaces(), *([] if self.folder is None else self.folder.namespaces())]
        about = [each for name in whole for each in metadata_names(name)]
        return NameList(dict.fromkeys([*self._registered, *self._inner.table_names(), *in_folder, *about]))

    def names(self) -> set[str]:
        """Return the table names, like `Schema.names`: DataFusion 51 returns this object as the schema."""
        return set(self.table_names)

    @property
    def owner_name(self) -> str:
        # DataFusion's binding converts any value of the attribute to text, even None; without the attribute
        # it shows NULL
        raise AttributeError(f"schema {self.name!r} has no owner")

    def table(self, name: str) -> Any:
        """Return the table object for ``name`` in the current statement, or None."""
        try:
            return self._find(name)
        except LanceError as err:
            _noted(err)
            raise

    def table_exist(self, name: str) -> bool:
        if _temporary(name) is not None or _inserted_into(name) is not None:
            return True
        if name in self._registered or name in self._inner.table_names() or self._in_folder(name):
            return True
        if VERSION_MARK in name:
            return self._source(name.partition(VERSION_MARK)[0]) is not None
        source = self._about(name)
        return source is not None and source.parent.is_namespace

    def namespaces(self) -> dict[str, TableSource]:
        """Return the partitioned namespaces that are registered, by name."""
        return {name: source for name, source in self._registered.items() if source.is_namespace}

    def add(self, name: str, source: TableSource) -> None:
        """Register a Lance table under ``name``, replacing any table of that name."""
        if name in self._inner.table_names():
            self.deregister_table(name)
        self._registered[name] = source

    def free_caches(self) -> None:
        """Free the caches of the registered tables."""
        for source in list(self._registered.values()):
            source.free_cache()

    def add_view(self, name: str, plan: Callable[[], Any]) -> None:
        """Plan the existing view ``name`` again at every use, so that it reads new versions."""
        self._views[name] = plan

    def register_table(self, name: str, table: Any) -> None:
        if name in self._registered or self._in_folder(name):
            raise _noted(
                InvalidInputError(f"a Lance table named {name!r} already exists; choose another name")
            )
        self._views.pop(name, None)
        self._inner.register_table(name, table if isinstance(table, Table) else Table(table))

    def deregister_table(self, name: str, cascade: bool = True) -> None:  # noqa: ARG002
        if self._registered.pop(name, None) is not None:
            return
        if name not in self._inner.table_names():
            if not self._in_folder(name):
                return
            message = f"{name!r} is a table of a folder and cannot be deregistered; delete its folder instead"
            raise _noted(InvalidInputError(message))
        self._views.pop(name, None)
        outside_runtime(lambda: self._inner.deregister_table(name))

    def _find(self, name: str) -> Any:
        if name.startswith(NO_TABLE):
            return None
        if (temporary := _temporary(name)) is not None:
            return self._provider(temporary, name)
        if (table := _inserted_into(name)) is not None:
            return table
        source = self._registered.get(name)
        if source is None and name in self._inner.table_names():
            return outside_runtime(lambda: self._created(name))
        if source is None and VERSION_MARK in name:
            resolved: TableSource | PartSource | None = self._at_version(name)
        else:
            resolved = source or self._from_folder(name) or self._about(name)
        return None if resolved is None else self._provider(resolved, name)

    def stored(self, name: str) -> TableSource | PartSource | None:
        """Return the Lance table of a name; None if there is none or DataFusion holds the table."""
        if name not in self._registered and name in self._inner.table_names():
            return None
        return self._source(name) or self._about(name)

    def is_created(self, name: str) -> bool:
        """Whether DataFusion holds the table or view of this name."""
        return name not in self._registered and name in self._inner.table_names()

    def is_registered(self, name: str) -> bool:
        """Whether the name was registered in the session, in contrast to a table of a folder."""
        return name in self._registered

    def _source(self, name: str) -> TableSource | PartSource | None:
        return self._registered.get(name) or self._from_folder(name)

    def _at_version(self, name: str) -> TableSource | None:
        """Return the table that a time travel clause refers to; the same object within a statement."""
        base, _, text = name.partition(VERSION_MARK)
        owner = self._source(base)
        if not isinstance(owner, TableSource):
            return None
        ref = VersionText.of(text)
        statement = current_statement()
        if statement is None:
            return owner.at(ref)
        return statement.source_once((VERSION_MARK, id(owner), text), lambda: owner.at(ref))

    def _created(self, name: str) -> Any:
        """Return a table or view that a statement created. For queries, a view is planned again."""
        created = self._inner.table(name)
        if (plan := self._views.get(name)) is None:
            return created
        statement = current_statement()
        if statement is None:
            return _listed_view(created, plan)
        # statements that replace, drop or show a view do not read its tables
        is_defined = (defined_name(statement.text) or ("",))[-1] == name
        return created if is_defined else plan()

    def _from_folder(self, name: str) -> TableSource | PartSource | None:
        return None if self.folder is None else self.folder.source(name)

    def _about(self, name: str) -> PartSource | None:
        """Return the metadata table of a namespace for a name such as ``events$partitions``."""
        owner, separator, kind = name.rpartition(SEPARATOR)
        if not separator:
            return None
        source = self._registered.get(owner) or self._from_folder(owner)
        return source.parts.table(kind) if isinstance(source, TableSource) else None

    def _in_folder(self, name: str) -> bool:
        if self.folder is None:
            return False
        is_listed = spelt_like(name, self.folder.names()) is not None
        # members of namespaces are not listed
        return is_listed or (SEPARATOR in name and self.folder.source(name) is not None)

    def _provider(self, source: TableSource | PartSource, name: str) -> Any:
        statement = current_statement()
        if statement is not None:
            return statement.resolve(source, self.name, name)
        if self.lenient:
            return ListedTable(source)
        return plain_table(source.current(), source.scan_options or ALL)


def _temporary(name: str) -> TableSource | None:
    statement = current_statement()
    return None if statement is None else statement.temporary.get(name)


def _inserted_into(name: str) -> Table | None:
    statement = current_statement()
    return None if statement is None else statement.inserted_into.get(name)


class ListedTable(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """A table in listings, which is opened when its columns are requested.

    A table that cannot be opened has no columns.
    """

    def __init__(self, source: TableSource | PartSource) -> None:
        self._source = source

    @cached_property
    def schema(self) -> pa.Schema:
        try:
            with callback(panics=True):
                return self._opened.schema if self._source.extra_columns else self._source.listed_schema()
        except LanceError:
            return pa.schema([])

    def scanner(self, columns: list[str] | None = None, **options: Any) -> Any:
        return self._opened.scanner(columns, **options)

    def get_fragments(self, filter: Any = None) -> Any:
        return self._opened.get_fragments(filter)

    @cached_property
    def _opened(self) -> LanceTableProvider:
        current, extra = self._source.current(), self._source.extra_columns
        columns = (*current.arrow_schema.names, *extra) if extra else None
        request = ScanRequest(columns=columns, options=self._source.scan_options or ALL)
        return LanceTableProvider(SourceScan(source=current, request=request))


class FolderCatalog(CatalogProvider):  # type: ignore[misc]
    """A catalog whose default schema is a folder; see `tables_of_schema` for the other schemas."""

    def __init__(self, inner: Any, default: LanceSchema, folder: TableFolder) -> None:
        self._inner = inner
        self._default = default
        self._folder = folder
        self._schemas: dict[str, LanceSchema] = {}
        self._made: dict[str, LanceSchema] = {}

    @property
    def schema_names(self) -> NameList:
        folder = self._folder
        names = {*folder.subfolders(), *folder.directory.namespaces(), *folder.namespaces()}
        names.update(self._default.namespaces())
        return NameList(names | {*self._inner.schema_names(), self._default.name})

    def schema(self, name: str) -> LanceSchema | None:
        if name == self._default.name:
            return self._default
        if name in self._inner.schema_names():
            return self._made.get(name) or self._inner.schema(name)
        whole = self._default.namespaces().get(name)
        tables = tables_of_schema(self._folder, name) if whole is None else MemberTables(whole)
        if tables is None:
            return None
        # the current tables of the folder, in addition to those registered under the schema before
        new = LanceSchema(name, Schema.memory_schema(), folder=tables, lenient=True)
        known = self._schemas.setdefault(name, new)
        known.folder = tables
        return known

    def register_schema(self, name: str, schema: Any) -> None:
        if not isinstance(schema, LanceSchema):
            inner = schema if isinstance(schema, Schema) else Schema(schema)
            folder = None if current_statement() is None else self._new_folder(name)
            schema = LanceSchema(name, inner, folder=folder, lenient=True)
        self._made[name] = schema
        self._inner.register_schema(name, schema)

    def deregister_schema(self, name: str, cascade: bool) -> Any:
        """Remove a schema and return it. If it returned None, DataFusion would report that there was none."""
        schema = self.schema(name)
        tables = [] if not isinstance(schema, LanceSchema) or schema.folder is None else schema.folder.names()
        if tables:
            raise _noted(
                InvalidInputError(
                    f"schema {name!r} cannot be dropped, because it has the stored tables "
                    f"{', '.join(tables)}; drop these first"
                )
            )
        location = self._folder.folder_called(name).location
        if name in self._folder.namespaces() or next(location.list(), None) is not None:
            raise _noted(
                InvalidInputError(
                    f"schema {name!r} cannot be dropped, because it is a namespace or its folder "
                    "has other files"
                )
            )
        self._made.pop(name, None)
        self._schemas.pop(name, None)
        if name in self._inner.schema_names():
            self._inner.deregister_schema(name, cascade)
        location.remove_empty_folder()
        return schema

    def _new_folder(self, name: str) -> TableFolder:
        """Return the folder of a schema that a statement creates. Its first table creates the folder."""
        try:
            check_folder_name(name, "schema")
        except LanceError as err:
            raise _noted(err) from None
        return self._folder.folder_called(name)
