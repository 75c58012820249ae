"""Observed bounds of filter columns: zones of rows without possible matches are not read again."""

from __future__ import annotations

from dataclasses import field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.cache import Footprint
from lance_df.encodings.plan import RowRange
from lance_df.expr.bounds import Match, ZoneBounds, classify
from lance_df.expr.nodes import And
from lance_df.expr.walk import by_column, columns
from lance_df.forks import new_lock
from lance_df.records import dataclass
from lance_df.table.reading.selection import RowRanges
from lance_df.table.scan.columns import StoredColumn
from lance_df.table.scan.limits import SCAN_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lance_df.cache import Entries
    from lance_df.expr.nodes import Predicate
    from lance_df.table.reading.fragment_reader import FragmentReader
    from lance_df.table.scan.columns import Column

    _ColumnKey: TypeAlias = tuple[str, int, pa.DataType]
    _FileKey: TypeAlias = tuple[str, int]
    _Edges: TypeAlias = npt.NDArray[np.int64]

# limits of a column: comparing each zone takes time
_MAX_ZONES: Final = 1 << 16
_ZONE_BYTES: Final = 768


class ObservedBounds:
    """Smallest and largest values of columns over zones of rows. Threads may share it.

    Parameters
    ----------
    entries
        Entries of the cache of the table.

    Attributes
    ----------
    num_observed
        Increases with each new observation.
    """

    def __init__(self, entries: Entries[Any]) -> None:
        self.num_observed = 0
        self._entries: Entries[_Zones] = entries
        self._lock = new_lock()

    def learn(self, reader: FragmentReader, rows: RowRange, values: Mapping[Column, pa.Array]) -> None:
        """Record the bounds of columns; ``values`` has their values in all of the rows."""
        for column, array in values.items():
            if not _is_bounded(column) or (file := file_of(reader, column)) is None:
                continue
            key = _key_of(column)
            zones = self._entries.get(key, _Zones, attrgetter("footprint"))
            for start, stop in _cuts(rows):
                if not zones.has(file, start, stop):
                    self._add(zones, file, start, stop, array.slice(start - rows.start, stop - start))
            if zones.is_full():
                self._entries.drop(key)

    def _add(self, zones: _Zones, file: _FileKey, start: int, stop: int, values: pa.Array) -> None:
        # a dictionary belongs to a whole page, whose bounds also hold for a part of it
        is_dictionary = isinstance(values, pa.DictionaryArray)
        bounds = pc.min_max(values.dictionary if is_dictionary else values)
        with self._lock:
            is_new = zones.add(file, start, stop, bounds["min"], bounds["max"], values.null_count)
            self.num_observed += is_new
        if is_new:
            zones.footprint.add(_ZONE_BYTES)

    def rule_out(self, predicate: Predicate, wanted: Sequence[Column]) -> RuledOut | None:
        """Return the rows that cannot match, as far as is known; None if there are none."""
        zones_by_column = {
            column: zones
            for column in wanted
            if _is_bounded(column) and (zones := self._entries.find(_key_of(column))) is not None
        }
        with self._lock:
            known = {
                column: zones.table(column.output.type)
                for column, zones in zones_by_column.items()
                if not zones.is_empty()
            }
        ruled_out = {}
        for part in by_column(And, predicate.operands) if isinstance(predicate, And) else (predicate,):
            paths = columns(part)
            column = next((each for each in known if {each.path} == paths), None)
            if column is not None and (ranges := known[column].without_match(part, column)):
                ruled_out[column] = ranges
        return RuledOut(ruled_out) if ruled_out else None


@dataclass(frozen=True, slots=True)
class RuledOut:
    """Rows in the files of each column where a predicate is never TRUE."""

    _ranges: Mapping[StoredColumn, Mapping[_FileKey, RowRanges]]

    def covers(self, reader: FragmentReader, rows: RowRange) -> bool:
        """Return whether certainly none of the rows can match."""
        for ranges in self._ranges_of(reader):
            starts, stops = ranges.bounds.T
            number = int(np.searchsorted(starts, rows.start, side="right")) - 1
            if number >= 0 and rows.stop <= int(stops[number]):
                return True
        return False

    def remaining(self, reader: FragmentReader, rows: RowRange, least: int = 1) -> Sequence[RowRange]:
        """Return the parts of a range of rows in which rows may match, ascending.

        Parameters
        ----------
        least
            Ruled-out ranges of fewer rows are not left out.
        """
        parts: Sequence[RowRange] = (rows,)
        for ranges in self._ranges_of(reader):
            parts = [gap for part in parts for gap in _gaps(part, ranges.clip(part.start, part.stop), least)]
        return parts

    def _ranges_of(self, reader: FragmentReader) -> list[RowRanges]:
        """Return the rows of a fragment that each column rules out."""
        files = ((by_file, file_of(reader, column)) for column, by_file in self._ranges.items())
        return [by_file[file] for by_file, file in files if file is not None and file in by_file]


