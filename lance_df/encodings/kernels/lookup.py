"""Look indices up that lie at addresses, as whole words of any width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.encodings.kernels.jit import kernel, load_item, room_of_8_kib, store_item

if TYPE_CHECKING:
    from collections.abc import Callable

_U = np.uintp
_HIGHEST = np.uint64(1 << 62)
_BYTE = np.uint8(0)
_BLOCK = 1024


@kernel
def _pick(words, count, table, out, like, item):  # type: ignore[no-untyped-def]
    for i in range(_U(count)):
        store_item(out, i, load_item(table, _U(load_item(words, i, like)), item))


@kernel
def _pick_pairs(words, count, table, out, like):  # type: ignore[no-untyped-def]
    half = np.uint64(0)
    for i in range(_U(count)):
        place = _U(load_item(words, i, like)) << _U(1)
        low, high = load_item(table, place, half), load_item(table, place + _U(1), half)
        store_item(out, i << _U(1), low)
        store_item(out, (i << _U(1)) + _U(1), high)


@kernel
def _narrow(words, count, width, out, like):  # type: ignore[no-untyped-def]
    if width == 1:
        for i in range(_U(count)):
            store_item(out, i, np.uint8(load_item(words, i, like)))
    elif width == 2:
        for i in range(_U(count)):
            store_item(out, i, np.uint16(load_item(words, i, like)))
    elif width == 4:
        for i in range(_U(count)):
            store_item(out, i, np.uint32(load_item(words, i, like)))
    else:
        for i in range(_U(count)):
            store_item(out, i, np.uint64(load_item(words, i, like)))


@kernel
def present_words(words, count, table, table_size, width, out, like):  # type: ignore[no-untyped-def]
    """Write what indices mean: the values of a table, or where there is none, the indices themselves.

    Returns -1, or where an index is not below ``table_size``, -2 less the highest.

    Parameters
    ----------
    words, count
        Address of the indices, of the type of ``like``, which is 0.
    table
        Address of values of 1, 2, 4, 8 or 16 bytes, or 0.
    width, out
        Bytes of what is written for each, and the address to write to.
    """
    highest = like
    for i in range(_U(count)):
        highest = max(highest, load_item(words, i, like))
    if np.uint64(highest) >= np.uint64(table_size):
        return np.int64(-2) - np.int64(min(np.uint64(highest), _HIGHEST))
    if table == 0:
        _narrow(words, count, width, out, like)
    elif width == 16:
        _pick_pairs(words, count, table, out, like)
    elif width == 8:
        _pick(words, count, table, out, like, np.uint64(0))
    elif width == 4:
        _pick(words, count, table, out, like, np.uint32(0))
    elif width == 2:
        _pick(words, count, table, out, like, np.uint16(0))
    else:
        _pick(words, count, table, out, like, np.uint8(0))
    return np.int64(-1)


def _looker(word_type: Callable[[Any], Any]) -> Callable[..., Any]:
    @kernel
    def look_up(words, count, valid, table, table_size, width, out):  # type: ignore[no-untyped-def]
        """Do the same for some indices anywhere; return 0 where all is well and one of them is 0.

        ``valid`` is 0, or the address of a byte for each: 1, or 0 where it has no meaning, becomes 0, and is
        not told.
        """
        source, target, zero = _U(words), _U(out), word_type(0)
        if valid:
            beyond, scratch = np.int64(-1), room_of_8_kib()
            for start in range(0, count, _BLOCK):
                size = min(count - start, _BLOCK)
                for i in range(_U(size)):
                    index = load_item(source, _U(start) + i, zero) * load_item(_U(valid + start), i, _BYTE)
                    store_item(scratch, i, word_type(index))
                found = present_words(scratch, size, _U(table), table_size, width, target, zero)
                beyond = min(beyond, found)
                target += _U(size * width)
            return beyond
        beyond = present_words(source, count, _U(table), table_size, width, target, zero)
        lowest = load_item(source, _U(0), zero)
        for i in range(_U(count)):
            lowest = min(lowest, load_item(source, i, zero))
        return np.int64(0) if beyond == -1 and lowest == zero else beyond

    return look_up


look_up_8 = _looker(np.uint8)
look_up_16 = _looker(np.uint16)
look_up_32 = _looker(np.uint32)
look_up_64 = _looker(np.uint64)
