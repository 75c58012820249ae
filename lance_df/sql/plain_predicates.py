"""Convert SQL filters that only compare columns with literals to predicates, without an engine.

A filter is only converted if engines and predicates interpret it identically: the types need no conversion,
or one that is always exact. DataFusion plans or refuses all other filters.
"""

from __future__ import annotations

import datetime as dt
import re
from calendar import monthrange
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

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
)
from lance_df.sql.dialect import DataFusion
from lance_df.sql.expressions import to_datafusion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    _Value: TypeAlias = int | float | str | dt.date

_COMPARISONS: Final[dict[type[exp.Expression], Operator]] = {
    exp.EQ: Operator.EQ,
    exp.NEQ: Operator.NE,
    exp.LT: Operator.LT,
    exp.LTE: Operator.LE,
    exp.GT: Operator.GT,
    exp.GTE: Operator.GE,
}
_FLIPPED: Final = {
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}
# The arguments that a node may have. Nodes with others, such as modifiers of newer parser versions, are
# unknown.
_PARTS: Final[dict[Any, frozenset[str]]] = {
    **dict.fromkeys((exp.And, exp.Or, exp.Add, exp.Sub, *_COMPARISONS), frozenset({"this", "expression"})),
    **dict.fromkeys((exp.Paren, exp.Not, exp.Neg, exp.Boolean, exp.Column, exp.Var), frozenset({"this"})),
    exp.Interval: frozenset({"this", "unit"}),
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.In: frozenset({"this", "expressions"}),
    exp.Is: frozenset({"this", "expression", "negate"}),
    exp.Null: frozenset(),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.DataType: frozenset({"this"}),
}
_MAX_CHARACTERS: Final = 10_000
_MAX_EXACT_INTEGER: Final = 2**53
_INTEGER, _DATE = re.compile(r"\d{1,18}"), re.compile(r"\d{4}-\d\d-\d\d")
_INTERVAL: Final = re.compile(r"-?\d{1,6}")
_MONTHS: Final = {"MONTH": 1, "YEAR": 12}


def plain_predicate(expression: str, schema: pa.Schema) -> Predicate | None:
    """Return the predicate of an SQL filter over ``schema``; ``None`` for all but plain comparisons.

    >>> plain_predicate("a between 2 and 3", pa.schema([("a", pa.int64())])) is not None
    True
    >>> plain_predicate("a + 1 = 3", pa.schema([("a", pa.int64())])) is None
    True

    Raises
    ------
    InvalidInputError
        ``expression`` is not a single expression.
    """
    text = to_datafusion(expression, schema.names)
    if len(text) > _MAX_CHARACTERS:  # parsing would take longer than planning
        return None
    try:
        (tree,) = DataFusion().parse(text)
        return _Translator(schema).translate(_checked(tree))
    except (_NotPlainError, SqlglotError, RecursionError):
        return None


class _NotPlainError(Exception):
    """Ends the translation."""


def _checked(tree: Any) -> exp.Expression:
    """Check that a tree contains only known nodes and arguments, and return it."""
    if tree is None:
        raise _NotPlainError
    for node in tree.walk():
        known = _PARTS.get(type(node))
        if known is None or any(value for name, value in node.args.items() if name not in known):
            raise _NotPlainError
    checked: exp.Expression = tree
    return checked


class _Translator:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def translate(self, node: exp.Expression) -> Predicate:
        match node:
            case exp.Paren():
                return self.translate(node.this)
            case exp.And() | exp.Or():
                kind = And if isinstance(node, exp.And) else Or
                return kind((self.translate(node.this), self.translate(node.expression)))
            case exp.Not():
                return Not(self.translate(node.this))
            case exp.Boolean():
                return Literal(bool(node.this))
            case exp.Column():
                return self._truth(node)
            case exp.Between():
                low = self._comparison(node.this, Operator.GE, node.args["low"])
                return And((low, self._comparison(node.this, Operator.LE, node.args["high"])))
            case exp.In() if node.expressions:
                return self._in(node.this, node.expressions)
            case exp.Is() if isinstance(node.expression, exp.Null):
                test = IsNull(self._column(node.this)[0])
                return Not(test) if node.args.get("negate") else test
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                operator = _COMPARISONS[type(node)]
                if isinstance(node.this, exp.Column):
                    return self._comparison(node.this, operator, node.expression)
                return self._comparison(node.expression, _FLIPPED.get(operator, operator), node.this)
            case _:
                raise _NotPlainError

    def _truth(self, node: exp.Column) -> Predicate:
        column, data_type = self._column(node)
        if not pa.types.is_boolean(data_type):
            raise _NotPlainError
        return Truth(column)

    def _comparison(self, left: exp.Expression, operator: Operator, right: exp.Expression) -> Predicate:
        column, data_type = self._column(left)
        return Comparison(column, operator, pa.scalar(_literal(right, data_type), data_type))

    def _in(self, left: exp.Expression, items: Sequence[exp.Expression]) -> Predicate:
        column, data_type = self._column(left)
        if pa.types.is_floating(data_type):  # how floats are compared depends on the length of the list
            raise _NotPlainError
        return In(column, pa.array([_literal(item, data_type) for item in items], data_type))

    def _column(self, node: exp.Expression) -> tuple[Column, pa.DataType]:
        """Return a column and its type. At this point, names of columns are quoted."""
        if not isinstance(node, exp.Column):
            raise _NotPlainError
        name = node.this.name
        if not node.this.args.get("quoted") or len(self._schema.get_all_field_indices(name)) != 1:
            raise _NotPlainError
        return Column((name,)), self._schema.field(name).type


