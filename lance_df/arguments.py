"""Check the arguments of public calls.

Every check returns the value, as the type that the caller needs, or raises an `InvalidInputError` that names
the argument, what was given and what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from lance_df.errors import InvalidInputError
from lance_df.records import as_integer

T = TypeVar("T")


def invalid(argument: str, value: object, expected: str) -> InvalidInputError:
    """Return the error for an argument that is not what was expected."""
    return InvalidInputError(f"{argument} must be {expected}, got {value!r:.60}")


def checked_type(value: Any, argument: str, kind: type[T] | tuple[type[T], ...], expected: str) -> T:
    """Return an argument that has one of some types.

    Parameters
    ----------
    expected
        What to call the types in the message, such as ``"a pyarrow Schema"``.
    """
    if not isinstance(value, kind):
        raise invalid(argument, value, expected)
    return value


def checked_text(value: object, argument: str, expected: str = "text") -> str:
    """Return an argument that is text which UTF-8 can encode."""
    if not isinstance(value, str):
        raise invalid(argument, value, expected)
    try:
        value.encode()
    except UnicodeEncodeError as err:
        raise invalid(argument, value, f"{expected} without surrogates") from err
    return value


def checked_names(value: object, argument: str) -> list[str]:
    """Return an argument that is a list of names. One text is refused: it would be read letter by letter."""
    expected = "a list of names"
    if isinstance(value, str | bytes | Mapping):
        raise invalid(argument, value, expected)
    listed = checked_items(value, argument, expected)
    if not all(isinstance(name, str) for name in listed):
        raise invalid(argument, listed, expected)
    return listed


def checked_items(value: Any, argument: str, expected: str) -> list[Any]:
    """Return the items of an iterable argument other than text and bytes."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise invalid(argument, value, expected)
    try:
        items = iter(value)
    except TypeError as err:  # such as an array without dimensions
        raise invalid(argument, value, expected) from err
    return list(items)


def checked_flag(value: object, argument: str, *, default: bool | None = None) -> bool:
    """Return an argument that is True or False, of Python or of numpy. Other objects have a truth, too.

    Parameters
    ----------
    default
        What the value None stands for, where pylance accepts it.
    """
    if value is None and default is not None:
        return default
    if isinstance(value, bool):
        return value
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise invalid(argument, value, "True or False")


def checked_integer(value: object, argument: str, least: int | None = None) -> int:
    """Return an argument that is an integer, of any library."""
    number = as_integer(value)
    if number is None:
        raise invalid(argument, value, "an integer" if least is None else f"an integer of at least {least}")
    if least is not None and number < least:
        raise InvalidInputError(f"{argument} must be at least {least}, got {value!r:.60}")
    return number


def checked_mapping(value: object, argument: str, expected: str = "a dict") -> Mapping[Any, Any]:
    """Return an argument that is a mapping."""
    if not isinstance(value, Mapping):
        raise invalid(argument, value, expected)
    return value


def checked_function(value: Any, argument: str) -> Callable[..., Any]:
    """Return an argument that can be called."""
    if not callable(value):
        raise invalid(argument, value, "a function")
    called: Callable[..., Any] = value
    return called
