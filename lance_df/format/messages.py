"""Parse protobuf bytes and JSON that come from files: whatever is wrong with them becomes one error."""

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
        The whole serialized message and nothing else.
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
        raise CorruptDataError(f"{source}: {what} is not a valid message of {len(data)} bytes") from err
    return message


def is_text(value: object) -> bool:
    """Whether a value is text that can be stored: halves of surrogate pairs have no bytes in UTF-8."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def parse_json(text: str | bytes, source: str) -> Any:
    """Return the values of JSON text.

    Raises
    ------
    CorruptDataError
        It is none, or has half a surrogate pair.
    """
    try:
        values = json.loads(text)
        json.dumps(values, ensure_ascii=False).encode()  # halves of surrogate pairs are no text
    except (ValueError, RecursionError) as err:
        raise CorruptDataError(f"{source}: not JSON: {text[:100]!r}") from err
    return values


def count(number: int, what: str) -> int:
    """Return a count of a message, as one that Arrow can have.

    Raises
    ------
    CorruptDataError
        The number takes all 64 bits.
    """
    if number > _MAX_COUNT:
        raise CorruptDataError(f"a page of {number} {what}, expected at most {_MAX_COUNT}")
    return number
