"""Run one stretch of a scan: filter columns first, then the others for the rows that match."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.arrays import concat_arrays
from lance_df.encodings.gather import true_positions
from lance_df.encodings.plan import RowRange
from lance_df.encodings.string_views import as_views
from lance_df.errors import CorruptDataError
from lance_df.expr.matching import matching_rows
from lance_df.table.blobs import values_of
from lance_df.table.deletions import deleted_offsets
from lance_df.table.fragment_reader import FragmentReader
from lance_df.table.prefetch import map_ahead
from lance_df.table.scan_columns import StoredColumn, SystemColumn
from lance_df.table.scan_windows import window_rows, windows
from lance_df.table.system_columns import ROW_ID, system_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lance_df.encodings.plan import Rows
    from lance_df.expr.nodes import Predicate
    from lance_df.format.schema import Field
    from lance_df.table.filter_steps import FilterStep
    from lance_df.table.learned_bounds import RuledOut
    from lance_df.table.scan_columns import Column
    from lance_df.table.scan_prune import Pruning
    from lance_df.table.table import Table

# From one match in so many rows on, whole pages are read and filtered instead of single rows.
_DENSE = 4
# Scattered matches are gathered up to this number, so that their pages are read once.
_GATHERED_ROWS = 16 * 1024
_PREFETCHED_WINDOWS = 4
_FIRST_LIMITED_ROWS = 4096
_BLOB_ROWS = 64

_Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What the tasks of one scan have in common.

    Attributes
    ----------
    columns
        What batches hold, in order; ``schema`` has their types.
    predicate
        Applied to each row; ``filter_columns`` are the columns that it reads, ``filter_steps`` tell in which
        order.
    limit
        Rows after which a task may stop.
    batch_rows
        Upper bound for the rows of a batch.
    window_rows
        See `ScanRequest`.
    learns_bounds
        Whether windows without matches are remembered.
    ruled_out
        The windows that earlier scans remembered, and that cannot match.
    """

    table: Table
    columns: tuple[Column, ...]
    schema: pa.Schema
    predicate: Predicate | None
    filter_columns: tuple[Column, ...]
    pruning: Pruning
    limit: int | None
    batch_rows: int | None
    window_rows: int | None
    include_deleted_rows: bool
    learns_bounds: bool
    ruled_out: RuledOut | None = None
    filter_steps: tuple[FilterStep, ...] = ()

    def rows_at_once(self) -> int | None:
        """Return how many rows to read at once: few of blobs, whose sizes only their descriptions tell."""
        columns = (*self.filter_columns, *self.columns)
        if any(isinstance(column, StoredColumn) and column.is_located for column in columns):
            return _BLOB_ROWS
        return self.window_rows

    def fields(self) -> list[Field]:
        """Return the stored fields that are read, each once."""
        stored = (*self.filter_columns, *self.columns)
        return list(dict.fromkeys(column.field for column in stored if isinstance(column, StoredColumn)))


@dataclass(frozen=True, slots=True)
class FragmentTask:
    """Rows ``start`` to ``stop`` (exclusive) of the fragment at ``place`` of the table's list.

    A `ScanTask`; ``num_rows`` and ``num_bytes`` are upper bounds.
    """

    scan: Scan = field(repr=False)
    place: int
    start: int
    stop: int

    @property
    def num_rows(self) -> int:
        return self.stop - self.start

    @property
    def num_bytes(self) -> int:
        fragments = self.scan.table.fragments
        physical_rows = max(int(fragments.physical_rows[self.place]), self.num_rows, 1)
        return int(fragments.file_bytes[self.place]) * self.num_rows // physical_rows

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of the scan's schema, in row order. See `ScanTask`."""
        batches = Stretch(self.scan, FragmentRows(self.scan.table, self.place)).read(self.start, self.stop)
        return sliced(batches, self.scan.batch_rows, self.scan.limit)


