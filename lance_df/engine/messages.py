"""Rewrite DataFusion's error messages in the terms of the user who wrote the statement."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from typing import Final

from lance_df import errors
from lance_df.engine.tables.version_text import VERSION_MARK
from lance_df.errors import LanceError

_PREFIXES: Final = re.compile(
    r"^(DataFusion error: |External error: |Error during planning: |Optimizer rule '\w+' failed\s*"
    r"|(?:type_coercion\s+)?caused by\s+)+"
)
_SYNTAX: Final = re.compile(r'SQL error: ParserError\("(.*)"\)', re.DOTALL)
# positions in the planned text, which may differ from the text that the user wrote
_POSITION: Final = re.compile(r",? at Line: \d+, Column:? \d+")
_SYSTEM_COLUMN: Final = (
    r"(?:_row(?:id|addr|offset|_created_at_version|_last_updated_at_version)|__lance_df_\w+)"
)
_SYSTEM_COLUMNS: Final = re.compile(rf', (?:(?:\w+|"[^"]*")\.)?{_SYSTEM_COLUMN}\b')
_SYSTEM_COLUMN_MEANT: Final = re.compile(rf" Did you mean '(?:[^'\n]*\.)?{_SYSTEM_COLUMN}'\?")
_REPORT_IT: Final = re.compile(
    r"\.?\s*This issue was likely caused by a bug in DataFusion's code\.[^\n]*?issues\."
)
_SCHEMA_ERROR: Final = re.compile(r"\bSchema error: (?=No field named )")
_CASE_NOTE: Final = re.compile(r"\s*Column names are case sensitive\. You can use [^\n]*? configuration\b")
_VALID_FIELDS: Final = re.compile(r"(\?)?\.?\s*Valid fields are ([^\n]*?)\.?\s*$")
_EACH_SIGNATURE: Final = re.compile(
    r"Internal error: Function '[^']*' failed to match any signature.*?(?=No function matches)", re.DOTALL
)
_END: Final = "found: the end of the text"
_NOT_BOOLEAN: Final = re.compile(r"Cannot create filter with non-boolean predicate ('.*') returning (\w+)")
# messages about features that DataFusion lacks, and the alternative in lance_df
_UNSUPPORTED: Final = (
    (
        re.compile(
            r"Physical plan does not support logical expression (InSubquery|Exists|ScalarS)"
            r"|subquery can only be used in|ScalarSubqueryExpr evaluated before the subquery was executed"
        ),
        "a subquery is not supported here; join its query, or select it as a column",
    ),
    (
        re.compile("Insert into not implemented for this table"),
        'the table does not support INSERT; use lance_df.write_dataset(frame, …, mode="append"), or INSERT '
        "INTO a stored table or a namespace of a connected folder",
    ),
    (
        re.compile(r"(?:DELETE|UPDATE) not supported for|Unsupported logical plan: Dml\((?:Delete|Update)\)"),
        "the table is read-only under this name; DELETE and UPDATE need a stored table or a namespace of a "
        "connected folder, or one that is registered as a whole",
    ),
    (
        re.compile("Unsupported SQL statement: "),
        "this kind of statement is not supported; the guide to SQL lists the statements that are",
    ),
    (
        re.compile("currently only supports a single SQL statement"),
        "SessionContext.sql runs one statement at a time; call it for each, or use the command lance-df sql",
    ),
)
_NO_SCHEMA: Final = re.compile(r'^(?:Plan\(")?failed to resolve schema: ([^"]*)(?:"\))?$')
_NO_TABLE: Final = re.compile(r"table '(.*?)' not found")
_RAISED: Final = re.compile(
    r"PyErr \{ type: <class 'lance_df\.errors\.(\w+)'>, value: \1\((.*?)\), traceback: ", re.DOTALL
)


def readable(message: str) -> str:
    """Return a message without text positions, system columns and notes for DataFusion's developers."""
    text = _PREFIXES.sub("", message).strip()
    syntax = _SYNTAX.search(text)
    if syntax is not None:
        reason = syntax[1].replace('\\"', '"').replace("\\'", "'").replace("\\n", " ")
        text = f"{text[: syntax.start()]}syntax error: {reason}{text[syntax.end() :]}"
    text = _NO_SCHEMA.sub(
        r"schema '\1' does not exist; use CREATE SCHEMA to create it", _POSITION.sub("", text)
    )
    before, fields, listed = _SYSTEM_COLUMN_MEANT.sub("", text).partition("Valid fields are ")
    text = before + fields + _SYSTEM_COLUMNS.sub("", listed)
    return _EACH_SIGNATURE.sub("", _REPORT_IT.sub(".", text))


def raised_by_function(message: str) -> LanceError | None:
    """Return the `LanceError` that a function raised for a row; None for other messages."""
    match = _RAISED.search(message)
    if match is None:
        return None
    kind = getattr(errors, match[1], LanceError)
    try:
        return kind(ast.literal_eval(match[2]))
    except (SyntaxError, ValueError):
        return None


def of_expression(message: str, expression: str, table: str) -> str:
    """Return a message about an expression without the parts that refer to the statement around it.

    Parameters
    ----------
    table
        The name of the table in that statement.
    """
    if ")" not in expression:
        message = message.replace("found: )", _END)
    if "(" not in expression:
        message = message.replace("Expected: ), found", "Expected: the end of the text, found")
    message = message.replace(f"'{table}.", "'")
    message = _NOT_BOOLEAN.sub(r"the filter \1 does not return a boolean, but \2", message)
    before, fields, listed = message.partition("Valid fields are ")
    return before + fields + re.sub(rf"(^|, ){re.escape(table)}\.", r"\1", listed)


def unsupported(message: str) -> str | None:
    """Return the alternative to an unsupported feature that a message reports; None for other messages."""
    return next((instead for pattern, instead in _UNSUPPORTED if pattern.search(message)), None)


def with_columns(message: str) -> str:
    """Return a message about a missing column in one line, with the columns that exist."""
    text = _CASE_NOTE.sub("", _SCHEMA_ERROR.sub("", message))
    return _VALID_FIELDS.sub(lambda match: f"{'? The' if match[1] else '; the'} columns are {match[2]}", text)


def missing_table(message: str) -> str | None:
    """Return the full name of the table that a message reports as missing; None for other messages."""
    match = _NO_TABLE.search(message)
    return None if match is None else match[1]


def with_similar_table(message: str, names_in: Callable[[str], tuple[str, Iterable[str]]]) -> str:
    """Return the message about a missing table, with a suggestion of a similar name.

    Parameters
    ----------
    names_in
        A function that takes the full name of a table and returns the name as the user writes it, and the
        names of the tables in its schema.
    """
    whole = missing_table(message)
    if whole is None:
        return message
    import difflib

    named, others = names_in(whole)
    name, mark, version = named.partition(VERSION_MARK)
    by_lowered = {other.lower(): other for other in others}
    close = difflib.get_close_matches(name.rpartition(".")[2].lower(), by_lowered, 1)
    remark = f"; did you mean {by_lowered[close[0]]!r}?" if close else ""
    at_version = f" at {version}" if mark else ""
    if mark and (not close or by_lowered[close[0]] == name):
        remark = "; only stored tables and namespaces have versions"
    return message.replace(f"table {whole!r} not found", f"table {name!r}{at_version} not found{remark}", 1)
