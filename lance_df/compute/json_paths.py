"""Parse paths into JSON documents, in the form that pylance's JSON functions accept.

``$.a.b``, ``$["a"]``, ``$.items[0]``, ``[last - 1]``, ``[0, 2 to 4]``, ``[*]`` and ``.*``; the ``$`` is
optional. As observed in pylance 14, names select only fields of objects, positions only items of arrays, and
``[*]`` of a value that is not an array is the value itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from lance_df.errors import InvalidInputError, UnsupportedFeatureError

Step: TypeAlias = Callable[[Any], Iterable[Any]]
"""Returns the values that one step of a path selects from a value."""

_SPACE: Final = re.compile(r"\s*")
_NAME: Final = re.compile(r'[^\s.:\[\](){}?@$*"\'<>=!&|,+/-]+')
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_POSITION: Final = re.compile(
    r"(?:(?P<last>last)(?:\s*(?P<sign>[+-])\s*(?P<back>\d+))?|(?P<number>[+-]?\d+))"
)
_TO: Final = re.compile(r"\s+to\s+")


def parse_path(text: str) -> tuple[Step, ...]:
    """Return the steps of a path.

    Raises
    ------
    InvalidInputError
        The path is malformed.
    UnsupportedFeatureError
        The path has a filter, or selects at all depths.
    """
    return tuple(_Reader(text).steps())


def selected(value: Any, steps: Iterable[Step]) -> list[Any]:
    """Return the values that a path selects, in the order of the document."""
    values = [value]
    for step in steps:
        values = [part for each in values for part in step(each)]
    return values


class _Reader:
    """Reads a path from start to end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def steps(self) -> Iterator[Step]:
        self._skip_space()
        has_root = self._take("$")
        self._skip_space()
        if not has_root and self._at < len(self._text) and self._text[self._at] not in ".:[":
            yield self._member()
            self._skip_space()
        while self._at < len(self._text):
            if self._take(".") or self._take(":"):
                yield self._member()
            elif self._take("["):
                yield self._bracket()
            else:
                raise self._error()
            self._skip_space()

    def _member(self) -> Step:
        if self._text.startswith("**", self._at):
            raise self._unsupported("a **")
        if self._take("*"):
            return lambda value: value.values() if isinstance(value, dict) else ()
        if (quoted := self._match(_QUOTED)) is not None:
            return _field(self._unquoted(quoted))
        if (name := self._match(_NAME)) is None:
            raise self._error()
        return _field(name[0])

    def _bracket(self) -> Step:
        self._skip_space()
        if (quoted := self._match(_QUOTED)) is not None:
            step = _field(self._unquoted(quoted))
        elif self._take("*"):
            step = _items
        else:
            ranges = [self._range()]
            self._skip_space()
            while self._take(","):
                self._skip_space()
                ranges.append(self._range())
                self._skip_space()
            step = _at_positions(ranges)
        self._skip_space()
        if not self._take("]"):
            raise self._error()
        return step

    def _range(self) -> tuple[_Position, _Position]:
        first = self._position()
        return first, self._position() if self._match(_TO) else first

    def _position(self) -> _Position:
        match = self._match(_POSITION)
        if match is None:
            raise self._error()
        if match["last"] is None:
            return False, int(match["number"])
        return True, int((match["sign"] or "") + (match["back"] or "0"))

    def _unquoted(self, match: re.Match[str]) -> str:
        try:
            return str(json.loads(match[0]))
        except ValueError as err:
            raise self._error() from err

    def _skip_space(self) -> None:
        self._match(_SPACE)

    def _take(self, character: str) -> bool:
        if not self._text.startswith(character, self._at):
            return False
        self._at += len(character)
        return True

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def _error(self) -> InvalidInputError | UnsupportedFeatureError:
        if self._text.startswith("?", self._at):
            return self._unsupported("a filter")
        return InvalidInputError(
            f"{self._text!r:.100} is not a valid JSON path: unexpected "
            f"{self._text[self._at : self._at + 10]!r}; examples are $.a.b, $.items[0] and $.items[*].name"
        )

    def _unsupported(self, what: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(f"the path {self._text!r:.100} has {what}, which is not supported")


# whether the position counts from the last item, and the number
_Position: TypeAlias = tuple[bool, int]


def _field(name: str) -> Step:
    return lambda value: (value[name],) if isinstance(value, dict) and name in value else ()


def _items(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else (value,)


def _at_positions(ranges: list[tuple[_Position, _Position]]) -> Step:
    def select(value: Any) -> Iterator[Any]:
        if not isinstance(value, list):
            return
        for bounds in ranges:
            first, last = (
                number + (len(value) - 1 if is_from_last else 0) for is_from_last, number in bounds
            )
            yield from (value[index] for index in range(max(first, 0), min(last, len(value) - 1) + 1))

    return select
