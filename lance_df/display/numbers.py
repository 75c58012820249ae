"""Format numbers for people."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def size_text(num_bytes: int) -> str:
    """Return a size such as ``"1.5 MiB"``."""
    size = float(num_bytes)
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            return f"{num_bytes} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def number_text(number: int, noun: str) -> str:
    """Return a number of things such as ``"1 page"`` or ``"2,000 pages"``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
