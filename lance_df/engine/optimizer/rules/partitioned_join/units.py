"""Divide a part of a plan into units: groups of partitions that are computed together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.engine.optimizer.rules.partitioned_join.analysis import JoinedScan, Part, needed_groups
from lance_df.engine.optimizer.rules.partitioned_join.gain import (
    expected_groups,
    grouped_sooner_as_a_whole,
    sooner_as_a_whole,
)
from lance_df.engine.optimizer.rules.partitioned_join.shares import Share, ShareFilter
from lance_df.engine.provider import LanceTableProvider
from lance_df.namespace.member_subset import MemberSubset
from lance_df.records import dataclass
from lance_df.scan.run import num_cores

if TYPE_CHECKING:
    from lance_df.engine.optimizer.join_options import JoinOptions

    Numbers = npt.NDArray[np.int64]

_MIN_UNIT_ROWS: Final = 64 * 1024
# More units than cores take longer to plan, and their keys are looked up in sparser arrays.
_MIN_UNITS: Final = 2
# If a unit exceeds a core's share of all rows by this much, one more core reads it.
_MORE: Final = 0.15
_MAX_UNITS: Final = 64
# Lookups in tables with more groups take longer, because the tables do not fit into the caches of a
# processor.
_UNIT_GROUPS: Final = 256 * 1024
_MAX_SUCCESSIVE_UNITS: Final = 1024
# of memory that a join uses: lookups in tables that fit into a processor's cache take half the time
_SUCCESSIVE_UNIT_BYTES: Final = 8 * 1024 * 1024
# Reading smaller shares of a group would cost more than it saves.
_MIN_SHARE_BYTES: Final = 64 * 1024 * 1024
_MAX_SHARES: Final = 64
# For each row of a hash table; and the assumed size of values of variable length.
_ROW_OVERHEAD_BYTES: Final = 32
_VARIABLE_BYTES: Final = 32
# Each window costs calls, so narrow rows are read in larger windows than usual. Each unit holds one window in
# memory.
_WINDOW_ROWS: Final = 256 * 1024
_WINDOW_BYTES: Final = 8 * 1024 * 1024
# What several threads read is cut into this many windows per thread, which keeps all of them busy.
_WINDOWS_EACH: Final = 3
_MIN_WINDOW_ROWS: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Unit:
    """Some groups of partitions. ``members`` marks the members of each namespace, by the number of the side.

    ``share`` restricts the unit to a part of the rows; None for all rows.
    """

    members: tuple[npt.NDArray[np.bool_], ...]
    num_rows: int
    share: Share | None = None

    def providers(
        self, part: Part, num_rows: int, num_partitions: int, *, num_threads: int = 1
    ) -> Iterator[tuple[int, LanceTableProvider]]:
        """Yield the provider of each namespace of a part, with the key of its table.

        If there are few units, several cores read a large unit.

        Parameters
        ----------
        num_rows
            The number of rows of all units that are computed at the same time.
        num_partitions
            The number of partitions with which these rows are scanned.
        num_threads
            The minimum number of threads that compute a unit.
        """
        share = math.ceil(self.num_rows * num_partitions / max(1, num_rows) - _MORE)
        num_partitions = min(num_partitions, max(1, share))
        num_threads = max(num_threads, num_partitions)
        for side, scan in first_scans(part).items():
            subset = MemberSubset(scan.snapshot, self.members[side])
            is_local = scan.snapshot.root.is_local
            most_rows = _WINDOW_ROWS
            if num_threads > 1 and is_local:  # in a store, each window would request the file's end
                most_rows = self.num_rows // (_WINDOWS_EACH * num_threads)
            source_scan = dataclasses.replace(
                scan.table.scan.requesting(window_rows=_window_rows(scan, most_rows)),
                source=subset,
                num_partitions=num_partitions,
                in_turn=is_local,
            )
            row_filter = None if self.share is None else ShareFilter(_shared_key(part, side), self.share)
            provider = LanceTableProvider(
                source_scan, row_filter=row_filter, stored_schema=scan.table.stored_schema
            )
            yield scan.table.key, provider

    def release_pages(self, part: Part) -> None:
        """Release the memory of the pages that were read from local files."""
        for side, scan in first_scans(part).items():
            MemberSubset(scan.snapshot, self.members[side]).release_pages()


@dataclass(frozen=True, slots=True)
class Units:
    """The units of a part.

    Attributes
    ----------
    at_once
        The number of units that may be computed at the same time; None for all.
    memory_rows
        The number of rows that joins and groups keep in memory at the same time.
    """

    units: tuple[Unit, ...]
    num_groups: int
    num_rows: int
    at_once: int | None = None
    memory_rows: int = 0


def first_scans(part: Part) -> dict[int, JoinedScan]:
    """Return one scan of each namespace of a part, by the number of the side."""
    scans: dict[int, JoinedScan] = {}
    for scan, side in zip(part.scans, part.sides, strict=True):
        scans.setdefault(side, scan)
    return scans


def units_of(part: Part, options: JoinOptions) -> Units | str:
    """Return the units into which a part is divided, or the reason why dividing it does not pay."""
    grouping = part.grouping
    if grouping is None:
        return "there are no groups"
    groups = np.array(list(needed_groups(part)), np.int64)
    if grouping.num_groups < 2:
        return f"all rows are in one group by {', '.join(grouping.functions)}"
    limit = options.join_memory_limit
    may_stay_whole = options.partitioned_joins == "auto" and not part.joins
    if may_stay_whole and limit is None and (why := grouped_sooner_as_a_whole(part)):
        return why
    rows, memory_rows_of_groups, memory_bytes = (each[groups] for each in _sizes(part, grouping.num_groups))
    num_rows = int(rows.sum())
    if may_stay_whole and limit is not None and memory_bytes.sum() <= limit:
        limit = None
        if why := grouped_sooner_as_a_whole(part):
            return why
    if limit is None:
        wanted = _wanted(part, num_rows, len(groups), options)
        if isinstance(wanted, str):
            return wanted
        numbers, at_once, memory_rows = _evenly(rows, wanted), None, int(memory_rows_of_groups.sum())
    else:
        numbers, at_once = _bounded(memory_bytes, limit)
        memory_rows = at_once * int(np.bincount(numbers, weights=memory_rows_of_groups).max(initial=0))
    units: list[Unit] = []
    for number in range(int(numbers.max(initial=0)) + 1):
        in_unit = numbers == number
        unit_groups = np.zeros(grouping.num_groups, bool)
        unit_groups[groups[in_unit]] = True
        members = tuple((codes >= 0) & unit_groups[codes] for codes in grouping.codes)
        shares = _shares(int(memory_bytes[in_unit].sum()), limit)
        size = -(-int(rows[in_unit].sum()) // len(shares))
        units += [Unit(members, size, share) for share in shares]
    return Units(tuple(units), len(groups), num_rows, at_once, memory_rows)


def _shares(num_bytes: int, limit: int | None) -> list[Share | None]:
    """Return the shares of a unit. Each of them reads the whole unit."""
    bound = None if limit is None else max(limit, _MIN_SHARE_BYTES)
    count = 1 if bound is None else min(_MAX_SHARES, -(-num_bytes // bound))
    return [None] if count < 2 else [Share(number, count) for number in range(count)]


def _shared_key(part: Part, side: int) -> str:
    """Return the column of a namespace whose hash determines the share."""
    index = part.sides.index(side)
    columns = part.scans[index].snapshot.manifest.schema.columns
    return columns.by_id()[part.keys[0].columns[index]].name


def _wanted(part: Part, num_rows: int, num_groups: int, options: JoinOptions) -> int | str:
    most = min(_MAX_UNITS, max(_MIN_UNITS, num_cores(), expected_groups(part) // _UNIT_GROUPS))
    if options.partitioned_joins == "always":
        return max(1, min(num_groups, most))
    return sooner_as_a_whole(part, num_rows) or max(1, min(num_groups, most, num_rows // _MIN_UNIT_ROWS))


def _sizes(part: Part, num_groups: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return for each group the number of rows, of rows in memory (all but a join's last scan), and bytes."""
    grouping = part.grouping
    rows, memory_rows, memory_bytes = (np.zeros(num_groups, np.int64) for _ in range(3))
    for number, (scan, side) in enumerate(zip(part.scans, part.sides, strict=True)):
        if grouping is None:
            break
        counts = MemberSubset(scan.snapshot, scan.needed).member_rows()
        scan_rows = np.bincount(
            grouping.codes[side][scan.needed], weights=counts[scan.needed], minlength=num_groups
        ).astype(np.int64)
        rows += scan_rows
        if number < len(part.scans) - 1 or not part.joins:
            memory_rows += scan_rows
            memory_bytes += scan_rows * (_row_bytes(scan) + _ROW_OVERHEAD_BYTES)
    return rows, memory_rows, memory_bytes


