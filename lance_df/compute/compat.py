"""What is used of DataFusion's Python API, which differs between its releases. Tested with 51, 53 and 55."""

from __future__ import annotations

import uuid
from typing import Any

from datafusion import DataFrame, SessionConfig, SQLOptions, col, udf, udtf
from datafusion import SessionContext as PlainSessionContext
from datafusion.catalog import Catalog, CatalogProvider, Schema, SchemaProvider, Table

__all__ = [
    "Catalog",
    "CatalogProvider",
    "DataFrame",
    "NameList",
    "PlainSessionContext",
    "SQLOptions",
    "Schema",
    "SchemaProvider",
    "SessionConfig",
    "Table",
    "as_view",
    "col",
    "default_place",
    "udf",
    "udtf",
    "variant",
]


class NameList(list[str]):
    """Names that may be read as an attribute, as DataFusion 51 does, or by a call, as later ones do."""

    def __call__(self) -> set[str]:
        return set(self)


def default_place(ctx: PlainSessionContext) -> tuple[str, str]:
    """Return the catalog and schema of bare table names. Only an error tells them in every release."""
    probe = f"no_table_{uuid.uuid4().hex}"
    try:
        PlainSessionContext.sql(ctx, f'SELECT * FROM "{probe}"')
    except Exception as err:  # noqa: BLE001 - it raises nothing narrower
        place = str(err).rpartition(f".{probe}")[0].rpartition("table '")[2]
        for catalog in (*ctx.catalog_names(), place.partition(".")[0]):
            if place.startswith(f"{catalog}."):
                return catalog, place.removeprefix(f"{catalog}.")
    return "datafusion", "public"


def variant(plan: Any) -> Any:
    """Return the node of a logical plan, or None for a kind that has no Python class."""
    try:
        return plan.to_variant()
    except (TypeError, ValueError, RuntimeError):
        return None


def as_view(frame: DataFrame) -> Table:
    """Return a table that plans ``frame`` wherever it is used."""
    return frame.into_view()
