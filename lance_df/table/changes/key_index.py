"""An in-memory index that finds the rows of a table that have certain keys, for many keys at once.

Most rows of a large table have none of the keys. A table of bits rules them out first, cheaply and with few
false positives; the exact search sees only the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings import kernels
from lance_df.encodings.kernels.keys import marked_positions, near_positions
from lance_df.expr.literals import storage_type, unscaled
from lance_df.records import dataclass
from lance_df.table.key_values import comparable, hashes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    import numpy.typing as npt

    Numbers: TypeAlias = npt.NDArray[np.int64]
    Words: TypeAlias = npt.NDArray[np.uint64]

# Mark bits for each key; the inverse is the fraction of other values that pass by mistake.
_MARKS_PER_KEY = 32
_MIN_MARK_BITS = 12
_MAX_MARK_BITS = 27
# Keys that are looked up at once: few enough for their temporary arrays to stay in the processor's cache.
_BLOCK_ROWS = 64 * 1024


class KeyIndex:
    """An index of rows by their keys. Keys with a null are not in the index, and match nothing.

    Threads may share it.

    Parameters
    ----------
    columns
        One array for each part of the keys, all of the same length.

    Attributes
    ----------
    columns
        The keys in the index, in the form of `lance_df.table.key_values.comparable`.
    are_nested
        Which parts of the keys are structs or lists.
    """

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        rows = _without_nulls(columns)
        self.are_nested = [pa.types.is_nested(storage_type(column.type)) for column in columns]
        self.columns = [comparable(column).take(pa.array(rows)) for column in columns]
        hashed = hashes(self.columns)
        self._order = np.argsort(hashed, kind="stable")
        self._rows = rows
        self._hashes = hashed[self._order]
        self._are_distinct = not bool((self._hashes[1:] == self._hashes[:-1]).any())
        self._near = _RangeMarks.of(self.columns[0])
        self._marks = _HashMarks.of(hashed)

    def __len__(self) -> int:
        return len(self._rows)

    def pairs(self, columns: Sequence[pa.Array]) -> tuple[Numbers, Numbers]:
        """Return all pairs of an indexed row and a position in ``columns`` that have the same key.

        Pairs are ordered by position, and then by the indexed rows.
        """
        keys = [comparable(column) for column in columns]
        positions, hashed = self._candidates(keys)
        first = np.searchsorted(self._hashes, hashed, side="left")
        is_equal = (
            self._hashes.take(first, mode="clip") == hashed if len(self) else np.zeros(len(first), bool)
        )
        positions, hashed, first = positions[is_equal], hashed[is_equal], first[is_equal]
        if not self._are_distinct:
            counts = np.searchsorted(self._hashes, hashed, side="right") - first
            within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
            first, positions = np.repeat(first, counts) + within, np.repeat(positions, counts)
        entries = self._order[first]
        same = self._are_same(entries, keys, positions)
        return self._rows[entries[same]], positions[same]

    def _candidates(self, keys: Sequence[pa.Array]) -> tuple[Numbers, Words]:
        """Return the positions of possible keys of the index, and their hashes."""
        candidates: list[tuple[Numbers, Words]] = [(np.empty(0, np.int64), np.empty(0, np.uint64))]
        for start in range(0, len(keys[0]), _BLOCK_ROWS):
            block = [key.slice(start, _BLOCK_ROWS) for key in keys]
            near = None if self._near is None else self._near.positions(block[0])
            if near is not None and 2 * len(near) < len(block[0]):
                block = [key.take(pa.array(near)) for key in block]
            else:
                near = None
            hashed = hashes(block)
            marked = self._marks.positions(hashed)
            candidates.append((start + (marked if near is None else near[marked]), hashed[marked]))
        positions, words = zip(*candidates, strict=True)
        return np.concatenate(positions), np.concatenate(words)

    def _are_same(
        self, entries: Numbers, keys: Sequence[pa.Array], positions: Numbers
    ) -> npt.NDArray[np.bool_]:
        """Compare the keys themselves, as different keys may have the same hash."""
        same = np.ones(len(entries), np.bool_)
        for ours, theirs in zip(self.columns, keys, strict=True):
            left, right = ours.take(pa.array(entries)), theirs.take(pa.array(positions))
            equal = pc.equal(unscaled(left), unscaled(right))
            if pa.types.is_floating(left.type):
                equal = pc.or_kleene(equal, pc.and_kleene(pc.is_nan(left), pc.is_nan(right)))
            same &= equal.fill_null(False).to_numpy(zero_copy_only=False)
        return same


@dataclass(frozen=True, slots=True)
class _HashMarks:
    """A bit for each value of the upper bits of a hash; it is set if a key has this value."""

    shift: int
    bits: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, hashed: Words) -> Self:
        num_bits = _mark_bits(len(hashed))
        shift = 64 - num_bits
        marks = np.zeros(1 << num_bits, np.bool_)
        marks[hashed >> np.uint64(shift)] = True
        return cls(shift, np.packbits(marks, bitorder="little"))

    def positions(self, hashed: Words) -> Numbers:
        """Return the positions of hashes that may belong to keys."""
        if kernels.COMPILED:
            out = np.empty(len(hashed), np.int64)
            return out[: marked_positions(hashed, self.shift, self.bits, out)]
        marks = hashed >> np.uint64(self.shift)
        return np.flatnonzero(self.bits[marks >> np.uint64(3)] >> (marks & np.uint64(7)).astype(np.uint8) & 1)


@dataclass(frozen=True, slots=True)
class _RangeMarks:
    """Marks for ranges of the first part of the keys, if it is numeric: neighbouring values share a mark.

    If keys are close together, as those of recent rows often are, the marks rule out most other values. In
    sorted tables, look-ups also follow the order of memory.
    """

    lowest: int
    shift: int
    marks: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, values: pa.Array) -> Self | None:
        """Return the marks of some values; None for types whose bits have no order."""
        if not len(values) or (stored := _numbers(values)) is None:
            return None
        numbers = _words(stored)
        # distances from the lowest value have the same order for signed and unsigned numbers
        lowest = numbers[np.argmin(numbers.view(np.int64))] if _is_signed(values.type) else numbers.min()
        distances = numbers - lowest
        longest = int(distances.max())
        shift = max(longest.bit_length() - _mark_bits(len(values)), 0)
        marks = np.zeros((longest >> shift) + 2, np.bool_)
        marks[distances >> np.uint64(shift)] = True
        return cls(int(lowest), shift, marks)

    def positions(self, values: pa.Array) -> Numbers:
        """Return the positions of values in marked ranges."""
        numbers = _numbers(values)
        if numbers is None:
            return np.arange(len(values), dtype=np.int64)
        # values beyond the range use the last mark, which is never set
        if kernels.COMPILED:
            out = np.empty(len(numbers), np.int64)
            data, is_signed = numbers.view(np.uint8), numbers.dtype.kind == "i"
            marks = self.marks.view(np.uint8)
            count = near_positions(data, numbers.itemsize, is_signed, self.lowest, self.shift, marks, out)
            return out[:count]
        ranges = (_words(numbers) - np.uint64(self.lowest)) >> np.uint64(self.shift)
        return np.flatnonzero(self.marks.take(ranges.view(np.int64), mode="clip"))


def _words(numbers: npt.NDArray[np.integer[Any]]) -> Words:
    """Return numbers as 64 bits, negative ones as two's complement."""
    return numbers.astype(f"{numbers.dtype.kind}8", copy=False).view(np.uint64)


def _numbers(values: pa.Array) -> npt.NDArray[np.integer[Any]] | None:
    """Return integers and times as numbers; None for other types."""
    if not (pa.types.is_integer(values.type) or pa.types.is_temporal(values.type)):
        return None
    width = values.type.bit_width // 8
    kind = "i" if _is_signed(values.type) else "u"
    data = np.frombuffer(values.buffers()[1] or b"", np.uint8)
    return data[values.offset * width : (values.offset + len(values)) * width].view(f"<{kind}{width}")


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
