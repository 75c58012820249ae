"""Bring values together that are scattered over arrays.

``sources`` has the address of the values of each array, ``orders`` that of the positions (int64) of those
that are wanted, which the caller has checked, and ``counts`` their number; ``out`` is the address of room for
all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.encodings.kernels.jit import kernel, load_8_bytes, load_item, store_8_bytes, store_item

if TYPE_CHECKING:
    from collections.abc import Callable

_U = np.uintp
_INT = np.int64(0)
_LENGTH = np.uint64(0xFFFFFFFF)
_INLINE = np.uint64(12)


def _gatherer(like: Any) -> Callable[..., Any]:
    @kernel
    def gather_scattered(sources, orders, counts, out):  # type: ignore[no-untyped-def]
        to = _U(0)
        for part in range(len(counts)):
            source, order = _U(sources[part]), _U(orders[part])
            for i in range(_U(counts[part])):
                position = _U(load_item(order, i, _INT))
                store_item(_U(out), to + i, load_item(source, position, like))
            to += _U(counts[part])

    return gather_scattered


gather_scattered_8 = _gatherer(np.int8(0))
gather_scattered_16 = _gatherer(np.int16(0))
gather_scattered_32 = _gatherer(np.int32(0))
gather_scattered_64 = _gatherer(np.int64(0))


@kernel
def gather_scattered_pairs(sources, orders, counts, shifts, out):  # type: ignore[no-untyped-def]
    """Do so with values of 16 bytes.

    To the numbers of buffers in Arrow's views of texts ``shifts`` is added.
    """
    to = _U(out)
    for part in range(len(counts)):
        source, order, shift = _U(sources[part]), _U(orders[part]), np.uint64(shifts[part])
        for i in range(_U(counts[part])):
            at = source + (_U(load_item(order, i, _INT)) << _U(4))
            first = load_8_bytes(at)
            second = load_8_bytes(at + _U(8))
            if first & _LENGTH > _INLINE:
                second += shift
            store_8_bytes(to, first)
            store_8_bytes(to + _U(8), second)
            to += _U(16)
