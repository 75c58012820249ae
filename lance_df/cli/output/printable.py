"""Make text safe to print on a terminal, and compute its width there."""

from __future__ import annotations

import unicodedata


def printable(text: str) -> str:
    """Return ``text`` on one line and without terminal control characters."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def width_of(text: str) -> int:
    """Return the width of ``text`` on a terminal, in columns."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )
