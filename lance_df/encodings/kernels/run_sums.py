"""Find runs of equal rows and add up their numbers, without a branch for each row."""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.lance_df.encodings.kernels.memory import load_32, load_64, store_32, store_64
else:
    from lance_df.encodings.kernels.memory import load_32, load_64, run_uncompiled, store_32, store_64


def find_runs(
    keys: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    longest: cython.Py_ssize_t,
    begins: cython.uchar[::1],
    out_keys: cython.uchar[::1],
    out_ends: cython.longlong[::1],
) -> int:
    """Write the key and the end of each run of equal keys; return the number of runs.

    Parameters
    ----------
    keys, width
        Keys of 4 or 8 bytes each. The caller has checked that there is at least one.
    longest
        Runs also begin at all multiples of this power of two.
    begins
        Receives 1 for each key at which a run begins, and 0 elsewhere.
    out_keys, out_ends
        Outputs with room for as many items as there are keys.
    """
    count: cython.Py_ssize_t
    with cython.nogil:
        if width == 4:
            count = _find_runs(keys, 4, longest, begins, out_keys, out_ends)
        else:
            count = _find_runs(keys, 8, longest, begins, out_keys, out_ends)
    return count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _find_runs(
    keys: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    longest: cython.Py_ssize_t,
    begins: cython.uchar[::1],
    out_keys: cython.uchar[::1],
    out_ends: cython.longlong[::1],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    begin: cython.uchar
    key: cython.ulonglong
    last: cython.ulonglong = 0
    run: cython.Py_ssize_t = -1
    for i in range(begins.shape[0]):
        key = load_32(keys, 4 * i) if width == 4 else load_64(keys, 8 * i)
        begin = (key != last) | ((i & (longest - 1)) == 0)
        last = key
        begins[i] = begin
        run += begin
        if width == 4:
            store_32(out_keys, 4 * run, key)
        else:
            store_64(out_keys, 8 * run, key)
        out_ends[run] = i + 1
    return run + 1


def add_up_runs(
    numbers: cython.const[cython.longlong][::1],
    step: cython.Py_ssize_t,
    begins: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    out: cython.longlong[::1],
) -> None:
    """Write the sum of each run of rows, sign-extended to ``width`` words: 1 or 2.

    The number of row ``i`` is at ``i * step``. The caller has checked that this many numbers exist, that
    ``begins`` is 1 where a run begins, including row 0, and 0 elsewhere, and that ``out`` has room for all
    runs.
    """
    with cython.nogil:
        _add_up_runs(numbers, step, begins, width, out)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _add_up_runs(
    numbers: cython.const[cython.longlong][::1],
    step: cython.Py_ssize_t,
    begins: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    out: cython.longlong[::1],
) -> cython.void:
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t = -width
    end: cython.Py_ssize_t
    total: cython.ulonglong = 0
    before: cython.ulonglong = 0
    ones: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    signed: cython.longlong
    for i in range(begins.shape[0]):
        at += begins[i] * width
        total = (total + numbers[i * step]) & ones
        out[at] = _signed(total)
    end = at + width
    at = 0
    while at < end:
        total = out[at] & ones
        signed = _signed((total - before) & ones)
        out[at] = signed
        if width > 1:
            out[at + 1] = signed >> 63
        before = total
        at += width


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _signed(word: cython.ulonglong) -> cython.longlong:
    """Return a word as a signed number in two's complement."""
    if cython.compiled:
        return word
    return word - (word >> 63 << 64)


if not cython.compiled:
    run_uncompiled(globals())
