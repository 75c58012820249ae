"""Values are compared as numpy and Python do, at every width and size, and no byte beyond arrays is read."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.encodings import kernels
from lance_df.encodings.kernels import compare
from lance_df.expr.floats import order_keys

_COUNTS = [0, 1, 7, 8, 9, 31, 33, 1023, 1024, 1025, 2040, 2048, *([70_001] if kernels.COMPILED else [])]
_INTEGERS = [f"{kind}{width}" for kind in "iu" for width in (1, 2, 4, 8)]


def _frozen(array):
    """Return an array that cannot be written to, at an odd address."""
    bytes_ = np.frombuffer(array.tobytes(), np.uint8)
    moved = np.empty(len(bytes_) + 1, np.uint8)[1:]
    moved[:] = bytes_
    moved.flags.writeable = False
    return moved


def _bounds(low, high, words=1):
    size = 1 << 64 * words
    return np.frombuffer(
        b"".join((each % size).to_bytes(8 * words, "little") for each in (low, high - low)), np.uint64
    )


def _asked(kernel, *operands, count):
    """Return where values are looked for, asked both ways, in an array whose ends are looked after."""
    found = []
    for inverted in (False, True):
        room = np.full(count + 2, 77, np.uint8)
        num_true = kernel(*operands, inverted, room[1:-1])
        assert room[0] == room[-1] == 77
        assert num_true == room[1:-1].sum()
        found.append(room[1:-1].tolist())
    assert found[1] == [1 - each for each in found[0]]
    return found[0]


@pytest.mark.parametrize("count", _COUNTS)
@pytest.mark.parametrize("dtype", _INTEGERS)
def test_integers_within_bounds(dtype, count):
    random, limits = np.random.default_rng(count), np.iinfo(dtype)
    numbers = random.integers(limits.min, limits.max, count, dtype, endpoint=True)
    numbers[::5] = limits.min
    numbers[1::5] = limits.max
    ends = [int(limits.min), int(limits.min) + 1, *map(int, random.choice(numbers, 2) if count else [0, 1])]
    for low, high in [*pairwise(sorted([*ends, int(limits.max)])), (int(limits.min), int(limits.max))]:
        wanted = ((numbers >= low) & (numbers <= high)).astype(int).tolist()
        width = numbers.itemsize
        found = _asked(compare.numbers_within, _frozen(numbers), width, _bounds(low, high), count=count)
        assert found == wanted


@pytest.mark.parametrize("count", _COUNTS)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_floats_within_bounds(dtype, count):
    floats = np.random.default_rng(count).standard_normal(count).astype(dtype)
    special = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.5, -1.5], dtype)
    floats[: len(special)] = special[:count]
    special_keys = sorted(set(order_keys(special).tolist()))
    keys = order_keys(floats)
    for low, high in [*pairwise(special_keys), *((key, key) for key in special_keys)]:
        wanted = ((keys >= low) & (keys <= high)).astype(int).tolist()
        width = floats.itemsize
        assert (
            _asked(compare.floats_within, _frozen(floats), width, _bounds(low, high), count=count) == wanted
        )


_edges = st.sampled_from([0, 1, -1, 2**63, -(2**63), 2**64 - 1, 2**64, -(2**64), 2**127 - 1, -(2**127)])
_wide = _edges | st.integers(-(2**127), 2**127 - 1) | st.integers(-9, 9)


@given(st.lists(_wide, max_size=40), _wide, _wide)
def test_numbers_of_two_words_within_bounds(numbers, one, other):
    low, high = sorted((one, other))
    words = np.frombuffer(b"".join((each % 2**128).to_bytes(16, "little") for each in numbers), np.uint8)
    found = _asked(compare.pairs_within, words, 16, _bounds(low, high, 2), count=len(numbers))
    assert found == [int(low <= number <= high) for number in numbers]


_pieces = st.sampled_from([b"", b"a", b"b", b"\0", b"\xff", b"abcdefg", b"abcdefgh", b"abcdefghi" * 3])
_texts = st.lists(st.lists(_pieces, max_size=3).map(b"".join), min_size=1, max_size=30)


def _strings(texts, dtype):
    """Return offsets and bytes, which may begin after others; nothing follows the last of them."""
    ends = np.cumsum([3, *map(len, texts)]).astype(dtype)
    return _frozen(ends), np.dtype(dtype).itemsize, _frozen(np.frombuffer(b"xyz" + b"".join(texts), np.uint8))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@given(texts=_texts, other=st.lists(_pieces, max_size=3).map(b"".join), number=st.integers(0, 30))
def test_strings_that_are_a_word(dtype, texts, other, number):
    for word in (other, texts[number % len(texts)], texts[-1]):
        array = np.frombuffer(word, np.uint8)
        found = _asked(compare.strings_equal, *_strings(texts, dtype), array, count=len(texts))
        assert found == [int(text == word) for text in texts]


@pytest.mark.parametrize("size", [*range(1, 26), 40])
def test_strings_are_told_apart_by_every_byte(size):
    word = bytes(range(97, 97 + size))
    others = [word[:place] + b"~" + word[place + 1 :] for place in range(size)]
    texts = [word, *others, word, word + b"~", word[:-1], word, b"", word]
    found = _asked(
        compare.strings_equal, *_strings(texts, np.int32), np.frombuffer(word, np.uint8), count=len(texts)
    )
    assert found == [int(text == word) for text in texts]


def test_no_strings_and_strings_of_no_bytes():
    nothing = np.empty(0, np.uint8)
    for word in (nothing, np.frombuffer(b"a", np.uint8), np.frombuffer(b"a" * 20, np.uint8)):
        for count in (0, 1, 3):
            offsets = np.zeros(count + 1, np.int32).view(np.uint8)
            found = _asked(compare.strings_equal, offsets, 4, nothing, word, count=count)
            assert found == [int(not len(word))] * count


@pytest.mark.parametrize("count", _COUNTS)
@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8"])
def test_truth_is_looked_up(dtype, count):
    random = np.random.default_rng(count)
    truth = random.integers(0, 2, 200).astype(np.uint8)
    truth.flags.writeable = False
    indices = random.integers(0, 200, count).astype(dtype)
    out = np.full(count + 1, 77, np.uint8)
    num_true = compare.look_up_truth(truth, _frozen(indices), indices.itemsize, out[:-1])
    assert out[:-1].tolist() == truth[indices].tolist()
    assert out[-1] == 77
    assert num_true == truth[indices].sum()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@given(texts=_texts)
def test_the_least_and_the_greatest_string(dtype, texts):
    out = np.full(2, -1, np.int64)
    compare.extreme_strings(*_strings(texts, dtype), out)
    assert [texts[place] for place in out.tolist()] == [min(texts), max(texts)]


def test_all_bytes_are_given_to_all_values():
    """Many values of one width that are all looked for are counted without overflow."""
    for count in _COUNTS:
        words = np.zeros(count, np.uint8)
        out = np.zeros(count, np.uint8)
        assert compare.numbers_within(words, 1, _bounds(0, 0), False, out) == count
        assert compare.numbers_within(words, 1, _bounds(1, 1), False, out) == 0
