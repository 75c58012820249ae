"""Compute where the chunks of a mini-block page, their items and their rows start.

Items come from the chunk words, rows from the repetition index, which has two u64 for each chunk: the number
of rows that end in it, and the number of slots at its end whose row continues in the next chunk. Format:
docs/format/mini_block.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.encodings.levels.decode import rows_of_slots
from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.buffers import Bytes, Counts
    from lance_df.encodings.levels.decode import Levels
    from lance_df.encodings.plan import Rows

_MAX_ITEMS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """The start of each chunk, of its items and of its rows; each attribute also has the end.

    ``rows`` counts the rows that start in earlier chunks, ``finished_rows`` those that end in them.
    """

    bytes: Counts
    items: Counts
    rows: Counts
    finished_rows: Counts

    @classmethod
    def parse(
        cls,
        words: npt.NDArray[np.unsignedinteger[Any]],
        index: Bytes | None,
        *,
        num_items: int,
        num_rows: int,
    ) -> ChunkTable:
        """Build the table of a page.

        Parameters
        ----------
        words
            One word for each chunk: ``(bytes / 8 - 1) << 4 | log2(items)``; the last chunk has the remaining
            items.
        index
            The repetition index, None for pages without lists.

        Raises
        ------
        CorruptDataError
            The chunks do not add up to the items and rows.
        """
        if len(words) == 1 and index is None and num_items == num_rows:  # most pages of small files
            check_counts(num_items)
            items = np.array((0, num_items))
            return cls(np.array((0, ((int(words[0]) >> 4) + 1) * 8)), items, items, items)
        numbers = words.astype(np.int64)
        counts = np.left_shift(1, numbers & 15)
        if len(counts):
            counts[-1] = num_items - int(counts[:-1].sum())
        if (counts < 0).any() or int(counts.sum()) != num_items:
            raise CorruptDataError(f"{len(counts)} chunks cannot hold {num_items} items")
        check_counts(int(counts.max(initial=0)))
        positions, items = starts_of(((numbers >> 4) + 1) * 8), starts_of(counts)
        if index is not None:
            return cls(positions, items, *_row_starts(index, len(counts), num_rows))
        if num_items != num_rows:
            raise CorruptDataError(
                f"a page without lists has {num_items} items, expected {num_rows}, one for each row"
            )
        return cls(positions, items, items, items)

    def chunks_of(self, rows: Rows) -> Counts:
        """Return the chunks that contain slots of ``rows``, ascending."""
        wanted = np.array([rows.start, rows.stop - 1]) if isinstance(rows, RowRange) else rows
        first = np.searchsorted(self.rows, wanted, side="right") - 1
        last = np.searchsorted(self.finished_rows, wanted, side="right") - 1
        if isinstance(rows, RowRange):
            return np.arange(first[0], last[1] + 1)
        touched = np.zeros(len(self.rows), np.int64)
        np.add.at(touched, first, 1)
        np.subtract.at(touched, last + 1, 1)
        return np.flatnonzero(np.cumsum(touched))

    def renumber(self, rows: Rows, chunks: Counts) -> Rows:
        """Renumber rows for the case that only ``chunks`` are decoded, for pages without lists."""
        if not len(chunks):
            return RowRange(0, 0)
        if isinstance(rows, RowRange):
            first = int(self.items[chunks[0]])
            return RowRange(rows.start - first, rows.stop - first)
        if chunks[-1] - chunks[0] + 1 == len(chunks):
            return rows - self.items[chunks[0]] if self.items[chunks[0]] else rows
        counts = self.items[chunks + 1] - self.items[chunks]
        shift = np.cumsum(counts) - counts - self.items[chunks]
        return rows + shift[np.searchsorted(self.items[chunks], rows, side="right") - 1]

    def rows_of_slots(
        self, repetition: Levels, num_slots: Counts, max_repetition: int, chunks: Counts
    ) -> Counts:
        """Return the row of every slot; a chunk may begin with the rest of a row of the previous chunk."""
        row_of_slot = rows_of_slots(repetition, max_repetition, 0)
        ends = np.cumsum(num_slots)
        started = np.zeros(len(ends), np.int64)
        started[ends > 0] = row_of_slot[ends[ends > 0] - 1] + 1
        in_chunk = np.diff(started, prepend=0)
        if (in_chunk != self.rows[chunks + 1] - self.rows[chunks]).any():
            raise CorruptDataError(
                "the repetition levels and the repetition index disagree about the number of rows in a chunk"
            )
        shifts = self.rows[chunks] - (started - in_chunk)
        row_of_slot += shifts[0] if len(set(shifts.tolist())) == 1 else np.repeat(shifts, num_slots)
        return row_of_slot


def check_counts(highest: int) -> None:
    """Raise `CorruptDataError` if a chunk has too many items for kernels to count their bytes."""
    if highest > _MAX_ITEMS:
        raise CorruptDataError(f"a chunk has {highest} items, expected at most {_MAX_ITEMS}")


def starts_of(counts: Counts) -> Counts:
    """Return the start of each part, and the end of the last one."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))


def _row_starts(index: Bytes, num_chunks: int, num_rows: int) -> tuple[Counts, Counts]:
    """Return (rows started, rows finished) before each chunk, and in total."""
    if len(index) != 16 * num_chunks:
        raise CorruptDataError(
            f"the repetition index has {len(index)} bytes, expected 16 for each of {num_chunks} chunks"
        )
    pairs = index.view("<u8").reshape(-1, 2)
    if (pairs[:, 0] > num_rows).any():
        raise CorruptDataError(
            f"the repetition index gives {int(pairs[:, 0].max())} rows for a chunk, but the page has "
            f"{num_rows}"
        )
    finished = pairs[:, 0].astype(np.int64)
    continues = pairs[:, 1] > 0
    preamble = np.concatenate((np.zeros(1, np.bool_), continues[:-1]))
    started = finished + continues - preamble
    if (started < 0).any() or int(finished.sum()) != num_rows or continues[-1:].any():
        raise CorruptDataError(f"the repetition index does not add up to the {num_rows} rows of the page")
    return starts_of(started), starts_of(finished)
