"""Text that is safe to print on a terminal, and the columns that it takes up there."""

from __future__ import annotations

import unicodedata


def printable(text: str) -> str:
    """Return ``text`` on one line and without characters that command a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def width_of(text: str) -> int:
    """Return the columns that ``text`` takes up on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )
