"""Find quoted table names in a statement, which may be paths of files."""

from __future__ import annotations

from typing import Final

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from lance_df.errors import LanceError
from lance_df.sql.dialect import DataFusion, tokenize

# prefixes of a query that sqlglot cannot parse
_PREFIXES: Final = ("EXPLAIN", "PREPARE")
_BEGINNINGS: Final = ("SELECT", "WITH", "FROM", "INSERT", "CREATE", "COPY", "VALUES")
_READ_BELOW: Final = (exp.From, exp.Join, exp.Subquery, exp.Describe)


def quoted_tables(text: str) -> tuple[str, ...]:
    """Return the distinct tables that a statement reads by a quoted name, with any kind of quotes.

    Returns nothing for a text that sqlglot cannot parse.

    >>> quoted_tables("SELECT * FROM 'a.csv' JOIN \\"b.lance\\" b ON true WHERE x = 'c.csv'")
    ('a.csv', 'b.lance')
    """
    if "'" not in text and '"' not in text and "`" not in text:
        return ()
    try:
        trees = parse(_query(text), dialect=DataFusion)
    except (SqlglotError, LanceError, RecursionError):
        return ()
    tables = [table for tree in trees if tree is not None for table in tree.find_all(exp.Table)]
    names = [table.name for table in tables if _is_read(table)]
    return tuple(dict.fromkeys(names))


def _is_read(table: exp.Table) -> bool:
    name = table.this
    return (
        isinstance(name, exp.Identifier)
        and bool(name.args.get("quoted"))
        and not table.db
        and isinstance(table.parent, _READ_BELOW)
    )


def _query(text: str) -> str:
    tokens = tokenize(text)
    if not tokens or tokens[0].text.upper() not in _PREFIXES:
        return text
    begin = next((token for token in tokens if token.text.upper() in _BEGINNINGS), tokens[0])
    return text[begin.start :]
