"""Zone maps: bounds of the column over runs of rows of one fragment.

``zonemap.lance`` has one row for each zone: ``min``, ``max``, ``null_count``, ``nan_count``, ``fragment_id``,
``zone_start`` and ``zone_length``, in physical offsets. Rows between zones were already deleted when the map
was built, and so may be rows within a zone: its length is an upper bound of the rows that were counted. Null
bounds are unknown: pylance 14 records none for dictionaries and fixed-size binary, whatever the values are.
Spec: table format, 14.1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.errors import CorruptDataError
from lance_df.expr.bounds import Match, ZoneBounds, classify
from lance_df.expr.nodes import Column, IsNull, Not, Predicate
from lance_df.expr.walk import columns
from lance_df.records import dataclass
from lance_df.table.indices.answer import FRAGMENT_BITS, Answer, FragmentIds
from lance_df.table.indices.index_file import IndexFile
from lance_df.table.reading.selection import RowRanges

_NO_ROW = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Zones:
    """Runs of rows: the ``fragment_ids`` of each, its first address, and the one after its last."""

    fragment_ids: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]

    @classmethod
    def read(cls, file: IndexFile) -> Zones:
        """Read the three columns that zone maps and Bloom filters share."""
        fragment_ids, offsets, lengths = file.read_counts(["fragment_id", "zone_start", "zone_length"])
        if (offsets + lengths > 1 << FRAGMENT_BITS).any() or (fragment_ids >= 1 << 31).any():
            raise CorruptDataError(f"{file.name}: a zone lies outside the possible rows of a fragment")
        starts = (fragment_ids << FRAGMENT_BITS) + offsets
        return cls(fragment_ids, starts, starts + lengths)

    def within(self, fragment_ids: FragmentIds) -> npt.NDArray[np.bool_]:
        """Return which zones belong to the given fragments."""
        return np.isin(self.fragment_ids, fragment_ids)

    def repeated_fragments(self) -> FragmentIds:
        """Return the fragments that have overlapping zones.

        When pylance 14 merges segments, it keeps zones of former values that it no longer covers.
        """
        order = np.argsort(self.starts, kind="stable")
        starts, stops = self.starts[order], np.maximum.accumulate(self.stops[order])
        return np.unique(self.fragment_ids[order][1:][starts[1:] < stops[:-1]])

    def ranges(self, zones: npt.NDArray[np.bool_]) -> RowRanges:
        """Return the rows of the given zones."""
        return RowRanges.from_ranges(self.starts[zones], self.stops[zones])


class ZoneMap:
    """An open zone map; it is read whole, as it has few rows."""

    __slots__ = ("_bounds", "_file", "_zones")

    def __init__(self, file: IndexFile) -> None:
        self._file = file
        self._zones = Zones.read(file)
        minimum, maximum = file.read(["min", "max"])
        if minimum.type != maximum.type:
            raise CorruptDataError(
                f"{file.name}: min has type {minimum.type}, but max has type {maximum.type}"
            )
        null_count, nan_count = file.read_counts(["null_count", "nan_count"])
        self._bounds = ZoneBounds(
            min=minimum,
            max=maximum,
            null_count=null_count,
            nan_count=nan_count,
            num_rows=self._zones.stops - self._zones.starts,
        )

    @property
    def key_type(self) -> pa.DataType | None:
        return self._bounds.min.type

    def bounds_of(self, fragment_ids: FragmentIds) -> ZoneBounds:
        """Return the bounds of the zones of the given fragments."""
        selected = self._zones.within(fragment_ids)
        everything, mask = self._bounds, pa.array(selected)
        return ZoneBounds(
            min=everything.min.filter(mask),
            max=everything.max.filter(mask),
            null_count=None if everything.null_count is None else everything.null_count[selected],
            nan_count=None if everything.nan_count is None else everything.nan_count[selected],
            num_rows=everything.num_rows[selected],
        )

    def without_zones(self, fragment_ids: FragmentIds) -> FragmentIds:
        """Return those of the given fragments that have no zones, whose rows a search would not find."""
        return np.setdiff1d(fragment_ids, self._zones.fragment_ids)

    def search(self, predicate: Predicate, fragment_ids: FragmentIds) -> Answer | None:
        wanted = self._zones.within(fragment_ids)
        if (nulls := exact_nulls(predicate, self._file, self._zones)) is not None:
            return nulls
        (path,) = columns(predicate)
        matches = classify(predicate, {path: self._bounds}, len(wanted))
        selected = wanted & (matches != Match.CANNOT)
        return Answer(self._zones.ranges(selected), is_exact=bool((matches[selected] == Match.MUST).all()))


def exact_nulls(predicate: Predicate, file: IndexFile, zones: Zones) -> Answer | None:
    """Answer IS NULL and IS NOT NULL from the set of NULL rows, if the file holds it."""
    match predicate:
        case IsNull(Column()) if (rows := file.null_rows) is not None:
            return Answer(rows, is_exact=True)
        case Not(IsNull(Column())) if (rows := file.null_rows) is not None:
            indexed = RowRanges.from_ranges(zones.starts, zones.stops)
            return Answer(indexed.intersect(rows.invert(_NO_ROW)), is_exact=True)
        case _:
            return None
