"""Code strings with the symbols of a table, and count what a better table would hold. Spec: 4.7.6.

A table, as all kernels here take it:

symbols, masks, lengths
    Up to 255 symbols as little-endian words, the bits that they take up, and their bytes.
short
    For each two bytes (little-endian): ``length << 9 | code`` of the longest symbol of at most two bytes that
    they start with; code 256 for none.
heads, chain
    Symbols of three bytes and more: the first one, longest first, for each hash of three bytes, and the next
    one after each; -1 ends a list.
"""

import numpy as np

from lance_df.encodings.kernels.jit import kernel, load_8_bytes

_U = np.uintp
_W = np.uint64
_ESCAPE = 255
_BYTES = 256


@kernel
def encode_fsst(data, offsets, symbols, masks, lengths, short, heads, chain, out, out_offsets):  # type: ignore[no-untyped-def]
    """Write the codes of each value to ``out``, which has room for two codes a byte; return their number."""
    source = data.ctypes.data
    total = _U(len(data))
    position = _U(0)
    out_offsets[0] = 0
    for value in range(len(offsets) - 1):
        at = _U(offsets[value])
        end = _U(offsets[value + 1])
        while at < end:
            left = end - at
            if at + _U(8) <= total:
                word = load_8_bytes(source + at)
            else:
                word = _W(0)
                for i in range(min(left, _U(8))):
                    word |= _W(data[at + _U(i)]) << _W(8 * i)
            if left < _U(8):
                word &= (_W(1) << _W(left * _U(8))) - _W(1)
            code = -1
            if left > _U(2):
                code = heads[_U((((word & _W(0xFFFFFF)) * _W(2654435761)) >> _W(20)) & _W(4095))]
                while code >= 0 and ((word & masks[code]) != symbols[code] or _U(lengths[code]) > left):
                    code = chain[code]
            if code >= 0:
                out[position] = code
                position += _U(1)
                at += _U(lengths[code])
                continue
            found = short[_U(word & _W(0xFFFF))]
            step = _U(found >> 9)
            if left == _U(1) and step == _U(2):
                # the zero that stands for what is behind the end is no part of the value
                found = short[_U(word & _W(0xFF)) | _U(0xFF00)]
                step = _U(found >> 9)
                if step == _U(2):
                    found, step = 1 << 9 | _BYTES, _U(1)
            code = found & 511
            if code == _BYTES:
                out[position] = _ESCAPE
                out[position + _U(1)] = data[at]
                position += _U(2)
            else:
                out[position] = code
                position += _U(1)
            at += step
        out_offsets[value + 1] = position
    return position


@kernel
def count_fsst(codes, offsets, counts, pairs, firsts):  # type: ignore[no-untyped-def]
    """Count units and pairs of adjacent units in the codes of values.

    A unit is a symbol (its code) or an escaped byte (256 and the byte). A longer symbol counts as its first
    byte, too, so that a table can shrink again.

    Parameters
    ----------
    codes, offsets
        Value i has the codes from ``offsets[i]`` to ``offsets[i + 1]``.
    counts, pairs
        512 numbers, and 512 rows of them; added to.
    firsts
        The first byte of each symbol of two bytes and more, -1 for shorter ones.
    """
    for value in range(len(offsets) - 1):
        previous = -1
        i = offsets[value]
        while i < offsets[value + 1]:
            unit = int(codes[i])
            first = -1
            if unit == _ESCAPE:
                i += 1
                unit = _BYTES + int(codes[i])
            else:
                first = firsts[unit]
            i += 1
            counts[unit] += 1
            if first >= 0:
                counts[_BYTES + first] += 1
            if previous >= 0:
                pairs[previous, unit] += 1
                if first >= 0:
                    pairs[previous, _BYTES + first] += 1
            previous = unit
