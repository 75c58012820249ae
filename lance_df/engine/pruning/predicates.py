"""Derive predicates on the columns of a scan from filter expressions of DataFusion.

The result is a necessary condition: where the expression is true, the predicate is true. It only prunes.
DataFusion applies the expression itself, so a loose bound is as correct as a tight one.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lance_df.compute.expressions import function_of, kind_of, literal, operator_of, shown
from lance_df.compute.terms import resolved, to_term
from lance_df.compute.typed_functions import plain_name
from lance_df.engine.plans.logical_scans import LogicalScan, ScopedExpr
from lance_df.engine.pruning.ranges import (
    calendar_range,
    cast_range,
    prefix_range,
    truncated_range,
)
from lance_df.expr.literals import is_in, is_text, plain_scalar, storage_type
from lance_df.expr.nodes import (
    And,
    Column,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    Predicate,
    Truth,
    Unknown,
)
from lance_df.expr.terms import LIKES, Call, Term, Value
from lance_df.records import dataclass

_FLIPPED = {
    "=": Operator.EQ,
    "!=": Operator.NE,
    "<>": Operator.NE,
    "<": Operator.GT,
    "<=": Operator.GE,
    ">": Operator.LT,
    ">=": Operator.LE,
}
_OPERATORS = {
    "=": Operator.EQ,
    "!=": Operator.NE,
    "<>": Operator.NE,
    "<": Operator.LT,
    "<=": Operator.LE,
    ">": Operator.GT,
    ">=": Operator.GE,
}


def pruning_predicate_of_scans(
    scans: list[LogicalScan], schema: pa.Schema, *, with_terms: bool = False
) -> Predicate | None:
    """Return a condition that all rows satisfy that any of ``scans`` of one table needs.

    None if nothing is known. If there is only one scan, its pushed conjuncts are left out, because the scan
    receives them anyway.

    Parameters
    ----------
    with_terms
        Whether to keep conditions that predicates cannot express as terms, which partition values may decide.
    """
    if not scans:
        return None
    if all(scan.is_empty for scan in scans):
        return Literal(False)
    alone = len(scans) == 1
    parts = [
        _conjunction(scan.above if alone else (*scan.pushed, *scan.above), schema, with_terms=with_terms)
        for scan in scans
    ]
    if any(not part.operands for part in parts):
        return None
    different: list[And] = []
    for part in parts:
        if part not in different:
            different.append(part)
    return different[0] if len(different) == 1 else Or(tuple(different))


def scan_condition(scan: LogicalScan, schema: pa.Schema) -> Predicate | None:
    """Return a condition that all rows needed by one scan satisfy; None if nothing is known."""
    if scan.is_empty:
        return Literal(False)
    conjunction = _conjunction((*scan.pushed, *scan.above), schema, with_terms=True)
    return conjunction if conjunction.operands else None


def _conjunction(expressions: tuple[ScopedExpr, ...], schema: pa.Schema, *, with_terms: bool) -> And:
    parts = tuple(implied(scoped, schema, with_terms=with_terms) for scoped in expressions)
    return And(
        tuple(part for each in parts for part in (each.operands if isinstance(each, And) else (each,)))
    )


def implied(scoped: ScopedExpr, schema: pa.Schema, *, with_terms: bool = False) -> Predicate:
    """Return a condition that holds for the rows where ``scoped`` is true; `Unknown` if nothing is known."""
    translator = _TermTranslator if with_terms else _Translator
    try:
        return translator(schema, scoped.projections).translate(scoped.expr, 0)
    except RecursionError:
        return Unknown("(a very long expression)")


@dataclass(frozen=True, slots=True)
class _Reference:
    """A stored column, possibly with one cast."""

    column: Column
    data_type: pa.DataType
    is_cast: bool = False


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a function with one column and literals."""

    function: str
    reference: _Reference
    literals: tuple[pa.Scalar, ...]


