"""Expressions over columns that the predicate language cannot say: trees of calls, compared by structure.

A `Term` keeps what an engine computes, with all casts spelled out, so that it can be matched with the
expression of a partition field, and evaluated by that engine over other columns.
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
    """A function or an operator, and what it is applied to.

    Attributes
    ----------
    name
        A function in lower case, an operator as SQL writes it, or one of the words above.
    operands
        Of ``IN`` the value first; of ``CASE`` pairs of WHEN and THEN, and the ELSE if their number is odd.
    detail
        The type of a cast, as DataFusion's ``arrow_cast`` takes it; the escape character of a LIKE.
    is_function
        Whether SQL writes it as ``name(operands)``.
    """

    name: str
    operands: tuple[Term, ...]
    detail: str = ""
    is_function: bool = False


Term: TypeAlias = Column | Value | Call


def parts(term: Term) -> Iterator[Term]:
    """Yield the term and all that it is made of."""
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
    """Return the term with parts replaced, the largest first; what has been put in is left as it is."""
    replaced_by = replacement(term)
    if replaced_by is not None or not isinstance(term, Call):
        return term if replaced_by is None else replaced_by
    operands = tuple(replaced(operand, replacement) for operand in term.operands)
    return Call(term.name, operands, term.detail, term.is_function)
