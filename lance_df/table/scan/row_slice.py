"""Read a slice of the rows of a scan: filter columns first, then other columns for the matching rows."""

from __future__ import annotations

from contextlib import closing
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.arrays import concat_arrays, in_halves
from lance_df.encodings.loaded_page import Form
from lance_df.encodings.plan import RowRange
from lance_df.encodings.rows import as_positions
from lance_df.encodings.selected_rows import SelectedRows
from lance_df.encodings.string_views import as_views
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass
from lance_df.table.reading.batches import count_batch
from lance_df.table.reading.prefetch import map_ahead
from lance_df.table.reading.system_columns import ROW_ADDRESS, ROW_ID
from lance_df.table.scan.limits import SCAN_LIMITS
from lance_df.table.scan.window_reader import WindowReader
from lance_df.table.scan.windows import window_rows, windows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lance_df.encodings.plan import Rows
    from lance_df.format.schema import Field
    from lance_df.scan.aggregate import PartialAggregator
    from lance_df.table.reading.fragment_reader import FragmentReader
    from lance_df.table.reading.selection import RowRanges
    from lance_df.table.scan.columns import Column
    from lance_df.table.scan.task import Scan

_PREFETCHED_WINDOWS = 4

_Mask: TypeAlias = npt.NDArray[np.bool_]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Match:
    """Rows that match the first steps of the filter, or all of them.

    Attributes
    ----------
    rows, selection
        Rows, and which of them match.
    known
        The values of ``rows``, by column path, of columns that later steps read or that are returned.
    num_steps
        The number of steps that they match.
    scattered
        Whether ``rows`` are single rows of a window rather than all of them.
    """

    rows: Rows
    selection: SelectedRows
    known: Mapping[tuple[str, ...], pa.Array]
    num_steps: int
    scattered: bool = False

    def positions(self) -> npt.NDArray[np.int64]:
        """Return the rows that match."""
        return _positions(self.rows, self.selection)


class RowSource(Protocol):
    """Physical rows that a scan reads.

    Attributes
    ----------
    reader
        Reads stored columns.
    deleted
        The deleted rows, ascending.
    """

    @property
    def reader(self) -> FragmentReader: ...

    @property
    def deleted(self) -> npt.NDArray[np.int64]: ...

    def system_values(self, name: str, rows: Rows) -> pa.Array:
        """Return the values of a system column."""
        ...


