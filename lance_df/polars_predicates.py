"""Convert predicates of Polars to expressions of pyarrow, as far as both have the same meaning.

Polars returns an expression as JSON, whose form is not documented; unknown parts are left to Polars. The
expression may be true for more rows than the predicate, never for fewer.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import LanceError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

_types = pa.types
_LOWEST: Final = pa.scalar(-math.inf, pa.float64())
# longer lists of floats are compared by bits
_MAX_FLOATS: Final = 16
_MAX_DEPTH: Final = 64
_PLAIN: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    *(_types.is_integer, _types.is_floating, _types.is_boolean, _types.is_decimal),
    *(_types.is_date, _types.is_timestamp, _types.is_duration, _types.is_time),
    *(_types.is_string, _types.is_large_string, _types.is_binary, _types.is_large_binary),
)
_MIRRORED: Final = {"Gt": "Lt", "GtEq": "LtEq", "Lt": "Gt", "LtEq": "GtEq", "Eq": "Eq", "NotEq": "NotEq"}
_LAST_CHARACTER: Final = 0x10FFFF
_SURROGATES: Final = range(0xD7FF, 0xE000)


class _UntranslatedError(Exception):
    """Polars returned something that is unknown here."""


@dataclass(frozen=True, slots=True)
class _Part:
    """An expression, and whether it is true for exactly the rows of the original."""

    expression: pc.Expression
    is_exact: bool = True


def to_arrow_expression(predicate: pl.Expr, schema: pa.Schema) -> pc.Expression | None:
    """Return an expression that is true for all rows for which a predicate is; None if for all rows."""
    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
    except Exception:  # noqa: BLE001 - of an interface that may change
        return None
    parts = []
    for conjunct in _conjuncts(tree):
        try:
            parts.append(_translated(conjunct, schema, 0).expression)
        except (_UntranslatedError, pa.ArrowException, LanceError, KeyError, TypeError, ValueError):
            continue
    result = None
    for part in parts:
        result = part if result is None else result & part
    return result


def _conjuncts(tree: Any) -> list[Any]:
    waiting, parts = [tree], []
    while waiting:
        node = waiting.pop()
        match node:
            case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
                waiting += [right, left]
            case _:
                parts.append(node)
    return parts


def _translated(node: Any, schema: pa.Schema, depth: int) -> _Part:
    if depth > _MAX_DEPTH:
        raise _UntranslatedError
    match node:
        case {"Column": str(name)}:
            if not _types.is_boolean(_column_type(name, schema)):
                raise _UntranslatedError
            return _Part(pc.field(name) == pa.scalar(True))
        case {"BinaryExpr": {"left": left, "op": str(operator), "right": right}}:
            return _binary(left, operator, right, schema, depth)
        case {"Function": {"input": inputs, "function": {"Boolean": function}}}:
            return _boolean(function, inputs, schema, depth)
        case {
            "Function": {"input": [{"Column": str(name)}, prefix], "function": {"StringExpr": "StartsWith"}}
        }:
            return _starts_with(name, prefix, schema)
    raise _UntranslatedError


def _binary(left: Any, operator: str, right: Any, schema: pa.Schema, depth: int) -> _Part:
    if operator in ("And", "LogicalAnd", "Or", "LogicalOr"):
        one, other = (_translated(each, schema, depth + 1) for each in (left, right))
        is_exact = one.is_exact and other.is_exact
        if operator.endswith("And"):
            return _Part(one.expression & other.expression, is_exact)
        return _Part(one.expression | other.expression, is_exact)
    if operator not in _MIRRORED:
        raise _UntranslatedError
    match left, right:
        case {"Column": str(name)}, {"Literal": _}:
            return _compared(name, operator, _literal(right), schema)
        case {"Literal": _}, {"Column": str(name)}:
            return _compared(name, _MIRRORED[operator], _literal(left), schema)
    raise _UntranslatedError


def _boolean(function: Any, inputs: list[Any], schema: pa.Schema, depth: int) -> _Part:
    match function, inputs:
        case "IsNull", [{"Column": str(name)}]:
            _column_type(name, schema)
            return _Part(pc.field(name).is_null())
        case "IsNotNull", [{"Column": str(name)}]:
            _column_type(name, schema)
            return _Part(pc.field(name).is_valid())
        case "Not", [operand]:
            part = _translated(operand, schema, depth + 1)
            if part.is_exact:
                return _Part(~part.expression)
        case {"IsIn": {"nulls_equal": False}}, [{"Column": str(name)}, {"Literal": _} as values]:
            return _is_in(name, _literal(values), schema)
        case {"IsBetween": {"closed": str(closed)}}, [{"Column": str(name)}, low, high]:
            lower = "GtEq" if closed in ("Both", "Left") else "Gt"
            upper = "LtEq" if closed in ("Both", "Right") else "Lt"
            above = _compared(name, lower, _literal(low), schema)
            below = _compared(name, upper, _literal(high), schema)
            return _Part(above.expression & below.expression, above.is_exact and below.is_exact)
    raise _UntranslatedError


def _compared(name: str, operator: str, values: pa.Array, schema: pa.Schema) -> _Part:
    data_type = _column_type(name, schema)
    value = _as_type(values, data_type)[0]
    if not value.is_valid:
        raise _UntranslatedError
    field = pc.field(name)
    if _types.is_floating(data_type) and math.isnan(value.as_py()):
        raise _UntranslatedError
    if operator == "Eq":
        return _Part(field == value)
    if operator == "NotEq":
        return _Part(field != value)
    if operator in ("Lt", "LtEq"):
        # scans order some NaN below all numbers; Polars never does
        is_exact = not _types.is_floating(data_type)
        return _Part(field < value if operator == "Lt" else field <= value, is_exact)
    greater = field > value if operator == "Gt" else field >= value
    if _types.is_floating(data_type):
        greater = greater | (field < _LOWEST.cast(data_type))
    return _Part(greater)


def _is_in(name: str, values: pa.Array, schema: pa.Schema) -> _Part:
    data_type = _column_type(name, schema)
    if not (_types.is_list(values.type) or _types.is_large_list(values.type)):
        raise _UntranslatedError
    items = _as_type(values.flatten(), data_type)
    if items.null_count:
        raise _UntranslatedError
    field = pc.field(name)
    if not _types.is_floating(data_type):
        return _Part(field.isin(items))
    if not 0 < len(items) <= _MAX_FLOATS or any(math.isnan(item.as_py()) for item in items):
        raise _UntranslatedError
    result = field == items[0]
    for item in items[1:]:
        result = result | (field == item)
    return _Part(result)


def _starts_with(name: str, prefix: Any, schema: pa.Schema) -> _Part:
    """Return a range of texts in code point order, which is also the order of their bytes."""
    data_type = _column_type(name, schema)
    text = _literal(prefix)[0].as_py()
    if not (_types.is_string(data_type) or _types.is_large_string(data_type)) or not text:
        raise _UntranslatedError
    field, last = pc.field(name), ord(text[-1])
    expression = field >= pa.scalar(text, data_type)
    if last < _LAST_CHARACTER and last not in _SURROGATES:
        expression = expression & (field < pa.scalar(text[:-1] + chr(last + 1), data_type))
    return _Part(expression)


def _literal(node: Any) -> pa.Array:
    """Return the value of a literal, as an array of one."""
    import polars as pl

    if not isinstance(node, dict) or "Literal" not in node:
        raise _UntranslatedError
    try:
        expression = pl.Expr.deserialize(json.dumps(node).encode(), format="json")
        values = pl.select(expression).to_series().to_arrow()
    except Exception as err:
        raise _UntranslatedError from err
    if len(values) != 1:
        raise _UntranslatedError
    return values


def _as_type(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Convert values to the type of a column, without loss."""
    is_time = _types.is_timestamp(values.type) and _types.is_timestamp(data_type)
    if is_time and (values.type.tz is None) != (data_type.tz is None):
        raise _UntranslatedError
    if values.type == pa.string_view():
        values = values.cast(pa.string())
    converted = values.cast(data_type)
    if not converted.cast(values.type).equals(values):
        raise _UntranslatedError
    return converted


def _column_type(name: str, schema: pa.Schema) -> pa.DataType:
    data_type = schema.field(name).type
    if not any(is_kind(data_type) for is_kind in _PLAIN):
        raise _UntranslatedError
    return data_type
