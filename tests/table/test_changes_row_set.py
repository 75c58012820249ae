"""Sets of row addresses, against sets of Python's."""

from __future__ import annotations

import numpy as np

from lance_df.table.changes.row_set import RowSet


def addresses(rng: np.random.Generator, count: int) -> np.ndarray:
    return (rng.integers(0, 4, count).astype(np.uint64) << np.uint64(32)) | rng.integers(0, 60, count).astype(
        np.uint64
    )


def members(rows: RowSet) -> set[int]:
    return {(fragment_id << 32) | offset for fragment_id, offsets in rows for offset in offsets}


def test_sets_of_addresses():
    rng = np.random.default_rng(5)
    for _ in range(50):
        parts = [addresses(rng, count) for count in rng.integers(0, 40, 3)]
        parts.append(addresses(rng, 20) & np.uint64(0xFFFFFFFF))
        left, right = RowSet.of(parts[:2]), RowSet.of(parts[2:])
        ours, theirs = (set(np.concatenate(some).tolist()) for some in (parts[:2], parts[2:]))
        assert members(left) == ours
        assert len(left) == len(ours)
        assert members(left.without(right)) == ours - theirs
        assert members(left.union(right)) == ours | theirs
        assert [fragment_id for fragment_id, _ in left] == sorted({each >> 32 for each in ours})
        assert (members(left), members(right)) == (ours, theirs)


def test_high_offsets_and_fragments():
    highest = np.array([(2**32 - 1) << 32 | (2**32 - 1), 2**32 - 1], np.uint64)
    assert members(RowSet.of([highest])) == {2**64 - 1, 2**32 - 1}
    assert members(RowSet.of([highest[:1]])) == {2**64 - 1}
