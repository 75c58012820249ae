"""Hash values with murmur3 (x86, 32 bits, seed 0) and with xxHash64 (seed 0).

Spec: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md, XXH64.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.lance_df.encodings.kernels.memory import load_32, load_64
else:
    from lance_df.encodings.kernels.memory import load_32, load_64, run_uncompiled


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _mix_key(key: cython.uint) -> cython.uint:
    ones: cython.uint = 0xFFFFFFFF
    first: cython.uint = 0xCC9E2D51
    second: cython.uint = 0x1B873593
    key = (key * first) & ones
    key = ((key << 15) | (key >> 17)) & ones
    return (key * second) & ones


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _mix_state(state: cython.uint) -> cython.uint:
    ones: cython.uint = 0xFFFFFFFF
    added: cython.uint = 0xE6546B64
    state = ((state << 13) | (state >> 19)) & ones
    return (state * 5 + added) & ones


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _finish(state: cython.uint, length: cython.uint) -> cython.uint:
    ones: cython.uint = 0xFFFFFFFF
    first: cython.uint = 0x85EBCA6B
    second: cython.uint = 0xC2B2AE35
    state ^= length
    state = ((state ^ (state >> 16)) * first) & ones
    state = ((state ^ (state >> 13)) * second) & ones
    return state ^ (state >> 16)


def murmur3_words(words: cython.const[cython.uchar][::1], out: cython.uint[::1]) -> None:
    """Hash each 8 bytes into one item of ``out``."""
    with cython.nogil:
        _murmur3_words(words, out)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _murmur3_words(words: cython.const[cython.uchar][::1], out: cython.uint[::1]) -> cython.void:
    i: cython.Py_ssize_t
    state: cython.uint
    for i in range(out.shape[0]):
        state = _mix_state(_mix_key(load_32(words, 8 * i)))
        state = _mix_state(state ^ _mix_key(load_32(words, 8 * i + 4)))
        out[i] = _finish(state, 8)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _offset(
    offsets: cython.const[cython.uchar][::1], width: cython.Py_ssize_t, row: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    if width == 4:
        return load_32(offsets, 4 * row)
    return load_64(offsets, 8 * row)


def murmur3_bytes(
    offsets: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    out: cython.uint[::1],
) -> None:
    """Hash the bytes of ``data`` between each offset and the next.

    Parameters
    ----------
    offsets, width
        One offset more than values, of ``width`` bytes (4 or 8). The caller has checked them.
    """
    with cython.nogil:
        if width == 4:
            _murmur3_bytes(offsets, 4, data, out)
        else:
            _murmur3_bytes(offsets, 8, data, out)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _murmur3_bytes(
    offsets: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    out: cython.uint[::1],
) -> cython.void:
    first: cython.Py_ssize_t
    row: cython.Py_ssize_t
    i: cython.Py_ssize_t
    begin: cython.Py_ssize_t
    end: cython.Py_ssize_t
    shortest: cython.uint
    longest: cython.uint
    total: cython.uint
    position: cython.uint
    left: cython.uint
    state: cython.uint
    mixed: cython.uint
    starts: cython.Py_ssize_t[64]
    lengths: cython.uint[64]
    words: cython.uint[64]
    states: cython.uint[64]
    if not cython.compiled:
        starts, lengths, words, states = [0] * 64, [0] * 64, [0] * 64, [0] * 64
    first = 0
    while first + 64 <= out.shape[0]:
        # the same words of 64 values are hashed together, if the values are of similar length
        begin = _offset(offsets, width, first)
        end = _offset(offsets, width, first + 64)
        if end - begin > 64 * 64:
            for row in range(first, first + 64):
                out[row] = _murmur3_at(data, _offset(offsets, width, row), _offset(offsets, width, row + 1))
            first += 64
            continue
        for i in range(64):
            starts[i] = _offset(offsets, width, first + i)
            lengths[i] = _offset(offsets, width, first + i + 1) - starts[i]
        shortest = longest = lengths[0]
        for i in range(64):
            shortest = min(shortest, lengths[i])
            longest = max(longest, lengths[i])
        total = end - begin
        if longest > 32 or 64 * longest > 4 * total + 1024 or end + longest + 4 > data.shape[0]:
            for row in range(first, first + 64):
                out[row] = _murmur3_at(data, _offset(offsets, width, row), _offset(offsets, width, row + 1))
            first += 64
            continue
        for i in range(64):
            states[i] = 0
        position = 0
        while position < longest:
            for i in range(64):
                words[i] = load_32(data, starts[i] + position)
            if position + 4 <= shortest:
                for i in range(64):
                    states[i] = _mix_state(states[i] ^ _mix_key(words[i]))
            else:
                for i in range(64):
                    left = lengths[i] - min(lengths[i], position)
                    state = states[i] ^ _mix_key(words[i] & _mask(left))
                    mixed = _mix_state(state)
                    states[i] = mixed if left >= 4 else state
            position += 4
        for i in range(64):
            words[i] = _finish(states[i], lengths[i])
        for i in range(64):
            out[first + i] = words[i]
        first += 64
    for row in range(first, out.shape[0]):
        out[row] = _murmur3_at(data, _offset(offsets, width, row), _offset(offsets, width, row + 1))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _mask(num_bytes: cython.uint) -> cython.uint:
    """Return a mask that keeps ``num_bytes`` of four bytes, without a branch."""
    third: cython.uint = 0xFF0000
    fourth: cython.uint = 0xFF000000
    mask: cython.uint = 0xFF if num_bytes > 0 else 0
    mask |= 0xFF00 if num_bytes > 1 else 0
    mask |= third if num_bytes > 2 else 0
    mask |= fourth if num_bytes > 3 else 0
    return mask


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _murmur3_at(
    data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.uint:
    begin: cython.Py_ssize_t = at
    k: cython.Py_ssize_t
    state: cython.uint = 0
    key: cython.uint = 0
    byte: cython.uint
    low: cython.Py_ssize_t = 0xFFFFFFFF
    while at + 4 <= end:
        state = _mix_state(state ^ _mix_key(load_32(data, at)))
        at += 4
    if end - begin > 4 and at < end:  # the last four bytes, without those that are already hashed
        key = load_32(data, end - 4) >> (8 * (at + 4 - end))
    else:
        for k in range(at, end):
            byte = data[k]
            key |= byte << (8 * (k - at))
    return _finish(state ^ _mix_key(key), (end - begin) & low)


def decimal_bytes(
    values: cython.const[cython.ulonglong][::1],
    scale: cython.Py_ssize_t,
    lengths: cython.longlong[::1],
    out: cython.uchar[::1],
) -> None:
    """Write the lengths and canonical bytes of numbers of four words, in two's complement.

    Parameters
    ----------
    out
        The output, of 33 bytes for each number.
    """
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(lengths.shape[0]):
            lengths[i] = _decimal_bytes(values, 4 * i, scale, out, 33 * i)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _decimal_bytes(
    values: cython.const[cython.ulonglong][::1],
    at: cython.Py_ssize_t,
    scale: cython.Py_ssize_t,
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write the canonical bytes of a number; return how many there are."""
    k: cython.Py_ssize_t
    length: cython.Py_ssize_t
    num_words: cython.Py_ssize_t = 4
    ones: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    low: cython.ulonglong = 0xFFFFFFFF
    ten: cython.ulonglong = 10
    sign: cython.ulonglong = ones if values[at + 3] >> 63 else 0
    carry: cython.ulonglong = sign & 1
    high: cython.ulonglong
    remainder: cython.ulonglong
    # four words of 64 bits
    words: cython.ulonglong[4]
    quotient: cython.ulonglong[4]
    if not cython.compiled:
        words, quotient = [0] * 4, [0] * 4
    for k in range(4):
        words[k] = ((values[at + k] ^ sign) + carry) & ones
        carry &= words[k] == 0
    if words[0] | words[1] | words[2] | words[3] == 0:
        scale = 0
    while words[num_words - 1] == 0 and num_words > 1:
        num_words -= 1
    while scale > 0:
        remainder = 0
        if num_words == 1:
            quotient[0] = words[0] // ten
            remainder = words[0] % ten
        else:
            for k in range(num_words - 1, -1, -1):
                high = (remainder << 32) | (words[k] >> 32)
                quotient[k] = (high // ten) << 32
                high = ((high % ten) << 32) | (words[k] & low)
                quotient[k] |= high // ten
                remainder = high % ten
        if remainder:
            break
        for k in range(num_words):
            words[k] = quotient[k]
        scale -= 1
    carry = sign & 1
    for k in range(4):
        words[k] = ((words[k] ^ sign) + carry) & ones
        carry &= words[k] == 0
    # leave out bytes that only repeat the sign
    length = min(8 * num_words + 1, 32)
    while (
        length > 1
        and _byte(words, length - 1) == sign & 0xFF
        and not ((_byte(words, length - 2) ^ sign) & 0x80)
    ):
        length -= 1
    for k in range(length):
        out[to + length - 1 - k] = _byte(words, k)
    if scale:
        out[to + length] = scale & 0xFF
        length += 1
    return length


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _byte(words: cython.pointer[cython.ulonglong], k: cython.Py_ssize_t) -> cython.ulonglong:
    return words[k // 8] >> (8 * (k % 8)) & 0xFF


def xxhash64_bytes(
    offsets: cython.const[cython.longlong][::1],
    data: cython.const[cython.uchar][::1],
    out: cython.ulonglong[::1],
) -> None:
    """Hash the bytes of ``data`` between each offset and the next. The caller has checked the offsets."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(out.shape[0]):
            out[i] = _xxhash64(data, offsets[i], offsets[i + 1])


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _times(word: cython.ulonglong, prime: cython.Py_ssize_t, added: cython.ulonglong) -> cython.ulonglong:
    """Multiply a word by one of the five primes."""
    ones: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    first: cython.ulonglong = 0x9E3779B185EBCA87
    second: cython.ulonglong = 0xC2B2AE3D27D4EB4F
    third: cython.ulonglong = 0x165667B19E3779F9
    fifth: cython.ulonglong = 0x27D4EB2F165667C5
    factor: cython.ulonglong = first
    if prime == 2:
        factor = second
    elif prime == 3:
        factor = third
    elif prime == 5:
        factor = fifth
    return (word * factor + added) & ones


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _rotate(word: cython.ulonglong, bits: cython.Py_ssize_t) -> cython.ulonglong:
    ones: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    return ((word << bits) | (word >> (64 - bits))) & ones


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _round(lane: cython.ulonglong, word: cython.ulonglong) -> cython.ulonglong:
    return _times(_rotate(_times(word, 2, lane), 31), 1, 0)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _merge(hashed: cython.ulonglong, lane: cython.ulonglong) -> cython.ulonglong:
    fourth: cython.ulonglong = 0x85EBCA77C2B2AE63
    return _times(hashed ^ _round(0, lane), 1, fourth)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _xxhash64(
    data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.ulonglong:
    size: cython.Py_ssize_t = end - at
    ones: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    third: cython.ulonglong = 0x165667B19E3779F9
    fourth: cython.ulonglong = 0x85EBCA77C2B2AE63
    hashed: cython.ulonglong = 0x27D4EB2F165667C5
    one: cython.ulonglong = 0x60EA27EEADC0B5D6  # the sum of the first and the second prime
    two: cython.ulonglong = 0xC2B2AE3D27D4EB4F
    three: cython.ulonglong = 0
    four: cython.ulonglong = 0x61C8864E7A143579  # the first prime, negated
    if size >= 32:
        while at + 32 <= end:
            one = _round(one, load_64(data, at))
            two = _round(two, load_64(data, at + 8))
            three = _round(three, load_64(data, at + 16))
            four = _round(four, load_64(data, at + 24))
            at += 32
        hashed = (_rotate(one, 1) + _rotate(two, 7) + _rotate(three, 12) + _rotate(four, 18)) & ones
        hashed = _merge(_merge(_merge(_merge(hashed, one), two), three), four)
    hashed = (hashed + size) & ones
    while at + 8 <= end:
        hashed = _times(_rotate(hashed ^ _round(0, load_64(data, at)), 27), 1, fourth)
        at += 8
    if at + 4 <= end:
        hashed = _times(_rotate(hashed ^ _times(load_32(data, at), 1, 0), 23), 2, third)
        at += 4
    while at < end:
        hashed = _times(_rotate(hashed ^ _times(data[at], 5, 0), 11), 1, 0)
        at += 1
    hashed = _times(hashed ^ (hashed >> 33), 2, 0)
    hashed = _times(hashed ^ (hashed >> 29), 3, 0)
    return hashed ^ (hashed >> 32)


if not cython.compiled:
    run_uncompiled(globals())
