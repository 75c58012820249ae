"""The bounds of zones are those that Arrow finds, whichever way they are computed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.encodings import kernels
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
        for is_compiled in (True, False):
            patch.setattr(kernels, "COMPILED", is_compiled)
            for chunked in (one, several):
                expected = pc.min_max(chunked)
                assert bounds_of(chunked) == (expected["min"], expected["max"], 0)


def test_bounds_of_nothing_but_empty_texts() -> None:
    values = pa.chunked_array([pa.array(["", ""])])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "COMPILED", True)
        assert [each.as_py() for each in bounds_of(values)[:2]] == ["", ""]
