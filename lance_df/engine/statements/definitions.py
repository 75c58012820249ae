"""CREATE TABLE, DROP TABLE and ALTER TABLE for stored tables and namespaces."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from lance_df.compute.compat import SessionConfig, plain_context
from lance_df.engine.failures import planning_errors
from lance_df.engine.statement import Statement
from lance_df.engine.statements.rows import Counted
from lance_df.engine.statements.target import Target, typed_batches
from lance_df.engine.tables.folders import SUFFIX, check_folder_name, folder_for_tables, stored_folder
from lance_df.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    UnsupportedFeatureError,
)
from lance_df.expr.literals import is_json
from lance_df.expr.text_views import schema_without_views
from lance_df.namespace.kind import is_unmade_namespace, opened_in
from lance_df.sql.changes import (
    AddColumn,
    CreateTable,
    DropColumn,
    DropTable,
    PartitionTerm,
    RenameColumn,
    SetPartitionSpec,
)
from lance_df.sql.splice import quote_identifier

if TYPE_CHECKING:
    from lance_df.engine.session import LanceSession
    from lance_df.engine.tables.catalog import LanceSchema
    from lance_df.engine.tables.parts import PartSource
    from lance_df.engine.tables.source import TableSource
    from lance_df.namespace.spec.partition_by import PartitionBy
    from lance_df.storage import Location

_log = logging.getLogger("lance_df")

_NAMES_ZONE: Final = re.compile(r"\bTIMESTAMPTZ\b|\bTIME\s+ZONE\b", re.IGNORECASE)


def create_table(
    session: LanceSession,
    schema: LanceSchema,
    change: CreateTable,
    values: dict[str, Any] | None,
    written: str,
) -> int:
    """Create a table or a namespace in the folder of a schema, and return its number of rows."""
    name = change.name[-1]
    check_folder_name(name, "stored table")
    if change.if_not_exists and change.or_replace:
        raise InvalidInputError("IF NOT EXISTS cannot be combined with CREATE OR REPLACE TABLE")
    existing = _existing(schema, name)
    if existing is not None and change.if_not_exists:
        return 0
    try:
        return _created(session, schema, change, existing, values, written)
    except AlreadyExistsError:
        # another session was first
        if change.if_not_exists and _existing(schema, name) is not None:
            return 0
        raise


def _existing(schema: LanceSchema, name: str) -> TableSource | PartSource | None:
    """Return the table with the given name; None also for the remains of a table without a version."""
    stored = schema.stored(name)
    try:
        if stored is not None:
            stored.current()
    except DatasetNotFoundError:
        return None
    except LanceError:  # it exists but cannot be opened
        pass
    return stored


def _created(
    session: LanceSession,
    schema: LanceSchema,
    change: CreateTable,
    existing: TableSource | PartSource | None,
    values: dict[str, Any] | None,
    written: str,
) -> int:
    name = change.name[-1]
    if existing is not None and not change.or_replace:
        raise AlreadyExistsError(f"table {name!r} already exists; use CREATE OR REPLACE TABLE to replace it")
    folder = folder_for_tables(schema.folder)
    opened = None if existing is None else opened_in(existing.current())
    is_table = change.partition_by is None and opened is not None and opened.namespace is None
    if existing is not None and not is_table:
        raise UnsupportedFeatureError(
            f"CREATE OR REPLACE TABLE {name!r} is not supported if the old or the new table is a partitioned "
            "namespace; use DROP TABLE before CREATE TABLE"
        )
    rows = _rows(session, change, values, written)
    if not rows.schema.names:
        raise InvalidInputError(f"the query of table {name!r} has no columns")
    if change.partition_by is not None:
        _create_namespace(folder.location / name, change.partition_by, rows, folder.storage_options)
        return rows.num_rows
    from lance_df.write import write_dataset

    if existing is None:
        uri = (folder.location / (name + SUFFIX)).uri
        # another writer may be making the table
        mode: Literal["create", "overwrite"] = "overwrite" if change.or_replace else "create"
        write_dataset(rows.reader(), uri, mode=mode, storage_options=folder.storage_options)
    else:
        from lance_df.dataset import LanceDataset

        table = opened_in(existing.current())
        assert table is not None
        assert table.namespace is None
        LanceDataset._of(table, table.uri, None, None).insert(rows.reader(), mode="overwrite")
    return rows.num_rows


def drop_table(schema: LanceSchema, change: DropTable) -> int:
    """Remove the folder of a table or a namespace. Of a symbolic link, only the link is removed."""
    name = change.name[-1]
    stored = stored_folder(schema.folder, name)
    if stored is None:
        if schema.stored(name) is not None:
            raise UnsupportedFeatureError(
                f"{name!r} is not a table with a folder of its own; use DirectoryNamespace.drop_table for a "
                "table that a directory names"
            )
        return 0
    folder, location = stored
    if (link := folder.link()) is not None:
        raise InvalidInputError(
            f"{link.uri}: a symbolic link, so the folder of table {name!r} is elsewhere and was not removed; "
            f"remove {location.uri} by hand"
        )
    location.remove_tree()
    folder.forget(location.name)
    _log.info("dropped %s", location.uri)
    return 0


def alter_table(target: Target, change: AddColumn | DropColumn | RenameColumn | SetPartitionSpec) -> None:
    """Change the columns or the partition spec of a table or a namespace."""
    names = target.schema.names
    changed = _changed(target)
    match change:
        case SetPartitionSpec(partition_by=terms):
            if target.namespace is None:
                raise InvalidInputError(
                    f"{target.opened.uri}: the table is not partitioned and has no partition spec; use "
                    "CREATE TABLE … PARTITIONED BY to create a namespace"
                )
            changed.update_partition_spec(_partition_by(terms))
        case AddColumn(column=column) if column not in names or not change.if_not_exists:
            changed.add_columns(
                _defined(
                    target.session, f"{quote_identifier(column)} {change.definition}", target.written
                ).field(0)
            )
        case DropColumn(column=column) if column in names or not change.if_exists:
            changed.drop_columns([column])
        case RenameColumn(column=column, new=new):
            changed.alter_columns({"path": column, "name": new})


def _changed(target: Target) -> Any:
    """Return the object of the public API for a table or a namespace."""
    if target.namespace is not None:
        from lance_df import PartitionedNamespace

        return PartitionedNamespace(target.namespace)
    from lance_df.dataset import LanceDataset

    assert target.opened.namespace is None
    return LanceDataset._of(target.opened, target.opened.uri, None, None)


def _rows(session: LanceSession, change: CreateTable, values: dict[str, Any] | None, written: str) -> Counted:
    """Return the rows of a new table: the result of its query, or no rows with the defined columns."""
    if change.query is None:
        return Counted(iter(()), _defined(session, change.definitions or "", written))
    statement = Statement(change.query, session.scan_options, is_change=True, written=written)
    frame = session.plan_query(change.query, statement, values)
    given = frame.schema()
    if len(set(given.names)) < len(given):
        raise InvalidInputError(f"a column occurs twice: {', '.join(given.names)}; rename it with AS")
    fields = [
        pa.field(field.name, field.type, metadata=field.metadata if is_json(field) else None)
        for field in schema_without_views(given)
    ]
    types = {field.name: field.type for field in fields}
    return Counted(typed_batches(frame, types, statement), pa.schema(fields))


def _defined(session: LanceSession, definitions: str, written: str) -> pa.Schema:
    """Return the columns for definitions in SQL, with the time zone of the session."""
    text = f"CREATE TABLE t (\n{definitions}\n)"
    statement = Statement(text, written=written)
    with planning_errors(statement):
        config = SessionConfig()
        if _NAMES_ZONE.search(definitions) and (zone := _time_zone(session, statement)) is not None:
            config = config.set("datafusion.execution.time_zone", zone)
        ctx = plain_context(config)
        ctx.sql(text)
        schema = ctx.table("t").schema()
    return schema_without_views(schema)


def _time_zone(session: LanceSession, statement: Statement) -> str | None:
    """Return the zone of TIMESTAMP WITH TIME ZONE, even if the session does not show its options."""
    frame = session.plan_query("SELECT CAST(NULL AS TIMESTAMP WITH TIME ZONE) AS zoned", statement, None)
    zone: str | None = frame.schema().field(0).type.tz
    return zone


def _create_namespace(
    location: Location, terms: Sequence[PartitionTerm], rows: Counted, storage_options: Any
) -> None:
    from lance_df import PartitionedNamespace

    if location.exists() and not is_unmade_namespace(location):
        raise AlreadyExistsError(f"{location.uri}: folder already exists")
    namespace = PartitionedNamespace.create(
        location.uri, rows.schema, _partition_by(terms), storage_options=storage_options
    )
    # a query without rows leaves the new namespace empty
    reader, made = rows.reader(), namespace.version
    try:
        namespace.append(reader)
    except CommitStateUnknownError:
        raise
    except LanceError:
        # the namespace is visible already, so others may have appended to it
        if PartitionedNamespace.open(location.uri, storage_options=storage_options).version == made:
            location.remove_tree()
        raise


def _partition_by(terms: Sequence[PartitionTerm]) -> list[PartitionBy]:
    from lance_df import partition

    made = []
    for term in terms:
        transform = getattr(partition, term.transform, None) if term.transform in _TRANSFORMS else None
        if transform is None:
            raise InvalidInputError(
                f"transform {term.transform!r} does not exist; the transforms are "
                f"{', '.join(sorted(_TRANSFORMS))}; use lance_df.partition.expression for others"
            )
        columns: Any = list(term.columns)
        if term.transform != "multi_bucket":
            if len(columns) != 1:
                raise InvalidInputError(
                    f"{term.transform} needs exactly one column, got {', '.join(columns)}"
                )
            (columns,) = columns
        made.append(transform(columns, *(() if term.number is None else (term.number,))))
    return made


_TRANSFORMS = frozenset({"identity", "year", "month", "day", "hour", "bucket", "multi_bucket", "truncate"})