@dataclass(slots=True)
class _Zones:
    """The observed zones of one column."""

    _seen: dict[tuple[_FileKey, int, int], None] = field(default_factory=dict)
    _mins: list[pa.Scalar] = field(default_factory=list)
    _maxs: list[pa.Scalar] = field(default_factory=list)
    _null_counts: list[int] = field(default_factory=list)
    _table: _ZoneTable | None = None
    footprint: Footprint = field(default_factory=lambda: Footprint(_ZONE_BYTES))

    def is_empty(self) -> bool:
        """Return whether there are no zones."""
        return not self._seen

    def is_full(self) -> bool:
        """Return whether there are so many zones that they should be dropped."""
        return len(self._seen) >= _MAX_ZONES

    def has(self, file: _FileKey, start: int, stop: int) -> bool:
        """Return whether a zone is known."""
        return (file, start, stop) in self._seen

    def add(
        self,
        file: _FileKey,
        start: int,
        stop: int,
        smallest: pa.Scalar,
        largest: pa.Scalar,
        null_count: int,
    ) -> bool:
        """Add a zone; return whether it was unknown."""
        if (key := (file, start, stop)) in self._seen:
            return False
        self._seen[key] = None
        self._mins.append(smallest)
        self._maxs.append(largest)
        self._null_counts.append(null_count)
        self._table = None
        return True

    def table(self, data_type: pa.DataType) -> _ZoneTable:
        """Return all zones as arrays."""
        if self._table is None:
            files, starts, stops = zip(*self._seen, strict=True)
            edges = np.array([starts, stops], np.int64)
            bounds = ZoneBounds(
                min=pa.array(self._mins, data_type),
                max=pa.array(self._maxs, data_type),
                null_count=np.array(self._null_counts, np.int64),
                num_rows=edges[1] - edges[0],
            )
            self._table = _ZoneTable(files, edges[0], edges[1], bounds)
        return self._table


@dataclass(frozen=True, slots=True)
class _ZoneTable:
    files: tuple[_FileKey, ...]
    starts: _Edges
    stops: _Edges
    bounds: ZoneBounds

    def without_match(self, predicate: Predicate, column: StoredColumn) -> dict[_FileKey, RowRanges]:
        """Return the rows of each file that certainly do not match."""
        outcome = classify(predicate, {column.path: self.bounds}, len(self.files))
        by_file: dict[_FileKey, list[int]] = {}
        for number in np.flatnonzero(outcome == Match.CANNOT).tolist():
            by_file.setdefault(self.files[number], []).append(number)
        return {
            file: RowRanges.from_ranges(self.starts[each], self.stops[each]) for file, each in by_file.items()
        }


def _cuts(rows: RowRange) -> Iterator[tuple[int, int]]:
    """Yield the parts of rows that lie in one zone each; zones are the same for all windows."""
    num_rows = SCAN_LIMITS.current.observed_zone_rows
    edges = range(rows.start // num_rows * num_rows, rows.stop, num_rows)
    return ((max(edge, rows.start), min(edge + num_rows, rows.stop)) for edge in edges)


def _gaps(rows: RowRange, ranges: RowRanges, least: int) -> Iterator[RowRange]:
    """Yield the parts of rows between ranges of at least so many of them."""
    start = rows.start
    for low, high in ranges.bounds.tolist():
        if high - low < least:
            continue
        if low > start:
            yield RowRange(start, low)
        start = high
    if start < rows.stop:
        yield RowRange(start, rows.stop)


def _is_bounded(column: Column) -> TypeGuard[StoredColumn]:
    """Whether values are small, and are ordered without exceptions such as NaN."""
    if not isinstance(column, StoredColumn) or len(column.path) > 1:
        return False
    types, data_type = pa.types, column.output.type
    return bool(
        types.is_integer(data_type)
        or types.is_decimal128(data_type)
        or types.is_date(data_type)
        or types.is_timestamp(data_type)
    )


def _key_of(column: StoredColumn) -> _ColumnKey:
    return "bounds", column.field.id, column.output.type


def file_of(reader: FragmentReader, column: StoredColumn) -> tuple[str, int] | None:
    """Return a key of the file that holds the column; None if it is spread over several."""
    parts = reader.parts(column.field)
    if len(parts) != 1:
        return None
    file = reader.open(parts[0][0])
    return file.path, file.num_rows
