"""Convert JSONB, in which `json` columns are stored, from and to the JSON text that tables show.

::

    document   u32 header (kind, count) | entries | payloads          all numbers are big-endian
    scalar     kind 0x2, one entry
    object     kind 0x4, entries of all keys, then of all values; payloads in the same order
    array      kind 0x8, an entry for each item
    entry      4 bits kind | 28 bits length of the payload

A payload is UTF-8 text, a number (kind byte, then 0, 1, 2, 4 or 8 bytes), or a document. Layout and text form
are as observed in files written by pylance 14: compact, with the shortest digits that identify a float.
pylance stores the numbers NaN and Infinity, and Infinity for numbers that are too large; their text is
``null``.
"""

from __future__ import annotations

import json
import math
import struct
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.errors import CorruptDataError, InvalidInputError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCALAR, _OBJECT, _ARRAY = 0x2, 0x4, 0x8
_NULL, _STRING, _NUMBER, _FALSE, _TRUE, _CONTAINER = range(6)
_CONSTANTS = {_NULL: "null", _FALSE: "false", _TRUE: "true"}
_ZERO, _NAN, _INFINITY, _NEGATIVE_INFINITY = 0x00, 0x10, 0x20, 0x30
_INT, _UINT, _FLOAT = 0x40, 0x50, 0x60
_SHOWN = dict.fromkeys((_NAN, _INFINITY, _NEGATIVE_INFINITY), "null")
_PARSED = {_NAN: "NaN", _INFINITY: "Infinity", _NEGATIVE_INFINITY: "-Infinity"}  # as `json.loads` takes them
_COUNT_MASK = 0x1FFFFFFF
_LENGTH_MASK = 0x0FFFFFFF
_MAX_DEPTH = 200
# Floats from 1e-5 on and below 1e16 are written without an exponent.
_MIN_POINT, _MAX_POINT = -5, 16

_quote = json.JSONEncoder(ensure_ascii=False).encode


def decode_jsonb(values: pa.Array) -> pa.Array:
    """Return the JSON text of stored documents.

    Parameters
    ----------
    values
        Binaries; nulls stay null.

    Returns
    -------
    Strings. Equal documents are decoded once.

    Raises
    ------
    CorruptDataError
        A value is not a JSONB document.
    UnsupportedFeatureError
        A value holds a kind that JSON text lacks, for example a date, or is nested deeper than 200 levels.
    InvalidInputError
        The text takes more than 2 GiB.
    """
    encoded = values.dictionary_encode()
    texts = [_decode(document) for document in encoded.dictionary.to_pylist()]
    documents = pa.array(texts, pa.string())
    if isinstance(documents, pa.ChunkedArray):
        raise InvalidInputError("the JSON texts are larger than 2 GiB; read fewer rows")
    try:
        return documents.take(encoded.indices)
    except pa.ArrowException as err:
        raise InvalidInputError("the JSON texts are larger than 2 GiB; read fewer rows") from err


def encode_jsonb(texts: pa.Array) -> pa.Array:
    """Encode JSON texts in the stored form.

    Parameters
    ----------
    texts
        Strings; nulls stay null, and an empty string is the JSON null.

    Returns
    -------
    Large binaries.

    Raises
    ------
    InvalidInputError
        A text is not JSON, or has two members with the same name or a number that is too large.
    """
    documents = [None if text is None else _encode(text) for text in texts.to_pylist()]
    return pa.array(documents, pa.large_binary())


def document_value(document: bytes) -> object:
    """Return a stored document as Python data; numbers with a point or an exponent are floats.

    Raises
    ------
    CorruptDataError, UnsupportedFeatureError
        See `decode_jsonb`.
    """
    return json.loads(_decode(document, _PARSED), strict=False)


def document_of(value: object) -> bytes:
    """Encode a result of `document_value`, or a part of it, in the stored form."""
    return _encode_document(value, 0, has_constants=True)


def document_text(value: object) -> str:
    """Return a result of `document_value`, or a part of it, as the JSON text that tables show."""
    return _decode(document_of(value))


def _encode(text: str) -> bytes:
    try:
        value = json.loads(
            text or "null", strict=False, object_pairs_hook=_members, parse_constant=_refuse_constant
        )
        return _encode_document(value, 0, has_constants=False)
    except (ValueError, OverflowError, RecursionError) as err:
        raise InvalidInputError(f"{text[:80]!r} cannot be stored as JSON: {err}") from err


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("two members of an object have the same name")
    return members


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