def _literal(node: exp.Expression, data_type: pa.DataType) -> _Value:
    """Return the value of a literal that needs no conversion to compare with values of a type."""
    read = next((read for fits, read in _READERS if fits(data_type)), None)
    if read is None:
        raise _NotPlainError
    return read(node, data_type)


def _read_integer(node: exp.Expression, data_type: pa.DataType) -> int:
    value = _whole_number(node)
    bits, signed = data_type.bit_width, pa.types.is_signed_integer(data_type)
    lowest, highest = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    if not lowest <= value <= highest:
        raise _NotPlainError
    return value


def _whole_number(node: exp.Expression) -> int:
    sign, digits = _signed(node)
    if not _INTEGER.fullmatch(digits):
        raise _NotPlainError
    return sign * int(digits)


def _signed(node: exp.Expression) -> tuple[int, str]:
    if isinstance(node, exp.Neg):
        sign, digits = _signed(node.this)
        return -sign, digits
    if not isinstance(node, exp.Literal) or node.is_string:
        raise _NotPlainError
    return 1, node.this


def _read_float(node: exp.Expression, _: pa.DataType) -> float:
    sign, digits = _signed(node)
    try:
        value = float(digits)
    except ValueError:
        raise _NotPlainError from None
    if digits.isdecimal() and int(digits) > _MAX_EXACT_INTEGER:
        raise _NotPlainError
    return sign * value


def _read_text(node: exp.Expression, _: pa.DataType) -> str:
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise _NotPlainError
    text: str = node.this
    return text


def _read_date(node: exp.Expression, _: pa.DataType) -> dt.date:
    if isinstance(node, exp.Add | exp.Sub) and not isinstance(node.this, exp.Literal):
        return _shifted(_read_date(node.this, _), node.expression, 1 if isinstance(node, exp.Add) else -1)
    if isinstance(node, exp.Cast) and node.to.this is exp.DataType.Type.DATE:
        node = node.this
    text = _read_text(node, _)
    try:
        if _DATE.fullmatch(text):
            return dt.date.fromisoformat(text)
    except ValueError:
        pass
    raise _NotPlainError


def _shifted(day: dt.date, interval: exp.Expression, sign: int) -> dt.date:
    """Return a day shifted by some days, months or years, limited to the last day of the month."""
    if not isinstance(interval, exp.Interval) or not isinstance(interval.args.get("unit"), exp.Var):
        raise _NotPlainError
    text, unit = _read_text(interval.this, pa.string()), interval.args["unit"].name.upper().removesuffix("S")
    if not _INTERVAL.fullmatch(text):
        raise _NotPlainError
    count = sign * int(text)
    try:
        if unit == "DAY":
            return day + dt.timedelta(days=count)
        if unit in _MONTHS:
            year, month = divmod(12 * day.year + day.month - 1 + count * _MONTHS[unit], 12)
            return dt.date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))
    except (OverflowError, ValueError):  # the year is outside the range of Python's dates
        pass
    raise _NotPlainError


_READERS: Final[
    Sequence[tuple[Callable[[pa.DataType], bool], Callable[[exp.Expression, pa.DataType], _Value]]]
] = (
    (pa.types.is_integer, _read_integer),
    (pa.types.is_float64, _read_float),
    (pa.types.is_string, _read_text),
    (pa.types.is_large_string, _read_text),
    (pa.types.is_date32, _read_date),
)
