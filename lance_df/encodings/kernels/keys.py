"""Hash and count keys, and drop those that cannot be in a set, by marks that stand for many values each."""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.lance_df.encodings.kernels.memory import load_16, load_32, load_64
else:
    from lance_df.encodings.kernels.memory import load_16, load_32, load_64, run_uncompiled


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _word(
    words: cython.const[cython.uchar][::1], width: cython.Py_ssize_t, i: cython.Py_ssize_t
) -> cython.ulonglong:
    """Return a word of 1, 2, 4 or 8 bytes."""
    if width == 1:
        return words[i]
    if width == 2:
        return load_16(words, 2 * i)
    if width == 4:
        return load_32(words, 4 * i)
    return load_64(words, 8 * i)


def mix_words(
    hashed: cython.ulonglong[::1],
    words: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    multiplier: cython.ulonglong,
) -> None:
    """Mix one more word, of ``width`` bytes, into each hash, in place."""
    with cython.nogil:
        # with constants, the compiler makes a separate loop for each case
        if width == 1:
            _mix_words(hashed, words, 1, multiplier)
        elif width == 2:
            _mix_words(hashed, words, 2, multiplier)
        elif width == 4:
            _mix_words(hashed, words, 4, multiplier)
        else:
            _mix_words(hashed, words, 8, multiplier)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _mix_words(
    hashed: cython.ulonglong[::1],
    words: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    multiplier: cython.ulonglong,
) -> cython.void:
    i: cython.Py_ssize_t
    ones: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    bits: cython.ulonglong
    for i in range(hashed.shape[0]):
        bits = hashed[i]
        bits = bits ^ (bits >> 32) ^ _word(words, width, i)
        hashed[i] = (bits * multiplier) & ones


def marked_positions(
    hashed: cython.const[cython.ulonglong][::1],
    shift: cython.Py_ssize_t,
    marks: cython.const[cython.uchar][::1],
    out: cython.longlong[::1],
) -> int:
    """Write the positions of hashes whose upper bits are marked; return their number.

    The caller has checked that ``marks`` has a bit for each value of the bits above ``shift``, in whole words
    of 8 bytes, and that ``out`` is as long as ``hashed``.
    """
    total: cython.Py_ssize_t
    with cython.nogil:
        total = _marked_positions(hashed, shift, marks, out)
    return total


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _marked_positions(
    hashed: cython.const[cython.ulonglong][::1],
    shift: cython.Py_ssize_t,
    marks: cython.const[cython.uchar][::1],
    out: cython.longlong[::1],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    index: cython.Py_ssize_t
    total: cython.Py_ssize_t = 0
    for i in range(hashed.shape[0]):
        index = hashed[i] >> shift
        out[total] = i
        total += load_64(marks, index >> 6 << 3) >> (index & 63) & 1
    return total


def near_positions(
    numbers: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    is_signed: cython.bint,
    lowest: cython.ulonglong,
    shift: cython.Py_ssize_t,
    marks: cython.const[cython.uchar][::1],
    out: cython.longlong[::1],
) -> int:
    """Write the positions of numbers in marked ranges above ``lowest``; return their number.

    Numbers have ``width`` bytes; those beyond the marks use the last mark. The caller has checked that
    ``out`` has room for all numbers.
    """
    total: cython.Py_ssize_t
    with cython.nogil:
        if width == 1:
            total = _near_positions(numbers, 1, is_signed, lowest, shift, marks, out)
        elif width == 2:
            total = _near_positions(numbers, 2, is_signed, lowest, shift, marks, out)
        elif width == 4:
            total = _near_positions(numbers, 4, is_signed, lowest, shift, marks, out)
        else:
            total = _near_positions(numbers, 8, is_signed, lowest, shift, marks, out)
    return total


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _near_positions(
    numbers: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    is_signed: cython.ulonglong,
    lowest: cython.ulonglong,
    shift: cython.Py_ssize_t,
    marks: cython.const[cython.uchar][::1],
    out: cython.longlong[::1],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    ones: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    # inverting the sign bit of all numbers keeps their distance to the lowest one
    sign: cython.ulonglong = is_signed << (8 * width - 1)
    index: cython.ulonglong
    last: cython.ulonglong = marks.shape[0] - 1
    total: cython.Py_ssize_t = 0
    lowest = (lowest + sign) & ones
    for i in range(out.shape[0]):
        index = (((_word(numbers, width, i) ^ sign) - lowest) & ones) >> shift
        index = min(index, last)
        out[total] = i
        total += marks[index]
    return total


def count_codes(codes: cython.const[cython.uchar][::1], counts: cython.longlong[::1]) -> None:
    """Count how often each code of one byte occurs.

    Parameters
    ----------
    counts
        Four times 256 numbers, each for every fourth code, so that equal codes in a row wait less for each
        other. The caller has checked the length.
    """
    with cython.nogil:
        _count_codes(codes, counts)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _count_codes(codes: cython.const[cython.uchar][::1], counts: cython.longlong[::1]) -> cython.void:
    i: cython.Py_ssize_t
    whole: cython.Py_ssize_t = codes.shape[0] & ~3
    for i in range(0, whole, 4):
        counts[codes[i]] += 1
        counts[256 + codes[i + 1]] += 1
        counts[512 + codes[i + 2]] += 1
        counts[768 + codes[i + 3]] += 1
    for i in range(whole, codes.shape[0]):
        counts[codes[i]] += 1


if not cython.compiled:
    run_uncompiled(globals())
