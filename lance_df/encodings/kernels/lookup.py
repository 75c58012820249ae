"""Look up indices of any width in tables of values of any width."""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.lance_df.encodings.kernels.memory import (
        copy_bytes,
        load_word,
        store_word,
    )
else:
    from lance_df.encodings.kernels.memory import (
        copy_bytes,
        load_word,
        run_uncompiled,
        store_word,
    )

Word = cython.fused_type(cython.uchar, cython.ushort, cython.uint, cython.ulonglong)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _highest(
    words: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    zero: Word,
) -> cython.ulonglong:
    """Return the highest of some words of the type of ``zero``; 0 if there are none."""
    i: cython.Py_ssize_t
    word: Word
    highest: Word = zero
    for i in range(count):
        word = load_word(words, at + i * width, width)
        highest = word if word > highest else highest
    return highest


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _has_zero(
    words: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    zero: Word,
) -> cython.bint:
    """Return whether any of some words of the type of ``zero`` is 0."""
    i: cython.Py_ssize_t
    word: Word
    one: Word = 1
    seen: Word = zero
    for i in range(count):
        word = load_word(words, at + i * width, width)
        seen = one if word == zero else seen
    return seen != zero


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _keep_valid(
    words: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    zero: Word,
    valid: cython.const[cython.uchar][::1],
    out: cython.uchar[::1],
) -> cython.void:
    """Copy ``count`` words, of the type of ``zero``, from word ``start`` on; invalid ones become 0."""
    i: cython.Py_ssize_t
    word: Word
    for i in range(count):
        word = load_word(words, (start + i) * width, width)
        word = word if valid[start + i] else zero
        store_word(out, i * width, word, width)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _convert(
    words: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    out_width: cython.Py_ssize_t,
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
) -> cython.void:
    i: cython.Py_ssize_t
    for i in range(count):
        store_word(out, to + i * out_width, load_word(words, at + i * width, width), out_width)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _pick(
    words: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    table: cython.const[cython.uchar][::1],
    out_width: cython.Py_ssize_t,
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
) -> cython.void:
    start: cython.Py_ssize_t
    i: cython.Py_ssize_t
    item: cython.Py_ssize_t
    whole: cython.Py_ssize_t = count & ~7
    # the compiler unrolls the inner loop, which has a fixed number of steps
    for start in range(0, whole, 8):
        for i in range(8):
            item = load_word(words, at + (start + i) * width, width) * out_width
            copy_bytes(out, to + (start + i) * out_width, table, item, out_width)
    for i in range(whole, count):
        item = load_word(words, at + i * width, width) * out_width
        copy_bytes(out, to + i * out_width, table, item, out_width)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _write(
    words: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    table: cython.const[cython.uchar][::1],
    out_width: cython.Py_ssize_t,
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
) -> cython.void:
    # with constants, the compiler makes a separate loop for each case
    if table.shape[0] == 0:
        if out_width == width:
            copy_bytes(out, to, words, at, count * width)
        elif out_width == 1:
            _convert(words, at, count, width, 1, out, to)
        elif out_width == 2:
            _convert(words, at, count, width, 2, out, to)
        elif out_width == 4:
            _convert(words, at, count, width, 4, out, to)
        else:
            _convert(words, at, count, width, 8, out, to)
    elif out_width == 1:
        _pick(words, at, count, width, table, 1, out, to)
    elif out_width == 2:
        _pick(words, at, count, width, table, 2, out, to)
    elif out_width == 4:
        _pick(words, at, count, width, table, 4, out, to)
    elif out_width == 8:
        _pick(words, at, count, width, table, 8, out, to)
    else:
        _pick(words, at, count, width, table, 16, out, to)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def look_up_words(
    words: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    table: cython.const[cython.uchar][::1],
    table_size: cython.Py_ssize_t,
    out_width: cython.Py_ssize_t,
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Look up ``count`` indices from byte ``at`` on, and write from byte ``to`` on; see `look_up`.

    Returns -1, or -2 minus the highest index if an index is not below ``table_size``.
    """
    zero_8: cython.uchar = 0
    zero_16: cython.ushort = 0
    zero_32: cython.uint = 0
    zero_64: cython.ulonglong = 0
    highest: cython.ulonglong
    most: cython.ulonglong = 0x4000000000000000
    size: cython.ulonglong = table_size
    if count <= 0:
        return -1
    if width == 1:
        highest = _highest(words, at, count, 1, zero_8)
    elif width == 2:
        highest = _highest(words, at, count, 2, zero_16)
    elif width == 4:
        highest = _highest(words, at, count, 4, zero_32)
    else:
        highest = _highest(words, at, count, 8, zero_64)
    if highest >= size:
        highest = highest if highest < most else most
        return -2 - cython.cast(cython.Py_ssize_t, highest)
    if width == 1:
        _write(words, at, count, 1, table, out_width, out, to)
    elif width == 2:
        _write(words, at, count, 2, table, out_width, out, to)
    elif width == 4:
        _write(words, at, count, 4, table, out_width, out, to)
    else:
        _write(words, at, count, 8, table, out_width, out, to)
    return -1


def look_up(
    words: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    valid: cython.const[cython.uchar][::1],
    table: cython.const[cython.uchar][::1],
    table_size: cython.Py_ssize_t,
    out_width: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    """Write the values of indices in a table, or without a table the indices themselves.

    Returns -2 minus the index if an index is not below ``table_size``; otherwise 0 if ``valid`` is empty and
    an index is 0; otherwise -1.

    Parameters
    ----------
    words, width
        The bytes of unsigned indices, and the bytes of each: 1, 2, 4 or 8.
    valid
        A byte for each index: 1 if it is valid, or 0 to look up 0 instead. Empty if all are valid.
    table, table_size
        The bytes of the values (empty to write the indices), and the number of values.
    out_width, out
        The bytes written for each index (1, 2, 4 or 8, or for values also 16), and the output, with room for
        all.
    """
    status: cython.Py_ssize_t
    scratch: cython.uchar[::1] = bytearray(8192 if valid.shape[0] else 0)
    with cython.nogil:
        status = _look_up(words, width, valid, table, table_size, out_width, out, scratch)
    return status


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _look_up(
    words: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    valid: cython.const[cython.uchar][::1],
    table: cython.const[cython.uchar][::1],
    table_size: cython.Py_ssize_t,
    out_width: cython.Py_ssize_t,
    out: cython.uchar[::1],
    scratch: cython.uchar[::1],
) -> cython.Py_ssize_t:
    count: cython.Py_ssize_t = words.shape[0] // width
    start: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t
    at: cython.Py_ssize_t
    to: cython.Py_ssize_t
    zero_8: cython.uchar = 0
    zero_16: cython.ushort = 0
    zero_32: cython.uint = 0
    zero_64: cython.ulonglong = 0
    has_zero: cython.bint = False
    status: cython.Py_ssize_t
    beyond: cython.Py_ssize_t = -1
    # this many indices stay in the first-level cache until they are looked up
    while start < count:
        size = min(count - start, 1024)
        at = start * width
        to = start * out_width
        if valid.shape[0]:
            if width == 1:
                _keep_valid(words, start, size, 1, zero_8, valid, scratch)
            elif width == 2:
                _keep_valid(words, start, size, 2, zero_16, valid, scratch)
            elif width == 4:
                _keep_valid(words, start, size, 4, zero_32, valid, scratch)
            else:
                _keep_valid(words, start, size, 8, zero_64, valid, scratch)
            status = look_up_words(scratch, 0, size, width, table, table_size, out_width, out, to)
        else:
            status = look_up_words(words, at, size, width, table, table_size, out_width, out, to)
            if width == 1:
                has_zero |= _has_zero(words, at, size, 1, zero_8)
            elif width == 2:
                has_zero |= _has_zero(words, at, size, 2, zero_16)
            elif width == 4:
                has_zero |= _has_zero(words, at, size, 4, zero_32)
            else:
                has_zero |= _has_zero(words, at, size, 8, zero_64)
        beyond = min(beyond, status)
        start += size
    return 0 if has_zero and beyond == -1 else beyond


if not cython.compiled:
    run_uncompiled(globals())
