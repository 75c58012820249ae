"""Write predicates as text for people: similar to SQL, shortened, and never parsed."""

from __future__ import annotations

from typing import assert_never

import pyarrow as pa

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

_MAX_VALUES = 6
_MAX_CHARACTERS = 60
_TRUTH = {True: "TRUE", False: "FALSE", None: "NULL"}


def to_text(predicate: Predicate) -> str:
    """Return the predicate as one line. Long lists and long values are shortened."""
    match predicate:
        case Literal(value):
            return _TRUTH[value]
        case Comparison(column, operator, value):
            return f"{_name(column)} {operator} {_value(value)}"
        case In():
            return f"{_name(predicate.column)} IN {_list(predicate)}"
        case Not(In() as operand):
            return f"{_name(operand.column)} NOT IN {_list(operand)}"
        case IsNull(operand):
            return f"{_operand(operand)} IS NULL"
        case Not(IsNull(operand)):
            return f"{_operand(operand)} IS NOT NULL"
        case Truth(column):
            return _name(column)
        case Not(operand):
            return f"NOT {_operand(operand)}"
        case And(operands):
            return " AND ".join(_nested(part, Or) for part in operands) or _TRUTH[True]
        case Or(operands):
            return " OR ".join(_nested(part, And) for part in operands) or _TRUTH[False]
        case Unknown(text):
            return text
        case _:
            assert_never(predicate)


def _operand(operand: Column | Predicate) -> str:
    match operand:
        case Column():
            return _name(operand)
        case Truth(column):
            return _name(column)
        case _:
            return f"({to_text(operand)})"


def _nested(part: Predicate, other: type[And | Or]) -> str:
    return f"({to_text(part)})" if isinstance(part, other) else to_text(part)


def _name(column: Column) -> str:
    return ".".join(
        part if part.isidentifier() and part.islower() else '"' + part.replace('"', '""') + '"'
        for part in column.path
    )


def _list(predicate: In) -> str:
    shown = [_value(value) for value in predicate.values[:_MAX_VALUES]]
    if len(predicate.values) > _MAX_VALUES:
        shown.append(f"… {len(predicate.values)} values")
    if predicate.has_null:
        shown.append("NULL")
    return f"({', '.join(shown)})"


def _value(scalar: pa.Scalar) -> str:
    if isinstance(scalar, pa.DictionaryScalar):
        scalar = scalar.value
    data_type = scalar.type
    if pa.types.is_boolean(data_type):
        return _TRUTH[scalar.as_py()]
    if (
        pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_string_view(data_type)
    ):
        return _quoted(scalar.as_py())
    if pa.types.is_temporal(data_type):
        return _quoted(scalar_text(scalar))
    try:
        value = scalar.as_py()
    except (ValueError, UnicodeDecodeError):
        return _quoted(str(scalar))
    return f"x'{_shortened(value.hex())}'" if isinstance(value, bytes) else _shortened(str(value))


def scalar_text(scalar: pa.Scalar) -> str:
    """Return a value as text, including dates outside of Python's calendar."""
    try:
        return str(scalar)
    except (OverflowError, ValueError):
        values, data_type = pa.repeat(scalar, 1), scalar.type
        if pa.types.is_timestamp(data_type) or pa.types.is_date(data_type):
            return str(values.cast(pa.string())[0])
        if pa.types.is_temporal(data_type):
            return str(values.view(pa.int32() if data_type.bit_width == 32 else pa.int64())[0])
        return " ".join(str(values).split())


def _quoted(text: str) -> str:
    return "'" + _shortened(text).replace("'", "''") + "'"


def _shortened(text: str) -> str:
    line = text.replace("\n", "\\n").replace("\r", "\\r")
    return line if len(line) <= _MAX_CHARACTERS else line[: _MAX_CHARACTERS - 1] + "…"
