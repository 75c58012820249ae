"""What a predicate is made of: its columns, its conjuncts, whether it can be evaluated."""

from __future__ import annotations

from typing import assert_never

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


def columns(predicate: Predicate) -> set[tuple[str, ...]]:
    """Return the paths of the columns that the predicate reads."""
    match predicate:
        case Comparison(column) | In(column) | Truth(column):
            return {column.path}
        case IsNull(operand) | Not(operand):
            return {operand.path} if isinstance(operand, Column) else columns(operand)
        case And(operands) | Or(operands):
            return set().union(*map(columns, operands))
        case Literal() | Unknown():
            return set()
        case _:
            assert_never(predicate)


def has_unknown(predicate: Predicate) -> bool:
    """Return whether some part of the predicate cannot be evaluated."""
    match predicate:
        case Unknown():
            return True
        case IsNull(operand) | Not(operand):
            return not isinstance(operand, Column) and has_unknown(operand)
        case And(operands) | Or(operands):
            return any(map(has_unknown, operands))
        case _:
            return False


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """Return predicates that must all be true where, and only where, ``predicate`` is true."""
    match predicate:
        case And(operands):
            return tuple(part for operand in operands for part in conjuncts(operand))
        case Literal(True):
            return ()
        case _:
            return (predicate,)
