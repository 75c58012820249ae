"""The predicate tree: a closed union of frozen nodes with SQL's three-valued logic.

Semantics are DataFusion's (measured with 55). A comparison with NULL is NULL. Floats compare in total
order, except that -0.0 equals 0.0: NaN equals NaN and is greater than every other value, or less when its
sign bit is set. `Unknown` stands for something that this language cannot say: it may be true, false or
NULL, so it never prunes and cannot be evaluated.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.expr.terms import Term


class Operator(StrEnum):
    """How a column is compared with a literal."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True)
class Column:
    """A column by its path of names: ``("a",)``, or ``("a", "b")`` for a struct field."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A truth value; ``None`` is NULL."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """``column operator value``. ``value`` is never a null scalar."""

    column: Column
    operator: Operator
    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class In:
    """``column IN (values)``. ``values`` holds no null; ``has_null`` says that the list had one.

    Floats are found by their bits, as in DataFusion's lists of four values and more: -0.0 is not 0.0 here. A
    shorter list means an OR of equalities there, and should be an `Or` here.
    """

    column: Column
    values: pa.Array
    has_null: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """``operand IS NULL``, for a column or a predicate. Never NULL itself."""

    operand: Column | Predicate


@dataclass(frozen=True, slots=True)
class Truth:
    """A boolean column used as a predicate."""

    column: Column


@dataclass(frozen=True, slots=True)
class Not:
    """NOT, with NOT NULL being NULL."""

    operand: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """Kleene AND; an empty one is true."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Kleene OR; an empty one is false."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A condition outside this language.

    Attributes
    ----------
    text
        For reports.
    term
        What is computed, where that is known.
    """

    text: str
    term: Term | None = None


Predicate: TypeAlias = Literal | Comparison | In | IsNull | Truth | Not | And | Or | Unknown
