"""Hash values with murmur3, x86, 32 bits, seed 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lance_df.encodings.kernels.jit import kernel, load_4_bytes, load_byte

_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)


@kernel
def _rotate(value: Any, bits: Any) -> Any:
    return np.uint32((value << np.uint32(bits)) | (value >> np.uint32(32 - bits)))


@kernel
def _mix_key(key: Any) -> Any:
    return np.uint32(_rotate(np.uint32(key * _C1), 15) * _C2)


@kernel
def _mix(state: Any, key: Any) -> Any:
    return np.uint32(_rotate(np.uint32(state ^ _mix_key(key)), 13) * np.uint32(5) + np.uint32(0xE6546B64))


@kernel
def _finish(state: Any, length: Any) -> Any:
    state = np.uint32(state ^ np.uint32(length))
    state = np.uint32((state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    state = np.uint32((state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.uint32(state ^ (state >> np.uint32(16)))


@kernel
def hash_words(words: npt.NDArray[np.int64], out: npt.NDArray[np.int32]) -> None:
    """Hash each number as its 8 bytes, little endian."""
    for i in range(len(words)):
        word = np.uint64(words[i])
        state = _mix(np.uint32(0), np.uint32(word & np.uint64(0xFFFFFFFF)))
        state = _mix(state, np.uint32(word >> np.uint64(32)))
        out[i] = np.int32(_finish(state, 8))


@kernel
def _hash_at(start: Any, length: Any) -> Any:
    """Hash the bytes at an address."""
    state = np.uint32(0)
    place, tail = start, start + (length & ~3)
    while place < tail:
        state = _mix(state, load_4_bytes(np.uintp(place)))
        place += 4
    rest = length & 3
    if rest:
        key = np.uint32(0)
        if length > 4:  # the last four bytes, without those that are hashed already
            key = load_4_bytes(np.uintp(start + length - 4)) >> np.uint32(8 * (4 - rest))
        else:
            for j in range(rest):
                key |= np.uint32(load_byte(np.uintp(tail + j))) << np.uint32(8 * j)
        state = np.uint32(state ^ _mix_key(np.uint32(key)))
    return np.int32(_finish(state, length))


@kernel
def hash_bytes(offsets: npt.NDArray[Any], address: int, out: npt.NDArray[np.int32]) -> None:
    """Hash what lies between ``offsets[i]`` and ``offsets[i + 1]`` behind an address, for each ``i``."""
    start = np.int64(offsets[0])
    for i in range(len(offsets) - 1):
        stop = np.int64(offsets[i + 1])
        out[i] = _hash_at(address + start, stop - start)
        start = stop


@kernel
def _negate(words: Any) -> None:
    carry = np.uint64(1)
    for k in range(4):
        words[k] = ~words[k] + carry
        carry = np.uint64(1) if carry and words[k] == 0 else np.uint64(0)


@kernel
def _divide_by_ten(words: Any, quotient: Any) -> Any:
    """Divide an unsigned number of four words; return the remainder."""
    remainder = np.uint64(0)
    for k in range(3, -1, -1):
        high = (remainder << np.uint64(32)) | (words[k] >> np.uint64(32))
        upper = high // np.uint64(10)
        low = ((high % np.uint64(10)) << np.uint64(32)) | (words[k] & np.uint64(0xFFFFFFFF))
        quotient[k] = (upper << np.uint64(32)) | (low // np.uint64(10))
        remainder = low % np.uint64(10)
    return remainder


@kernel
def decimal_bytes(
    values: npt.NDArray[np.uint64],
    scale: int,
    lengths: npt.NDArray[np.int64],
    out: npt.NDArray[np.uint8],
    room: npt.NDArray[np.uint64],
) -> None:
    """Write lengths and canonical bytes of numbers of four words, in two's complement.

    Parameters
    ----------
    out
        33 bytes for each number.
    room
        Two rows of four words.
    """
    words, quotient = room[0], room[1]
    for i in range(len(values)):
        for k in range(4):
            words[k] = values[i, k]
        negative = words[3] >> np.uint64(63) != 0
        if negative:
            _negate(words)
        left = scale if words[0] | words[1] | words[2] | words[3] else 0
        while left > 0 and _divide_by_ten(words, quotient) == 0:
            for k in range(4):
                words[k] = quotient[k]
            left -= 1
        if negative:
            _negate(words)
        sign = np.uint8(255) if negative else np.uint8(0)
        length = 32
        while length > 1:
            top = np.uint8(words[(length - 1) // 8] >> np.uint64(8 * ((length - 1) % 8)))
            below = np.uint8(words[(length - 2) // 8] >> np.uint64(8 * ((length - 2) % 8)))
            if top != sign or (below ^ sign) & np.uint8(128):
                break
            length -= 1
        for j in range(length):
            out[i, length - 1 - j] = np.uint8(words[j // 8] >> np.uint64(8 * (j % 8)))
        if left != 0:
            out[i, length] = np.uint8(left & 255)
            length += 1
        lengths[i] = length
