"""The bounds of zones are those that Arrow finds, whichever way they are computed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.encodings import kernels
from lance_df.encodings.kernels import string_bounds
from lance_df.encodings.kernels.loaded_code import load_all
from lance_df.encodings.kernels.machine_code import codes_from
from lance_df.table.maintenance.zones import bounds_of

# long common beginnings, the ends of words of 8 bytes, and bytes that are negative as signed numbers
_PIECES = (
    "",
    "a",
    "b",
    "ab",
    "abcdefgh",
    "abcdefghi",
    "abcdefgh" * 3,
    "é",
    "\x00",
    "\x7f",
    "日本",
    "z" * 100,
)
_texts = st.lists(st.lists(st.sampled_from(_PIECES), max_size=3).map("".join), min_size=1, max_size=40)


@given(
    _texts,
    st.sampled_from([pa.string(), pa.binary(), pa.large_string(), pa.large_binary()]),
    st.integers(0, 40),
    st.booleans(),
)
def test_bounds_of_texts(texts: list[str], kind: pa.DataType, start: int, has_null: bool) -> None:
    values = pa.array(texts, pa.string()).cast(kind)
    start %= len(texts)
    several = pa.chunked_array([values.slice(start), values.slice(0, start), pa.nulls(int(has_null), kind)])
    one = pa.chunked_array([values.slice(start)])
    with pytest.MonkeyPatch.context() as patch:
        for is_worth in (True, False):
            patch.setattr(kernels, "are_worth", lambda _, is_worth=is_worth: is_worth)
            for chunked in (one, several):
                expected = pc.min_max(chunked)
                assert bounds_of(chunked) == (expected["min"], expected["max"], 0)


def test_bounds_of_nothing_but_empty_texts() -> None:
    values = pa.chunked_array([pa.array(["", ""])])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "are_worth", lambda _: True)
        assert [each.as_py() for each in bounds_of(values)[:2]] == ["", ""]


def test_the_machine_code_of_it_is_kept() -> None:
    ends, texts = np.array([0, 1, 3, 3], np.int32), np.frombuffer(b"bab", np.uint8)
    found = np.zeros(2, np.int64)
    string_bounds.extreme_strings(kernels.frozen(ends), texts, found)
    assert found.tolist() == [2, 0]
    codes = list(codes_from(string_bounds.extreme_strings, 0))
    assert len(codes) > 0
    for call in load_all(codes):
        again = np.zeros(2, np.int64)
        if call(kernels.frozen(ends), texts, again) is not NotImplemented:
            assert again.tolist() == [2, 0]
            break
    else:
        pytest.fail("no code takes these arrays")
