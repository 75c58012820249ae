"""Write terms as SQL that DataFusion reads back as the same computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from lance_df.expr.nodes import Column
from lance_df.expr.terms import CASE, CAST, IN, LIKES, NOT_IN, PREFIXED, SUFFIXED, Call, Term, Value
from lance_df.sql.literals import literal_sql
from lance_df.sql.splice import quote_identifier, quote_string


def term_sql(term: Term, name: Callable[[tuple[str, ...]], str]) -> str:
    """Return a term as SQL.

    Parameters
    ----------
    name
        A function that writes a column.

    Raises
    ------
    UnsupportedFeatureError
        The term has a literal of a type that SQL cannot write.
    """
    match term:
        case Column(path):
            return name(path)
        case Value(scalar):
            return literal_sql(scalar, typed=True)
        case Call():
            return _call(term, [term_sql(operand, name) for operand in term.operands])
        case _:
            assert_never(term)


def _call(call: Call, operands: list[str]) -> str:
    if call.is_function:
        return f"{quote_identifier(call.name)}({', '.join(operands)})"
    first, *others = operands
    if call.name == CAST:
        return f"arrow_cast({first}, {quote_string(call.detail)})"
    if call.name in (IN, NOT_IN):
        return f"({first} {call.name} ({', '.join(others)}))"
    if call.name == CASE:
        whens = "".join(
            f" WHEN {when} THEN {then}" for when, then in zip(operands[::2], operands[1::2], strict=False)
        )
        return f"(CASE{whens}{f' ELSE {operands[-1]}' if len(operands) % 2 else ''} END)"
    if call.name in PREFIXED and not others:
        return f"({call.name} {first})"
    if call.name in SUFFIXED:
        return f"({first} {call.name})"
    if call.name in LIKES:
        escape = f" ESCAPE {quote_string(call.detail)}" if call.detail else ""
        return f"({first} {call.name} {others[0]}{escape})"
    return f"({first} {call.name} {others[0]})"
