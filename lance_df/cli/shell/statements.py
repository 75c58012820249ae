"""Split text into SQL statements at semicolons."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# Tokens that may contain semicolons. An unfinished literal or comment extends to the end of the text.
_TOKEN: Final = re.compile(
    r"""
      (?P<end> ; )
    | (?P<line> --[^\n]* )
    | (?P<comment> /\* )
    | (?<!\w)[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z)
    | '(?:[^']|'')*(?:'|\Z)
    | "(?:[^"]|"")*(?:"|\Z)
    | `[^`]*(?:`|\Z)
    | (?<![\w$])\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")


def split_statements(text: str) -> list[str]:
    """Return the statements without semicolons; comments are kept, but blank pieces are omitted."""
    return [piece.strip() for piece in _pieces(text) if not is_blank(piece)]


def is_finished(text: str) -> bool:
    """Whether the last statement of ``text`` ends with a semicolon."""
    return len(_pieces(text)) > 1 and is_blank(_pieces(text)[-1])


def is_blank(text: str) -> bool:
    """Whether ``text`` has only white space and comments."""
    rest = 0
    for start, end, kind in _tokens(text):
        if kind not in ("line", "comment") or text[rest:start].strip():
            return False
        rest = end
    return not text[rest:].strip()


def _pieces(text: str) -> list[str]:
    pieces, piece_start = [], 0
    for start, end, kind in _tokens(text):
        if kind == "end":
            pieces.append(text[piece_start:start])
            piece_start = end
    return [*pieces, text[piece_start:]]


def _tokens(text: str) -> Iterator[tuple[int, int, str | None]]:
    """Yield the start, end and kind of semicolons, comments and literals; the kind of literals is None."""
    position = 0
    while (match := _TOKEN.search(text, position)) is not None:
        kind = next((name for name in ("end", "line", "comment") if match[name]), None)
        position = _end_of_comment(text, match.end()) if kind == "comment" else match.end()
        yield match.start(), position, kind


def _end_of_comment(text: str, position: int) -> int:
    """Return the end of a comment, which may be nested."""
    depth = 1
    for match in _COMMENT_EDGE.finditer(text, position):
        depth += 1 if match[0] == "/*" else -1
        if not depth:
            return match.end()
    return len(text)
