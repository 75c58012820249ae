"""Sort entries of an index (a value and the row that has it) by value, with bounded memory.

Runs of entries are sorted in memory, written to temporary files if there are several, and merged. The order
is that of pylance's indices: NULL first. Floats follow IEEE 754's total order, so that -0.0 precedes 0.0, and
a NaN is at the end of the numbers of its sign. Other values are ordered as in Arrow.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.expr.floats import float_values, total_order_keys
from lance_df.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

# Limits of a run that is sorted in memory: entries, and bytes of their values.
_RUN_ROWS = 1 << 22
_RUN_BYTES = 256 * 1024 * 1024
# Limits of the block of each run that is in memory during the merge.
_BLOCK_ROWS = 1 << 16
_BLOCK_BYTES = 4 * 1024 * 1024
_NO_RUN = -1


@dataclass(frozen=True, slots=True)
class Entries:
    """Values, each with the address or the id of its row."""

    values: pa.Array
    ids: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.ids)

    def filter(self, mask: npt.NDArray[np.bool_]) -> Entries:
        """Return the entries where the mask is true."""
        return self if mask.all() else Entries(self.values.filter(pa.array(mask)), self.ids[mask])

    def take(self, positions: npt.NDArray[np.int64]) -> Entries:
        """Return the entries at the given positions."""
        return Entries(self.values.take(pa.array(positions)), self.ids[positions])

    def slice(self, start: int, stop: int) -> Entries:
        """Return the entries from ``start`` to ``stop`` (exclusive)."""
        return Entries(self.values.slice(start, stop - start), self.ids[start:stop])


def order_keys(values: pa.Array) -> pa.Array:
    """Return an array with the same order that pyarrow can sort and compare; nulls stay null."""
    if pa.types.is_floating(values.type):
        keys = total_order_keys(float_values(values))
        return pa.array(keys, mask=np.asarray(values.is_null())) if values.null_count else pa.array(keys)
    return values


def sort_entries(entries: Entries) -> Entries:
    """Sort entries; those with equal values keep their order."""
    return entries.take(_sorted_positions(entries.values))


def sorted_entries(
    parts: Iterable[Entries],
    *,
    sorted_runs: Sequence[Iterator[Entries]] = (),
    run_rows: int | None = None,
) -> Iterator[Entries]:
    """Yield all entries in order.

    Parameters
    ----------
    parts
        Entries in any order.
    sorted_runs
        More entries; those of each run are sorted.
    run_rows
        Entries to sort in memory at once; by default four million, or fewer if they exceed 256 MiB.
    """
    runs = [*sorted_runs]
    max_rows = _RUN_ROWS if run_rows is None else run_rows
    pending: list[Entries] = []
    num_rows = num_bytes = 0
    with ExitStack() as files:
        for part in parts:
            pending.append(part)
            num_rows += len(part)
            num_bytes += part.values.nbytes
            if num_rows >= max_rows or num_bytes >= _RUN_BYTES:
                file = files.enter_context(tempfile.TemporaryFile(prefix="lance_df-"))
                _write_run(file, sort_entries(joined_entries(pending)))
                runs.append(_read_run(file))
                pending, num_rows, num_bytes = [], 0, 0
        if pending:
            runs.append(_blocks(sort_entries(joined_entries(pending))))
        yield from runs[0] if len(runs) == 1 else _merged(runs)


def joined_entries(parts: Sequence[Entries]) -> Entries:
    """Concatenate one or more parts."""
    if len(parts) == 1:
        return parts[0]
    return Entries(
        pa.concat_arrays([part.values for part in parts]), np.concatenate([part.ids for part in parts])
    )


def _sorted_positions(values: pa.Array) -> npt.NDArray[np.int64]:
    positions = np.asarray(pc.array_sort_indices(order_keys(values))).astype(np.int64)
    num_values = len(values) - values.null_count
    return np.concatenate([positions[num_values:], positions[:num_values]])


def _blocks(entries: Entries) -> Iterator[Entries]:
    size = max(1, min(_BLOCK_ROWS, len(entries) * _BLOCK_BYTES // max(1, entries.values.nbytes)))
    for start in range(0, len(entries), size):
        yield entries.slice(start, min(start + size, len(entries)))


def _write_run(file: IO[bytes], entries: Entries) -> None:
    schema = pa.schema([("values", entries.values.type), ("ids", pa.uint64())])
    with pa.ipc.new_file(file, schema) as writer:
        for block in _blocks(entries):
            arrays = [block.values, pa.array(block.ids)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


def _read_run(file: IO[bytes]) -> Iterator[Entries]:
    reader = pa.ipc.open_file(file)
    for number in range(reader.num_record_batches):
        values, ids = reader.get_batch(number).columns
        yield Entries(values, np.asarray(ids))


def _merged(runs: Sequence[Iterator[Entries]]) -> Iterator[Entries]:
    """Merge runs, with one block of each in memory.

    Entries that are not greater than the last entry of any block can be yielded before the next block is
    read; so the smallest of these last entries is the limit.
    """
    pool, marks = _loaded(runs, range(len(runs)))
    while pool is not None:
        order = _sorted_positions(pool.values)
        pool, marks = pool.take(order), marks[order]
        ends = np.flatnonzero(marks != _NO_RUN)
        stop = int(ends[0]) + 1 if len(ends) else len(pool)
        yield pool.slice(0, stop)
        exhausted = marks[stop - 1 : stop][marks[stop - 1 : stop] != _NO_RUN].tolist()
        rest, rest_marks = pool.slice(stop, len(pool)), marks[stop:]
        pool, marks = _loaded(runs, exhausted)
        if len(rest):
            pool = rest if pool is None else joined_entries([rest, pool])
            marks = np.concatenate([rest_marks, marks])


def _loaded(
    runs: Sequence[Iterator[Entries]], numbers: Iterable[int]
) -> tuple[Entries | None, npt.NDArray[np.int64]]:
    """Return the next blocks of the given runs; the last entry of each has its run number."""
    blocks, marks = [], [np.empty(0, np.int64)]
    for number in numbers:
        block = next((each for each in runs[number] if len(each)), None)
        if block is not None:
            blocks.append(block)
            marks.append(np.full(len(block), _NO_RUN, np.int64))
            marks[-1][-1] = number
    return (joined_entries(blocks) if blocks else None), np.concatenate(marks)
