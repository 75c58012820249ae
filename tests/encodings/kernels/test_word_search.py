"""Strings that hold words are those in which Python finds these, one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.encodings.kernels import word_search


def _found(texts, words, rarest, dtype=np.int32, before=b"", behind=b""):
    ends = np.cumsum([len(before), *map(len, texts)]).astype(dtype)
    data = np.frombuffer(before + b"".join(texts) + behind, np.uint8)
    letters = np.frombuffer(b"".join(words), np.uint8)
    sizes = np.array([*map(len, words)], np.int64)
    out = np.zeros(len(texts) + 1, np.uint8)
    arrays = ends.view(np.uint8), ends.itemsize, data, letters, sizes
    for each in (ends, sizes):
        each.flags.writeable = False
    assert word_search.find_words(*arrays, rarest, out[:-1]) == out.sum()
    assert not out[-1]
    return out[:-1].astype(bool).tolist()


def _holds(text, words):
    place = 0
    for word in words:
        place = text.find(word, place)
        if place < 0:
            return False
        place += len(word)
    return True


_letters = st.text("ab", max_size=50).map(str.encode) | st.integers(0, 90).map(b"x".__mul__)


@st.composite
def _cases(draw):
    texts = draw(st.lists(_letters, max_size=30))
    word = st.text("ab", min_size=1, max_size=20).map(str.encode)
    if parts := [text[start : start + size] for text in texts for start, size in ((0, 9), (3, 17), (5, 2))]:
        word |= st.sampled_from([part or b"a" for part in parts])
    words = draw(st.lists(word, min_size=1, max_size=3))
    return texts, words, draw(st.integers(0, len(words) - 1))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@given(case=_cases(), around=st.sampled_from([b"", b"ab", b"b" * 40]))
def test_strings_with_words_are_found(dtype, case, around):
    texts, words, rarest = case
    wanted = [_holds(text, words) for text in texts]
    assert _found(texts, words, rarest, dtype) == wanted
    assert _found(texts, words, rarest, dtype, around, around) == wanted


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40])
def test_a_word_at_every_place(size):
    word = bytes(range(100, 100 + size))
    texts = [b"." * place + word + b"." * (place % 9) for place in range(70)]
    cut = [b"." * place + word[:-1] for place in range(40)]
    rest = [word[-1:] * (size > 1) + b"." * place for place in range(40)]
    across = [each for pair in zip(cut, rest, strict=True) for each in pair]
    assert _found([*texts, *across, *texts], [word], 0) == [True] * 70 + [False] * 80 + [True] * 70


def test_no_strings():
    assert _found([], [b"a"], 0) == []
    assert _found([b"", b""], [b"a", b"bc"], 1) == [False, False]
    assert _found([b"", b"a", b""], [b"a"], 0) == [False, True, False]
