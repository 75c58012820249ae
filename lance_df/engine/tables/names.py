"""The Lance schemas of a context, and the registration of tables in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow.dataset

from lance_df.compute.compat import Catalog, PlainSessionContext, Schema, default_schema_name
from lance_df.engine.tables.catalog import FolderCatalog, LanceSchema
from lance_df.engine.tables.created import name_parts
from lance_df.engine.tables.folders import TableFolder
from lance_df.engine.tables.source import TableSource, as_source, is_ours
from lance_df.errors import DatasetNotFoundError, InvalidInputError
from lance_df.scan.options import ScanOptions, checked_options
from lance_df.storage.schemes import with_allowed_schemes

if TYPE_CHECKING:
    from lance_df.table.metadata.refs import VersionRef


class Names:
    """The Lance names of one context. Holds no reference to the context, because the context holds this."""

    def __init__(self) -> None:
        self.lenient = False
        self._schemas: dict[tuple[str, str], LanceSchema] = {}
        self._folders: tuple[str, FolderCatalog] | None = None
        self._folder: TableFolder | None = None

    def resolve(self, ctx: PlainSessionContext, name: tuple[str, ...]) -> tuple[LanceSchema, str]:
        """Return the schema for a table name of one to three parts, and the last part of the name."""
        catalog, schema = (*default_schema_name(ctx)[: 3 - len(name)], *name[:-1])
        return self.schema(ctx, catalog, schema), name[-1]

    def existing(self, ctx: PlainSessionContext, qualifier: tuple[str, ...]) -> LanceSchema | None:
        """Return the Lance schema that a qualifier refers to; None if there is none."""
        catalog, schema = (*default_schema_name(ctx)[: 2 - len(qualifier)], *qualifier)
        return self._known(catalog, schema)

    def schema(self, ctx: PlainSessionContext, catalog: str, schema: str) -> LanceSchema:
        """Return a Lance schema. At its first use, create it or wrap the DataFusion schema of that name.

        Raises
        ------
        DatasetNotFoundError
            The catalog does not exist.
        """
        known = self._known(catalog, schema)
        if known is None:
            owner = _catalog(ctx, catalog)
            inner = owner.schema(schema) if schema in owner.schema_names() else Schema.memory_schema()
            known = LanceSchema(schema, inner)
            owner.register_schema(schema, known)
        known.lenient = self.lenient
        self._schemas[(catalog, schema)] = known
        return known

    def _known(self, catalog: str, schema: str) -> LanceSchema | None:
        if self._folders is None or catalog != self._folders[0]:
            return self._schemas.get((catalog, schema))
        # a statement may have dropped the schema that existed before
        inner = self._folders[1].schema(schema)
        return inner if isinstance(inner, LanceSchema) else None

    def free_caches(self) -> None:
        """Free the caches of all tables that have a name in the context."""
        for schema in list(self._schemas.values()):
            schema.free_caches()
        if self._folder is not None:
            self._folder.free_caches()

    def use_folder(self, ctx: PlainSessionContext, folder: TableFolder) -> None:
        """Use the tables of ``folder`` as the default schema, and its sub-folders as the other schemas."""
        self._folder = folder
        catalog, schema = default_schema_name(ctx)
        inner = _catalog(ctx, catalog)
        registered = inner.schema(schema) if schema in inner.schema_names() else Schema.memory_schema()
        default = LanceSchema(schema, registered, folder=folder, lenient=self.lenient)
        self._folders = catalog, FolderCatalog(inner, default, folder)
        self._schemas[(catalog, schema)] = default
        ctx.register_catalog_provider(catalog, self._folders[1])


def _catalog(ctx: PlainSessionContext, name: str) -> Catalog:
    """Return a DataFusion catalog. The default catalog is created if the context has none."""
    if name not in ctx.catalog_names():
        if name != default_schema_name(ctx)[0]:
            raise DatasetNotFoundError(
                f"catalog {name!r} does not exist; the catalogs are {sorted(ctx.catalog_names())}"
            )
        ctx.register_catalog_provider(name, Catalog.memory_catalog())
    return ctx.catalog(name)


_all_names: WeakKeyDictionary[PlainSessionContext, Names] = WeakKeyDictionary()


def names_of(ctx: PlainSessionContext) -> Names:
    """Return the names of ``ctx``. They live as long as the context."""
    if not isinstance(ctx, PlainSessionContext):
        raise InvalidInputError(f"expected a datafusion.SessionContext, got {type(ctx).__name__}")
    return _all_names.setdefault(ctx, Names())


def register(
    ctx: PlainSessionContext,
    name: str,
    source: object,
    *,
    version: VersionRef | None = None,
    storage_options: Mapping[str, Any] | None = None,
    allowed_base_schemes: Iterable[str] | None = None,
    scan_options: ScanOptions | None = None,
) -> None:
    """Register a Lance table under a name in any `datafusion.SessionContext`, replacing a table of that name.

    Every statement reads the newest version, unless ``version`` pins one. A view that a plain context creates
    over the table stays at the version it was created with.

    Parameters
    ----------
    name
        A name as SQL reads it: ``Trips`` is ``trips``, but ``"Trips"`` is not. ``schema.trips`` also works.
    source
        A path, a URL, or a dataset object. These objects stay at their version, and statements cannot change
        a table through them:

        - an object that is not at the newest version;
        - an object that shows only some rows or columns of its table, because ``filter`` returned it or
          because its default scan options choose rows or columns.
    version
        A version number, a tag, or (branch, version).
    allowed_base_schemes
        URL schemes that base paths of the table may have; see `lance_df.dataset`.
    scan_options
        The optimizations that scans of the table may use; by default those of the session, or all in a plain
        context. Plain contexts have no optimizer rules of lance_df.

    Raises
    ------
    NotFoundError
        There is no such table or version.
    InvalidInputError
        ``name`` is not a table name, or ``source`` is none of the above.
    """
    parts = name_parts(name)
    if scan_options is not None:
        checked_options(scan_options)
    if isinstance(source, pyarrow.dataset.Dataset) and not is_ours(source):
        if version is not None:
            raise InvalidInputError(f"{source!r:.200} has no versions; register it without a version")
        if scan_options is not None:
            raise InvalidInputError(f"{source!r:.200} is no Lance table; register it without scan_options")
        schema, table = names_of(ctx).resolve(ctx, parts)
        if schema.table_exist(table):
            schema.deregister_table(table)
        schema.register_table(table, source)
        return
    options = with_allowed_schemes(storage_options, allowed_base_schemes)
    opened = as_source(source, version=version, storage_options=options, scan_options=scan_options)
    add_source(ctx, parts, opened)


def add_source(ctx: PlainSessionContext, name: tuple[str, ...], source: TableSource) -> None:
    """Register a table that can be opened under a name that is given as parts."""
    source.open()
    schema, table = names_of(ctx).resolve(ctx, name)
    schema.add(table, source)
