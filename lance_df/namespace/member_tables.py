"""Open member tables as readers see them: at one version, with the columns of the namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.table.metadata.refs import ResolvedRef
from lance_df.table.shared import Shared
from lance_df.table.table import Table, open_ref

if TYPE_CHECKING:
    from lance_df.format.schema import Field, Schema
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.storage import Location


def open_member(location: Location, version: int | None = None, branch: str | None = None) -> Table:
    """Open a member at a version, by default the newest one.

    Raises
    ------
    NotFoundError
        There is no such table, or no such version.
    """
    return open_ref(Shared(location), ResolvedRef(branch, version))


def in_columns_of(schema: NamespaceSchema, table: Table) -> Table:
    """Return a member with the columns of its namespace: the same table, unless another program created it.

    Raises
    ------
    CorruptDataError
        A column has another type or field id than in the namespace, or is missing but not nullable.
    """
    columns = schema.columns
    if table.schema.fields == columns.fields:
        return table
    fields, wanted = table.schema.by_id(), columns.by_id()
    strangers = {field.name for field_id, field in fields.items() if field_id not in wanted}

    def check(field: Field) -> None:
        known = fields.get(field.id)
        # a column of that name under another id is probably meant to be this one
        if known is None and field.nullable and field.name not in strangers:
            return  # it is null, and so is everything below it
        if known is None or known.logical_type != field.logical_type:
            actual = "missing" if known is None else f"of type {known.logical_type}"
            raise CorruptDataError(
                f"{table.uri}: field {field.id}, {field.name!r} in the namespace, is {actual}, expected "
                f"{field.logical_type}; change the table back, and repair the namespace with "
                "publish_newer=True"
            )
        for child in field.children:
            check(child)

    for field in columns.fields:
        check(field)
    return table.seen_as(columns)


def check_blobs_can_move(table: Table) -> None:
    """Check that rows of a member can be moved into another one.

    Raises
    ------
    UnsupportedFeatureError
        The member has blobs, which may refer to its own base paths.
    """
    if table.manifest.base_paths and any(field.is_blob for field in table.schema.walk()):
        raise UnsupportedFeatureError(
            f"{table.uri}: the table may have blobs in base paths of its own, which other partitions do "
            "not have"
        )


def check_can_take_rows(columns: Schema, table: Table) -> None:
    """Check that a member has all fields of its namespace, so that new rows do not lose values.

    Raises
    ------
    CorruptDataError
        It lacks fields.
    """
    if table.schema.fields == columns.fields:
        return
    stored = table.schema.by_id()
    missing = [field.name for field_id, field in columns.by_id().items() if field_id not in stored]
    if missing:
        raise CorruptDataError(
            f"{table.uri}: version {table.version} lacks columns of the namespace, so new rows would lose "
            f"their values: {', '.join(map(repr, missing))}; change the table back, and repair the namespace "
            "with publish_newer=True"
        )


def check_columns(schema: NamespaceSchema, table: Table) -> None:
    """Check that a member has the columns and field ids of its namespace.

    Raises
    ------
    CorruptDataError
        It has other columns or field ids.
    """
    if table.schema.fields != schema.columns.fields:
        raise CorruptDataError(
            f"{table.uri}: the columns or field ids of version {table.version} differ from those of the "
            "namespace; change the table back, and repair the namespace with publish_newer=True"
        )
