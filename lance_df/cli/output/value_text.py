"""Convert columns to text, as in tables and CSV.

Numbers, decimals, dates and times keep every digit. Bytes are hexadecimal, nested values are JSON.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_df.cli.output.text_buffers import bytes_of, joined, text_of_bytes

TEXT: Final = pa.large_string()

_SECONDS_OF_DAY: Final = 86_400
_MAX_DAYS: Final = 2_900_000  # until the year 9909
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def value_text(column: pa.Array) -> pa.Array:
    """Return the texts of a column, as ``large_string``, NULL where ``column`` is."""
    column = plain(column)
    data_type = column.type
    if is_text(data_type) or types.is_null(data_type):
        return column.cast(TEXT)
    if is_nested(data_type):
        from lance_df.cli.output.json_text import json_text

        return json_text(column)
    if types.is_boolean(data_type) or types.is_integer(data_type):
        return column.cast(TEXT)
    for test, function in _FUNCTIONS:
        if test(data_type):
            return function(column)
    return pa.array([None if value is None else str(value) for value in column.to_pylist()], TEXT)


def plain(column: pa.Array) -> pa.Array:
    """Return a column without dictionary encoding, run-end encoding and extension types."""
    while True:
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.storage
        elif types.is_dictionary(column.type):
            column = column.dictionary_decode()
        elif types.is_run_end_encoded(column.type):
            column = pc.run_end_decode(column)
        else:
            return column


def is_text(data_type: pa.DataType) -> bool:
    """Whether values are already text."""
    return types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type)


def is_nested(data_type: pa.DataType) -> bool:
    """Whether values are lists, structs or maps."""
    return bool(types.is_nested(data_type)) and not types.is_union(data_type)


def is_bytes(data_type: pa.DataType) -> bool:
    """Whether values are bytes."""
    tests = (
        types.is_binary,
        types.is_large_binary,
        types.is_fixed_size_binary,
        types.is_binary_view,
    )
    return any(test(data_type) for test in tests)


def _floats(column: pa.Array) -> pa.Array:
    """Return the shortest text that round-trips, with a point or an exponent, or NaN, inf or -inf."""
    if types.is_float16(column.type):
        return _halves(column)
    text, numbers = column.cast(TEXT), column
    is_integral = pc.fill_null(pc.equal(pc.floor(numbers), numbers), False)
    if pc.any(is_integral).as_py():
        needs_point = pc.and_(is_integral, pc.match_substring_regex(text, r"^-?[0-9]+$"))
        text = pc.if_else(needs_point, joined(text, ".0"), text)
    is_nan = pc.is_nan(numbers)
    return pc.if_else(is_nan, pa.scalar("NaN", TEXT), text) if pc.any(is_nan).as_py() else text


def _halves(column: pa.Array) -> pa.Array:
    bits = column.view(pa.int16()).dictionary_encode()
    values = bits.dictionary.to_numpy().view(np.float16)
    # Arrow's own conversion has the digits of a double
    digits = ["NaN" if np.isnan(value) else str(value) for value in values]
    return pa.array(digits, TEXT).take(bits.indices)


def _decimals(column: pa.Array) -> pa.Array:
    """Return decimals with all digits of the scale, without exponents."""
    data_type = column.type
    scale = data_type.scale
    if 0 <= scale <= 6:
        return column.cast(TEXT)
    make_type = getattr(pa, f"decimal{data_type.bit_width}")
    buffers = column.buffers()
    unscaled = pa.Array.from_buffers(
        make_type(data_type.precision, 0), len(column), buffers, offset=column.offset
    )
    digits = unscaled.cast(TEXT)
    return joined(digits, "0" * -scale) if scale < 0 else _with_point(digits, scale)


def _with_point(digits: pa.Array, scale: int) -> pa.Array:
    """Return integers divided by ten to the power of ``scale``, as text."""
    if not scale:
        return digits
    is_negative = pc.starts_with(digits, "-")
    sign = pc.if_else(is_negative, pa.scalar("-", TEXT), pa.scalar("", TEXT))
    padded = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), scale + 1, "0")
    whole = pc.utf8_slice_codeunits(padded, 0, -scale)
    return joined(sign, whole, ".", pc.utf8_slice_codeunits(padded, -scale))


def _timestamps(column: pa.Array) -> pa.Array:
    """Return texts such as ``2024-01-01 05:00:00``, with a fraction and a zone offset if there are any."""
    unit, zone = column.type.unit, column.type.tz
    if _has_long_years(column.cast(pa.int64()), _SECONDS_OF_DAY * _PER_SECOND[unit]):
        return _with_long_years(column.cast(pa.int64()), unit, "" if zone is None else "Z")
    if unit != "s" and _are_whole_seconds(column.cast(pa.int64()), unit):
        column = column.cast(pa.timestamp("s", zone))
    if column.type.unit == "s" and zone in (None, "UTC") and (text := _seconds(column)) is not None:
        return text
    in_utc = column.cast(pa.timestamp(column.type.unit, "UTC"))
    try:
        text = column.cast(TEXT)
        if zone is not None:
            # offsets of local mean time have seconds, which text of an offset lacks
            offsets = pc.subtract(pc.local_timestamp(column).cast(pa.int64()), column.cast(pa.int64()))
            seconds = pc.fill_null(offsets, 0).to_numpy() // _PER_SECOND[column.type.unit]
            if (has_seconds := seconds % 60 != 0).any():
                text = pc.if_else(pa.array(has_seconds), in_utc.cast(TEXT), text)
    except pa.ArrowException:  # an unknown time zone
        text = in_utc.cast(TEXT)
    if column.type.unit != "s":
        text = pc.replace_substring_regex(text, r"\.0+(Z|[+-]\d{4})?$", r"\1")
    return text if zone in (None, "UTC") else pc.replace_substring_regex(text, r"([+-]\d\d)(\d\d)$", r"\1:\2")


def _seconds(column: pa.Array) -> pa.Array | None:
    """Return whole seconds as text, or None if a year has too many digits.

    Days and seconds of a day are often repeated, so each distinct one is formatted once.
    """
    seconds = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    days = seconds // _SECONDS_OF_DAY
    if not len(days) or np.abs(days).max() > _MAX_DAYS:
        return None
    times = (seconds - days * _SECONDS_OF_DAY).astype(np.int32)
    parts = [
        _text_of_distinct(pa.array(days.astype(np.int32)).cast(pa.date32())),
        " ",
        _text_of_distinct(pa.array(times).cast(pa.time32("s"))),
        *(["Z"] if column.type.tz else []),
    ]
    text = joined(*parts)
    return pc.if_else(column.is_valid(), text, pa.scalar(None, TEXT)) if column.null_count else text


def _text_of_distinct(column: pa.Array) -> pa.Array:
    encoded = column.dictionary_encode()
    return encoded.dictionary.cast(TEXT).take(encoded.indices)


def _times(column: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(column.cast(TEXT), r"\.0+$", "")


def _durations(column: pa.Array) -> pa.Array:
    """Return durations in seconds, such as ``90 s`` or ``1.5 s``."""
    digits = column.cast(pa.int64()).cast(TEXT)
    scale = _DIGITS[column.type.unit]
    text = _with_point(digits, scale)
    return joined(pc.replace_substring_regex(text, r"\.?0+$", "") if scale else text, " s")


def _dates(column: pa.Array) -> pa.Array:
    is_32 = types.is_date32(column.type)
    numbers = column.cast(pa.int32() if is_32 else pa.int64())
    per_day = 1 if is_32 else 1000 * _SECONDS_OF_DAY
    if not _has_long_years(numbers, per_day):
        return column.cast(TEXT)
    return _with_long_years(pc.divide(numbers, per_day), "D", "")


def _has_long_years(values: pa.Array, per_day: int) -> bool:
    """Whether a value is in a year that Arrow cannot format."""
    ends = pc.min_max(values).as_py()
    limit = _MAX_DAYS * per_day
    return ends["min"] is not None and (ends["min"] < -limit or ends["max"] > limit)


def _with_long_years(values: pa.Array, unit: str, zone: str) -> pa.Array:
    moments = pc.fill_null(values, 0).to_numpy().astype(f"datetime64[{unit}]")
    text = pa.array(np.datetime_as_string(moments), TEXT)
    text = pc.replace_substring(pc.replace_substring_regex(text, r"\.0+$", ""), "T", " ")
    text = joined(text, zone) if zone else text
    return pc.if_else(values.is_valid(), text, pa.scalar(None, TEXT)) if values.null_count else text


def _intervals(column: pa.Array) -> pa.Array:
    """Return intervals such as ``1 month 2 days 03:00:00``."""
    return pa.array([None if value is None else _interval(*value) for value in column.to_pylist()], TEXT)


def _interval(months: int, days: int, nanoseconds: int) -> str:
    parts = [
        f"{number} {unit}{'' if abs(number) == 1 else 's'}"
        for number, unit in ((months, "month"), (days, "day"))
        if number
    ]
    if nanoseconds or not parts:
        seconds, rest = divmod(abs(nanoseconds), 10**9)
        minutes, second = divmod(seconds, 60)
        hours, minute = divmod(minutes, 60)
        fraction = f".{rest:09}".rstrip("0") if rest else ""
        parts.append(f"{'-' * (nanoseconds < 0)}{hours:02}:{minute:02}:{second:02}{fraction}")
    return " ".join(parts)


def _are_whole_seconds(values: pa.Array, unit: str) -> bool:
    per_second = _PER_SECOND[unit]
    rest = pc.subtract(values, pc.multiply(pc.divide(values, per_second), per_second))
    return not pc.any(pc.not_equal(rest, 0)).as_py()


def _hexadecimal(column: pa.Array) -> pa.Array:
    values = column.cast(pa.large_binary())
    offsets, data = bytes_of(values)
    return text_of_bytes(
        offsets * 2, data.tobytes().hex().encode(), values.is_valid() if values.null_count else None
    )


_FUNCTIONS: Final = (
    (types.is_floating, _floats),
    (types.is_decimal, _decimals),
    (types.is_timestamp, _timestamps),
    (types.is_date, _dates),
    (types.is_time, _times),
    (types.is_interval, _intervals),
    (types.is_duration, _durations),
    (is_bytes, _hexadecimal),
)
