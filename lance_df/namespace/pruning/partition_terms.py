"""Rewrite predicates in terms of partition fields: ``date_part('month', ts) = 3`` if partitions are months.

The expression of a partition field is matched structurally within a term, and so are identity columns. If a
condition can be expressed with partition values alone, DataFusion evaluates it on these values.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa

from lance_df.compute.calculator import evaluator
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.expr.literals import compare, is_in, storage_type
from lance_df.expr.nodes import Column, IsNull, Not, Operator, Predicate, Unknown
from lance_df.expr.terms import (
    CAST,
    IN,
    LIKES,
    NOT_IN,
    Call,
    Term,
    Value,
    columns_of,
    functions_of,
    replaced,
)
from lance_df.expr.type_names import type_name
from lance_df.namespace.pruning.implied import NOTHING, SourcedField
from lance_df.namespace.spec.partition_values import expression_of
from lance_df.namespace.spec.transforms import TransformKind
from lance_df.sql.predicate_text import column_sql
from lance_df.sql.term_text import term_sql

# Distinguishes partition columns from columns of the namespace within one term.
_MARK: Final = "\0"
_OPERATORS: Final = {operator.value: operator for operator in Operator}
_FLIPPED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TEXT_TYPES: Final = (pa.string(), pa.large_string(), pa.string_view())


class PartitionTerms:
    """The terms that the partition fields of a spec version compute."""

    def __init__(self, fields: Sequence[SourcedField]) -> None:
        # equal floats of one partition may give different results: -0.0 and 0.0, NaN and NaN
        exact = [each for each in fields if not pa.types.is_floating(each.field.result_type)]
        self._computed = [(term, each) for each in exact if (term := _term_of(each)) is not None]
        self._prefixes = {each.paths[0]: each for each in exact if _is_prefix(each)}

    def projected(self, term: Term) -> Predicate:
        """Return the condition on the partition that follows if a condition is true of one of its rows."""
        simple = self._comparison(term)
        if simple is not None:
            return simple
        marked = replaced(term, self._replacement)
        paths = columns_of(marked)
        if not paths or any(path[0] != _MARK for path in paths):
            return NOTHING  # a source column is left, perhaps one with the name of a partition column
        if not evaluator().is_fixed(functions_of(marked)):
            return NOTHING
        inner = replaced(marked, lambda part: Column(part.path[1:]) if isinstance(part, Column) else None)
        try:
            return Unknown(term_sql(inner, column_sql), inner)
        except UnsupportedFeatureError:
            return NOTHING

    def _field(self, term: Term) -> SourcedField | None:
        """Return the field that computes a term, or None."""
        column = next((each for computed, each in self._computed if computed == term), None)
        if column is None and isinstance(term, Call) and term.name == CAST:
            inner = self._field(term.operands[0])
            is_wider = inner is not None and _widens(inner.field.result_type, term.detail)
            return inner if is_wider else None
        return column

    def _comparison(self, term: Term) -> Predicate | None:
        """Return a comparison of a field's term with literals as one of its partition column, or None."""
        if not isinstance(term, Call) or term.is_function:
            return None
        first, *others = term.operands
        if isinstance(first, Value) and len(others) == 1 and term.name in _FLIPPED:
            return self._comparison(Call(_FLIPPED[term.name], (others[0], first)))
        field = self._field(first)
        if field is None:
            return None
        literals = [other.scalar for other in others if isinstance(other, Value)]
        if len(literals) < len(others):
            return None
        compared = _compared(field, term.name, literals)
        return None if isinstance(compared, Unknown) else compared

    def _replacement(self, term: Term) -> Term | None:
        match = next(((computed, each) for computed, each in self._computed if computed == term), None)
        if match is not None:
            return _typed_column(match[1])
        return self._of_prefix(term)

    def _of_prefix(self, term: Term) -> Term | None:
        """Return a call over the partition's prefix if it depends only on this prefix, or None."""
        if not isinstance(term, Call) or not term.operands or not isinstance(term.operands[0], Column):
            return None
        field = self._prefixes.get(term.operands[0].path)
        width = None if field is None or field.field.transform is None else field.field.transform.width
        if field is None or width is None:
            return None
        length = _length_looked_at(term)
        if length is None or length > width:
            return None
        return Call(term.name, (_marked(field), *term.operands[1:]), term.detail, term.is_function)


