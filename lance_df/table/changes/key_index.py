"""Find the rows of a table in memory that have certain keys, for many keys at once.

Most rows of a large table have none of the keys. So a table of bits sorts them out first, cheaply and with
few mistakes; the exact search sees the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.table.changes.key_values import comparable, hashes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

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
        self._are_distinct = not bool((self._hashes[1:] == self._hashes[:-1]).any())
        self._near = _RangeMarks.of(self.columns[0])
        self._shift = np.uint64(64 - _mark_bits(len(rows)))
        self._marks = np.zeros(1 << _mark_bits(len(rows)), np.bool_)
        self._marks[hashed >> self._shift] = True

    def __len__(self) -> int:
        return len(self._rows)

    def pairs(self, columns: Sequence[pa.Array]) -> tuple[Numbers, Numbers]:
        """Return every pair of an indexed row and a position in ``columns`` that have the same key.

        Pairs come in the order of the positions, and for each of these in that of the indexed rows.
        """
        keys = [comparable(column) for column in columns]
        near = None if self._near is None else self._near.positions(keys[0])
        if near is not None:
            keys = [key.take(pa.array(near)) for key in keys]
        hashed = hashes(keys)
        positions = np.flatnonzero(self._marks.take((hashed >> self._shift).view(np.int64), mode="clip"))
        hashed = hashed[positions]
        first = np.searchsorted(self._hashes, hashed, side="left")
        found = self._hashes.take(first, mode="clip") == hashed if len(self) else np.zeros(len(first), bool)
        positions, hashed, first = positions[found], hashed[found], first[found]
        if not self._are_distinct:
            counts = np.searchsorted(self._hashes, hashed, side="right") - first
            within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
            first, positions = np.repeat(first, counts) + within, np.repeat(positions, counts)
        entries = self._order[first]
        same = self._are_same(entries, keys, positions)
        positions = positions[same]
        return self._rows[entries[same]], positions if near is None else near[positions]

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


@dataclass(frozen=True, slots=True)
class _RangeMarks:
    """Marks for stretches of the first part of the keys, if that is a number: neighbours share a mark.

    Keys that lie together, as those of recent rows often do, rule out most others so, and tables whose rows
    are sorted are looked up in the order of memory.
    """

    lowest: np.uint64
    shift: np.uint64
    marks: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, values: pa.Array) -> Self | None:
        """Return the marks of some values; None for types without an order of their bits."""
        if not len(values) or (numbers := _ordered_words(values)) is None:
            return None
        # of signed numbers the sign decides, so the distances from the lowest are what counts
        lowest = numbers[np.argmin(numbers.view(np.int64))] if _is_signed(values.type) else numbers.min()
        distances = numbers - lowest
        span_bits = int(distances.max()).bit_length()
        shift = np.uint64(max(span_bits - _mark_bits(len(values)), 0))
        marks = np.zeros(int(distances.max() >> shift) + 2, np.bool_)
        marks[distances >> shift] = True
        return cls(lowest, shift, marks)

    def positions(self, values: pa.Array) -> Numbers:
        """Return the positions of values that lie in a stretch with a mark."""
        numbers = _ordered_words(values)
        if numbers is None:
            return np.arange(len(values), dtype=np.int64)
        places = (numbers - self.lowest) >> self.shift
        # beyond the marks is the last one, which is never set
        return np.flatnonzero(self.marks.take(places.view(np.int64), mode="clip"))


def _ordered_words(values: pa.Array) -> npt.NDArray[np.uint64] | None:
    """Return numbers and times as 64 bits, negative ones as their two's complement."""
    if not (pa.types.is_integer(values.type) or pa.types.is_temporal(values.type)):
        return None
    width = values.type.bit_width // 8
    kind = "i" if _is_signed(values.type) else "u"
    data = np.frombuffer(values.buffers()[1] or b"", np.uint8)
    used = data[values.offset * width : (values.offset + len(values)) * width].view(f"<{kind}{width}")
    return used.astype(f"{kind}8", copy=False).view(np.uint64)


def _is_signed(data_type: pa.DataType) -> bool:
    return not pa.types.is_unsigned_integer(data_type)


def _mark_bits(num_keys: int) -> int:
    bits = (_MARKS_PER_KEY * max(num_keys, 1)).bit_length()
    return min(max(bits, _MIN_MARK_BITS), _MAX_MARK_BITS)


def _without_nulls(columns: Sequence[pa.Array]) -> Numbers:
    valid = np.ones(len(columns[0]), np.bool_)
    for column in columns:
        if column.null_count:
            valid &= column.is_valid().to_numpy(zero_copy_only=False)
    return np.flatnonzero(valid)