@dataclass(frozen=True, slots=True)
class CountTask:
    """Only the number of rows is wanted, and the manifest knows it. A `ScanTask`."""

    num_rows: int
    num_bytes: int = 0

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield one batch without columns."""
        if self.num_rows:
            yield count_batch(self.num_rows)


def count_batch(num_rows: int) -> pa.RecordBatch:
    """Return a batch without columns that has ``num_rows`` rows."""
    return pa.record_batch([pa.nulls(num_rows)], ["rows"]).select([])


@dataclass(frozen=True, slots=True)
class _Match:
    """Rows to return, and their values as far as they are known.

    ``mask`` says which of ``rows`` are meant; ``None`` for all. ``known`` has a value for each of these.
    ``scattered`` says that ``rows`` are a few of a window.
    """

    rows: Rows
    mask: _Mask | None
    num_rows: int
    known: Mapping[Column, pa.Array]
    scattered: bool = False

    @property
    def is_sparse(self) -> bool:
        return self.scattered or (self.mask is not None and self.num_rows * _DENSE < len(self.rows))

    def where(self, truth: _Mask) -> _Match:
        """Return the rows of these for which ``truth``, of all of ``rows``, is true too."""
        mask = truth if self.mask is None else truth & self.mask
        num_rows = int(np.count_nonzero(mask))
        return replace(self, mask=None if num_rows == len(mask) else mask, num_rows=num_rows)

    def positions(self) -> npt.NDArray[np.int64]:
        """Return the rows that are meant."""
        if self.mask is None:
            return positions(self.rows)
        chosen = true_positions(self.mask)
        return self.rows[chosen] if not isinstance(self.rows, RowRange) else chosen + self.rows.start


class RowSource(Protocol):
    """Physical rows that a scan reads.

    Attributes
    ----------
    reader
        Reads stored columns.
    deleted
        Which of the rows are deleted, ascending.
    """

    @property
    def reader(self) -> FragmentReader: ...

    @property
    def deleted(self) -> npt.NDArray[np.int64]: ...

    def system_values(self, name: str, rows: Rows) -> pa.Array:
        """Return the values of a system column."""
        ...


class FragmentRows:
    """The rows of the fragment at a place of the table's list. A `RowSource`."""

    def __init__(self, table: Table, place: int) -> None:
        self._table = table
        self._place = place
        fragment = table.fragments[place]
        self.reader = FragmentReader(table, fragment)
        vector = table.deletion_vector(fragment)
        self.deleted = np.empty(0, np.int64) if vector is None else deleted_offsets(vector)

    def system_values(self, name: str, rows: Rows) -> pa.Array:
        """Return the values of a system column."""
        return system_column(self._table, self._place, name, rows)


