"""Rewrite a predicate as a smaller one with the same value for every row, including NULL."""

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
    Operator,
    Or,
    Predicate,
    Truth,
    Unknown,
)

_OPPOSITE = {
    Operator.EQ: Operator.NE,
    Operator.NE: Operator.EQ,
    Operator.LT: Operator.GE,
    Operator.GE: Operator.LT,
    Operator.GT: Operator.LE,
    Operator.LE: Operator.GT,
}


def simplify(predicate: Predicate) -> Predicate:
    """Fold constants, flatten AND and OR, and push NOT down to the leaves.

    The result equals ``predicate`` in three-valued logic. NOT remains only on IN, IS NULL, boolean columns
    and `Unknown`.
    """
    match predicate:
        case Not(operand):
            return _negated(operand)
        case IsNull(operand) if not isinstance(operand, Column):
            return _is_null(simplify(operand))
        case And(operands):
            return _joined(And, tuple(map(simplify, operands)))
        case Or(operands):
            return _joined(Or, tuple(map(simplify, operands)))
        case _:
            return predicate


def _negated(predicate: Predicate) -> Predicate:
    match predicate:
        case Literal(value):
            return Literal(None if value is None else not value)
        case Comparison(column, operator, value):
            # exact, because in total order all values are comparable, and NULL stays NULL
            return Comparison(column, _OPPOSITE[operator], value)
        case Not(operand):
            return simplify(operand)
        case And(operands):
            return _joined(Or, tuple(map(_negated, operands)))
        case Or(operands):
            return _joined(And, tuple(map(_negated, operands)))
        case IsNull():
            inner = simplify(predicate)
            return _negated(inner) if isinstance(inner, Literal) else Not(inner)
        case In() | Truth() | Unknown():
            return Not(predicate)
        case _:
            assert_never(predicate)


def _is_null(operand: Predicate) -> Predicate:
    match operand:
        case Literal(value):
            return Literal(value is None)
        case IsNull() | Not(IsNull()):
            return Literal(False)
        case Comparison(column) | Truth(column) | Not(Truth(column)):
            return IsNull(column)
        case In(column, has_null=False) | Not(In(column, has_null=False)):
            return IsNull(column)
        case _:
            return IsNull(operand)


def _joined(kind: type[And | Or], operands: tuple[Predicate, ...]) -> Predicate:
    """Join simplified operands: drop neutral ones, stop at a deciding one, and flatten."""
    neutral, deciding = (True, False) if kind is And else (False, True)
    parts: list[Predicate] = []
    saw_null = False
    for operand in operands:
        for part in operand.operands if isinstance(operand, kind) else (operand,):
            if not isinstance(part, Literal):
                parts.append(part)
            elif part.value is None:
                saw_null = True
            elif part.value is deciding:
                return Literal(deciding)
    if saw_null:
        parts.append(Literal(None))
    if len(parts) == 1:
        return parts[0]
    return kind(tuple(parts)) if parts else Literal(neutral)
