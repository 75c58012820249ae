"""Split and join streams of record batches."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.sliced_lists import unsliced

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt


def close_source(batches: object) -> None:
    """Close the source of batches, if it is a generator.

    A generator that is not consumed to its end, as after a failed write, otherwise lives with its threads as
    long as the error.
    """
    if isinstance(batches, Generator):
        batches.close()


@contextmanager
def source_closed(batches: object) -> Iterator[None]:
    """Close the source of batches when the context ends; see `close_source`."""
    try:
        yield
    finally:
        close_source(batches)


class CountedBatches:
    """Passes batches to a writer, and counts the rows so far in ``num_rows``."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.num_rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.num_rows += batch.num_rows
            yield batch


def window(batches: Iterator[pa.RecordBatch], skipped: int, limit: int | None) -> Generator[pa.RecordBatch]:
    """Yield ``limit`` rows after the first ``skipped``; empty batches are left out."""
    left = limit
    if left == 0:
        return
    for whole in batches:
        batch = whole.slice(min(skipped, whole.num_rows))
        skipped -= whole.num_rows - batch.num_rows
        if left is not None:
            batch = batch.slice(0, left)
            left -= batch.num_rows
        if batch.num_rows:
            yield batch
        if left == 0:
            return


def resized(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, num_rows: int | None, *, strict: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most ``num_rows`` rows; if ``strict``, all but the last have exactly so many."""
    if num_rows is None:
        yield from batches
    elif strict:
        yield from _rebatched(batches, schema, num_rows)
    else:
        for batch in batches:
            for start in range(0, batch.num_rows, num_rows):
                yield batch.slice(start, num_rows)


def _rebatched(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, num_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield batches of exactly ``num_rows`` rows, except for the last one."""
    waiting: list[pa.RecordBatch] = []
    num_waiting = 0
    for batch in batches:
        rest = batch
        while num_waiting + rest.num_rows >= num_rows:
            head = rest.slice(0, num_rows - num_waiting)
            yield _joined([*waiting, head], schema)
            rest, waiting, num_waiting = rest.slice(head.num_rows), [], 0
        if rest.num_rows:
            waiting.append(rest)
            num_waiting += rest.num_rows
    if waiting:
        yield _joined(waiting, schema)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    if not schema.names:
        return count_batch(sum(batch.num_rows for batch in batches))
    return pa.concat_batches(batches)


def sliced(
    batches: Iterator[pa.RecordBatch], batch_rows: int | None, limit: int | None
) -> Iterator[pa.RecordBatch]:
    """Yield the first ``limit`` rows, in batches of at most ``batch_rows``."""
    left = limit
    with closing(batches):  # type: ignore[type-var]
        for whole in batches:
            batch = whole if left is None else whole.slice(0, left)
            size = batch.num_rows if batch_rows is None else max(1, batch_rows)
            for start in range(0, batch.num_rows, max(1, size)):
                yield batch.slice(start, size)
            if left is not None and (left := left - batch.num_rows) <= 0:
                return


def count_batch(num_rows: int, metadata: Mapping[bytes, bytes] | None = None) -> pa.RecordBatch:
    """Return a batch without columns that has ``num_rows`` rows."""
    return pa.record_batch([pa.nulls(num_rows)], ["rows"], metadata=metadata).select([])


def take_rows(table: pa.Table, numbers: pa.Array | npt.NDArray[np.int64]) -> pa.Table:
    """Return rows of a table by number, also from a table without columns, which pyarrow cannot do."""
    if table.num_columns:
        return unsliced(table).take(numbers)
    return pa.Table.from_batches([count_batch(len(numbers), table.schema.metadata)])
