"""Translate pyarrow expressions to predicates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import ColumnNotFoundError, InvalidInputError
from lance_df.expr.expression_tokens import CallEnd, CallStart, FieldReference, has_tokens, tokens
from lance_df.expr.literals import (
    compare,
    is_in,
    is_json,
    json_comparison_error,
    plain_array,
    storage_type,
    without_views,
)
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
from lance_df.expr.text import scalar_text
from lance_df.expr.walk import depth_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lance_df.expr.expression_tokens import Token

_Term: TypeAlias = Column | Predicate | pa.Scalar

_COMPARISONS = {
    "equal": Operator.EQ,
    "not_equal": Operator.NE,
    "less": Operator.LT,
    "less_equal": Operator.LE,
    "greater": Operator.GT,
    "greater_equal": Operator.GE,
}
_FLIPPED = {
    Operator.EQ: Operator.EQ,
    Operator.NE: Operator.NE,
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}
_JOINS: dict[str, type[And | Or]] = {"and_kleene": And, "or_kleene": Or}
# SetLookupOptions.NullMatching: MATCH, SKIP, EMIT_NULL, INCONCLUSIVE
_NULLS_IN_LIST_COUNT = {0, 3}
_MAX_SHORT_LIST = 3
MAX_DEPTH: Final = 200


def to_predicate(
    expression: pc.Expression | pa.BooleanScalar | bool,
    schema: pa.Schema,
    *,
    true_column: str | None = None,
) -> Predicate:
    """Return the predicate for a filter expression over ``schema``.

    Functions have SQL's semantics: for example, ``is_in`` of a null is NULL. Expressions that predicates
    cannot represent become `Unknown`, and so do expressions that refer to columns by position.

    Parameters
    ----------
    expression
        An expression, or a plain truth value, which DataFusion sends for a contradiction.
    schema
        The types of the columns. A name with dots is a single name; struct fields are nested references.
    true_column
        The name of a column outside of ``schema`` that is TRUE in every row.

    Raises
    ------
    ColumnNotFoundError
        The expression refers to a column that ``schema`` lacks.
    InvalidInputError
        The expression is nested too deeply; chains of AND and of OR may have any length. If the expression
        refers to positions: Arrow rejects it.
    """
    if isinstance(expression, bool):
        return Literal(expression)
    if isinstance(expression, pa.Scalar):
        return _as_predicate(expression, schema)
    if not has_tokens(expression):
        check_with_arrow(expression, schema)
        return Unknown(str(expression))
    try:
        given = list(tokens(expression, true_column=true_column))
    except ValueError:
        return Unknown(str(expression))
    predicate = _Builder(schema).build(given)
    if (depth := depth_of(predicate)) > MAX_DEPTH:
        raise InvalidInputError(f"a filter is {depth:,} conditions deep; at most {MAX_DEPTH} are supported")
    return predicate


def check_with_arrow(expression: pc.Expression, schema: pa.Schema) -> None:
    """Check that Arrow accepts an expression as a condition over ``schema``.

    Raises
    ------
    ColumnNotFoundError
        ``schema`` lacks a column.
    InvalidInputError
        A function does not exist for these types, or the result is not boolean.
    """
    stored = pa.schema([field.with_type(storage_type(field.type)) for field in schema])
    try:
        stored.empty_table().filter(expression)
    except pa.ArrowException as err:
        reason = str(err).splitlines()[0]
        if reason.startswith("No match for"):
            raise ColumnNotFoundError(
                f"{expression}: column does not exist; the {len(schema)} columns are "
                f"{', '.join(schema.names)}"
            ) from err
        raise InvalidInputError(f"{expression}: {reason}") from err


class _Builder:
    """Builds the tree with an explicit stack, so that long chains need no recursion."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def build(self, given: Iterable[Token]) -> Predicate:
        open_calls: list[str] = []
        arguments: list[list[_Term]] = [[]]
        for token in given:
            match token:
                case CallStart(function):
                    open_calls.append(function)
                    arguments.append([])
                case CallEnd(options):
                    terms = arguments.pop()
                    arguments[-1].append(self._call(open_calls.pop(), terms, options))
                case FieldReference(path):
                    _type_of(self._schema, path)
                    arguments[-1].append(Column(path))
                case scalar:
                    arguments[-1].append(scalar)
        ((result,),) = arguments
        return _as_predicate(result, self._schema)

    def _call(self, function: str, terms: list[_Term], options: pa.StructScalar | None) -> Predicate:
        if function in _COMPARISONS and len(terms) == 2:
            return self._comparison(_COMPARISONS[function], *terms)
        if function in _JOINS:
            return _join(_JOINS[function], [_as_predicate(term, self._schema) for term in terms])
        if (unary := self._UNARY.get(function)) is not None and len(terms) == 1:
            return unary(self, terms[0], options)
        return Unknown(f"{function}(…)")

    def _comparison(self, operator: Operator, left: _Term, right: _Term) -> Predicate:
        if isinstance(left, Column) and isinstance(right, pa.Scalar):
            self._check_text(left, right.type)
            return compare(left, _type_of(self._schema, left.path), operator, right)
        if isinstance(left, pa.Scalar) and isinstance(right, Column):
            self._check_text(right, left.type)
            return compare(right, _type_of(self._schema, right.path), _FLIPPED[operator], left)
        if isinstance(left, Column) and isinstance(right, Column):
            self._check_text(left, _type_of(self._schema, right.path))
            self._check_text(right, _type_of(self._schema, left.path))
        if operator not in (Operator.EQ, Operator.NE):
            return Unknown(f"(…) {operator} (…)")
        first, second = _as_predicate(left, self._schema), _as_predicate(right, self._schema)
        same = Or((And((first, second)), And((Not(first), Not(second)))))
        return same if operator is Operator.EQ else Not(same)

    def _check_text(self, column: Column, compared: pa.DataType) -> None:
        (name, *inner) = column.path
        if inner or not (pa.types.is_string(compared) or pa.types.is_large_string(compared)):
            return
        position = self._schema.get_field_index(name)
        if position >= 0 and is_json(self._schema.field(position)):
            raise json_comparison_error(name)

    def _is_in(self, term: _Term, options: pa.StructScalar | None) -> Predicate:
        if not isinstance(term, Column) or (items := listed_items(options)) is None:
            return Unknown("(…) IN (…)")
        self._check_text(term, items.type)
        if not len(items):
            return Literal(False)  # also for NULL
        predicate = is_in(term, _type_of(self._schema, term.path), items)
        return as_equalities(predicate) if isinstance(predicate, In) else predicate

    def _is_null(self, term: _Term, options: pa.StructScalar | None) -> Predicate:
        if isinstance(term, pa.Scalar):
            return Literal(not term.is_valid)
        nan_is_null = options is not None and options["nan_is_null"].as_py()
        if nan_is_null and self._is_float(term):
            return Unknown("(…) IS NULL OR NaN")
        return IsNull(term)

    def _is_valid(self, term: _Term, _: pa.StructScalar | None) -> Predicate:
        return Literal(term.is_valid) if isinstance(term, pa.Scalar) else Not(IsNull(term))

    def _is_float(self, term: Column | Predicate) -> bool:
        return isinstance(term, Column) and pa.types.is_floating(
            storage_type(_type_of(self._schema, term.path))
        )

    def _invert(self, term: _Term, _: pa.StructScalar | None) -> Predicate:
        return Not(_as_predicate(term, self._schema))

    _UNARY: dict[str, Callable[[_Builder, _Term, pa.StructScalar | None], Predicate]] = {  # noqa: RUF012
        "is_in": _is_in,
        "is_null": _is_null,
        "is_valid": _is_valid,
        "invert": _invert,
    }


