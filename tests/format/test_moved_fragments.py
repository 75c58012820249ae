"""Small fragments of several tables become fragments of one; others do not."""

from __future__ import annotations

from typing import Any

import pytest

from lance_df._pb import table_pb2 as pb
from lance_df.format.fragment_list import FragmentList
from lance_df.format.fragments import DataFile, Fragment
from lance_df.format.moved_fragments import moved_if_small

_FILE = DataFile(path="a.lance", fields=(0, 2), column_indices=(0, 1), major_version=2, minor_version=1)


def _moved(fragments: FragmentList, folder: str, **limits: int) -> tuple[bytes, ...]:
    return moved_if_small(fragments.to_proto(), folder, 1, **({"max_fragments": 4, "max_rows": 100} | limits))


def test_fragments_of_several_tables_in_one_list() -> None:
    first = FragmentList.of(
        [
            Fragment(id=7, files=(_FILE, _FILE), physical_rows=3, row_ids=b"ids"),
            Fragment(id=9, files=(), physical_rows=1),
        ]
    )
    second = FragmentList.of([Fragment(id=7, files=(_FILE,), physical_rows=4)])
    joined = FragmentList.joined([*_moved(first, "one/data"), *_moved(second, "two/data")])
    assert joined.ids.tolist() == [0, 1, 2]
    assert joined.physical_rows.tolist() == [3, 1, 4]
    named = [[(each.path, each.base_id, each.fields) for each in fragment.files] for fragment in joined]
    one, two = ("one/data/a.lance", 1, (0, 2)), ("two/data/a.lance", 1, (0, 2))
    assert named == [[one, one], [], [two]]
    assert [fragment.row_ids for fragment in joined] == [None] * 3
    assert first[0].files[0].path == "a.lance"
    assert [joined.files_at(place) for place in range(3)] == [fragment.files for fragment in joined]


def _messages(**changes: Any) -> list[pb.DataFragment]:
    return [
        pb.DataFragment(id=1, physical_rows=50),
        pb.DataFragment(**{"id": 2, "physical_rows": 50} | changes),
    ]


def test_limits_are_included() -> None:
    assert len(moved_if_small(_messages(), "data", 1, max_fragments=2, max_rows=100)) == 2
    assert not moved_if_small(_messages(), "data", 1, max_fragments=1, max_rows=100)
    assert not moved_if_small(_messages(), "data", 1, max_fragments=2, max_rows=99)
    assert not moved_if_small([], "data", 1, max_fragments=2, max_rows=100)


@pytest.mark.parametrize(
    "changes",
    [{"physical_rows": 0}, {"id": 2**32}, {"deletion_file": pb.DeletionFile(num_deleted_rows=1)}],
)
def test_what_is_not_whole_or_not_known_is_left_alone(changes: dict[str, Any]) -> None:
    assert not moved_if_small(_messages(**changes), "data", 1, max_fragments=2, max_rows=100)