def _encode_document(value: object, depth: int, *, has_constants: bool) -> bytes:
    if depth > _MAX_DEPTH:
        raise ValueError(f"it is nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, dict):
        ordered = sorted(value.items())
        entries = [(_STRING, name.encode()) for name, _ in ordered]
        entries += [_encode_value(member, depth, has_constants) for _, member in ordered]
        kind, count = _OBJECT, len(ordered)
    elif isinstance(value, list):
        entries = [_encode_value(item, depth, has_constants) for item in value]
        kind, count = _ARRAY, len(value)
    else:
        entries = [_encode_value(value, depth, has_constants)]
        kind, count = _SCALAR, 0
    if count > _COUNT_MASK or any(len(payload) > _LENGTH_MASK for _, payload in entries):
        raise ValueError("it is too large")
    words = (kind << 28 | count, *(kind << 28 | len(payload) for kind, payload in entries))
    return struct.pack(f">{len(words)}I", *words) + b"".join(payload for _, payload in entries)


def _encode_value(value: object, depth: int, has_constants: bool) -> tuple[int, bytes]:
    match value:
        case None:
            return _NULL, b""
        case bool():
            return _TRUE if value else _FALSE, b""
        case str():
            return _STRING, value.encode()
        case int() if -(1 << 63) <= value < 1 << 64:
            return _NUMBER, _encode_integer(value)
        case int() | float():
            number = float(value)
            if not math.isfinite(number):
                if not has_constants:
                    raise ValueError("a number is too large")
                kind = _NAN if math.isnan(number) else _INFINITY if number > 0 else _NEGATIVE_INFINITY
                return _NUMBER, bytes([kind])
            return _NUMBER, struct.pack(">Bd", _FLOAT, number)
        case _:
            return _CONTAINER, _encode_document(value, depth + 1, has_constants=has_constants)


def _encode_integer(value: int) -> bytes:
    if value == 0:
        return bytes([_ZERO])
    bits = (value if value > 0 else ~value).bit_length() + (value < 0)
    width = next(width for width in (1, 2, 4, 8) if bits <= width * 8)
    return bytes([_UINT if value > 0 else _INT]) + value.to_bytes(width, "big", signed=value < 0)


def _decode(document: bytes, constants: Mapping[int, str] = _SHOWN) -> str:
    try:
        return _document(memoryview(document), 0, constants)
    except (struct.error, IndexError, UnicodeDecodeError) as err:
        raise CorruptDataError(f"a value of {len(document)} bytes is not a valid JSONB document") from err


def _document(data: memoryview, depth: int, constants: Mapping[int, str]) -> str:
    if depth > _MAX_DEPTH:
        raise UnsupportedFeatureError(f"a JSON document is nested deeper than {_MAX_DEPTH} levels")
    (header,) = struct.unpack_from(">I", data)
    kind, count = header >> 28 & 0xE, header & _COUNT_MASK
    num_entries = {_SCALAR: 1, _OBJECT: 2 * count, _ARRAY: count}.get(kind)
    if num_entries is None or 4 + 4 * num_entries > len(data):
        raise CorruptDataError(f"a JSONB document of {len(data)} bytes has the invalid header {header:#x}")
    entries = struct.unpack_from(f">{num_entries}I", data, 4)
    if kind == _OBJECT and any(entry >> 28 != _STRING for entry in entries[:count]):
        raise CorruptDataError(
            f"a JSONB document of {len(data)} bytes has a member name that is not a string"
        )
    values, position = [], 4 + 4 * num_entries
    for entry in entries:
        stop = position + (entry & _LENGTH_MASK)
        if stop > len(data):
            raise CorruptDataError(
                f"a JSONB document of {len(data)} bytes refers to byte {stop}, which is out of range"
            )
        values.append(_value(entry >> 28, data[position:stop], depth, constants))
        position = stop
    if kind == _SCALAR:
        return values[0]
    if kind == _ARRAY:
        return f"[{','.join(values)}]"
    return "{" + ",".join(map(":".join, zip(values[:count], values[count:], strict=True))) + "}"


def _value(kind: int, payload: memoryview, depth: int, constants: Mapping[int, str]) -> str:
    if kind == _STRING:
        return _quote(str(payload, "utf-8"))
    if kind == _NUMBER:
        return _number(payload, constants)
    if kind == _CONTAINER:
        return _document(payload, depth + 1, constants)
    if kind in _CONSTANTS:
        return _CONSTANTS[kind]
    raise UnsupportedFeatureError(f"JSONB values of kind {kind} cannot be converted to JSON text")


def _number(payload: memoryview, constants: Mapping[int, str]) -> str:
    kind, digits = payload[0], payload[1:]
    if kind == _ZERO:
        return "0"
    if kind in constants and not digits:
        return constants[kind]
    if kind in (_INT, _UINT) and len(digits) in (1, 2, 4, 8):
        return str(int.from_bytes(digits, "big", signed=kind == _INT))
    if kind == _FLOAT and len(digits) == 8:
        return _float_text(struct.unpack(">d", digits)[0])
    raise UnsupportedFeatureError(
        f"JSONB numbers of kind {kind:#x} with {len(digits)} bytes cannot be converted to JSON text"
    )


def _float_text(value: float) -> str:
    """Return the shortest text that identifies a finite float, as pylance writes it."""
    number = Decimal(repr(value))
    if not number.is_finite():
        raise UnsupportedFeatureError(f"the number {value} cannot be converted to JSON text")
    sign, digit_tuple, exponent = number.normalize().as_tuple() if number else (number.is_signed(), (0,), 0)
    digits, minus = "".join(map(str, digit_tuple)), "-" if sign else ""
    point = len(digits) + int(exponent)
    if len(digits) <= point <= _MAX_POINT:
        return f"{minus}{digits}{'0' * (point - len(digits))}.0"
    if 0 < point <= _MAX_POINT:
        return f"{minus}{digits[:point]}.{digits[point:]}"
    if _MIN_POINT < point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{minus}{digits[0]}{fraction}e{point - 1:+d}"
