"""Roaring bitmaps from anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lance_df.errors import CorruptDataError
from lance_df.format.roaring import read_roaring

SETS = {
    "array": BitMap([1, 2, 70_000]),
    "bitmap": BitMap(range(0, 20_000, 2)),
    "runs": BitMap(range(5, 90_000)),
}
SETS["runs"].run_optimize()


@pytest.mark.parametrize("form", SETS)
def test_every_container(form):
    assert read_roaring(SETS[form].serialize(), source="file") == SETS[form]


def test_numbers_out_of_order_are_not_a_set():
    data = bytearray(BitMap([1, 2, 3]).serialize())
    data[-2] = 1
    with pytest.raises(CorruptDataError, match="file"):
        read_roaring(bytes(data), source="file")


@pytest.mark.parametrize("form", SETS)
@given(place=st.integers(0, 2**31), new=st.binary(max_size=6), cut=st.integers(0, 6))
def test_damage_gives_a_set_or_an_error(form, place, new, cut):
    data = SETS[form].serialize()
    place %= len(data)
    try:
        found = read_roaring(data[:place] + new + data[place + cut :], source="file")
    except CorruptDataError:
        return
    assert list(BitMap(found)) == sorted(set(found))
