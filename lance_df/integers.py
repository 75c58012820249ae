"""Integers of other libraries as integers of Python."""

from __future__ import annotations

import operator
from typing import TypeVar

T = TypeVar("T")


def as_integer(value: object) -> int | None:
    """Return an integer of any library, such as numpy, as an ``int``; None for a bool and all else."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type] # that is what is found out
    except TypeError:
        return None


def plain(value: T) -> T | int:
    """Return an integer of any library as an ``int``, and anything else as it is."""
    number = as_integer(value)
    return value if number is None else number