def _join(kind: type[And | Or], operands: list[Predicate]) -> Predicate:
    """Join operands. A chain on the left is flattened, because long chains grow on the left."""
    if kind is And and len(operands) == 2 and operands[0] == Literal(True):
        return operands[1]
    first = operands[0].operands if isinstance(operands[0], kind) else (operands[0],)
    return kind((*first, *operands[1:]))


def listed_items(options: pa.StructScalar | None) -> pa.Array | None:
    """Return the list in the options of ``is_in``. Nulls are only included if they affect the result."""
    values = None if options is None else options["value_set"]
    if options is None or not isinstance(values, pa.ListScalar | pa.LargeListScalar) or not values.is_valid:
        return None
    items = without_views(plain_array(values.values))
    if options["null_matching_behavior"].as_py() in _NULLS_IN_LIST_COUNT or pa.types.is_nested(items.type):
        return items
    return items.drop_null()


def as_equalities(predicate: In) -> Predicate:
    """Convert a short list of floats to equalities, as DataFusion does. For these, -0.0 equals 0.0."""
    if len(predicate.values) > _MAX_SHORT_LIST or not pa.types.is_floating(predicate.values.type):
        return predicate
    equal: list[Predicate] = [Comparison(predicate.column, Operator.EQ, value) for value in predicate.values]
    return Or((*equal, Literal(None))) if predicate.has_null else Or(tuple(equal))


def _as_predicate(term: _Term, schema: pa.Schema) -> Predicate:
    match term:
        case Column():
            if pa.types.is_boolean(storage_type(_type_of(schema, term.path))):
                return Truth(term)
            return Unknown(".".join(term.path))
        case pa.BooleanScalar() | pa.NullScalar():
            return Literal(term.as_py())
        case pa.Scalar():
            return Unknown(scalar_text(term))
        case _:
            return term


def _type_of(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType:
    index = schema.get_field_index(path[0])
    if index < 0:
        raise ColumnNotFoundError(
            f"column {path[0]!r} does not exist; the columns are {', '.join(schema.names)}"
        )
    data_type = schema.field(index).type
    for name in path[1:]:
        data_type = storage_type(data_type)
        position = data_type.get_field_index(name) if pa.types.is_struct(data_type) else -1
        if position < 0:
            raise ColumnNotFoundError(f"column {path[0]!r} has no field {'.'.join(path[1:])!r}")
        data_type = data_type.field(position).type
    return data_type
