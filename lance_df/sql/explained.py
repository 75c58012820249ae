"""The query to plan when the scans of a statement are explained."""

from __future__ import annotations

from typing import Final

from lance_df.errors import InvalidInputError
from lance_df.sql.changes import Change, CreateTable, Delete, Insert, Merge, Update
from lance_df.sql.parse_changes import parse_change, parse_header
from lance_df.sql.splice import quote_identifier
from lance_df.sql.token_reader import token_reader

# in these statements, what follows a table name, a setting or a keyword is not a query to plan
_WITHOUT_QUERY: Final = frozenset(
    [
        *("SET", "RESET", "CREATE", "DROP", "ALTER", "COPY", "PREPARE", "EXECUTE", "DEALLOCATE", "USE"),
        *("BEGIN", "START", "COMMIT", "ROLLBACK", "GRANT", "REVOKE", "VACUUM", "MERGE"),
    ]
)


def query_to_explain(text: str) -> str:
    """Return the query of a statement, or the query with which the statement reads rows.

    >>> query_to_explain("DELETE FROM t AS x WHERE x.a < 3")
    'SELECT 1 FROM "t" AS "x" WHERE (\\nx.a < 3\\n)'

    Raises
    ------
    InvalidInputError
        The statement reads no table, or the user has to write out its query.
    """
    reader = token_reader(text)
    verb = None if reader is None else reader.next_word()
    if parse_header(text) is not None:
        change = parse_change(text)
        query = _query_of(change)
        if query is not None:
            return query
        if isinstance(change, Merge):
            joined = f"{_table(change.name, change.alias)} JOIN {change.source} ON {change.condition}"
            raise InvalidInputError(
                f"explain_scan does not support MERGE; explain the join that it reads: SELECT * FROM {joined}"
            )
    elif verb not in _WITHOUT_QUERY:
        return text
    raise InvalidInputError(
        f"explain_scan supports queries, INSERT, UPDATE and DELETE; this {verb} statement was not run. "
        "Explain its query, or run the statement with sql"
    )


def _query_of(change: Change) -> str | None:
    match change:
        case Insert() | CreateTable():
            return change.query
        case Delete():
            return f"SELECT 1 FROM {_table(change.name, change.alias)}{_condition(change.where)}"
        case Update():
            values = [f"(\n{text}\n) AS {quote_identifier(name)}" for name, text in change.assignments]
            others = "" if change.others is None else f", {change.others}"
            table = _table(change.name, change.alias)
            return f"SELECT {', '.join(values)} FROM {table}{others}{_condition(change.where)}"
        case _:
            return None


def _table(name: tuple[str, ...], alias: str) -> str:
    return f"{'.'.join(map(quote_identifier, name))} AS {quote_identifier(alias)}"


def _condition(where: str | None) -> str:
    return "" if where is None else f" WHERE (\n{where}\n)"
