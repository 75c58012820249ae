"""Find strings that contain some words, one after another."""

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
def _offset(
    offsets: cython.const[cython.uchar][::1], width: cython.Py_ssize_t, row: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    if width == 4:
        return load_32(offsets, 4 * row)
    return load_64(offsets, 8 * row)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_near(
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    half: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    first_byte: cython.uchar,
    half_byte: cython.uchar,
    last_byte: cython.uchar,
) -> cython.bint:
    """Return whether a word may begin at one of 32 bytes, judging by three of its bytes."""
    i: cython.Py_ssize_t
    near: cython.uchar = 0
    for i in range(32):
        near |= (
            (data[at + i] == first_byte)
            & (data[at + half + i] == half_byte)
            & (data[at + last + i] == last_byte)
        )
    return near != 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_at(
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    words: cython.const[cython.uchar][::1],
    word: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.bint:
    k: cython.Py_ssize_t = 0
    while k + 8 <= size and load_64(data, at + k) == load_64(words, word + k):
        k += 8
    while k < size and data[at + k] == words[word + k]:
        k += 1
    return k == size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _find(
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    words: cython.const[cython.uchar][::1],
    word: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Return the first position of a word between two bytes; -1 if there is none."""
    half: cython.Py_ssize_t = size >> 1
    last: cython.Py_ssize_t = size - 1
    first_byte: cython.uchar = words[word]
    half_byte: cython.uchar = words[word + half]
    last_byte: cython.uchar = words[word + last]
    ones: cython.ulonglong = 0x0101010101010101
    high_bits: cython.ulonglong = 0x8080808080808080
    every_bit: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    indices: cython.ulonglong = 0x0001020304050607
    others: cython.ulonglong
    zeros: cython.ulonglong
    end -= last
    while at + 8 <= end:
        while at + 32 <= end and not _is_near(data, at, half, last, first_byte, half_byte, last_byte):
            at += 32
        if at + 8 > end:
            break
        others = load_64(data, at) ^ (first_byte * ones)
        others |= load_64(data, at + half) ^ (half_byte * ones)
        others |= load_64(data, at + last) ^ (last_byte * ones)
        # the lowest of these bits is that of the first byte that is 0
        zeros = (others - ones) & every_bit & ~others & high_bits
        if zeros == 0:
            at += 8
            continue
        zeros ^= zeros & (zeros - 1)
        at += ((zeros >> 7) * indices & every_bit) >> 56
        if _is_at(data, at, words, word, size):
            return at
        at += 1
    while at < end:
        if data[at] == first_byte and _is_at(data, at, words, word, size):
            return at
        at += 1
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _holds(
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    words: cython.const[cython.uchar][::1],
    sizes: cython.const[cython.longlong][::1],
) -> cython.bint:
    """Return whether the bytes of a range contain all words, in order and without overlaps."""
    i: cython.Py_ssize_t
    word: cython.Py_ssize_t = 0
    for i in range(sizes.shape[0]):
        at = _find(data, at, end, words, word, sizes[i])
        if at < 0:
            return False
        at += sizes[i]
        word += sizes[i]
    return True


def find_words(
    offsets: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    words: cython.const[cython.uchar][::1],
    sizes: cython.const[cython.longlong][::1],
    rarest: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> int:
    """Set the byte of each string that contains all words in order; return the number of these.

    Parameters
    ----------
    offsets, width, data
        The start of each string in ``data`` and the end of the last one, of ``width`` bytes (4 or 8). The
        caller has checked them.
    words, sizes
        The words back to back, none of them empty, and the size of each.
    rarest
        The number of the word to search first.
    out
        A byte for each string, initially 0.
    """
    total: cython.Py_ssize_t
    with cython.nogil:
        total = _find_words(offsets, width, data, words, sizes, rarest, out)
    return total


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _find_words(
    offsets: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    words: cython.const[cython.uchar][::1],
    sizes: cython.const[cython.longlong][::1],
    rarest: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    word: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = sizes[rarest]
    at: cython.Py_ssize_t = _offset(offsets, width, 0)
    end: cython.Py_ssize_t = _offset(offsets, width, out.shape[0])
    row_end: cython.Py_ssize_t
    row: cython.Py_ssize_t = 0
    total: cython.Py_ssize_t = 0
    for i in range(rarest):
        word += sizes[i]
    while True:
        at = _find(data, at, end, words, word, size)
        if at < 0:
            return total
        while _offset(offsets, width, row + 1) <= at:
            row += 1
        row_end = _offset(offsets, width, row + 1)
        if at + size > row_end:  # the end of the word is in the next string
            at += 1
            continue
        if sizes.shape[0] == 1 or _holds(data, _offset(offsets, width, row), row_end, words, sizes):
            out[row] = 1
            total += 1
        at = row_end


if not cython.compiled:
    run_uncompiled(globals())
