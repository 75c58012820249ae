"""Write predicates as SQL that DataFusion reads back as equivalent predicates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from lance_df.errors import UnsupportedFeatureError
from lance_df.expr.nodes import (
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    Truth,
    Unknown,
)
from lance_df.sql.literals import literal_sql
from lance_df.sql.splice import quote_identifier
from lance_df.sql.term_text import term_sql

_TRUTH = {True: "TRUE", False: "FALSE", None: "CAST(NULL AS BOOLEAN)"}


def predicate_sql(
    predicate: Predicate,
    notes: Mapping[int, str] | None = None,
    term_column: Callable[[tuple[str, ...]], str] | None = None,
) -> str:
    """Return a predicate on top-level columns as SQL.

    Parameters
    ----------
    notes
        Comments to add after parts of the predicate, by the ``id()`` of the part.
    term_column
        A function that writes a column within a term; by default as outside of terms.

    Raises
    ------
    UnsupportedFeatureError
        The predicate has a literal of a type that SQL cannot write, a nested column, or an `Unknown` without
        a term.
    """
    return _Writer(notes or {}, term_column or column_sql).write(predicate)


def column_sql(path: tuple[str, ...]) -> str:
    """Return a column as SQL. Plain lower-case names are not quoted."""
    if len(path) != 1:
        raise UnsupportedFeatureError(f"{'.'.join(path)} is not a column of the table")
    (name,) = path
    is_plain = name.isascii() and name.isidentifier() and name.islower()
    return name if is_plain else quote_identifier(name)


def comment(text: str) -> str:
    """Return a text as an SQL comment. SQL comments may be nested."""
    return f"/* {text.replace('/*', '/ *').replace('*/', '* /')} */"


class _Writer:
    def __init__(self, notes: Mapping[int, str], term_column: Callable[[tuple[str, ...]], str]) -> None:
        self._notes = notes
        self._term_column = term_column

    def write(self, predicate: Predicate) -> str:
        text = self._write(predicate)
        note = self._notes.get(id(predicate))
        return text if note is None else f"{text} {comment(note)}"

    def _write(self, predicate: Predicate) -> str:
        match predicate:
            case Literal(value):
                return _TRUTH[value]
            case Comparison(column, operator, value):
                return f"{column_sql(column.path)} {operator} {literal_sql(value)}"
            case In():
                return self._list(predicate, "IN")
            case IsNull(operand):
                return f"{self._operand(operand)} IS NULL"
            case Truth(column):
                return column_sql(column.path)
            case Not(In() as operand):
                return self._list(operand, "NOT IN")
            case Not(IsNull(operand)):
                return f"{self._operand(operand)} IS NOT NULL"
            case Not(operand):
                return f"NOT ({self.write(operand)})"
            case And(operands):
                return self._joined(operands, " AND ", Or) or _TRUTH[True]
            case Or(operands):
                return self._joined(operands, " OR ", And) or _TRUTH[False]
            case Unknown(text, term):
                if term is None:
                    raise UnsupportedFeatureError(f"{text} cannot be translated to SQL")
                return term_sql(term, self._term_column)
            case _:
                assert_never(predicate)

    def _operand(self, operand: Column | Predicate) -> str:
        return column_sql(operand.path) if isinstance(operand, Column) else f"({self.write(operand)})"

    def _list(self, predicate: In, word: str) -> str:
        name = column_sql(predicate.column.path)
        items = [literal_sql(value) for value in predicate.values] + ["NULL"] * predicate.has_null
        if not items:  # SQL has no empty lists; no value differs from itself
            return f"{name} {'<>' if word == 'IN' else '='} {name}"
        return f"{name} {word} ({', '.join(items)})"

    def _joined(self, operands: tuple[Predicate, ...], word: str, other: type[And | Or]) -> str:
        nested: Callable[[Predicate], bool] = lambda part: isinstance(part, other)  # noqa: E731
        return word.join(f"({self.write(part)})" if nested(part) else self.write(part) for part in operands)