class RowSlice:
    """Reads rows for one scan."""

    def __init__(self, scan: Scan, source: RowSource) -> None:
        self._scan = scan
        self._source = source
        self._reader = source.reader
        self._deleted = source.deleted
        self._types = [column.output.type for column in scan.columns]
        self._compared_types = {column.path: column.output.type for column in scan.filter_columns}
        filtered_by = [column for step in scan.filter_steps for column in step.columns]
        # positions in the output of columns that the filter reads, and of the others
        self._reused = [index for index, column in enumerate(scan.columns) if column in filtered_by]
        self._missing = [index for index, column in enumerate(scan.columns) if column not in filtered_by]
        returned = {scan.columns[index].path for index in self._reused}
        # the paths that each step of the filter needs, including everything after it
        self._wanted_from_step = [
            returned.union(*(step.paths for step in scan.filter_steps[number:]))
            for number in range(len(scan.filter_steps) + 1)
        ]

    @cached_property
    def _step_readers(self) -> list[WindowReader]:
        """The readers of the columns of each step of the filter."""
        # nothing can compare views
        return [
            self._window_reader(step.columns, [Form.DICTIONARY] * len(step.columns))
            for step in self._scan.filter_steps
        ]

    @cached_property
    def _whole_reader(self) -> WindowReader:
        """The reader of the other columns, for windows in which all rows are selected."""
        return self._rest_reader(Form.PLAIN)

    @cached_property
    def _part_reader(self) -> WindowReader:
        """The reader of the other columns, for windows in which rows are dropped."""
        return self._rest_reader(Form.DICTIONARY)

    def _rest_reader(self, form: Form) -> WindowReader:
        columns = [self._scan.columns[index] for index in self._missing]
        forms = [form | Form.VIEWS if column.output.type == pa.string_view() else form for column in columns]
        return self._window_reader(columns, forms)

    def _window_reader(self, columns: Sequence[Column], forms: Sequence[Form]) -> WindowReader:
        return WindowReader(
            self._scan.table, self._reader, columns, forms, self._system_values, self._scan.options
        )

    def read_whole(self, num_rows: int) -> pa.RecordBatch:
        """Return the batch of the first ``num_rows`` rows, read at once."""
        match = self._match(self._live_rows(RowRange(0, num_rows)), waits=False)
        if match is None:
            return pa.RecordBatch.from_pylist([], self._scan.schema)
        return self._gather([match]) if self._is_sparse(match) else self._finish(match)

    def read(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        scan = self._scan
        parts = self._not_ruled_out(RowRange(start, stop))
        if not parts:
            return
        selected = scan.pruning.rows(self._reader)
        if selected is not None and not len(selected := selected.clip(start, stop)):
            return
        if scan.limit is not None and scan.predicate is None and selected is None:
            parts = [RowRange(start, min(stop, start + scan.limit + len(self._deleted)))]
        cuts = chain.from_iterable(self._windows(part.start, part.stop, selected) for part in parts)
        with closing(map_ahead(self._processed, cuts, ahead=self._num_ahead)) as results:
            yield from self._joined(self._continued(chain.from_iterable(results)))

    def values(self, start: int, stop: int) -> Iterator[Sequence[pa.Array]]:
        """Yield the output columns of all rows, window by window.

        They may be dictionaries, and these may have values that no row uses.
        """
        cuts = self._windows(start, stop, None)
        with closing(map_ahead(self._part_reader.read, cuts, ahead=self._num_ahead)) as windows_read:
            yield from windows_read

    def batch(self, values: Sequence[pa.Array]) -> pa.RecordBatch:
        """Return the batch for the columns of a window that `values` has yielded."""
        return self._batch((), values, SelectedRows.everything(len(values[0])))

    def _windows(self, start: int, stop: int, selected: RowRanges | None) -> Iterator[Rows]:
        scan = self._scan
        least = SCAN_LIMITS.current.first_limited_rows
        return windows(
            start,
            stop,
            self._reader.page_starts(self._fields),
            max_rows=self._max_window_rows,
            first_rows=None if scan.limit is None else max(scan.limit, least),
            selected=selected,
        )

    @property
    def _num_ahead(self) -> int:
        is_local = self._scan.table.location.is_local
        return _PREFETCHED_WINDOWS if self._scan.options.prefetched_windows and not is_local else 0

    @cached_property
    def _fields(self) -> Sequence[Field]:
        """The stored fields that are read."""
        return self._scan.fields_of(self._reader)

    @cached_property
    def _max_window_rows(self) -> int:
        scan = self._scan
        width = max(self._reader.bytes_per_row(self._fields), scan.row_bytes)
        return window_rows(width, wanted=scan.rows_at_once, is_local=scan.table.location.is_local)

    @cached_property
    def _num_gathered(self) -> int:
        """The number of scattered rows to read at once, limited by the window size and the scan's limit."""
        most = min(SCAN_LIMITS.current.gathered_rows, self._max_window_rows)
        return most if self._scan.limit is None else min(most, self._scan.limit)

    def _continued(
        self, results: Iterator[_Match | pa.RecordBatch | None]
    ) -> Iterator[_Match | pa.RecordBatch | None]:
        """Apply the remaining steps of the filter to scattered rows of several windows at once."""
        enough = self._num_gathered if self._scan.limit is None else 1
        waiting: list[_Match] = []
        for result in results:
            next_one = self._waiting(result)
            if waiting and result is not None:
                is_same = next_one is not None and next_one.num_steps == waiting[0].num_steps
                if not is_same:
                    yield from self._in_parts(waiting, self._match_together)
                    waiting = []
            if next_one is None:
                yield result
                continue
            waiting.append(next_one)
            if sum(match.selection.count for match in waiting) >= enough:
                yield from self._in_parts(waiting, self._match_together)
                waiting = []
        if waiting:
            yield from self._in_parts(waiting, self._match_together)

    def _waiting(self, result: _Match | pa.RecordBatch | None) -> _Match | None:
        """Return the result if it is a match with remaining steps, else None."""
        if not isinstance(result, _Match) or result.num_steps == len(self._scan.filter_steps):
            return None
        return result

    def _match_together(self, matches: Sequence[_Match]) -> _Match | None:
        """Apply the remaining steps to scattered rows that match the same number of steps."""
        if len(matches) == 1:
            return self._match(matches[0], waits=False)
        rows = np.concatenate([match.rows for match in matches])
        known = {}
        for path in matches[0].known:
            values = [self._compared(match.known[path], path) for match in matches]
            known[path] = concat_arrays(values, values[0].type)
        everything = SelectedRows.everything(len(rows))
        return self._match(_Match(rows, everything, known, matches[0].num_steps, scattered=True), waits=False)

    def _in_parts(self, matches: Sequence[_Match], read: Callable[[Sequence[_Match]], T]) -> Iterator[T]:
        """Yield the results of reading matches, all at once if they fit into arrays of their types."""
        yield from in_halves(lambda start, stop: read(matches[start:stop]), 0, len(matches))

    def _joined(self, results: Iterator[_Match | pa.RecordBatch | None]) -> Iterator[pa.RecordBatch]:
        """Yield batches; scattered matches of neighbouring windows share a batch."""
        gathered: list[_Match] = []
        for result in results:
            if isinstance(result, _Match):
                gathered.append(result)
                if sum(match.selection.count for match in gathered) < self._num_gathered:
                    continue
            if gathered and result is not None:
                yield from self._in_parts(gathered, self._gather)
                gathered = []
            if isinstance(result, pa.RecordBatch):
                yield result
        if gathered:
            yield from self._in_parts(gathered, self._gather)

    def _processed(self, rows: Rows) -> Sequence[_Match | pa.RecordBatch | None]:
        """Return the result of a window, or several results if one array cannot hold its rows."""
        if not isinstance(rows, RowRange):
            return (self._process(rows),)
        halves = in_halves(lambda start, stop: self._process(RowRange(start, stop)), rows.start, rows.stop)
        return tuple(halves)

    def _process(self, rows: Rows) -> _Match | pa.RecordBatch | None:
        """Return the batch of a window, or if only few rows match, the match."""
        match = self._match(self._live_rows(rows), waits=True)
        if match is None or self._is_sparse(match):
            return match
        return self._finish(match)

    def _not_ruled_out(self, rows: RowRange) -> Sequence[RowRange]:
        """Return the parts of a range in which rows may match, as far as earlier scans have observed."""
        scan = self._scan
        if scan.ruled_out is None:
            return (rows,)
        # a request costs as much as a window of rows
        least = 1 if scan.table.location.is_local else min(self._max_window_rows, len(rows))
        return scan.ruled_out.remaining(self._reader, rows, least)

    def _live_rows(self, rows: Rows) -> _Match:
        """Return the rows that are not deleted, before the first step of the filter."""
        live = None if self._scan.include_deleted_rows else self._live(rows)
        selection = SelectedRows.everything(len(rows)) if live is None else SelectedRows(live)
        return _Match(rows, selection, {}, 0)

    def _match(self, match: _Match, *, waits: bool) -> _Match | None:
        """Apply the remaining steps of the filter.

        Parameters
        ----------
        waits
            Whether to return before the next step if few rows are left, so that those of several windows can
            be processed together.
        """
        if not match.selection.count:
            return None
        steps = self._scan.filter_steps
        known = dict(match.known)
        first = match.num_steps
        for number in range(first, len(steps)):
            if number > first and self._is_sparse(match):
                match = self._alone(match)
                if waits:
                    return match
                known = dict(match.known)
            known.update(self._values_of_step(number, match.rows))
            selection = match.selection & steps[number].matcher.rows(known, len(match.rows))
            if not selection.count:
                return None
            match = _Match(match.rows, selection, known, number + 1, match.scattered)
        return self._alone(match) if self._is_sparse(match) else match

    def _values_of_step(self, number: int, rows: Rows) -> Mapping[tuple[str, ...], pa.Array]:
        """Return the columns that a step of the filter reads and earlier steps have not read."""
        columns = self._scan.filter_steps[number].columns
        values = self._step_readers[number].read(rows)
        if self._scan.learns_bounds and isinstance(rows, RowRange):
            observed = dict(zip(columns, values, strict=True))
            self._scan.table.shared.observed.bounds.learn(self._reader, rows, observed)
        return dict(zip((column.path for column in columns), values, strict=True))

    def _is_sparse(self, match: _Match) -> bool:
        """Return whether the remaining columns are read for single rows."""
        selection, ratio = match.selection, SCAN_LIMITS.current.sparse_ratio
        is_small = selection.count * ratio < selection.num_rows
        return match.scattered or (is_small and self._scan.options.sparse_reads)

    def _alone(self, match: _Match) -> _Match:
        """Return the selected rows alone, and only the values that are still needed."""
        wanted = self._wanted_from_step[match.num_steps]
        known = {path: match.selection.of(match.known[path]) for path in match.known if path in wanted}
        everything = SelectedRows.everything(match.selection.count)
        return _Match(match.positions(), everything, known, match.num_steps, scattered=True)

    def _finish(self, match: _Match) -> pa.RecordBatch:
        """Read whole windows and drop rows that do not match."""
        reused = [match.selection.of(match.known[self._scan.columns[index].path]) for index in self._reused]
        if self._scan.aggregator is not None and self._scan.aggregator.takes_dictionaries:
            return self._grouped(match, reused, self._scan.aggregator)
        reader = self._whole_reader if match.selection.is_all else self._part_reader
        return self._batch(reused, reader.read(match.rows), match.selection)

    def _grouped(
        self, match: _Match, reused: Sequence[pa.Array], aggregator: PartialAggregator
    ) -> pa.RecordBatch:
        """Return an aggregate whose keys may be stored as dictionaries."""
        others = self._part_reader.read(match.rows)
        values: dict[int, pa.Array] = dict(zip(self._reused, reused, strict=True))
        values.update(
            (index, match.selection.of(each)) for index, each in zip(self._missing, others, strict=True)
        )
        columns = [values[index] for index in range(len(values))]
        groups = aggregator.of_dictionaries(columns)
        if groups is None:
            return self._batch(reused, others, match.selection)
        keys = [self._finished(each, index) for index, each in enumerate(groups[: len(columns)])]
        return pa.RecordBatch.from_arrays([*keys, *groups[len(columns) :]], schema=self._scan.schema)

    def _gather(self, matches: Sequence[_Match]) -> pa.RecordBatch:
        """Read the remaining columns of single rows."""
        rows = np.concatenate([match.rows for match in matches])
        known = []
        for index in self._reused:
            path = self._scan.columns[index].path
            arrays = [self._plain(match.known[path], index) for match in matches]
            known.append(concat_arrays(arrays, arrays[0].type))
        return self._batch(known, self._part_reader.read(rows), SelectedRows.everything(len(rows)))

    def _system_values(self, name: str, rows: Rows) -> pa.Array:
        values = self._source.system_values(name, rows)
        if name not in (ROW_ID, ROW_ADDRESS) or not self._scan.include_deleted_rows:
            return values
        if (live := self._live(rows)) is None:
            return values
        return pa.array(values.to_numpy(), mask=~live)

    def _live(self, rows: Rows) -> _Mask | None:
        """Return which rows are live; None if all are."""
        if not len(self._deleted):
            return None
        if isinstance(rows, RowRange):
            low, high = np.searchsorted(self._deleted, (rows.start, rows.stop))
            if low == high:
                return None
            live = np.ones(len(rows), np.bool_)
            live[self._deleted[low:high] - rows.start] = False
            return live
        return ~np.isin(rows, self._deleted, assume_unique=True)

    def _compared(self, values: pa.Array, path: tuple[str, ...]) -> pa.Array:
        """Return values of a filter column; dictionaries are looked up."""
        return self._scan.table.shared.dictionaries.expand(values, self._compared_types[path])

    def _plain(self, values: pa.Array, index: int, selection: SelectedRows | None = None) -> pa.Array:
        """Return values of an output column; dictionaries are looked up if they are not wanted."""
        return self._scan.table.shared.dictionaries.expand(values, self._types[index], selection)

    def _batch(
        self, known: Sequence[pa.Array], others: Sequence[pa.Array], selection: SelectedRows
    ) -> pa.RecordBatch:
        """Return a batch of the selected rows; ``known`` has values of these only, ``others`` of all rows."""
        scan = self._scan
        if not scan.columns and scan.aggregator is None:
            return count_batch(selection.count)
        arrays: list[pa.Array | None] = [None] * len(scan.columns)
        for index, values in zip(self._reused, known, strict=True):
            arrays[index] = self._finished(values, index)
        for index, values in zip(self._missing, others, strict=True):
            arrays[index] = self._finished(values, index, None if selection.is_all else selection)
        result = arrays if scan.aggregator is None else scan.aggregator.of_rows(arrays, selection.count)
        return pa.RecordBatch.from_arrays(result, schema=scan.schema)

    def _finished(self, values: pa.Array, index: int, selection: SelectedRows | None = None) -> pa.Array:
        wanted = self._types[index]
        if selection is None and values.type == wanted:
            return values
        return conform(self._plain(values, index, selection), wanted, self._reader.name)


def _positions(rows: Rows, selection: SelectedRows) -> npt.NDArray[np.int64]:
    """Return the selected rows."""
    if selection.is_all:
        return as_positions(rows)
    return selection.positions + rows.start if isinstance(rows, RowRange) else rows[selection.positions]


def conform(array: pa.Array, data_type: pa.DataType, name: str) -> pa.Array:
    """Cast an array to the type of the schema, which at most differs in the names of children.

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
        raise CorruptDataError(f"{name}: values have type {array.type}, expected {data_type}") from err
