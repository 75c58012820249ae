"""Inspect predicates: their columns, their conjuncts, and whether they can be evaluated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
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


def depth_of(predicate: Predicate) -> int:
    """Return the depth of a predicate. This uses no recursion, so the depth is not limited."""
    deepest, level = 0, [predicate]
    while level:
        deepest += 1
        below: list[Predicate] = []
        for each in level:
            match each:
                case Not(operand) | IsNull(operand) if not isinstance(operand, Column):
                    below.append(operand)
                case And(operands) | Or(operands):
                    below += operands
                case _:
                    pass
        level = below
    return deepest


def has_unknown(predicate: Predicate) -> bool:
    """Return whether a part of the predicate cannot be evaluated."""
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
    """Return predicates that are all true if, and only if, ``predicate`` is true."""
    match predicate:
        case And(operands):
            return tuple(part for operand in operands for part in conjuncts(operand))
        case Literal(True):
            return ()
        case _:
            return (predicate,)


def by_column(kind: type[And | Or], operands: Sequence[Predicate]) -> list[Predicate]:
    """Join the operands of an `And` or `Or` that read only the same single column.

    Operands that contain `Unknown` or read several columns are not joined. The order of operands may change.
    """
    groups: defaultdict[tuple[str, ...], list[Predicate]] = defaultdict(list)
    others: list[Predicate] = []
    for operand in operands:
        paths = columns(operand)
        if len(paths) == 1 and not has_unknown(operand):
            groups[next(iter(paths))].append(operand)
        else:
            others.append(operand)
    return [*(kind(tuple(group)) if len(group) > 1 else group[0] for group in groups.values()), *others]
