"""Split a statement into parts for syntax highlighting."""

from __future__ import annotations

import re
from typing import Final

from lance_df.sql.keywords import keywords

STYLES: Final = {
    "comment": "fg:ansibrightblack",
    "string": "fg:ansigreen",
    "name": "",
    "number": "fg:ansicyan",
    "keyword": "bold fg:ansiblue",
    "command": "fg:ansimagenta",
    "other": "",
}

_PART: Final = re.compile(
    r"""
      (?P<command> \A\\\S+ )
    | (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<string> '(?:[^']|'')*(?:'|\Z) )
    | (?P<name> "(?:[^"]|"")*(?:"|\Z) )
    | (?P<number> \b\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\b )
    | (?P<word> [^\W\d]\w* )
    """,
    re.VERBOSE | re.DOTALL,
)


def parts_of(text: str) -> list[tuple[str, str]]:
    """Return the kind and text of all parts of ``text``, in order; kinds are keys of `STYLES`."""
    words = keywords()
    parts, position = [], 0
    for match in _PART.finditer(text):
        if match.start() > position:
            parts.append(("other", text[position : match.start()]))
        kind = match.lastgroup or "other"
        if kind == "word":
            kind = "keyword" if match[0].upper() in words else "other"
        parts.append((kind, match[0]))
        position = match.end()
    return [*parts, ("other", text[position:])] if position < len(text) else parts
