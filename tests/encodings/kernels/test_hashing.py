"""Hashes are those of mmh3, and of xxHash64 as it is specified, for values of all lengths."""

from __future__ import annotations

import mmh3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_xxhash64 import xxhash64

from lance_df.encodings import kernels
from lance_df.encodings.kernels import hashing

_COUNTS = [0, 1, 7, 8, 9, 63, 64, 65, 128, 1023, 1024, 1025, *([70_001] if kernels.COMPILED else [])]


def _frozen(array):
    """Return the bytes of an array, which cannot be written to, at an odd address."""
    moved = np.empty(array.nbytes + 1, np.uint8)[1:]
    moved[:] = array.view(np.uint8)
    moved.flags.writeable = False
    return moved


def _random_bytes(sizes, seed=0):
    data = np.random.default_rng(seed).bytes(int(sum(sizes)))
    ends = np.cumsum([0, *sizes])
    return [data[start:end] for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]


def _murmur3(values, dtype, behind=b""):
    offsets = np.cumsum([2, *map(len, values)]).astype(dtype)
    data = np.frombuffer(b"??" + b"".join(values) + behind, np.uint8)
    out = np.full(len(values) + 1, 77, np.uint32)
    hashing.murmur3_bytes(_frozen(offsets), offsets.itemsize, _frozen(data), out[:-1])
    assert out[-1] == 77
    return out[:-1].view(np.int32).tolist()


@pytest.mark.parametrize("count", _COUNTS)
def test_murmur3_of_words(count):
    words = np.random.default_rng(count).integers(-(2**63), 2**63, count)
    words[:4] = [0, -1, -(2**63), 2**63 - 1][:count]
    out = np.full(count + 1, 77, np.uint32)
    hashing.murmur3_words(_frozen(words), out[:-1])
    assert out[-1] == 77
    assert out[:-1].view(np.int32).tolist() == [mmh3.hash(word.tobytes()) for word in words]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("longest", [0, 1, 3, 4, 5, 8, 11, 16, 31, 32, 33, 64, 65, 150])
def test_murmur3_of_bytes(longest, dtype):
    random = np.random.default_rng(longest)
    for count in (0, 1, 63, 64, 65, 200):
        values = _random_bytes(random.integers(0, longest + 1, count), count)
        for behind in (b"", b"?", b"?" * 40):
            assert _murmur3(values, dtype, behind) == [mmh3.hash(value) for value in values]
        values = _random_bytes([longest] * count)
        assert _murmur3(values, dtype) == [mmh3.hash(value) for value in values]


@given(st.lists(st.binary(max_size=6), max_size=6), st.integers(1, 30), st.binary(max_size=400))
def test_murmur3_of_values_of_different_lengths(values, repeats, other):
    values = [*values * repeats, other, *values * repeats]
    assert _murmur3(values, np.int32) == [mmh3.hash(value) for value in values]


def _canonical(number, scale):
    """Return the bytes of a decimal without zeros at its end, and how many digits of it are fractional."""
    while number and scale and not number % 10:
        number //= 10
        scale -= 1
    size = 1
    while not -(1 << 8 * size - 1) <= number < 1 << 8 * size - 1:
        size += 1
    return number.to_bytes(size, "big", signed=True) + (bytes([scale]) if number and scale else b"")


_numbers = st.integers(-(2**255), 2**255 - 1) | st.integers(-(2**65), 2**65) | st.integers(-300, 300)
_edges = st.sampled_from([sign * (1 << bits) for bits in range(0, 255, 8) for sign in (1, -1)])
_tens = st.integers(-999, 999).flatmap(lambda number: st.integers(0, 70).map(lambda n: number * 10**n))


@given(
    st.lists(_numbers | _edges | _edges.map(lambda number: number - 1) | _tens, max_size=20),
    st.integers(0, 76),
)
def test_bytes_of_decimals(numbers, scale):
    words = np.frombuffer(b"".join((each % 2**256).to_bytes(32, "little") for each in numbers), np.uint64)
    lengths, out = np.zeros(len(numbers), np.int64), np.zeros(33 * len(numbers), np.uint8)
    hashing.decimal_bytes(words, scale, lengths, out)
    found = [row[:length].tobytes() for row, length in zip(out.reshape(-1, 33), lengths, strict=True)]
    assert found == [_canonical(number, scale) for number in numbers]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # the vectors of the specification
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"abcdefghijklmnopqrstuvwxyz", 0xCFE1F278FA89835C),
        (
            b"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
            0xE04A477F19EE145D,
        ),
    ],
)
def test_xxhash64(data, expected):
    out = np.zeros(1, np.uint64)
    hashing.xxhash64_bytes(np.array([0, len(data)]), np.frombuffer(data, np.uint8), out)
    assert out[0] == xxhash64(data) == expected


def test_xxhash64_of_bytes():
    values = _random_bytes([*range(130), 0, 1000, 33, 5])
    offsets = np.cumsum([2, *map(len, values)])
    data = _frozen(np.frombuffer(b"??" + b"".join(values), np.uint8))
    out = np.full(len(values) + 1, 77, np.uint64)
    hashing.xxhash64_bytes(offsets, data, out[:-1])
    assert out.tolist() == [*map(xxhash64, values), 77]
    hashing.xxhash64_bytes(offsets[:1], data[:0], out[:0])
