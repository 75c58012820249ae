"""Find the rows of a table in memory that have certain keys, for many keys at once.

Most rows of a large table have none of the keys. So a table of bits sorts them out first, cheaply and with
few mistakes; the exact search sees the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.table.changes.key_values import comparable, hashes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Numbers: TypeAlias = npt.NDArray[np.int64]

# Marks for each key: of the others, this fraction is taken for a key by mistake.
_MARKS_PER_KEY = 32
_MIN_MARK_BITS = 12
_MAX_MARK_BITS = 27


class KeyIndex:
    """An index of rows by their keys. A key with a null in it is in no index, and matches nothing.

    May be used by many threads.

    Parameters
    ----------
    columns
        One array for each part of the keys, all of one length.

    Attributes
    ----------
    columns
        The keys that are in the index, in the form of `lance_df.table.changes.key_values.comparable`.
    """

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        rows = _without_nulls(columns)
        self.columns = [comparable(column).take(pa.array(rows)) for column in columns]
        hashed = hashes(self.columns)
        self._order = np.argsort(hashed, kind="stable")
        self._rows = rows
        self._hashes = hashed[self._order]
        bits = (_MARKS_PER_KEY * max(len(rows), 1)).bit_length()
        bits = min(max(bits, _MIN_MARK_BITS), _MAX_MARK_BITS)
        self._shift = np.uint64(64 - bits)
        self._marks = np.zeros(1 << bits, np.bool_)
        self._marks[hashed >> self._shift] = True

    def __len__(self) -> int:
        return len(self._rows)

    def pairs(self, columns: Sequence[pa.Array]) -> tuple[Numbers, Numbers]:
        """Return every pair of an indexed row and a position in ``columns`` that have the same key.

        Pairs come in the order of the positions, and for each of these in that of the indexed rows.
        """
        keys = [comparable(column) for column in columns]
        hashed = hashes(keys)
        positions = np.flatnonzero(self._marks.take((hashed >> self._shift).view(np.int64)))
        hashed = hashed[positions]
        first = np.searchsorted(self._hashes, hashed, side="left")
        found = self._hashes.take(first, mode="clip") == hashed if len(self) else np.zeros(len(first), bool)
        positions, hashed, first = positions[found], hashed[found], first[found]
        counts = np.searchsorted(self._hashes, hashed, side="right") - first
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        entries = self._order[np.repeat(first, counts) + within]
        positions = np.repeat(positions, counts)
        same = self._are_same(entries, keys, positions)
        return self._rows[entries[same]], positions[same]

    def _are_same(
        self, entries: Numbers, keys: Sequence[pa.Array], positions: Numbers
    ) -> npt.NDArray[np.bool_]:
        """Compare the keys themselves, as different ones may have one hash."""
        same = np.ones(len(entries), np.bool_)
        for ours, theirs in zip(self.columns, keys, strict=True):
            left, right = ours.take(pa.array(entries)), theirs.take(pa.array(positions))
            equal = pc.equal(left, right)
            if pa.types.is_floating(left.type):
                equal = pc.or_kleene(equal, pc.and_kleene(pc.is_nan(left), pc.is_nan(right)))
            same &= equal.fill_null(False).to_numpy(zero_copy_only=False)
        return same


def _without_nulls(columns: Sequence[pa.Array]) -> Numbers:
    valid = np.ones(len(columns[0]), np.bool_)
    for column in columns:
        if column.null_count:
            valid &= column.is_valid().to_numpy(zero_copy_only=False)
    return np.flatnonzero(valid)
