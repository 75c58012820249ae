"""Lists of fragments that are made from others know the same as those that are made anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df._pb import table_pb2 as pb
from lance_df.errors import CorruptDataError
from lance_df.format.fragment_list import FragmentList
from lance_df.format.fragments import DataFile, DeletionFile, DeletionFileType, Fragment

FACTS = ("ids", "physical_rows", "has_deletions", "num_deleted", "num_files", "file_bytes")


def fragment(fragment_id: int, *, rows: int = 5, deleted: int = 0) -> Fragment:
    file = DataFile(path=f"{'x' * rows}.lance", fields=(0,), column_indices=(0,), size_bytes=rows)
    deletions = None
    if deleted:
        deletions = DeletionFile(
            file_type=DeletionFileType.ARROW, read_version=1, id=3, num_deleted_rows=deleted
        )
    return Fragment(id=fragment_id, files=(file,) * (rows % 3), physical_rows=rows, deletion_file=deletions)


def known(fragments: FragmentList) -> tuple[list[list[int]], list[pb.DataFragment]]:
    manifest = pb.Manifest.FromString(fragments.serialize())
    assert list(manifest.fragments) == list(fragments.to_proto())
    return [getattr(fragments, name).tolist() for name in FACTS], list(manifest.fragments)


@given(
    st.lists(st.integers(0, 30), unique=True, max_size=12),
    st.lists(
        st.tuples(
            st.dictionaries(st.integers(0, 30), st.integers(1, 200)),
            st.sets(st.integers(0, 30), max_size=4),
            st.lists(st.integers(31, 60), unique=True, max_size=3),
        ),
        max_size=3,
    ),
    st.booleans(),
)
def test_a_list_that_is_made_from_another(ids, edits, asked):
    fragments = FragmentList.of([fragment(each, deleted=each % 2) for each in ids])
    expected = {each: fragment(each, deleted=each % 2) for each in ids}
    in_order = list(ids)
    for replaced, removed, added in edits:
        if asked:
            known(fragments)
        added = [each for each in added if each not in expected]
        changes = {each: fragment(each, rows=rows) for each, rows in replaced.items()}
        fragments = fragments.edited(
            replaced=changes, removed=removed, added=[fragment(each, rows=150) for each in added]
        )
        expected |= {each: change for each, change in changes.items() if each in expected}
        expected |= {each: fragment(each, rows=150) for each in added}
        expected = {each: expected[each] for each in sorted(expected) if each not in removed}
        in_order = sorted(expected)
    anew = FragmentList.of([expected[each] for each in in_order])
    assert known(fragments) == known(anew)
    assert [fragments.position(each) for each in in_order] == list(range(len(in_order)))
    assert not any(getattr(fragments, name).flags.writeable for name in FACTS)


def test_two_fragments_that_share_an_id_are_not_changed():
    twice = FragmentList([pb.DataFragment(id=7), pb.DataFragment(id=7)], source="here")
    assert len(twice) == 2
    with pytest.raises(CorruptDataError, match="here: two fragments have id 7"):
        twice.edited(added=[fragment(9)])
    unordered = FragmentList.of([fragment(2), fragment(1)])
    assert unordered.edited().ids.tolist() == [1, 2]
    assert np.array_equal(unordered.ids, [2, 1])
