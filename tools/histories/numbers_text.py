"""Lists of integers as short program text."""

from __future__ import annotations

from collections.abc import Sequence

_LEAST = 4


def numbers_text(numbers: Sequence[int]) -> str:
    """Return a list as Python, with ranges where numbers follow one another."""
    parts: list[str] = []
    start = 0
    while start < len(numbers):
        stop = start + 1
        while stop < len(numbers) and numbers[stop] == numbers[stop - 1] + 1:
            stop += 1
        if stop - start >= _LEAST:
            parts.append(f"*range({numbers[start]}, {numbers[stop - 1] + 1})")
        else:
            parts += [str(number) for number in numbers[start:stop]]
        start = stop
    return f"[{', '.join(parts)}]"
