"""Distinguish the parts of a type, as in ``STRUCT<a INT>``, from a comparison with a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

WITH_PARTS: Final = frozenset({"STRUCT", "ARRAY", "MAP"})
"""The types that have parts in angle brackets."""

_CONTINUES: Final = frozenset(
    [
        *("PRECISION", "VARYING", "LARGE", "OBJECT", "SIGNED", "UNSIGNED", "INTEGER"),
        *("WITH", "WITHOUT", "TIME", "ZONE", "NOT", "NULL"),
    ]
)
"""Words of a type that may follow its first word."""


def end_of_parts(words: Sequence[str | None], start: int) -> int | None:
    """Return the index after the parts of a type; None if there are none.

    Parameters
    ----------
    words
        Words in upper case; None for text in quotes.
    start
        The index of the ``<``.

    >>> end_of_parts(["STRUCT", "<", "A", "INT", ">", ","], 1), end_of_parts(["MAP", "<", "3"], 1)
    (5, None)
    """
    if not start or words[start] != "<" or words[start - 1] not in WITH_PARTS:
        return None
    is_struct = words[start - 1] == "STRUCT"
    index: int | None = start
    while index is not None and index < len(words):
        index = _end_of_type(words, index + 1 + is_struct + (_at(words, index + 2) == ":"))
        if index is None or _at(words, index) != ",":
            break
    return index + 1 if index is not None and _at(words, index) == ">" else None


def _end_of_type(words: Sequence[str | None], start: int) -> int | None:
    first = _at(words, start) or ""
    if not first.partition(" ")[0].isidentifier() or not _CONTINUES.issuperset(first.split()[1:]):
        return None
    index = start + 1
    if _at(words, index) == "<":
        after = end_of_parts(words, index)
        if after is None:
            return None
        index = after
    while (word := _at(words, index)) is not None:
        if word in ("(", "["):
            index = _end_of_numbers(words, index)
        elif _CONTINUES.issuperset(word.split()):
            index += 1
        else:
            break
    return index


def _end_of_numbers(words: Sequence[str | None], start: int) -> int:
    """Return the index after ``(10, 2)`` or ``[3]``."""
    index = start + 1
    while (word := _at(words, index)) is not None and (word == "," or word.isdecimal()):
        index += 1
    return index + 1


def _at(words: Sequence[str | None], index: int) -> str | None:
    return words[index] if index < len(words) else None
