"""Write values as SQL literals that DataFusion reads back exactly."""

from __future__ import annotations

import math
from typing import Final

import pyarrow as pa

from lance_df.expr.literals import is_text
from lance_df.expr.type_names import type_name
from lance_df.sql.splice import quote_string

_SAFE_SECONDS: Final = 9_000_000_000  # in the range of nanosecond timestamps, the type of TIMESTAMP '…'
_PLAIN: Final = (pa.int64(), pa.string(), pa.bool_(), pa.float64(), pa.binary(), pa.date32())


def literal_sql(value: pa.Scalar, *, typed: bool = False) -> str:
    """Return a value as an SQL literal.

    Parameters
    ----------
    typed
        Whether the literal must have exactly the type of the value. Otherwise a literal that compares equal
        is sufficient.

    Raises
    ------
    UnsupportedFeatureError
        There are no literals of the type.
    """
    data_type = value.type
    if pa.types.is_null(data_type):
        return "NULL"
    if not value.is_valid:
        return _cast("NULL", data_type)
    text = _text(value)
    if not typed or data_type in _PLAIN or text.startswith(("arrow_cast", "INTERVAL")):
        return text
    return _cast(text, data_type)


def _text(value: pa.Scalar) -> str:
    kinds, data_type = pa.types, value.type
    if kinds.is_boolean(data_type):
        return "TRUE" if value.as_py() else "FALSE"
    if kinds.is_integer(data_type):
        number = value.as_py()
        return str(number) if abs(number) < 2**63 else _cast(quote_string(str(number)), data_type)
    if kinds.is_floating(data_type):
        number = float(value.as_py())
        if math.isfinite(number):
            return repr(number)
        name = quote_string(_float_name(number))
        # DataFusion 51 cannot cast text to float16
        is_half = kinds.is_float16(data_type)
        return _cast(_cast(name, pa.float32()) if is_half else name, data_type)
    if is_text(data_type):
        return quote_string(value.as_py())
    if kinds.is_decimal(data_type):
        return _cast(quote_string(f"{value.as_py():f}"), data_type)
    if kinds.is_temporal(data_type) and not kinds.is_interval(data_type):
        return _temporal(value)
    if kinds.is_interval(data_type):
        months, days, nanoseconds = value.as_py()
        return f"INTERVAL '{months} months {days} days {nanoseconds} nanoseconds'"
    type_name(data_type)  # raises for nested types
    content = f"X'{value.as_buffer().to_pybytes().hex()}'"
    return content if data_type == pa.binary() else _cast(content, data_type)


def _temporal(value: pa.Scalar) -> str:
    """Return a date or naive timestamp in the usual notation if this is exact, and other values as ticks."""
    data_type = value.type
    width = pa.int32() if data_type.bit_width == 32 else pa.int64()
    ticks = pa.repeat(value, 1).view(width)[0].as_py()
    if pa.types.is_date32(data_type) and abs(ticks) * 86_400 < _SAFE_SECONDS:
        return f"DATE '{value.as_py()}'"
    if pa.types.is_timestamp(data_type) and data_type.tz is None:
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[data_type.unit]
        if abs(ticks) < _SAFE_SECONDS * per_second:
            return f"TIMESTAMP '{pa.repeat(value, 1).cast(pa.string())[0].as_py()}'"
    number = f"arrow_cast({ticks}, 'Int32')" if width == pa.int32() else str(ticks)
    return _cast(number, data_type)


def _float_name(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "inf" if number > 0 else "-inf"


def _cast(text: str, data_type: pa.DataType) -> str:
    return f"arrow_cast({text}, {quote_string(type_name(data_type))})"
