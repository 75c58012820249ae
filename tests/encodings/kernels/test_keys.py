"""Hashes are mixed as numpy does it, and those positions are found that are marked."""

from __future__ import annotations

import numpy as np
import pytest

from lance_df.encodings import kernels
from lance_df.encodings.kernels import keys

_COUNTS = [0, 1, 7, 8, 9, 63, 1023, 1024, 1025, *([70_001] if kernels.COMPILED else [])]
_DTYPES = [f"{kind}{width}" for kind in "iu" for width in (1, 2, 4, 8)]


def _numbers(count, dtype):
    limits = np.iinfo(dtype)
    numbers = np.random.default_rng(count).integers(limits.min, limits.max, count, dtype, endpoint=True)
    numbers[::4] = limits.max
    numbers[1::4] = limits.min
    numbers.flags.writeable = False
    return numbers


@pytest.mark.parametrize("count", _COUNTS)
@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8"])
def test_words_are_mixed_in(dtype, count):
    words, hashed = _numbers(count, dtype), _numbers(count, "u8").copy()
    multiplier = 0x9E3779B97F4A7C15
    wanted = (hashed ^ (hashed >> np.uint64(32)) ^ words.astype(np.uint64)) * np.uint64(multiplier)
    keys.mix_words(hashed, words.view(np.uint8), words.itemsize, multiplier)
    assert hashed.tolist() == wanted.tolist()


@pytest.mark.parametrize("count", _COUNTS)
@pytest.mark.parametrize("num_bits", [6, 12])
def test_marked_hashes(num_bits, count):
    random = np.random.default_rng(count)
    hashed = random.integers(0, 2**64, count, np.uint64)
    marks = random.random(1 << num_bits) < 0.3
    bits = np.packbits(marks, bitorder="little")
    bits.flags.writeable = hashed.flags.writeable = False
    out = np.full(count, -1, np.int64)
    total = keys.marked_positions(hashed, 64 - num_bits, bits, out)
    wanted = np.flatnonzero(marks[hashed >> np.uint64(64 - num_bits)])
    assert out[:total].tolist() == wanted.tolist()


@pytest.mark.parametrize("count", _COUNTS)
@pytest.mark.parametrize("dtype", _DTYPES)
def test_numbers_near_marks(dtype, count):
    numbers = _numbers(count, dtype)
    limits = np.iinfo(dtype)
    for lowest, shift, num_marks in ((-9, 2, 5), (int(limits.min), 8 * numbers.itemsize - 7, 200), (3, 0, 2)):
        lowest = max(lowest, int(limits.min))
        marks = np.arange(num_marks) % 3 == 0
        marks[-1] = False
        places = [min((int(each) - lowest) % 2**64 >> shift, num_marks - 1) for each in numbers.tolist()]
        out = np.full(count, -1, np.int64)
        total = keys.near_positions(
            numbers.view(np.uint8),
            numbers.itemsize,
            dtype[0] == "i",
            lowest % 2**64,
            shift,
            marks.view(np.uint8),
            out,
        )
        assert out[:total].tolist() == [row for row, place in enumerate(places) if marks[place]]


@pytest.mark.parametrize("count", _COUNTS)
@pytest.mark.parametrize("num_codes", [1, 2, 256])
def test_codes_are_counted(num_codes, count):
    codes = np.random.default_rng(count).integers(0, num_codes, count, np.uint8)
    codes.flags.writeable = False
    counts = np.ones(4 * 256, np.int64)
    keys.count_codes(codes, counts)
    wanted = np.bincount(codes, minlength=256) + 4
    assert counts.reshape(4, 256).sum(axis=0).tolist() == wanted.tolist()
