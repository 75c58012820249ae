"""Strings are found by the words that a pattern asks for, in their order."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from lance_df.encodings import kernels
from lance_df.expr.nodes import And, Column, Comparison, Operator, Or, Unknown
from lance_df.expr.terms import Call, Value
from lance_df.expr.words import WordMatcher, word_matchers, words_of

_LETTERS = "abé"


def _holds(text: bytes | None, words: tuple[bytes, ...]) -> bool:
    place = 0
    for word in words:
        place = -1 if text is None else text.find(word, place)
        if place < 0:
            return False
        place += len(word)
    return True


@st.composite
def _cases(draw):
    texts = draw(st.lists(st.none() | st.text(_LETTERS, max_size=70), min_size=1, max_size=40))
    word = st.text(_LETTERS, min_size=1, max_size=4)
    if parts := [text[3:20] for text in texts if text and len(text) > 3]:
        word |= st.sampled_from(parts)
    words = tuple(each.encode() for each in draw(st.lists(word, min_size=1, max_size=3)))
    if draw(st.booleans()):  # many with none of the letters
        texts = [None if text is None else "x" * len(text) for text in texts * 5] + texts
    texts = texts[draw(st.integers(0, 2)) :]
    return texts, draw(st.sampled_from([pa.string(), pa.large_string()])), draw(st.booleans()), words


@given(_cases(), st.integers(0, 3))
def test_rows_that_hold_the_words_are_found(case, start):
    texts, data_type, is_coded, words = case
    values = pa.array(texts, data_type)
    if is_coded:
        values = values.dictionary_encode()
    values, texts = values.slice(start), texts[start:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "COMPILED", True)
        found = WordMatcher(("x",), words).rows({("x",): values}, len(values))
    assert found.count == np.count_nonzero(found.mask)
    for text, is_found in zip(texts, found.mask.tolist(), strict=True):
        # which rows are null is known to what asks
        if text is not None:
            assert is_found == _holds(text.encode(), words) or is_coded


def test_words_that_most_rows_hold_are_looked_for_no_more(monkeypatch):
    monkeypatch.setattr(kernels, "COMPILED", True)
    matcher = WordMatcher(("x",), (b"ab",))
    rare, frequent = pa.array(["ab", *["c"] * 99]), pa.array(["ab"] * 100)
    assert [matcher.rows({("x",): each}, 100).count for each in (rare, rare, frequent)] == [1, 1, 100]
    assert matcher.rows({("x",): rare}, 100).is_all


def test_without_kernels_every_row_is_needed(monkeypatch):
    monkeypatch.setattr(kernels, "COMPILED", False)
    assert WordMatcher(("x",), (b"ab",)).rows({("x",): pa.array(["c"])}, 1).is_all


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("%ab_c%%é", (b"ab", b"c", "é".encode())),
        ("ab", (b"ab",)),
        ("%_", ()),
        ("", ()),
        (r"%a\%b%", ()),
    ],
)
def test_words_lie_between_wildcards(pattern, words):
    assert words_of(pattern) == words


def _like(pattern, name="LIKE", escape=""):
    return Unknown("", Call(name, (Column(("x",)), Value(pa.scalar(pattern, pa.string()))), escape))


def test_only_what_must_be_true_is_looked_for():
    bound = Comparison(Column(("x",)), Operator.GT, pa.scalar("a"))
    hint = And((bound, And((_like("%ab%"), _like("cd%"))), _like("%e%"), _like(None)))
    assert [(each.path, each.words) for each in word_matchers(hint)] == [
        (("x",), (b"ab",)),
        (("x",), (b"cd",)),
    ]
    for other in (Or((_like("%ab%"), bound)), _like("%ab%", "NOT LIKE"), _like("%ab%", escape="$"), bound):
        assert not list(word_matchers(other))
