"""Pages of mini-block chunks, made by hand. Spec: file format 2.x, 4.4."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from lance_df.encodings.kernels import fastlanes
from lance_df.encodings.kernels.pages import Page

NO_BYTES = np.empty(0, np.uint8)


class MadePage:
    """Chunks of some buffers each, levels first.

    Parameters
    ----------
    chunks
        The buffers of each chunk, and how many values it has.
    levels
        Whether the first buffer of each is one of levels.
    """

    def __init__(
        self, chunks: Sequence[tuple[int, Sequence[bytes]]], *, levels: bool = False, wide: bool = False
    ) -> None:
        parts = [_chunk(count, buffers, levels, wide) for count, buffers in chunks]
        self.data = np.frombuffer(b"".join(parts), np.uint8)
        self.positions = np.array([0, *accumulate(map(len, parts))], np.int64)
        self.items = np.array([0, *accumulate(count for count, _ in chunks)], np.int64)
        self.levels = int(levels)
        self.wide = int(wide)

    @property
    def num_values(self) -> int:
        """How many values there are."""
        return int(self.items[-1])

    def page(
        self, width: int, *, table: np.ndarray | None = None, table_size: int = -1, out_width: int = 0
    ) -> Page:
        """Return what kernels are given."""
        return Page(
            self.data,
            self.positions,
            self.items,
            self.levels,
            self.wide,
            width,
            NO_BYTES if table is None else table.view(np.uint8),
            table_size,
            out_width or width,
        )


def _chunk(count: int, buffers: Sequence[bytes], levels: bool, wide: bool) -> bytes:
    sizes = [
        len(each).to_bytes(4 if wide and number >= levels else 2, "little")
        for number, each in enumerate(buffers)
    ]
    return b"".join(map(padded, [(count if levels else 0).to_bytes(2, "little") + b"".join(sizes), *buffers]))


def padded(data: bytes) -> bytes:
    """Return bytes and zeros, up to a multiple of 8."""
    return data + bytes(-len(data) % 8)


def cut(values: np.ndarray, counts: Sequence[int]) -> list[np.ndarray]:
    """Return so many of the values for each chunk."""
    ends = list(accumulate(counts))
    assert ends[-1] == len(values)
    return np.split(values, ends[:-1])


def packed(values: np.ndarray, bits: int) -> bytes:
    """Return up to 1024 unsigned words, packed to so many bits."""
    block = np.zeros(1024, values.dtype)
    block[: len(values)] = values
    out = np.zeros(128 * bits, np.uint8)
    width, start = np.array([bits]), np.zeros(1, np.int64)
    fastlanes.pack_blocks(block.view(np.uint8), width, start, 8 * values.itemsize, out)
    return out.tobytes()


def packed_page(parts: Sequence[np.ndarray], bits: int, *, wide: bool, levels: bool = False) -> MadePage:
    """Return a page of one bit-packed block in each chunk."""
    first = [b"levels"] if levels else []
    return MadePage(
        [
            (len(part), [*first, bits.to_bytes(part.itemsize, "little") + packed(part, bits)])
            for part in parts
        ],
        levels=levels,
        wide=wide,
    )


def runs_page(
    parts: Sequence[tuple[np.ndarray, np.ndarray]], *, wide: bool, levels: bool = False
) -> MadePage:
    """Return a page of values and the lengths of their runs in each chunk."""
    first = [b"levels"] if levels else []
    return MadePage(
        [
            (int(lengths.sum()), [*first, values.tobytes(), lengths.astype(np.uint8).tobytes()])
            for values, lengths in parts
        ],
        levels=levels,
        wide=wide,
    )
