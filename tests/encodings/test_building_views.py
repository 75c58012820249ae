"""String views that are built or looked up here are those of pyarrow."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import given

from lance_df.encodings.gather import FEW, Lookup
from lance_df.encodings.string_views import as_views

_texts = st.text(max_size=20) | st.sampled_from(["", "abc", "abcd", "twelve bytes", "thirteen byte", "ä" * 6])


@given(st.lists(st.none() | _texts, min_size=1, max_size=30), st.sampled_from([1, FEW]), st.integers(0, 2))
def test_views_are_those_of_a_cast(values, repeats, skipped):
    strings = pa.array(values * repeats, pa.string()).slice(skipped)
    for each in (strings, pa.concat_arrays([strings])):
        views = as_views(each)
        views.validate(full=True)
        assert views.type == pa.string_view()
        assert views.cast(pa.string()).equals(each)


@given(st.lists(_texts, min_size=1, max_size=30), st.sampled_from([1, FEW]), st.sampled_from("BHIQ"))
def test_views_are_looked_up(values, repeats, width):
    indices = np.tile(np.arange(len(values))[::-1], repeats).astype(width)
    found = Lookup(pa.array(values, pa.string()).cast(pa.string_view())).take(indices)
    found.validate(full=True)
    assert found.cast(pa.string()).to_pylist() == [values[index] for index in indices.tolist()]
