"""Parse protobuf and JSON from files; whatever is wrong with the bytes raises `CorruptDataError`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.message import DecodeError, Message

from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

M = TypeVar("M", bound=Message)
_MAX_COUNT = (1 << 63) - 1  # Arrow's


def parse_message(message_type: Callable[[], M], data: bytes | pa.Buffer, *, source: str, what: str) -> M:
    """Return the message that ``data`` holds.

    Parameters
    ----------
    message_type
        A generated message class.
    data
        Exactly the bytes of the serialized message.
    source, what
        The file and the part of it, for error messages.

    Raises
    ------
    CorruptDataError
        ``data`` is not such a message.
    """
    message = message_type()
    try:
        message.ParseFromString(bytes(data))
    except (DecodeError, ValueError, RecursionError) as err:
        raise CorruptDataError(
            f"{source}: {what} is not a valid Protobuf message of {len(data)} bytes"
        ) from err
    return message


def is_text(value: object) -> bool:
    """Whether a value is text that UTF-8 can store, that is, without unpaired surrogates."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def parse_json(text: str | bytes, source: str) -> Any:
    """Return the values of JSON text.

    Raises
    ------
    CorruptDataError
        The text is not JSON, or has an unpaired surrogate.
    """
    try:
        values = json.loads(text)
        json.dumps(values, ensure_ascii=False).encode()  # raises for unpaired surrogates
    except (ValueError, RecursionError) as err:
        raise CorruptDataError(f"{source}: not valid JSON: {text[:100]!r}") from err
    return values


def count(number: int, what: str) -> int:
    """Return a count from a message if Arrow can represent it.

    Raises
    ------
    CorruptDataError
        The number needs all 64 bits.
    """
    if number > _MAX_COUNT:
        raise CorruptDataError(f"a page has {number} {what}, expected at most {_MAX_COUNT}")
    return number