class _Translator:
    def __init__(self, schema: pa.Schema, projections: tuple[Any, ...]) -> None:
        self._schema = schema
        self._projections = projections

    def translate(self, expr: Any, depth: int) -> Predicate:
        kind = kind_of(expr)
        if kind == "BinaryExpr":
            return self._binary(expr, depth)
        if kind == "Like":
            return self._like(expr, depth)
        if kind == "InList":
            return self._in_list(expr, depth)
        if kind in ("IsNull", "IsNotNull"):
            return self._null_test(expr, depth, negated=kind == "IsNotNull")
        if kind in ("IsTrue", "Alias"):
            return self.translate(_operands(expr)[0], depth)
        if kind == "Literal":
            value = literal(expr)
            return Literal(value.as_py()) if isinstance(value, pa.BooleanScalar) else _unknown(expr)
        if kind == "Not":
            # only for the operand itself, because a condition that it implies cannot be negated
            inner = self._truth(_operands(expr)[0], depth)
            return Not(inner) if isinstance(inner, Truth) else _unknown(expr)
        if function_of(expr) == "starts_with":
            return self._starts_with(expr, depth)
        if kind == "Column":
            return self._truth(expr, depth)
        return _unknown(expr)

    def _binary(self, expr: Any, depth: int) -> Predicate:
        operator, (left, right) = operator_of(expr), _operands(expr)
        if operator == "AND":
            return And((self.translate(left, depth), self.translate(right, depth)))
        if operator == "OR":
            return Or((self.translate(left, depth), self.translate(right, depth)))
        if operator == "IS NOT DISTINCT FROM":
            operator = "="
            truth = literal(right)
            if isinstance(truth, pa.BooleanScalar) and truth.as_py() is True:
                return self.translate(left, depth)
        if operator not in _OPERATORS:
            return _unknown(expr)
        if (value := literal(right)) is not None:
            return self._comparison(expr, left, _OPERATORS[operator], value, depth)
        if (value := literal(left)) is not None:
            return self._comparison(expr, right, _FLIPPED[operator], value, depth)
        return _unknown(expr)

    def _comparison(
        self, expr: Any, side: Any, operator: Operator, value: pa.Scalar, depth: int
    ) -> Predicate:
        if not value.is_valid:
            return _unknown(expr)  # IS NOT DISTINCT FROM NULL arrives here too
        try:
            in_range = self._range(side, operator, value, depth)
        except (ValueError, OverflowError, pa.ArrowException):  # outside of Python's dates and decimals
            in_range = None
        return _unknown(expr) if in_range is None or isinstance(in_range, Unknown) else in_range

    def _range(self, side: Any, operator: Operator, value: pa.Scalar, depth: int) -> Predicate | None:
        if (reference := self._reference(side, depth)) is not None:
            return cast_range(reference.column, reference.data_type, operator, value, reference.is_cast)
        call = self._call(side, depth)
        return None if call is None else _call_range(call, operator, value)

    def _like(self, expr: Any, depth: int) -> Predicate:
        like = expr.to_variant()
        pattern = literal(like.pattern())
        reference = self._reference(like.expr(), depth)
        negated = like.negated() or expr.rex_call_operator() != "like"
        if negated or reference is None or pattern is None or not pattern.is_valid:
            return _unknown(expr)
        text = pattern.as_py()
        stops = [text.find(mark) for mark in ("%", "_", "\\", like.escape_char() or "%") if mark in text]
        prefix = text[: min(stops, default=len(text))]
        in_range = prefix_range(reference.column, reference.data_type, prefix)
        if in_range is not None or not is_text(reference.data_type):
            return in_range or _unknown(expr)
        # scans can search for its words
        term = Call("LIKE", (reference.column, Value(pa.scalar(text))), like.escape_char() or "")
        return Unknown(plain_name(shown(expr)), term)

    def _starts_with(self, expr: Any, depth: int) -> Predicate:
        subject, start = _operands(expr)
        reference, value = self._reference(subject, depth), literal(start)
        if reference is None or value is None or not value.is_valid:
            return _unknown(expr)
        return prefix_range(reference.column, reference.data_type, value.as_py()) or _unknown(expr)

    def _in_list(self, expr: Any, depth: int) -> Predicate:
        detail = expr.to_variant()
        values = [literal(item) for item in detail.list()]
        reference = self._reference(detail.expr(), depth)
        if (
            detail.negated()
            or reference is None
            or reference.is_cast
            or any(value is None for value in values)
        ):
            return _unknown(expr)
        plain = [plain_scalar(value) for value in values if value is not None]
        if len({value.type for value in plain}) != 1:
            return _unknown(expr)
        items = pa.concat_arrays([pa.repeat(value, 1) for value in plain])
        is_member = is_in(reference.column, reference.data_type, items)
        return _unknown(expr) if isinstance(is_member, Unknown) else is_member

    def _null_test(self, expr: Any, depth: int, *, negated: bool) -> Predicate:
        reference = self._reference(_operands(expr)[0], depth)
        if reference is None or reference.is_cast:
            return _unknown(expr)
        test = IsNull(reference.column)
        return Not(test) if negated else test

    def _truth(self, expr: Any, depth: int) -> Predicate:
        reference = self._reference(expr, depth)
        if reference is None or not pa.types.is_boolean(reference.data_type):
            return _unknown(expr)
        return Truth(reference.column)

    def _call(self, expr: Any, depth: int) -> _Call | None:
        expr, depth = resolved(expr, self._projections, depth)
        function = None if expr is None else function_of(expr)
        if function is None:
            return None
        operands = _operands(expr)
        literals = tuple(value for value in map(literal, operands) if value is not None)
        others = [operand for operand in operands if literal(operand) is None]
        reference = self._reference(others[0], depth) if len(others) == 1 else None
        if reference is None or reference.is_cast:
            return None
        return _Call(function, reference, literals)

    def _reference(self, expr: Any, depth: int) -> _Reference | None:
        expr, depth = resolved(expr, self._projections, depth)
        if expr is None:
            return None
        kind = kind_of(expr)
        if kind == "Column":
            name = expr.to_variant().name()
            index = self._schema.get_field_index(name)
            return (
                None
                if index < 0
                else _Reference(Column((name,)), storage_type(self._schema.field(index).type))
            )
        if kind in ("Cast", "TryCast"):
            inner = self._reference(_operands(expr)[0], depth)
            return (
                None
                if inner is None or inner.is_cast
                else _Reference(inner.column, inner.data_type, is_cast=True)
            )
        if function_of(expr) == "get_field":
            return self._struct_field(expr, depth)
        return None

    def _struct_field(self, expr: Any, depth: int) -> _Reference | None:
        inner, *names = _operands(expr)
        reference = self._reference(inner, depth)
        if reference is None or reference.is_cast:
            return None
        path, data_type = reference.column.path, reference.data_type
        for name in map(literal, names):
            if not pa.types.is_struct(data_type) or name is None or not isinstance(name.as_py(), str):
                return None
            index = data_type.get_field_index(name.as_py())
            if index < 0:
                return None
            path, data_type = (*path, name.as_py()), storage_type(data_type.field(index).type)
        return _Reference(Column(path), data_type)


