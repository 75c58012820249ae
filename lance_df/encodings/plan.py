"""How a decoder asks for bytes without doing IO, and which rows it is asked for.

A decoder is a generator: it yields lists of byte ranges, is sent the buffers, and returns its result.
Whoever drives it (`lance_df.file.io`) runs the decoders of many columns in step, so that their ranges are
coalesced into common requests; on a memory map every step is free.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.storage import ByteRange

T = TypeVar("T")

IoPlan: TypeAlias = Generator[Sequence[ByteRange], Sequence[pa.Buffer], T]
"""Yields the ranges it needs next, receives one buffer for each, returns a ``T``."""

RowPositions: TypeAlias = npt.NDArray[np.int64]
"""Ascending, unique row numbers, relative to what is being read."""


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows ``start`` (inclusive) to ``stop`` (exclusive)."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


Rows: TypeAlias = RowRange | RowPositions
"""A contiguous range, or single rows."""
