"""Rows are grouped by their partition values, and moved only where they do not lie together."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.namespace.keys import group_rows

VALUES = st.lists(st.tuples(st.sampled_from([None, 0, 1, 2]), st.sampled_from([None, "", "a"])), max_size=12)


@given(VALUES)
def test_groups_are_those_of_plain_python(rows):
    columns = [pa.array([row[0] for row in rows], pa.int8()), pa.array([row[1] for row in rows], pa.string())]
    order, starts, firsts = group_rows(columns)
    places = list(range(len(rows))) if order is None else order.tolist()
    assert sorted(places) == list(range(len(rows)))
    bounds = [*starts.tolist(), len(rows)]
    groups = [places[start:stop] for start, stop in itertools.pairwise(bounds)]
    assert sorted(groups) == sorted(
        [number for number, row in enumerate(rows) if row == value] for value in set(rows)
    )
    assert firsts.tolist() == [group[0] for group in groups]
    runs = sum(row != before for row, before in zip(rows, [object(), *rows], strict=False))
    assert (order is None) == (runs == len(set(rows)))


@pytest.mark.parametrize("values", [[], [5, 5], [3, 3, 1, None, None, 2]])
def test_rows_that_lie_together_stay_where_they_are(values):
    order, starts, firsts = group_rows([pa.array(values, pa.int64())])
    assert order is None
    assert np.array_equal(starts, firsts)


def test_values_of_a_dictionary_that_do_not_occur_are_no_groups():
    values = pa.DictionaryArray.from_arrays(pa.array([0, 2, 0], pa.int8()), ["a", "unused", "c"])
    order, starts, firsts = group_rows([values])
    assert (order.tolist(), starts.tolist(), firsts.tolist()) == ([0, 2, 1], [0, 2], [0, 1])