class _TermTranslator(_Translator):
    """Adds terms for expressions that predicates can only bound or cannot express."""

    def translate(self, expr: Any, depth: int) -> Predicate:
        predicate = super().translate(expr, depth)
        if isinstance(predicate, Literal | Not | IsNull | Truth | Or):
            return predicate
        if kind_of(expr) in ("IsTrue", "Alias") or _is_junction(expr):
            return predicate
        term = to_term(expr, self._schema.names.__contains__, self._projections, depth)
        if term is None:
            return predicate
        condition = Unknown(plain_name(shown(expr)), term)
        if isinstance(predicate, Unknown):
            return condition
        # without text, because the predicate already describes the condition to people
        return predicate if _is_plain(term) else And((predicate, Unknown("", term)))


def _is_junction(expr: Any) -> bool:
    return operator_of(expr) in ("AND", "OR")


def _is_plain(term: Term) -> bool:
    """Whether predicates express a term completely: it compares a column with literals."""
    if not isinstance(term, Call) or term.is_function or term.name in LIKES:
        return False
    return isinstance(term.operands[0], Column) and all(isinstance(each, Value) for each in term.operands[1:])


def _call_range(call: _Call, operator: Operator, value: pa.Scalar) -> Predicate | None:
    column, data_type = call.reference.column, call.reference.data_type
    arguments = [literal.as_py() for literal in call.literals]
    match call.function, arguments:
        case "date_trunc", [str(unit)]:
            return truncated_range(column, data_type, unit.lower(), operator, value)
        case "date_part", [str(part)] if part.lower() == "year":
            return calendar_range(column, data_type, operator, value)
        case ("left", [int(length)]) | ("substr" | "substring", [1, int(length)]) if operator is Operator.EQ:
            text = value.as_py()
            return prefix_range(column, data_type, text) if isinstance(text, str) and length > 0 else None
        case _:
            return None


def _operands(expr: Any) -> list[Any]:
    return list(expr.rex_call_operands())


def _unknown(expr: Any) -> Unknown:
    return Unknown(plain_name(shown(expr)))
