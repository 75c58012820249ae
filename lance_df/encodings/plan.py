"""IO plans, by which decoders request bytes without doing IO, and selections of rows.

A decoder is a generator: it yields lists of byte ranges, is sent the buffers, and returns its result. The
driver (`lance_df.file.io`) runs the decoders of many columns in step, so that their ranges are coalesced into
common requests. On a memory map, steps cost nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.records import dataclass
from lance_df.storage import ByteRange

T = TypeVar("T")

IoPlan: TypeAlias = Generator[Sequence[ByteRange], Sequence[pa.Buffer], T]
"""Yields the ranges that it needs next, is sent one buffer for each, and returns a ``T``."""

RowPositions: TypeAlias = npt.NDArray[np.int64]
"""Ascending, unique row numbers, relative to the page or column that is read."""


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows ``start`` (inclusive) to ``stop`` (exclusive)."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


Rows: TypeAlias = RowRange | RowPositions
"""A contiguous range, or single rows."""


def together(plans: Sequence[IoPlan[T]]) -> IoPlan[list[T]]:
    """Return one plan that runs ``plans`` in step: each round requests the ranges of all unfinished ones."""
    results: list[Any] = [None] * len(plans)
    answers: list[tuple[int, Any]] = [(index, None) for index in range(len(plans))]
    while answers:
        waiting: list[tuple[int, Sequence[ByteRange]]] = []
        for index, buffers in answers:
            try:
                waiting.append((index, plans[index].send(buffers)))
            except StopIteration as end:
                results[index] = end.value
        if not waiting:
            break
        received = yield [wanted for _, ranges in waiting for wanted in ranges]
        answers, position = [], 0
        for index, ranges in waiting:
            answers.append((index, received[position : position + len(ranges)]))
            position += len(ranges)
    return results


def read_whole(buffer: ByteRange) -> IoPlan[pa.Buffer]:
    """Return one buffer."""
    (data,) = yield [buffer]
    return data
