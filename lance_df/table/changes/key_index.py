"""Find the rows of a table in memory that have certain keys, for many keys at once.

Most rows of a large table have none of the keys. So a table of bits sorts them out first, cheaply and with
few mistakes; the exact search sees the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.table.changes.key_values import comparable, fingerprints

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Numbers: TypeAlias = npt.NDArray[np.int64]

# Marks for each key: of the others, this fraction is taken for a key by mistake.
_MARKS_PER_KEY = 32
_MIN_MARK_BITS = 12
_MAX_MARK_BITS = 27
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF_WORD = np.uint64(32)


class KeyIndex:
    """An index of rows by their keys. A key with a null in it is in no index, and matches nothing.

    Parameters
    ----------
    columns
        One array for each key column, all of one length.
    """

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        plain = [comparable(column) for column in columns]
        rows = np.arange(len(plain[0]), dtype=np.int64)
        self.values = [pc.unique(column.drop_null()) for column in plain]
        self._combinations: list[Numbers] = []
        rows, codes = self._encode(plain, rows, learn=True)
        order = np.argsort(codes, kind="stable")
        self._rows = rows[order]
        self._counts = np.bincount(codes) if len(codes) else np.zeros(1, np.int64)
        self._starts = np.cumsum(self._counts) - self._counts
        self._marks, self._shift = self._mark([column.take(pa.array(rows)) for column in plain])

    def __len__(self) -> int:
        return len(self._rows)

    def promising(self, columns: Sequence[pa.Array]) -> Numbers:
        """Return the positions of rows whose keys may be in the index, ascending."""
        hashes = _hashes([comparable(column) for column in columns])
        if hashes is None:
            return np.arange(len(columns[0]), dtype=np.int64)
        return np.flatnonzero(self._marks.take((hashes >> self._shift).view(np.int64)))

    def pairs(self, columns: Sequence[pa.Array]) -> tuple[Numbers, Numbers]:
        """Return every pair of an indexed row and a position in ``columns`` that have the same key.

        Pairs come in the order of the positions, and for each of these in that of the indexed rows.
        """
        plain = [comparable(column) for column in columns]
        positions, codes = self._encode(plain, np.arange(len(plain[0]), dtype=np.int64))
        counts = self._counts[codes]
        before = np.cumsum(counts) - counts
        within = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(before, counts)
        return self._rows[np.repeat(self._starts[codes], counts) + within], np.repeat(positions, counts)

    def _encode(
        self, columns: Sequence[pa.Array], positions: Numbers, *, learn: bool = False
    ) -> tuple[Numbers, Numbers]:
        """Return the positions whose keys are known, and a small number for each of these keys."""
        combined = np.zeros(len(positions), np.int64)
        for number, (column, values) in enumerate(zip(columns, self.values, strict=True)):
            chosen = column if len(positions) == len(column) else column.take(pa.array(positions))
            codes = pc.index_in(chosen, value_set=values, skip_nulls=True).fill_null(-1).to_numpy()
            known = codes >= 0
            positions, codes = positions[known], codes[known].astype(np.int64)
            if not number:
                combined = codes
                continue
            combined = combined[known] * max(len(values), 1) + codes
            if learn:
                self._combinations.append(np.unique(combined))
            combinations = self._combinations[number - 1]
            place = np.minimum(np.searchsorted(combinations, combined), max(len(combinations) - 1, 0))
            known = combinations[place] == combined if len(combinations) else np.zeros(len(place), np.bool_)
            positions, combined = positions[known], place[known].astype(np.int64)
        return positions, combined

    def _mark(self, columns: Sequence[pa.Array]) -> tuple[npt.NDArray[np.bool_], np.uint64]:
        bits = (_MARKS_PER_KEY * max(len(columns[0]), 1)).bit_length()
        bits = min(max(bits, _MIN_MARK_BITS), _MAX_MARK_BITS)
        marks = np.zeros(1 << bits, np.bool_)
        shift = np.uint64(64 - bits)
        hashes = _hashes(columns)
        if hashes is not None:
            marks[hashes >> shift] = True
        return marks, shift


def _hashes(columns: Sequence[pa.Array]) -> npt.NDArray[np.uint64] | None:
    """Return a hash of each key, of which the high bits are the good ones; None if no column has any."""
    hashes: npt.NDArray[np.uint64] | None = None
    for column in columns:
        words = fingerprints(column)
        if words is None:
            continue
        hashes = (
            words * _MULTIPLIER if hashes is None else (hashes ^ (hashes >> _HALF_WORD) ^ words) * _MULTIPLIER
        )
    return hashes
