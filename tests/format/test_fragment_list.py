"""Lists of fragments that are made from others know the same as those that are made anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df._pb import table_pb2 as pb
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.fragment_list import FragmentList
from lance_df.format.fragments import DataFile, DeletionFile, DeletionFileType, Fragment
from lance_df.format.manifest import Manifest

FACTS = ("ids", "physical_rows", "has_deletions", "num_deleted", "num_files", "file_bytes", "version_bits")


def fragment(fragment_id: int, *, rows: int = 5, deleted: int = 0) -> Fragment:
    file = DataFile(
        path=f"{'x' * rows}.lance", fields=(0,), column_indices=(0,), size_bytes=rows, minor_version=rows % 4
    )
    deletions = None
    if deleted:
        deletions = DeletionFile(
            file_type=DeletionFileType.ARROW, read_version=1, id=3, num_deleted_rows=deleted
        )
    return Fragment(id=fragment_id, files=(file,) * (rows % 3), physical_rows=rows, deletion_file=deletions)


def known(fragments: FragmentList) -> tuple[list[list[int]], list[pb.DataFragment]]:
    manifest = pb.Manifest.FromString(fragments.serialize())
    assert list(manifest.fragments) == list(fragments.to_proto())
    # one of these has a version that no release knows yet
    versions = {f"2.{file.minor_version}" for each in fragments for file in each.files}
    if "2.3" in versions:
        with pytest.raises(UnsupportedFeatureError, match="does not know"):
            _ = fragments.file_versions
    else:
        assert fragments.file_versions == versions
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


def parsed(messages):
    """Return the list that a manifest of these fragments has."""
    data = pb.Manifest(fragments=messages, version=1).SerializeToString()
    return Manifest.parse(data, source="test").fragments


@pytest.mark.parametrize("seed", range(12))
def test_numbers_of_many_fragments_are_those_of_each(seed):
    """Numbers that are 0 are not stored: none, the first, another one, or several."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(64, 90))
    ids, rows = np.arange(count) + 1, rng.integers(1, 1000, count)
    for numbers, kind in ((ids, seed % 4), (rows, seed // 4)):
        numbers[{0: [], 1: [0], 2: [int(rng.integers(1, count))]}.get(kind, [0, 3, 9])] = 0
    messages = [
        pb.DataFragment(id=number, physical_rows=size)
        for number, size in zip(ids.tolist(), rows.tolist(), strict=True)
    ]
    for message in messages[5::7] if seed % 2 else ():
        message.deletion_file.num_deleted_rows = 1
    found, expected = parsed(messages), FragmentList(messages)
    for name in ("ids", "physical_rows", "has_deletions", "num_deleted", "num_files"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
    assert [fragment.id for fragment in found] == ids.tolist()
    assert [fragment.physical_rows for fragment in found] == rows.tolist()
    assert found.serialize() == expected.serialize()
    if len(set(ids.tolist())) == count:
        assert found.edited(added=[Fragment(id=1000, files=())]).ids.tolist() == [*sorted(ids), 1000]


def test_numbers_that_are_stored_twice_are_noticed():
    """Two ids in one fragment, of which the last counts, and none in another."""
    messages = [pb.DataFragment(id=number, physical_rows=1) for number in range(1, 81)]
    data = b"".join(b"\x12" + bytes([len(part)]) + part for part in (m.SerializeToString() for m in messages))
    odd = data.replace(b"\x12\x04\x08\x05\x20\x01", b"\x12\x06\x08\x05\x08\x63\x20\x01", 1)
    odd = odd.replace(b"\x12\x04\x08\x06\x20\x01", b"\x12\x02\x20\x01", 1)
    with pytest.raises(CorruptDataError, match="fragment id 99"):
        list(Manifest.parse(odd, source="test").fragments)
