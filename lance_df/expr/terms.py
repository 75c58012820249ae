"""Expressions over columns that predicates cannot express: trees of calls, compared by structure.

A `Term` describes a computation of an engine, with all casts made explicit. It can be matched with the
expression of a partition field, and the engine can evaluate it over other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import pyarrow as pa

from lance_df.expr.nodes import Column
from lance_df.records import dataclass

CAST: Final = "CAST"
IN: Final = "IN"
NOT_IN: Final = "NOT IN"
CASE: Final = "CASE"
LIKES: Final = ("LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE")
PREFIXED: Final = ("NOT", "-")
SUFFIXED: Final = tuple(
    f"IS {word}"
    for word in ("NULL", "NOT NULL", "TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "UNKNOWN", "NOT UNKNOWN")
)


@dataclass(frozen=True, slots=True)
class Value:
    """A literal."""

    scalar: pa.Scalar


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator with its operands.

    Attributes
    ----------
    name
        A function name in lower case, an operator as in SQL, or one of the constants above.
    operands
        For ``IN``, the value comes first. For ``CASE``, they are pairs of WHEN and THEN, and then the ELSE if
        their number is odd.
    detail
        The type of a cast, in the format of DataFusion's ``arrow_cast``; the escape character of a LIKE.
    is_function
        Whether it is written as ``name(operands)`` in SQL.
    """

    name: str
    operands: tuple[Term, ...]
    detail: str = ""
    is_function: bool = False


Term: TypeAlias = Column | Value | Call


def parts(term: Term) -> Iterator[Term]:
    """Yield the term and all its nested terms."""
    yield term
    if isinstance(term, Call):
        for operand in term.operands:
            yield from parts(operand)


def columns_of(term: Term) -> set[tuple[str, ...]]:
    """Return the paths of the columns that a term reads."""
    return {part.path for part in parts(term) if isinstance(part, Column)}


def functions_of(term: Term) -> set[str]:
    """Return the names of the functions that a term calls."""
    return {part.name for part in parts(term) if isinstance(part, Call) and part.is_function}


def replaced(term: Term, replacement: Callable[[Term], Term | None]) -> Term:
    """Return the term with parts replaced, outer parts first. Replacements are not searched again."""
    replaced_by = replacement(term)
    if replaced_by is not None or not isinstance(term, Call):
        return term if replaced_by is None else replaced_by
    operands = tuple(replaced(operand, replacement) for operand in term.operands)
    return Call(term.name, operands, term.detail, term.is_function)