class Stretch:
    """Reads rows for one scan."""

    def __init__(self, scan: Scan, source: RowSource) -> None:
        self._scan = scan
        self._source = source
        self._reader = source.reader
        self._deleted = source.deleted

    def read_whole(self, num_rows: int) -> pa.RecordBatch:
        """Return what is wanted of the first ``num_rows`` rows, read at once."""
        result = self._process(RowRange(0, num_rows))
        if result is None:
            return pa.RecordBatch.from_pylist([], self._scan.schema)
        return self._gather([result]) if isinstance(result, _Match) else result

    def read(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        scan = self._scan
        if self._is_ruled_out(RowRange(start, stop)):
            return
        fields = scan.fields()
        selected = scan.pruning.rows(self._reader)
        if selected is not None and not len(selected := selected.clip(start, stop)):
            return
        if scan.limit is not None and scan.predicate is None and selected is None:
            stop = min(stop, start + scan.limit + len(self._deleted))
        cuts = windows(
            start,
            stop,
            self._reader.page_starts(fields),
            max_rows=window_rows(self._reader, fields, wanted=scan.rows_at_once()),
            first_rows=None if scan.limit is None else max(scan.limit, _FIRST_LIMITED_ROWS),
            selected=selected,
        )
        ahead = 0 if scan.table.location.is_local else _PREFETCHED_WINDOWS
        promising = (rows for rows in cuts if not self._is_ruled_out(rows))
        with closing(map_ahead(self._process, promising, ahead=ahead)) as results:
            yield from self._joined(results)

    def _joined(self, results: Iterator[_Match | pa.RecordBatch | None]) -> Iterator[pa.RecordBatch]:
        """Yield batches; scattered matches of neighbouring windows share one."""
        gathered: list[_Match] = []
        for result in results:
            if isinstance(result, _Match):
                gathered.append(result)
                if sum(match.num_rows for match in gathered) < _GATHERED_ROWS:
                    continue
            if gathered and result is not None:
                yield self._gather(gathered)
                gathered = []
            if isinstance(result, pa.RecordBatch):
                yield result
        if gathered:
            yield self._gather(gathered)

    def _process(self, rows: Rows) -> _Match | pa.RecordBatch | None:
        """Return the batch of a window, or where only few rows match, what is known of these."""
        match = self._match(rows)
        if match is None or match.is_sparse:
            return match
        return self._finish(match)

    def _is_ruled_out(self, rows: Rows) -> bool:
        ruled_out = self._scan.ruled_out
        return ruled_out is not None and isinstance(rows, RowRange) and ruled_out.covers(self._reader, rows)

    def _match(self, rows: Rows) -> _Match | None:
        scan = self._scan
        mask = None if scan.include_deleted_rows else self._live(rows)
        if mask is not None and not mask.any():
            return None
        match = _Match(rows, mask, len(rows) if mask is None else int(np.count_nonzero(mask)), {})
        known: dict[Column, pa.Array] = {}
        for number, step in enumerate(scan.filter_steps):
            if number and match.is_sparse and match.mask is not None:
                kept = pa.array(match.mask)
                known = {column: values.filter(kept) for column, values in known.items()}
                match = _Match(match.positions(), None, match.num_rows, {}, scattered=True)
            known |= self._values(step.columns, match.rows)
            by_path = {column.path: values for column, values in known.items()}
            match = match.where(matching_rows(step.predicate, by_path, len(match.rows)))
            if not match.num_rows:
                if scan.learns_bounds and isinstance(match.rows, RowRange):
                    scan.table.shared.bounds.learn(self._reader, match.rows, known)
                return None
        reused = {column: known[column] for column in scan.columns if column in known}
        if match.mask is not None and reused:
            kept = pa.array(match.mask)
            reused = {column: values.filter(kept) for column, values in reused.items()}
        return replace(match, known=reused)

    def _finish(self, match: _Match) -> pa.RecordBatch:
        """Read whole windows and leave out what does not match."""
        missing = [column for column in self._scan.columns if column not in match.known]
        values = self._values(missing, match.rows)
        if match.mask is not None:
            kept = pa.array(match.mask)
            values = {column: array.filter(kept) for column, array in values.items()}
        return self._batch({**match.known, **values}, match.num_rows)

    def _gather(self, matches: Sequence[_Match]) -> pa.RecordBatch:
        """Read single rows."""
        rows = np.concatenate([match.positions() for match in matches])
        known = {}
        for column in matches[0].known:
            arrays = [self._plain(column, match.known[column]) for match in matches]
            known[column] = concat_arrays(arrays, arrays[0].type)
        missing = [column for column in self._scan.columns if column not in known]
        return self._batch({**known, **self._values(missing, rows)}, len(rows))

    def _values(self, columns: Sequence[Column], rows: Rows) -> dict[Column, pa.Array]:
        """Return the values of columns at all the rows."""
        stored = [column for column in columns if isinstance(column, StoredColumn)]
        arrays = self._reader.read([column.field for column in stored], rows, keep_dictionaries=True)
        values: dict[Column, pa.Array] = {
            column: values_of(self._scan.table, self._reader.fragment, column, array)
            for column, array in zip(stored, arrays, strict=True)
        }
        for column in columns:
            if isinstance(column, SystemColumn):
                values[column] = self._system_values(column.name, rows)
        return values

    def _system_values(self, name: str, rows: Rows) -> pa.Array:
        values = self._source.system_values(name, rows)
        if name != ROW_ID or not self._scan.include_deleted_rows or (live := self._live(rows)) is None:
            return values
        return pa.array(values.to_numpy(), mask=~live)

    def _live(self, rows: Rows) -> _Mask | None:
        """Return which rows are not deleted; None if all are there."""
        if isinstance(rows, RowRange):
            low, high = np.searchsorted(self._deleted, (rows.start, rows.stop))
            if low == high:
                return None
            live = np.ones(len(rows), np.bool_)
            live[self._deleted[low:high] - rows.start] = False
            return live
        if not len(self._deleted):
            return None
        return ~np.isin(rows, self._deleted, assume_unique=True)

    def _plain(self, column: Column, values: pa.Array) -> pa.Array:
        return self._scan.table.shared.dictionaries.expand(values, column.output.type)

    def _batch(self, values: Mapping[Column, pa.Array], num_rows: int) -> pa.RecordBatch:
        scan = self._scan
        if not scan.columns:
            return count_batch(num_rows)
        arrays = [
            conform(self._plain(column, values[column]), column.output.type, self._reader.name)
            for column in scan.columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=scan.schema)


def positions(rows: Rows) -> npt.NDArray[np.int64]:
    """Return rows one by one."""
    return np.arange(rows.start, rows.stop, dtype=np.int64) if isinstance(rows, RowRange) else rows


def conform(array: pa.Array, data_type: pa.DataType, name: str) -> pa.Array:
    """Return the array as the type that the schema promises, which differs in names of children at most.

    Raises
    ------
    CorruptDataError
        The file holds values of another type.
    """
    if array.type == data_type:
        return array
    if data_type == pa.string_view() and array.type == pa.string():
        return as_views(array)
    try:
        return array.cast(data_type)
    except pa.ArrowException as err:
        raise CorruptDataError(f"{name}: holds values of type {array.type}, expected {data_type}") from err


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
