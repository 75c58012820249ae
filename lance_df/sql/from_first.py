"""Queries that begin with FROM and select nothing: they return all columns."""

from __future__ import annotations

import re
from typing import Final

from lance_df.interrupts import imports_finished

# what may stand right before the FROM by which a query begins
_MAY_BEGIN: Final = re.compile(
    r"(?:^|\(|;|\b(?:AS|UNION|EXCEPT|INTERSECT|ALL|DISTINCT|NAME|EXPLAIN|ANALYZE|VERBOSE|DESCRIBE|DESC)"
    r"|\bFORMAT\s+\w+|\*/|--[^\n]*\n)\s*FROM\b",
    re.IGNORECASE,
)
_AFTER_TABLES: Final = re.compile(r"\)\s*FROM\b", re.IGNORECASE)
_INSERT: Final = re.compile(r"\bINSERT\b", re.IGNORECASE)
_WITH: Final = re.compile(r"\bWITH\b", re.IGNORECASE)


def with_select(text: str) -> str:
    """Return a statement in which each query that begins with FROM has a SELECT.

    >>> with_select("FROM 'a.csv' LIMIT 1"), with_select("CREATE TABLE u AS FROM t")
    ("SELECT * FROM 'a.csv' LIMIT 1", 'CREATE TABLE u AS SELECT * FROM t')
    >>> with_select("FROM t SELECT a"), with_select("SELECT extract(day FROM d) FROM t")
    ('FROM t SELECT a', 'SELECT extract(day FROM d) FROM t')
    """
    if not _may_need_one(text):
        return text
    with imports_finished():
        from lance_df.sql.query_starts import starts_without_select
        from lance_df.sql.splice import Edit, splice

    return splice(text, (Edit(start, start, "SELECT * ") for start in starts_without_select(text)))


def _may_need_one(text: str) -> bool:
    """Whether a query may begin with FROM, as far as is known without the parser."""
    if _MAY_BEGIN.search(text) is not None or _INSERT.search(text) is not None:
        return True
    return _WITH.search(text) is not None and _AFTER_TABLES.search(text) is not None
