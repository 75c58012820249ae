"""Run a statement if it changes tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_df.compute.compat import PlainSessionContext, SQLOptions, default_schema_name
from lance_df.engine.dataframe import LanceDataFrame
from lance_df.engine.failures import planning_errors
from lance_df.engine.messages import with_similar_table
from lance_df.engine.statement import Statement
from lance_df.engine.statements import definitions, rows
from lance_df.engine.statements.merge import merge
from lance_df.engine.statements.target import Target
from lance_df.engine.tables.names import names_of
from lance_df.engine.tables.source import TableSource
from lance_df.engine.tables.version_text import VERSION_MARK
from lance_df.errors import DatasetNotFoundError, InvalidInputError, UnsupportedFeatureError
from lance_df.interrupts import interrupted_once
from lance_df.sql.changes import (
    Change,
    CreateTable,
    Delete,
    DropTable,
    Header,
    Insert,
    Merge,
    Name,
    Truncate,
    Update,
    Verb,
)
from lance_df.sql.parse_changes import is_unread, parse_change, parse_header
from lance_df.sql.refused import parse_refused
from lance_df.sql.splice import quote_identifier

if TYPE_CHECKING:
    from lance_df.engine.session import LanceSession
    from lance_df.engine.tables.catalog import LanceSchema

# statements without effect, which options may refuse; the first one is planned but never run
_DML: Final = "COPY (SELECT 1 AS a) TO 'nothing.csv'"
_DDL: Final = 'DROP VIEW IF EXISTS "__lance_df_no_view"'
_MAKE_OR_DROP: Final = frozenset({Verb.CREATE, Verb.DROP})
_DEFINITIONS: Final = frozenset({Verb.CREATE, Verb.DROP, Verb.ALTER})


@interrupted_once()
def run_change(
    session: LanceSession, text: str, options: SQLOptions | None, values: dict[str, Any] | None
) -> LanceDataFrame | None:
    """Run a statement that changes a stored table, and return how many rows it changed.

    None for all other statements, which DataFusion runs.

    Raises
    ------
    LanceError
        The statement is invalid, or the change fails.
    """
    header = parse_header(text)
    if header is None:
        _check_not_refused(session, text)
        return None
    statement = Statement(text, session.scan_options)
    if session.read_only:
        raise InvalidInputError(f"the session is read-only, so {header.verb.value} is refused")
    name = header.name[-1]
    if VERSION_MARK in name:
        raise UnsupportedFeatureError(
            f"{header.verb.value} of another version of {name.partition(VERSION_MARK)[0]!r} is not "
            "supported; restore that version first, or change the newest one"
        )
    schema = names_of(session).existing(session, header.name[:-1])
    if schema is not None and "OR REPLACE" in header.flags and schema.folder and schema.is_created(name):
        raise InvalidInputError(
            f"{name!r} is a view or a table that exists only in this session; drop it before CREATE TABLE"
        )
    if schema is None:
        _check_schema(session, header.name)
    if schema is None or not _is_ours(schema, header):
        if header.verb not in _MAKE_OR_DROP and not _exists(session, schema, header.name):
            raise _missing(session, header.name)
        return None
    if options is not None:
        with planning_errors(statement):
            PlainSessionContext.sql(session, _DDL if header.verb in _DEFINITIONS else _DML, options)
    count = _run(session, schema, parse_change(text), values, text)
    with planning_errors(statement):
        frame = PlainSessionContext.sql(session, f"SELECT CAST({count} AS BIGINT UNSIGNED) AS count")
    return LanceDataFrame(frame.df, (statement,), session)


def _exists(session: LanceSession, schema: LanceSchema | None, name: Name) -> bool:
    """Whether DataFusion has a table of this name."""
    if schema is not None:
        return schema.is_created(name[-1])
    try:
        return PlainSessionContext.table_exist(session, ".".join(map(quote_identifier, name)))
    except Exception:  # noqa: BLE001 - DataFusion raises no specific exception if a schema does not exist
        return False


def _check_schema(session: LanceSession, name: Name) -> None:
    """Check that DataFusion, which ignores quotes, would not use a schema whose name differs in case.

    Raises
    ------
    DatasetNotFoundError
        DataFusion would use such a schema.
    """
    if names_of(session).existing(session, tuple(map(str, name[:-1]))) is not None:
        raise DatasetNotFoundError(
            f"schema {name[-2]!r} does not exist; for the schema whose name differs in case omit the double "
            f"quotes, or create it with CREATE SCHEMA {quote_identifier(name[-2])}"
        )


def options_of_others(session: LanceSession, text: str, options: SQLOptions | None) -> SQLOptions | None:
    """Return DataFusion's options for a statement that `run_change` does not handle.

    A read-only session writes no files. A session with a folder of tables creates, changes and drops nothing
    if the table of the statement is not known.
    """
    is_unknown = is_unread(text) and (session.read_only or _has_folder(session))
    if not (session.read_only or is_unknown):
        return options
    allowed = (SQLOptions() if options is None else options).with_allow_dml(False)
    return allowed.with_allow_ddl(False) if is_unknown else allowed


def _has_folder(session: LanceSession) -> bool:
    schema = names_of(session).existing(session, ())
    return schema is not None and schema.folder is not None


def _check_not_refused(session: LanceSession, text: str) -> None:
    refused = parse_refused(text)
    if refused is None:
        return
    if session.read_only and (refused.instead is None or refused.is_for_folders):
        raise InvalidInputError(f"the session is read-only, so {refused.form} is refused")
    if refused.instead is not None and (_has_folder(session) or not refused.is_for_folders):
        raise UnsupportedFeatureError(f"{refused.form} is not supported; use {refused.instead}")


def _missing(session: LanceSession, name: Name) -> DatasetNotFoundError:
    """Return the error for a missing table, with a suggestion of a similar name."""
    whole = ".".join((*default_schema_name(session)[: 3 - len(name)], *name))
    return DatasetNotFoundError(with_similar_table(f"table {whole!r} not found", session.names_in))


def _is_ours(schema: LanceSchema, header: Header) -> bool:
    name = header.name[-1]
    if schema.is_created(name):
        return False
    if header.verb is Verb.CREATE:
        return schema.folder is not None
    if header.verb is Verb.DROP:
        return schema.folder is not None and not schema.is_registered(name)
    return schema.stored(name) is not None


def _run(
    session: LanceSession, schema: LanceSchema, change: Change, values: dict[str, Any] | None, written: str
) -> int:
    name = change.name[-1]
    if isinstance(change, CreateTable):
        return definitions.create_table(session, schema, change, values, written)
    if isinstance(change, DropTable):
        if schema.stored(name) is None and not change.if_exists:
            raise _missing(session, change.name)
        return definitions.drop_table(schema, change)
    source = schema.stored(name)
    if source is None:
        raise _missing(session, change.name)
    if not isinstance(source, TableSource):
        raise UnsupportedFeatureError(
            f"{name!r} is a part of a namespace and cannot be changed by itself; change the namespace, or "
            "use lance_df.dataset(…)"
        )
    target = Target.of(session, source, values, written)
    match change:
        case Insert():
            return rows.insert(target, change)
        case Delete() | Truncate():
            return rows.delete(target, change)
        case Update():
            return rows.update(target, change)
        case Merge():
            return merge(target, change)
        case _:
            definitions.alter_table(target, change)
            return 0
