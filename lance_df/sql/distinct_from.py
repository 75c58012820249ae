"""Refuse IS DISTINCT FROM comparisons whose right side DataFusion parses differently from standard SQL.

DataFusion 55 reads ``a IS DISTINCT FROM b AND c`` as ``a IS DISTINCT FROM (b AND c)``. SQL ends the
comparison before the AND.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot.errors import TokenError

from lance_df.errors import UnsupportedFeatureError
from lance_df.sql.dialect import tokenize
from lance_df.sql.token_reader import plain_word

# operators that bind no tighter than the comparison
_OPERATORS: Final = frozenset(
    [
        *("AND", "OR", "XOR", "IS", "ISNULL", "NOTNULL", "IN", "BETWEEN"),
        *("LIKE", "ILIKE", "RLIKE", "REGEXP", "SIMILAR", "SIMILAR TO"),
        *("=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">=", "@>", "<@"),
        *("~", "~*", "!~", "!~*", "~~", "!~~", "~~*", "!~~*"),
    ]
)
# words that end an expression outside of brackets
_ENDS: Final = frozenset(
    [
        *(",", ";", "AS", "WHEN", "THEN", "ELSE", "FROM", "WHERE", "GROUP BY", "HAVING", "QUALIFY", "WINDOW"),
        *("ORDER BY", "LIMIT", "OFFSET", "FETCH", "UNION", "EXCEPT", "INTERSECT", "JOIN", "RETURNING", "ASC"),
        *("DESC", "NULLS"),
    ]
)
_OPENS: Final = frozenset({"(", "[", "{", "CASE"})
_CLOSES: Final = frozenset({")", "]", "}", "END"})


def check_distinct_from(text: str) -> None:
    """Check that no IS DISTINCT FROM in a statement or condition that changes rows is ambiguous.

    >>> check_distinct_from("(a IS DISTINCT FROM b) AND c")

    Raises
    ------
    UnsupportedFeatureError
        An operator follows the right side of an IS DISTINCT FROM, outside of brackets.
    """
    if "distinct" not in text.lower():
        return
    try:
        tokens = tokenize(text)
    except TokenError:
        return  # DataFusion raises the error for it
    words = [plain_word(token) for token in tokens]
    for index, word in enumerate(words):
        start = index + (3 if words[index + 1 : index + 2] != ["NOT"] else 4)
        if word != "IS" or words[start - 2 : start] != ["DISTINCT", "FROM"]:
            continue
        if (operator := _operator_after(words, start)) is not None:
            raise UnsupportedFeatureError(
                f"{' '.join(filter(None, words[index:start]))} with {operator} after its right side is not "
                "supported, because DataFusion reads it as part of that side; use brackets: (a IS DISTINCT "
                "FROM b) AND …"
            )


def _operator_after(words: Sequence[str | None], start: int) -> str | None:
    """Return the operator after the operand that begins at ``start``, or None if there is none."""
    depth = 0
    is_operand = False
    for index in range(start, len(words)):
        word = None if words[index - 1] == "." else words[index]
        if word in _OPENS:
            depth += 1
        elif word in _CLOSES and (depth or is_operand):
            depth -= 1
            if depth < 0:
                return None
        elif depth == 0 and word in _OPERATORS:
            return word
        elif depth == 0 and is_operand and word in _ENDS:
            return None
        # at the start, or after an operator such as +, any word is a name
        is_operand = word is None or word in _CLOSES or word[-1:].isalnum() or word[-1:] == "_"
    return None
