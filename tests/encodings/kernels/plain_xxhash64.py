"""xxHash64 with seed 0, in plain Python.

Spec: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md, XXH64.
"""

from __future__ import annotations

import struct

_MASK = (1 << 64) - 1
_P1 = 0x9E3779B185EBCA87
_P2 = 0xC2B2AE3D27D4EB4F
_P3 = 0x165667B19E3779F9
_P4 = 0x85EBCA77C2B2AE63
_P5 = 0x27D4EB2F165667C5


def xxhash64(data: bytes) -> int:
    """Return the hash as an unsigned 64-bit number."""
    position = 0
    if len(data) >= 32:
        lanes = [(_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK]
        for stripe in struct.iter_unpack("<4Q", data[: len(data) & ~31]):
            lanes = [_round(lane, word) for lane, word in zip(lanes, stripe, strict=True)]
        position = len(data) & ~31
        hashed = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            hashed = ((hashed ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        hashed = _P5
    return _avalanche(_tail(hashed + len(data) & _MASK, data[position:]))


def _tail(hashed: int, rest: bytes) -> int:
    position = 0
    while position + 8 <= len(rest):
        (word,) = struct.unpack_from("<Q", rest, position)
        hashed = (_rotate(hashed ^ _round(0, word), 27) * _P1 + _P4) & _MASK
        position += 8
    if position + 4 <= len(rest):
        (half,) = struct.unpack_from("<I", rest, position)
        hashed = (_rotate(hashed ^ (half * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        position += 4
    for byte in rest[position:]:
        hashed = _rotate(hashed ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    return hashed


def _avalanche(hashed: int) -> int:
    hashed = (hashed ^ hashed >> 33) * _P2 & _MASK
    hashed = (hashed ^ hashed >> 29) * _P3 & _MASK
    return hashed ^ hashed >> 32


def _round(lane: int, word: int) -> int:
    return _rotate((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK
