"""The schemas of ours that a context has, and how they get into it."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from lance_df.engine.catalog import FolderCatalog, LanceSchema, TableFolder
from lance_df.engine.compat import PlainSessionContext, Schema

DEFAULT_CATALOG = "datafusion"
DEFAULT_SCHEMA = "public"


class Names:
    """The Lance names of one context. Holds no reference to the context, which holds it in turn."""

    def __init__(self) -> None:
        self.lenient = False
        self._schemas: dict[tuple[str, str], LanceSchema] = {}
        self._folders: FolderCatalog | None = None

    def place(self, ctx: PlainSessionContext, name: tuple[str, ...]) -> tuple[LanceSchema, str]:
        """Return the schema for a table name of one to three parts, and the last part."""
        defaults = (DEFAULT_CATALOG, DEFAULT_SCHEMA)
        catalog, schema = (*defaults[: 3 - len(name)], *name[:-1])
        return self.schema(ctx, catalog, schema), name[-1]

    def schema(
        self, ctx: PlainSessionContext, catalog: str = DEFAULT_CATALOG, schema: str = DEFAULT_SCHEMA
    ) -> LanceSchema:
        """Return a schema of ours of that name, put over DataFusion's, or made, when first asked for."""
        known = self._schemas.get((catalog, schema))
        if known is None and self._folders is not None and catalog == DEFAULT_CATALOG:
            found = self._folders.schema(schema)
            known = found if isinstance(found, LanceSchema) else None
        if known is None:
            owner = ctx.catalog(catalog)
            inner = owner.schema(schema) if schema in owner.schema_names() else Schema.memory_schema()
            known = LanceSchema(schema, inner)
            owner.register_schema(schema, known)
        known.lenient = self.lenient
        self._schemas[(catalog, schema)] = known
        return known

    def use_folder(self, ctx: PlainSessionContext, folder: TableFolder) -> None:
        """Make the default schema show the tables of ``folder``, and its sub-folders the other schemas."""
        inner: Any = ctx.catalog(DEFAULT_CATALOG)
        default = LanceSchema(
            DEFAULT_SCHEMA, inner.schema(DEFAULT_SCHEMA), folder=folder, lenient=self.lenient
        )
        self._folders = FolderCatalog(inner, default, folder)
        self._schemas[(DEFAULT_CATALOG, DEFAULT_SCHEMA)] = default
        ctx.register_catalog_provider(DEFAULT_CATALOG, self._folders)


_all_names: WeakKeyDictionary[PlainSessionContext, Names] = WeakKeyDictionary()


def names_of(ctx: PlainSessionContext) -> Names:
    """Return the names of ``ctx``, which keeps them as long as it lives."""
    return _all_names.setdefault(ctx, Names())
