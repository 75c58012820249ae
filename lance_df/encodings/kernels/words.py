"""Find strings that hold some words, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.encodings.kernels.jit import kernel, load_8_bytes, load_byte, load_item, store_item

if TYPE_CHECKING:
    from collections.abc import Callable

_U = np.uintp
_INT = np.int64(0)
_BYTE = np.uint8(0)
_ONE = np.uint8(1)
_ONES = np.uint64(0x0101010101010101)
_HIGH_BITS = np.uint64(0x8080808080808080)
_LOWEST_HIGH_BIT = np.uint64(0x80)
_BYTE_BITS = np.uint64(8)
# so many places are looked at together
_BLOCK = 32


@kernel
def _is_near(at, half, last, first_byte, half_byte, last_byte):  # type: ignore[no-untyped-def]
    """Return whether a word may begin near an address: three of its bytes are where they would be."""
    near = _BYTE
    for i in range(_U(_BLOCK)):
        is_first = np.uint8(load_item(at, i, _BYTE) == first_byte)
        is_half = np.uint8(load_item(at + half, i, _BYTE) == half_byte)
        near |= is_first & is_half & np.uint8(load_item(at + last, i, _BYTE) == last_byte)
    return near != 0


@kernel
def _is_at(at, word, size):  # type: ignore[no-untyped-def]
    """Return whether a word, whose first byte is there, is at an address."""
    k = _U(1)
    while k < size and load_byte(at + k) == load_byte(word + k):
        k += _U(1)
    return k == size


@kernel
def _after(at, end, word, size):  # type: ignore[no-untyped-def]
    """Return the address after the first word between two, 0 where there is none."""
    first = load_byte(word)
    while at + size <= end:
        if load_byte(at) == first and _is_at(at, word, size):
            return at + size
        at += _U(1)
    return _U(0)


@kernel
def _holds(at, end, words, sizes, num_words):  # type: ignore[no-untyped-def]
    """Return whether the bytes between two addresses hold all words, in order and none within another."""
    word = words
    for i in range(_U(num_words)):
        size = _U(load_item(sizes, i, _INT))
        at = _after(at, end, word, size)
        if at == 0:
            return False
        word += size
    return True


def _finder(offset_type: Callable[[Any], Any]) -> Callable[..., Any]:
    @kernel
    def find_words(offsets, count, data, words, sizes, num_words, rarest, out):  # type: ignore[no-untyped-def]
        """Set the byte of each string that holds all words, in order; return how many do.

        Parameters
        ----------
        offsets, count, data
            Addresses of the offsets of strings and of their bytes. The caller has checked the offsets.
        words, sizes, num_words
            Addresses of words back to back, none of them empty, and of their sizes.
        rarest
            The number of the word that is looked for first.
        out
            Address of a byte for each string, 0.
        """
        ends, source, target = _U(offsets), _U(data), _U(out)
        word = _U(words)
        for i in range(_U(rarest)):
            word += _U(load_item(_U(sizes), i, _INT))
        size = _U(load_item(_U(sizes), _U(rarest), _INT))
        half, last = size >> _U(1), size - _U(1)
        first_byte, half_byte, last_byte = load_byte(word), load_byte(word + half), load_byte(word + last)
        first_bytes = np.uint64(first_byte) * _ONES
        half_bytes = np.uint64(half_byte) * _ONES
        last_bytes = np.uint64(last_byte) * _ONES
        at = source + _U(load_item(ends, _U(0), offset_type(0)))
        end = source + _U(load_item(ends, _U(count), offset_type(0)))
        row = _U(0)
        found = 0
        while at + size <= end:
            stop = min(at + _U(_BLOCK), end - last)
            if at + _U(_BLOCK) == stop and not _is_near(at, half, last, first_byte, half_byte, last_byte):
                at = stop
                continue
            while at < stop:
                if at + _U(8) <= stop:
                    others = load_8_bytes(at) ^ first_bytes
                    others |= load_8_bytes(at + half) ^ half_bytes
                    others |= load_8_bytes(at + last) ^ last_bytes
                    # the lowest of these bits is that of the first byte that is 0
                    zeros = (others - _ONES) & ~others & _HIGH_BITS
                    if zeros == 0:
                        at += _U(8)
                        continue
                    while zeros & _LOWEST_HIGH_BIT == 0:
                        zeros >>= _BYTE_BITS
                        at += _U(1)
                if load_byte(at) != first_byte or not _is_at(at, word, size):
                    at += _U(1)
                    continue
                while source + _U(load_item(ends, row + _U(1), offset_type(0))) <= at:
                    row += _U(1)
                row_end = source + _U(load_item(ends, row + _U(1), offset_type(0)))
                if at + size > row_end:  # the next string has the end of the word
                    at += _U(1)
                    continue
                begin = source + _U(load_item(ends, row, offset_type(0)))
                if num_words == 1 or _holds(begin, row_end, _U(words), _U(sizes), num_words):
                    store_item(target, row, _ONE)
                    found += 1
                at = row_end
        return found

    return find_words


find_words_32 = _finder(np.int32)
find_words_64 = _finder(np.int64)
