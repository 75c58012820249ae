"""Edit a statement at positions in its text without changing the rest; quote names and strings."""

from __future__ import annotations

from collections.abc import Iterable

from lance_df.records import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace ``text[start:stop]`` with ``replacement``; an empty range inserts."""

    start: int
    stop: int
    replacement: str


class QuotedName(str):
    """A quoted part of a name. SQL does not lower-case it, so it only matches the exact spelling.

    >>> QuotedName("t") == "t"
    True
    """

    __slots__ = ()


class StringName(QuotedName):
    """A string in single quotes in the position of a name. DataFusion reads it as a name."""

    __slots__ = ()


def splice(text: str, edits: Iterable[Edit]) -> str:
    """Return ``text`` with all edits applied. The ranges of the edits must not overlap.

    >>> splice("select f(a)", [Edit(7, 8, "g"), Edit(10, 10, ", 1")])
    'select g(a, 1)'
    """
    pieces, position = [], 0
    for edit in sorted(edits, key=lambda each: (each.start, each.stop)):
        pieces += [text[position : edit.start], edit.replacement]
        position = edit.stop
    return "".join([*pieces, text[position:]])


def quote_identifier(name: str) -> str:
    """Return ``name`` as an SQL identifier that keeps its case.

    >>> quote_identifier("Fare")
    '"Fare"'
    """
    return '"' + name.replace('"', '""') + '"'


def quote_string(value: str) -> str:
    """Return ``value`` as an SQL string literal.

    >>> quote_string("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"
