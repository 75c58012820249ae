"""Text with several SQL statements, taken apart at its semicolons."""

from __future__ import annotations

import re

# What a semicolon may hide in. An unfinished literal or comment reaches to the end of the text.
_TOKEN = re.compile(
    r"""
      (?P<end> ; )
    | --[^\n]*
    | /\*.*?(?:\*/|\Z)
    | '(?:[^']|'')*(?:'|\Z)
    | "(?:[^"]|"")*(?:"|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)


def split_statements(text: str) -> list[str]:
    """Return the statements without their semicolons; comments stay, pieces of nothing else are left out."""
    return [piece.strip() for piece in _pieces(text) if not is_blank(piece)]


def is_finished(text: str) -> bool:
    """Whether the last statement of ``text`` ends with a semicolon."""
    return len(_pieces(text)) > 1 and is_blank(_pieces(text)[-1])


def is_blank(text: str) -> bool:
    """Whether ``text`` has nothing but white space and comments."""
    return not _TOKEN.sub(lambda match: "" if match[0].startswith(("--", "/*")) else match[0], text).strip()


def _pieces(text: str) -> list[str]:
    pieces, start = [], 0
    for match in _TOKEN.finditer(text):
        if match["end"]:
            pieces.append(text[start : match.start()])
            start = match.end()
    return [*pieces, text[start:]]
