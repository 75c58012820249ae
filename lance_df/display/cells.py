"""Arrow values as short text; only the beginning of large values is decoded."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from lance_df.display.numbers import number_text

_MAX_CHARACTERS: Final = 80
_MAX_ITEMS: Final = 4
_MAX_DEPTH: Final = 3
_TEXT: Final = (pa.string(), pa.large_string(), pa.string_view())
_BYTES: Final = (pa.binary(), pa.large_binary(), pa.binary_view())


def cell_text(value: Any, depth: int = 0) -> str:
    """Return a scalar as text of bounded length."""
    if isinstance(value, pa.ExtensionScalar):
        value = value.value
    if value is None or not value.is_valid:
        return "NULL"
    data_type = value.type
    if data_type in _TEXT:
        return _text(value)
    if data_type in _BYTES or pa.types.is_fixed_size_binary(data_type):
        return number_text(len(value.as_buffer()), "byte")
    if depth >= _MAX_DEPTH:
        return "…"
    if pa.types.is_dictionary(data_type):
        return cell_text(value.value, depth)
    if pa.types.is_struct(data_type):
        names = [field.name for field in data_type][:_MAX_ITEMS]
        parts = [
            f"{name[:_MAX_CHARACTERS]}: {cell_text(value[index], depth + 1)}"
            for index, name in enumerate(names)
        ]
        return _joined("{", parts, data_type.num_fields, "}")
    if hasattr(value, "values") and isinstance(value.values, pa.Array):
        items = [cell_text(item, depth + 1) for item in value.values[:_MAX_ITEMS]]
        return _joined("[", items, len(value.values), "]")
    try:
        return str(value)[:_MAX_CHARACTERS]
    except (OverflowError, ValueError):  # outside Python's calendar, but Arrow can format it
        return " ".join(str(pa.repeat(value, 1)).split())[len("[ ") : -len(" ]")]


def _text(value: Any) -> str:
    buffer = value.as_buffer()
    # four bytes per character are enough; one extra character shows that the value is longer
    text = bytes(buffer[: 4 * (_MAX_CHARACTERS + 1)]).decode("utf-8", "replace")
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"


def _joined(opening: str, parts: list[str], total: int, closing: str) -> str:
    more = [f"… {total:,} in all"] if total > len(parts) else []
    return opening + ", ".join([*parts, *more]) + closing