def _length_looked_at(term: Call) -> int | None:
    """Return how many leading characters determine the result of a call, or None if that is not known."""
    literals = [other.scalar.as_py() for other in term.operands[1:] if isinstance(other, Value)]
    if len(literals) < len(term.operands) - 1:
        return None
    match term.name, literals:
        case (("LIKE" | "NOT LIKE"), [str(pattern)]) if term.name in LIKES and not term.detail:
            prefix = pattern.rstrip("%")
            is_prefix = pattern != prefix and not any(mark in prefix for mark in "%_\\")
            return len(prefix) if is_prefix else None
        case "left", [int(length)] if length >= 0:
            return length
        case (("substr" | "substring"), [1, int(length)]) if length >= 0:
            return length
        case _:
            return None


def _compared(field: SourcedField, name: str, literals: Sequence[pa.Scalar]) -> Predicate | None:
    column, data_type = field.column, field.field.result_type
    if name in _OPERATORS and len(literals) == 1:
        return compare(column, data_type, _OPERATORS[name], literals[0])
    if name in (IN, NOT_IN) and len({literal.type for literal in literals}) == 1:
        values = pa.concat_arrays([pa.repeat(literal, 1) for literal in literals])
        membership = is_in(column, data_type, values)
        return membership if name == IN or isinstance(membership, Unknown) else Not(membership)
    if name == "IS NULL":
        return IsNull(column)
    if name == "IS NOT NULL":
        return Not(IsNull(column))
    return None


def _typed_column(field: SourcedField) -> Term | None:
    """Return the column of a field, cast to the current type of the computed values."""
    column = _marked(field)
    data_type = _result_type(field)
    if data_type == field.field.result_type or {data_type, field.field.result_type} <= set(_TEXT_TYPES):
        return column
    try:
        return Call(CAST, (column,), type_name(data_type))
    except UnsupportedFeatureError:
        return None


def _marked(field: SourcedField) -> Column:
    return Column((_MARK, field.field.column))


def _term_of(field: SourcedField) -> Term | None:
    """Return the term that a field computes, over the columns of the namespace."""
    if field.kind is TransformKind.IDENTITY:
        return Column(field.paths[0])
    expression = expression_of(field.field, field.types)
    term = _normal_term(expression, field.types)
    names = {f"col{number}": Column(path) for number, path in enumerate(field.paths)}
    if term is None or any(path[0] not in names or len(path) > 1 for path in columns_of(term)):
        return None
    return replaced(term, lambda part: names.get(part.path[0]) if isinstance(part, Column) else None)


def _result_type(field: SourcedField) -> pa.DataType:
    if field.kind is TransformKind.IDENTITY:
        return storage_type(field.types[0])
    return _type_of(expression_of(field.field, field.types), field.types)


@lru_cache(maxsize=1024)
def _normal_term(expression: str, types: tuple[pa.DataType, ...]) -> Term | None:
    try:
        return evaluator().term(expression, types)
    except InvalidInputError:
        return None


@lru_cache(maxsize=1024)
def _type_of(expression: str, types: tuple[pa.DataType, ...]) -> pa.DataType:
    return evaluator().result_type(expression, types)


def _widens(data_type: pa.DataType, cast: str) -> bool:
    """Whether a cast of a signed integer type is lossless."""
    if not pa.types.is_signed_integer(data_type):
        return False
    return cast in [f"Int{bits}" for bits in (8, 16, 32, 64) if bits >= data_type.bit_width]


def _is_prefix(field: SourcedField) -> bool:
    return field.kind is TransformKind.TRUNCATE and field.types[0] in _TEXT_TYPES
