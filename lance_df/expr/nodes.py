"""The predicate tree: a closed union of frozen nodes with SQL's three-valued logic.

The semantics are DataFusion's (measured with 55). A comparison with NULL is NULL. Floats are compared in
total order, except that -0.0 equals 0.0: NaN equals NaN and is greater than all other values, or less if its
sign bit is set. `Unknown` represents a condition that this tree cannot express. It may be true, false or
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
    """The operator of a comparison between a column and a literal."""

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
    """``column IN (values)``. ``values`` has no nulls; ``has_null`` states whether the list had one.

    Floats are compared by their bits, as in DataFusion's lists of four or more values: -0.0 does not equal
    0.0. In DataFusion, a shorter list means an OR of equalities, so use an `Or` for it.
    """

    column: Column
    values: pa.Array
    has_null: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """``operand IS NULL``, for a column or a predicate. It is never NULL itself."""

    operand: Column | Predicate


@dataclass(frozen=True, slots=True)
class Truth:
    """A boolean column used as a predicate."""

    column: Column


@dataclass(frozen=True, slots=True)
class Not:
    """NOT. The negation of NULL is NULL."""

    operand: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """Kleene AND. Without operands it is true."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Kleene OR. Without operands it is false."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A condition that this tree cannot express.

    Attributes
    ----------
    text
        The condition as text, for reports.
    term
        The computation of the condition, if it is known.
    """

    text: str
    term: Term | None = None


Predicate: TypeAlias = Literal | Comparison | In | IsNull | Truth | Not | And | Or | Unknown
