"""Read and write little-endian words at any byte of an array, and run kernels uncompiled.

Compiled kernels have these functions from ``memory.pxd``. A checked build checks the first and the last byte
of each word. Other builds check nothing.
"""

from __future__ import annotations

from functools import wraps
from inspect import isclass, isfunction
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable


def load_16(data: memoryview, at: int) -> int:
    """Return the uint16 from byte ``at`` on."""
    return _load(data, at, 2)


def load_32(data: memoryview, at: int) -> int:
    """Return the uint32 from byte ``at`` on."""
    return _load(data, at, 4)


def load_64(data: memoryview, at: int) -> int:
    """Return the uint64 from byte ``at`` on."""
    return _load(data, at, 8)


def load_word(data: memoryview, at: int, width: int) -> int:
    """Return the unsigned integer of ``width`` bytes, 1, 2, 4 or 8, from byte ``at`` on."""
    return _load(data, at, width)


def store_16(data: memoryview, at: int, word: int) -> None:
    """Store a uint16 from byte ``at`` on."""
    _store(data, at, word, 2)


def store_32(data: memoryview, at: int, word: int) -> None:
    """Store a uint32 from byte ``at`` on."""
    _store(data, at, word, 4)


def store_64(data: memoryview, at: int, word: int) -> None:
    """Store a uint64 from byte ``at`` on."""
    _store(data, at, word, 8)


def store_word(data: memoryview, at: int, word: int, width: int) -> None:
    """Store an unsigned integer of ``width`` bytes, 1, 2, 4 or 8, from byte ``at`` on."""
    _store(data, at, word, width)


def copy_bytes(out: memoryview, to: int, data: memoryview, at: int, size: int) -> None:
    """Copy ``size`` bytes from ``at`` in ``data`` to ``to`` in ``out``; the ranges must not overlap."""
    _check(out, to, size)
    _check(data, at, size)
    out[to : to + size] = data[at : at + size]


def copy_ahead(out: memoryview, to: int, data: memoryview, at: int, size: int) -> None:
    """As `copy_bytes`, but bytes that follow in ``out`` may be overwritten, as they are written later."""
    copy_bytes(out, to, data, at, size)
    out[to + size : to + 32] = bytes(len(out[to + size : to + 32]))


def _load(data: memoryview, at: int, size: int) -> int:
    _check(data, at, size)
    return int.from_bytes(data[at : at + size], "little")


def _store(data: memoryview, at: int, word: int, size: int) -> None:
    _check(data, at, size)
    data[at : at + size] = word.to_bytes(size, "little")


def _check(data: memoryview, at: int, size: int) -> None:
    if at < 0 or at + size > len(data):
        raise IndexError(f"bytes {at} to {at + size} are out of range, the buffer has {len(data)} bytes")


def run_uncompiled(names: dict[str, Any]) -> None:
    """Make the kernels of a module accept arrays, as compiled ones do.

    In a kernel, arrays are memoryviews whose items are Python integers: nothing wraps around, and a value
    that does not fit into an array is an error.
    """
    for name, value in list(names.items()):
        if getattr(value, "__module__", None) != names["__name__"]:
            continue
        if isfunction(value) and not name.startswith("_"):
            names[name] = _taking_arrays(value)
        elif isclass(value):
            for method, function in list(vars(value).items()):
                if isfunction(function):
                    setattr(value, method, _taking_arrays(function))


def _taking_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any) -> Any:
        return function(*(memoryview(each) if isinstance(each, np.ndarray) else each for each in arguments))

    return call
