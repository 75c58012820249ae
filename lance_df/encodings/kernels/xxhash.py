"""xxHash64 with seed 0. Spec: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md, XXH64."""

import numpy as np

from lance_df.encodings.kernels.jit import kernel, load_8_bytes

_U = np.uint64
_P1 = _U(0x9E3779B185EBCA87)
_P2 = _U(0xC2B2AE3D27D4EB4F)
_P3 = _U(0x165667B19E3779F9)
_P4 = _U(0x85EBCA77C2B2AE63)
_P5 = _U(0x27D4EB2F165667C5)
_HALF = _U(0xFFFFFFFF)


@kernel
def _rotate(value, bits):  # type: ignore[no-untyped-def]
    return (value << _U(bits)) | (value >> _U(64 - bits))


@kernel
def _round(lane, word):  # type: ignore[no-untyped-def]
    return _rotate(lane + word * _P2, 31) * _P1


@kernel
def _stripes(address, size):  # type: ignore[no-untyped-def]
    """Hash whole stripes of 32 bytes."""
    first, second, third, fourth = _P1 + _P2, _P2, _U(0), _U(0) - _P1
    for at in range(0, size // 32 * 32, 32):
        first = _round(first, load_8_bytes(address + at))
        second = _round(second, load_8_bytes(address + at + 8))
        third = _round(third, load_8_bytes(address + at + 16))
        fourth = _round(fourth, load_8_bytes(address + at + 24))
    hashed = _rotate(first, 1) + _rotate(second, 7) + _rotate(third, 12) + _rotate(fourth, 18)
    for lane in (first, second, third, fourth):
        hashed = (hashed ^ _round(_U(0), lane)) * _P1 + _P4
    return hashed


@kernel
def xxhash64_spans(data, starts, ends, out):  # type: ignore[no-untyped-def]
    """Write the hash of each span of bytes.

    The caller has checked that spans lie within ``data``, which has 8 bytes to spare after the last one.
    """
    source = data.ctypes.data
    for i in range(len(starts)):
        size = ends[i] - starts[i]
        address = source + starts[i]
        hashed = (_stripes(address, size) if size >= 32 else _P5) + _U(size)
        at = size // 32 * 32
        while at + 8 <= size:
            hashed = _rotate(hashed ^ _round(_U(0), load_8_bytes(address + at)), 27) * _P1 + _P4
            at += 8
        if at + 4 <= size:
            half = load_8_bytes(address + at) & _HALF
            hashed = _rotate(hashed ^ (half * _P1), 23) * _P2 + _P3
            at += 4
        while at < size:
            hashed = _rotate(hashed ^ (_U(data[starts[i] + at]) * _P5), 11) * _P1
            at += 1
        hashed = (hashed ^ (hashed >> _U(33))) * _P2
        hashed = (hashed ^ (hashed >> _U(29))) * _P3
        out[i] = hashed ^ (hashed >> _U(32))
