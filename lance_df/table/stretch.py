"""Run one stretch of a scan: filter columns first, then the others for the rows that match."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.arrays import concat_arrays
from lance_df.encodings.gather import true_positions
from lance_df.encodings.plan import RowRange
from lance_df.encodings.rows import as_positions
from lance_df.encodings.string_views import as_views, pick_views
from lance_df.errors import CorruptDataError
from lance_df.expr.matching import matching_rows
from lance_df.table.batches import count_batch
from lance_df.table.blobs import values_of
from lance_df.table.prefetch import map_ahead
from lance_df.table.scan_columns import StoredColumn, SystemColumn
from lance_df.table.scan_windows import window_rows, windows
from lance_df.table.system_columns import ROW_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lance_df.encodings.plan import Rows
    from lance_df.table.fragment_reader import FragmentReader
    from lance_df.table.scan_columns import Column
    from lance_df.table.scan_task import Scan

# From one match in so many rows on, whole pages are read and filtered instead of single rows.
_DENSE = 4
# Scattered matches are gathered up to this number, so that their pages are read once.
_GATHERED_ROWS = 16 * 1024
_PREFETCHED_WINDOWS = 4
_FIRST_LIMITED_ROWS = 4096

_Mask: TypeAlias = npt.NDArray[np.bool_]


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
            return as_positions(self.rows)
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
        is_local = scan.table.location.is_local
        cuts = windows(
            start,
            stop,
            self._reader.page_starts(fields),
            max_rows=window_rows(self._reader, fields, wanted=scan.rows_at_once(), is_local=is_local),
            first_rows=None if scan.limit is None else max(scan.limit, _FIRST_LIMITED_ROWS),
            selected=selected,
        )
        ahead = 0 if is_local else _PREFETCHED_WINDOWS
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
        values = self._values(missing, match.rows, views=True)
        if match.mask is not None:
            values = filtered(values, match.mask)
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

    def _values(
        self, columns: Sequence[Column], rows: Rows, *, views: bool = False
    ) -> dict[Column, pa.Array]:
        """Return the values of columns at all the rows.

        Parameters
        ----------
        views
            Strings that are to be returned as views may be these already, which nothing can compare.
        """
        stored = [column for column in columns if isinstance(column, StoredColumn)]
        kept = self._scan.table.shared.small_columns
        viewed = [each.field for each in stored if views and each.output.type == pa.string_view()]
        arrays = kept.read(self._reader, [column.field for column in stored], rows, views=viewed)
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


def filtered(values: Mapping[Column, pa.Array], mask: _Mask) -> dict[Column, pa.Array]:
    """Return the values for which the mask is true."""
    kept, positions = pa.array(mask), None
    found = {}
    for column, array in values.items():
        if array.type == pa.string_view():  # pyarrow cannot
            positions = true_positions(mask) if positions is None else positions
            found[column] = pick_views(array, positions)
        else:
            found[column] = array.filter(kept)
    return found


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
