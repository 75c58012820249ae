"""Test each value against a condition, and find the least and the greatest of some strings.

``out`` has a byte for each value, which is set to 1 if the value matches; the kernels return the number of
matches. ``inverted`` negates the condition. Bounds are a lower one, and the distance from it to the upper
one: since unsigned numbers wrap around, one loop compares both signed and unsigned numbers.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.lance_df.encodings.kernels.memory import load_16, load_32, load_64
else:
    from lance_df.encodings.kernels.memory import load_16, load_32, load_64, run_uncompiled


def numbers_within(
    words: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    bounds: cython.const[cython.ulonglong][::1],
    inverted: cython.bint,
    out: cython.uchar[::1],
) -> int:
    """Compare integers of ``width`` bytes with bounds of at most that width."""
    num_true: cython.Py_ssize_t
    with cython.nogil:
        _numbers_within(words, width, bounds[0], bounds[1], inverted, out)
        num_true = _num_ones(out)
    return num_true


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _numbers_within(
    words: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    low: cython.ulonglong,
    span: cython.ulonglong,
    inverted: cython.uchar,
    out: cython.uchar[::1],
) -> cython.void:
    i: cython.Py_ssize_t
    byte: cython.uchar
    low_8: cython.uchar = low & 0xFF
    span_8: cython.uchar = span & 0xFF
    word_16: cython.ushort
    low_16: cython.ushort = low & 0xFFFF
    span_16: cython.ushort = span & 0xFFFF
    ones_32: cython.uint = 0xFFFFFFFF
    word_32: cython.uint
    low_32: cython.uint = low & ones_32
    span_32: cython.uint = span & ones_32
    ones_64: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    word_64: cython.ulonglong
    if width == 1:
        for i in range(out.shape[0]):
            byte = (words[i] - low_8) & 0xFF
            out[i] = (byte <= span_8) ^ inverted
    elif width == 2:
        for i in range(out.shape[0]):
            word_16 = (load_16(words, 2 * i) - low_16) & 0xFFFF
            out[i] = (word_16 <= span_16) ^ inverted
    elif width == 4:
        for i in range(out.shape[0]):
            word_32 = (load_32(words, 4 * i) - low_32) & ones_32
            out[i] = (word_32 <= span_32) ^ inverted
    else:
        for i in range(out.shape[0]):
            word_64 = (load_64(words, 8 * i) - low) & ones_64
            out[i] = (word_64 <= span) ^ inverted


def floats_within(
    words: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    bounds: cython.const[cython.ulonglong][::1],
    inverted: cython.bint,
    out: cython.uchar[::1],
) -> int:
    """Compare floats of at least 2 bytes in the order of `lance_df.expr.floats`."""
    num_true: cython.Py_ssize_t
    with cython.nogil:
        _floats_within(words, width, bounds[0], bounds[1], inverted, out)
        num_true = _num_ones(out)
    return num_true


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _floats_within(
    words: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    low: cython.ulonglong,
    span: cython.ulonglong,
    inverted: cython.uchar,
    out: cython.uchar[::1],
) -> cython.void:
    i: cython.Py_ssize_t
    key_16: cython.ushort
    low_16: cython.ushort = low & 0xFFFF
    span_16: cython.ushort = span & 0xFFFF
    ones_32: cython.uint = 0xFFFFFFFF
    others_32: cython.uint = 0x7FFFFFFF
    sign_32: cython.uint = 0x80000000
    key_32: cython.uint
    low_32: cython.uint = low & ones_32
    span_32: cython.uint = span & ones_32
    ones_64: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    others_64: cython.ulonglong = 0x7FFFFFFFFFFFFFFF
    sign_64: cython.ulonglong = 0x8000000000000000
    key_64: cython.ulonglong
    # the other bits of negative numbers are inverted, so that the order of integers is that of floats
    if width == 2:
        for i in range(out.shape[0]):
            key_16 = load_16(words, 2 * i)
            key_16 = 0 if key_16 == 0x8000 else key_16 ^ ((0 - (key_16 >> 15)) & 0x7FFF)
            key_16 = (key_16 - low_16) & 0xFFFF
            out[i] = (key_16 <= span_16) ^ inverted
    elif width == 4:
        for i in range(out.shape[0]):
            key_32 = load_32(words, 4 * i)
            key_32 = 0 if key_32 == sign_32 else key_32 ^ ((0 - (key_32 >> 31)) & others_32)
            key_32 = (key_32 - low_32) & ones_32
            out[i] = (key_32 <= span_32) ^ inverted
    else:
        for i in range(out.shape[0]):
            key_64 = load_64(words, 8 * i)
            key_64 = 0 if key_64 == sign_64 else key_64 ^ ((0 - (key_64 >> 63)) & others_64)
            key_64 = (key_64 - low) & ones_64
            out[i] = (key_64 <= span) ^ inverted


def pairs_within(
    words: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,  # noqa: ARG001 - as of other numbers
    bounds: cython.const[cython.ulonglong][::1],
    inverted: cython.bint,
    out: cython.uchar[::1],
) -> int:
    """Compare numbers of 128 bits. In numbers and bounds, the lower word comes first."""
    num_true: cython.Py_ssize_t
    with cython.nogil:
        _pairs_within(words, bounds[0], bounds[1], bounds[2], bounds[3], inverted, out)
        num_true = _num_ones(out)
    return num_true


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _pairs_within(
    words: cython.const[cython.uchar][::1],
    low: cython.ulonglong,
    high: cython.ulonglong,
    low_span: cython.ulonglong,
    high_span: cython.ulonglong,
    inverted: cython.uchar,
    out: cython.uchar[::1],
) -> cython.void:
    i: cython.Py_ssize_t
    ones: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    word: cython.ulonglong
    lower: cython.ulonglong
    upper: cython.ulonglong
    for i in range(out.shape[0]):
        word = load_64(words, 16 * i)
        lower = (word - low) & ones
        upper = (load_64(words, 16 * i + 8) - high - (word < low)) & ones
        out[i] = ((upper < high_span) | ((upper == high_span) & (lower <= low_span))) ^ inverted


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


def strings_equal(
    offsets: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    word: cython.const[cython.uchar][::1],
    inverted: cython.bint,
    out: cython.uchar[::1],
) -> int:
    """Compare strings with the bytes of a word.

    Parameters
    ----------
    offsets, width
        The start of each string in ``data`` and the end of the last one, of ``width`` bytes (4 or 8). The
        caller has checked them.
    """
    num_true: cython.Py_ssize_t
    with cython.nogil:
        # with constants, the compiler makes a separate loop for each case
        if width == 4:
            if word.shape[0] > 8:
                _strings_equal(offsets, 4, data, word, True, inverted, out)
            else:
                _strings_equal(offsets, 4, data, word, False, inverted, out)
        elif word.shape[0] > 8:
            _strings_equal(offsets, 8, data, word, True, inverted, out)
        else:
            _strings_equal(offsets, 8, data, word, False, inverted, out)
        num_true = _num_ones(out)
    return num_true


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _strings_equal(
    offsets: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    word: cython.const[cython.uchar][::1],
    is_long: cython.bint,
    inverted: cython.uchar,
    out: cython.uchar[::1],
) -> cython.void:
    """Compare strings with a word, which is long if it has more than 8 bytes."""
    size: cython.Py_ssize_t = word.shape[0]
    head: cython.ulonglong = load_64(word, 0) if is_long else _up_to_8_bytes(word, 0, size)
    tail: cython.ulonglong = load_64(word, size - 8) if is_long else 0
    ones: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    counted: cython.ulonglong = ones >> (64 - 8 * min(size, 8)) if size else 0
    near_end: cython.Py_ssize_t = out.shape[0]
    begin: cython.Py_ssize_t = _offset(offsets, width, 0)
    end: cython.Py_ssize_t
    truth: cython.uchar
    i: cython.Py_ssize_t
    # 8 bytes can be read from most strings, even from shorter ones
    while near_end > 0 and _offset(offsets, width, near_end - 1) + 8 > data.shape[0]:
        near_end -= 1
    for i in range(near_end):
        end = _offset(offsets, width, i + 1)
        truth = (end - begin == size) & ((load_64(data, begin) & counted) == head)
        if is_long:
            truth &= load_64(data, max(end - 8, 0)) == tail
            if size > 16 and truth:
                truth = _is_same_middle(data, begin, word)
        out[i] = truth ^ inverted
        begin = end
    for i in range(near_end, out.shape[0]):
        end = _offset(offsets, width, i + 1)
        truth = end - begin == size and not is_long and _up_to_8_bytes(data, begin, size) == head
        out[i] = truth ^ inverted
        begin = end


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_same_middle(
    data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, word: cython.const[cython.uchar][::1]
) -> cython.bint:
    """Compare all but the first and the last 8 bytes."""
    middle: cython.Py_ssize_t = 8
    while middle < word.shape[0] - 8:
        if load_64(data, at + middle) != load_64(word, middle):
            return False
        middle += 8
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _up_to_8_bytes(
    data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.ulonglong:
    k: cython.Py_ssize_t
    byte: cython.ulonglong
    word: cython.ulonglong = 0
    for k in range(size):
        byte = data[at + k]
        word |= byte << (8 * k)
    return word


def look_up_truth(
    truth: cython.const[cython.uchar][::1],
    indices: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> int:
    """Write ``truth[indices[i]]``, which is 0 or 1; return the number of ones.

    ``indices`` have ``width`` bytes each. The caller has checked that they are in range.
    """
    num_true: cython.Py_ssize_t
    with cython.nogil:
        _look_up_truth(truth, indices, width, out)
        num_true = _num_ones(out)
    return num_true


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _look_up_truth(
    truth: cython.const[cython.uchar][::1],
    indices: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.void:
    i: cython.Py_ssize_t
    index: cython.Py_ssize_t
    if width == 1:
        for i in range(out.shape[0]):
            out[i] = truth[indices[i]]
    elif width == 2:
        for i in range(out.shape[0]):
            index = load_16(indices, 2 * i)
            out[i] = truth[index]
    elif width == 4:
        for i in range(out.shape[0]):
            index = load_32(indices, 4 * i)
            out[i] = truth[index]
    else:
        for i in range(out.shape[0]):
            index = load_64(indices, 8 * i)
            out[i] = truth[index]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _num_ones(truth: cython.const[cython.uchar][::1]) -> cython.Py_ssize_t:
    """Return the number of bytes that are 1; the others are 0."""
    num_words: cython.Py_ssize_t = truth.shape[0] // 8
    first: cython.Py_ssize_t
    i: cython.Py_ssize_t
    total: cython.Py_ssize_t = 0
    sums: cython.ulonglong
    even: cython.ulonglong = 0x00FF00FF00FF00FF
    each: cython.ulonglong = 0x0001000100010001
    low: cython.ulonglong = 0xFFFF
    for first in range(0, num_words, 255):
        # the sum of this many words does not overflow a byte
        sums = 0
        for i in range(first, min(first + 255, num_words)):
            sums += load_64(truth, 8 * i)
        sums = (sums & even) + (sums >> 8 & even)
        total += (sums * each) >> 48 & low
    for i in range(8 * num_words, truth.shape[0]):
        total += truth[i]
    return total


def extreme_strings(
    offsets: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    out: cython.longlong[::1],
) -> None:
    """Write the positions of the least and of the greatest string, compared byte by byte, to ``out``.

    Parameters
    ----------
    offsets, width
        As in `strings_equal`; there is at least one string.
    """
    with cython.nogil:
        if width == 4:
            _extreme_strings(offsets, 4, data, out)
        else:
            _extreme_strings(offsets, 8, data, out)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _extreme_strings(
    offsets: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    out: cython.longlong[::1],
) -> cython.void:
    row: cython.Py_ssize_t
    least: cython.Py_ssize_t = 0
    greatest: cython.Py_ssize_t = 0
    begin: cython.Py_ssize_t = _offset(offsets, width, 0)
    end: cython.Py_ssize_t = _offset(offsets, width, 1)
    head: cython.ulonglong
    least_head: cython.ulonglong = _head(data, begin, end - begin)
    greatest_head: cython.ulonglong = least_head
    # most strings are neither, as their first bytes show
    for row in range(1, offsets.shape[0] // width - 1):
        begin = end
        end = _offset(offsets, width, row + 1)
        head = _head(data, begin, end - begin)
        if head <= least_head and (head < least_head or _is_less(offsets, width, data, row, least)):
            least = row
            least_head = head
        if head >= greatest_head and (head > greatest_head or _is_less(offsets, width, data, greatest, row)):
            greatest = row
            greatest_head = head
    out[0] = least
    out[1] = greatest


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _head(
    data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, length: cython.Py_ssize_t
) -> cython.ulonglong:
    """Return the first 8 bytes of a string, the first one as the highest; missing bytes are 0."""
    size: cython.Py_ssize_t = min(length, 8)
    unused: cython.Py_ssize_t = 32 - 4 * size  # of all bits, half of these
    even: cython.ulonglong = 0x00FF00FF00FF00FF
    pairs: cython.ulonglong = 0x0000FFFF0000FFFF
    low: cython.ulonglong = 0xFFFFFFFF
    word: cython.ulonglong
    word = load_64(data, at) if at + 8 <= data.shape[0] else _up_to_8_bytes(data, at, size)
    word = (word & even) << 8 | (word >> 8 & even)
    word = (word & pairs) << 16 | (word >> 16 & pairs)
    word = (word & low) << 32 | word >> 32
    return word >> unused >> unused << unused << unused


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_less(
    offsets: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    one: cython.Py_ssize_t,
    other: cython.Py_ssize_t,
) -> cython.bint:
    at: cython.Py_ssize_t = _offset(offsets, width, one)
    beside: cython.Py_ssize_t = _offset(offsets, width, other)
    length: cython.Py_ssize_t = _offset(offsets, width, one + 1) - at
    other_length: cython.Py_ssize_t = _offset(offsets, width, other + 1) - beside
    common: cython.Py_ssize_t = min(length, other_length)
    done: cython.Py_ssize_t = 0
    while done + 8 <= common and load_64(data, at + done) == load_64(data, beside + done):
        done += 8
    while done < common:
        if data[at + done] != data[beside + done]:
            return data[at + done] < data[beside + done]
        done += 1
    return length < other_length


if not cython.compiled:
    run_uncompiled(globals())
