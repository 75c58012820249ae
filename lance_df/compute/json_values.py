"""Compute pylance's JSON functions over arrays of stored documents; see `json_functions`.

The conversion rules are as observed in pylance 14. A value that cannot be converted is an error, not NULL.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from lance_df.compute.json_paths import Step, parse_path, selected
from lance_df.encodings.jsonb import decode_jsonb, document_of, document_text, document_value, encode_jsonb
from lance_df.errors import InvalidInputError, LanceError

_NUMBER: Final = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity|nan)", re.I
)
_INT: Final = re.compile(r"[+-]?[0-9]+")
_TRUTH: Final = {"true": True, "yes": True, "false": False, "no": False}
_INDEX: Final = re.compile(r"\+?[0-9]+")
_MISSING: Final = object()


def extract(documents: pa.Array, paths: pa.Array) -> pa.Array:
    """Return the selected values as JSON text: one value as is, several as an array, none as NULL."""

    select = _selection()

    def text(document: bytes, path: str) -> str | None:
        values = select(document, path)
        return document_text(values[0] if len(values) == 1 else values) if values else None

    return _computed(text, pa.string(), documents, paths)


def exists(documents: pa.Array, paths: pa.Array) -> pa.Array:
    """Return whether paths select any value."""
    select = _selection()
    return _computed(lambda *row: bool(select(*row)), pa.bool_(), documents, paths)


def array_length(documents: pa.Array, paths: pa.Array) -> pa.Array:
    """Return the length of the first selected value; 0 if it is no array, NULL if nothing is selected."""

    select = _selection()

    def length(document: bytes, path: str) -> int | None:
        values = select(document, path)
        if not values:
            return None
        return len(values[0]) if isinstance(values[0], list) else 0

    return _computed(length, pa.int64(), documents, paths)


def array_contains(documents: pa.Array, paths: pa.Array, items: pa.Array) -> pa.Array:
    """Return whether a selected array has an item with this JSON text, or a string with this text."""

    select = _selection()

    def contains(document: bytes, path: str, item: str) -> bool:
        arrays = select(document, path)
        return any(
            item == each or item == document_text(each)
            for array in arrays
            if isinstance(array, list)
            for each in array
        )

    return _computed(contains, pa.bool_(), documents, paths, items)


def get(documents: pa.Array, keys: pa.Array) -> pa.Array:
    """Return the documents at a key, which is the name of a field or the position of an item."""

    def document(document: bytes, key: str) -> bytes | None:
        value = _at(document_value(document), key)
        return None if value is _MISSING else document_of(value)

    return _computed(document, pa.large_binary(), documents, keys)


def get_string(documents: pa.Array, keys: pa.Array) -> pa.Array:
    """Return strings at a key; numbers and booleans become text."""
    return _converted(_string, pa.string(), documents, keys)


def get_int(documents: pa.Array, keys: pa.Array) -> pa.Array:
    """Return integers at a key: numbers are rounded, texts are parsed, true is 1."""
    return _converted(_int, pa.int64(), documents, keys)


def get_float(documents: pa.Array, keys: pa.Array) -> pa.Array:
    """Return floats at a key: texts are parsed, true is 1."""
    return _converted(_float, pa.float64(), documents, keys)


def get_bool(documents: pa.Array, keys: pa.Array) -> pa.Array:
    """Return booleans at a key, or those that a text means: true, false, yes or no."""
    return _converted(_bool, pa.bool_(), documents, keys)


def _selection() -> Callable[[bytes, str], list[Any]]:
    """Return a function from a document and a path to the selected values."""
    parsed: dict[str, tuple[Step, ...]] = {}

    def select(document: bytes, path: str) -> list[Any]:
        if path not in parsed:
            parsed[path] = parse_path(path)
        return selected(document_value(document), parsed[path])

    return select


def _computed(compute: Callable[..., Any], data_type: pa.DataType, *columns: pa.Array) -> pa.Array:
    """Return a value for each row; NULL if an argument is NULL. Equal rows are computed once."""
    known: dict[tuple[Any, ...], Any] = {}
    values = []
    for row in zip(*(column.to_pylist() for column in columns), strict=True):
        if row not in known:
            known[row] = None if None in row else compute(*row)
        values.append(known[row])
    return pa.array(values, data_type)


def _converted(
    convert: Callable[[Any], Any], data_type: pa.DataType, documents: pa.Array, keys: pa.Array
) -> pa.Array:
    def value(document: bytes, key: str) -> Any:
        member = _at(document_value(document), key)
        if member is _MISSING or member is None:
            return None
        try:
            return convert(member)
        except ValueError as err:
            raise InvalidInputError(
                f"the JSON value {document_text(member):.100} of key {key!r:.100} cannot be converted to "
                f"{data_type}"
            ) from err

    return _computed(value, data_type, documents, keys)


def _at(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return value.get(key, _MISSING)
    if isinstance(value, list) and _INDEX.fullmatch(key):
        return value[int(key)] if int(key) < len(value) else _MISSING
    return _MISSING


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else str(value)
    if isinstance(value, bool | int | float):
        return document_text(value)
    raise ValueError


def _int(value: Any) -> int:
    if isinstance(value, int) or (isinstance(value, str) and _INT.fullmatch(value)):
        number = int(value)
    else:
        exact = _float(value)
        if not math.isfinite(exact):
            raise ValueError
        # halves are rounded away from zero
        number = int(math.copysign(math.floor(abs(exact) + 0.5), exact)) if abs(exact) < 2**52 else int(exact)
    if not -(2**63) <= number < 2**63:
        raise ValueError
    return number


def _float(value: Any) -> float:
    if isinstance(value, str):
        if _NUMBER.fullmatch(value) is None or not value.isascii():
            raise ValueError
        return float(value)
    if isinstance(value, int | float):
        return float(value)
    raise ValueError


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _TRUTH:
        return _TRUTH[value.lower()]
    raise ValueError


def json_documents(values: pa.Array, name: str) -> pa.Array:
    """Return JSON texts in the stored form; binaries must already be documents.

    Raises
    ------
    InvalidInputError
        A text is not JSON, or a binary is not a document.
    """
    try:
        if values.type == pa.string():
            return encode_jsonb(values)
        decode_jsonb(values)
    except LanceError as err:
        raise InvalidInputError(f"column {name!r} holds JSON: {err}") from err
    return values