def _window_rows(scan: JoinedScan, most_rows: int) -> int | None:
    """Return how many rows to read at once; None for the default of scans."""
    if _WINDOW_ROWS * _row_bytes(scan) > _WINDOW_BYTES or most_rows < _MIN_WINDOW_ROWS:
        return None
    return min(_WINDOW_ROWS, most_rows)


def _row_bytes(scan: JoinedScan) -> int:
    schema = scan.snapshot.arrow_schema
    return sum(_value_bytes(schema.field(name).type) for name in scan.columns) or 1


def _value_bytes(data_type: pa.DataType) -> int:
    try:
        return max(1, data_type.bit_width // 8)
    except ValueError:
        return _VARIABLE_BYTES


def _evenly(rows: Numbers, count: int) -> Numbers:
    """Return a unit number for each group, so that the units have about the same number of rows."""
    total = max(1, int(rows.sum()))
    middle = np.cumsum(rows) - rows / 2
    numbers = np.minimum(count - 1, (middle * count / total).astype(np.int64))
    return np.unique(numbers, return_inverse=True)[1]


def _bounded(sizes: Numbers, limit: int) -> tuple[Numbers, int]:
    """Return a unit number for each group, and how many units fit into memory within the limit."""
    largest = int(sizes.max(initial=1))
    at_once = max(1, min(num_cores(), limit // max(1, largest)))
    bound = max(min(limit // at_once, _SUCCESSIVE_UNIT_BYTES), -(-int(sizes.sum()) // _MAX_SUCCESSIVE_UNITS))
    ends = np.cumsum(sizes)
    numbers = np.zeros(len(sizes), np.int64)
    start = number = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + bound, side="right")))
        numbers[start:stop] = number
        start, number = stop, number + 1
    return numbers, at_once
