"""Cut a scan into splits of similar stored bytes, which join small members and cut large fragments.

A split states only which data to scan. The task that reads it plans again, with the same filter at the same
version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from lance_df.records import dataclass
from lance_df.scan.request import Promise, ScanRequest
from lance_df.table.metadata.refs import ResolvedRef
from lance_df.table.scan.plan import selected_fragments

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt
    import pyarrow as pa

    from lance_df.expr.nodes import Predicate
    from lance_df.namespace.kind import Source
    from lance_df.namespace.snapshot import NamespaceSnapshot
    from lance_df.spark.additions import Fragments
    from lance_df.spark.opened import SourceRef
    from lance_df.table.scan.table_scan import TableScan

# A Python task costs Spark about 50 ms, even for little work.
MIN_SPLIT_BYTES: Final = 1024 * 1024
# The cost of opening a member or a fragment, in bytes of a read.
_OPENING_BYTES: Final = 32 * 1024
# The number of splits for each worker, so that all end at about the same time, if each has so much to read.
_WAVES: Final = 2
_WAVE_BYTES: Final = 8 * 1024 * 1024
# The least number of rows in a part of a fragment, and the number of which its first row is a multiple.
_MIN_PART_ROWS: Final = 64 * 1024
_PART_ALIGNMENT: Final = 1024


@dataclass(frozen=True, slots=True)
class Filter:
    """The condition on the rows to read: a predicate, or SQL text that cannot become a predicate."""

    predicate: Predicate | None = None
    sql: str | None = None

    @classmethod
    def parse(cls, text: str | None, schema: pa.Schema) -> Filter:
        """Parse an SQL expression over the columns of a schema; None means all rows."""
        if text is None:
            return cls()
        from lance_df.sql.plain_predicates import plain_predicate

        predicate = plain_predicate(text, schema)
        return cls(predicate, text if predicate is None else None)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of one version of a table or a namespace.

    Attributes
    ----------
    num_bytes
        The approximate number of bytes to read.
    positions, refs
        The members of a namespace; see `ChosenMembers`.
    fragment_ids
        Some fragments of a table, or of a single member.
    rows
        ``(start, stop)`` for a range of rows of a single fragment; None for all rows.
    """

    source: SourceRef
    filter: Filter
    num_bytes: int
    positions: npt.NDArray[np.intp] | None = None
    refs: Mapping[int, ResolvedRef] = field(default_factory=dict)
    fragment_ids: tuple[int, ...] | None = None
    rows: tuple[int, int] | None = None

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        source: Source = self.source.open() if self.positions is None else self._members(self.positions)
        if self.filter.sql is not None:
            from lance_df.engine.query import scan_with_sql

            yield from scan_with_sql(
                source, columns=columns, filter=self.filter.sql, fragment_ids=self.fragment_ids
            )
            return
        request = ScanRequest(
            columns=tuple(columns),
            predicate=self.filter.predicate,
            requires=Promise.COMPLETE,
            fragment_ids=self.fragment_ids,
            rows=self.rows,
        )
        for task in source.plan(request).tasks:
            yield from task.read()

    def _members(self, positions: npt.NDArray[np.intp]) -> NamespaceSnapshot:
        from lance_df.namespace.member_subset import ChosenMembers

        return ChosenMembers(self.source.open_namespace(), positions, self.refs)


def plan_splits(
    source: Source, ref: SourceRef, text: str | None, *, split_bytes: int, parallelism: int
) -> list[tuple[Piece, ...]]:
    """Return the pieces for each task, of the data that may have matching rows.

    Parameters
    ----------
    ref
        The reference by which tasks open ``source``.
    text
        An SQL expression that is true for the rows to read.
    split_bytes
        The most bytes that a task should read; tasks read less if there are few bytes for many workers.

    Raises
    ------
    InvalidInputError, ColumnNotFoundError
        The expression is invalid.
    """
    wanted = Filter.parse(text, source.arrow_schema)
    items = list(_items(list(source.table_scans(_request(source, wanted))), split_bytes))
    return _packed(items, ref, wanted, _target(items, split_bytes, parallelism))


def plan_added(
    source: Source,
    ref: SourceRef,
    text: str | None,
    fragments: Fragments,
    *,
    split_bytes: int,
    parallelism: int,
) -> list[tuple[Piece, ...]]:
    """Return the pieces for each task as `plan_splits` does, but only of some fragments."""
    wanted = Filter.parse(text, source.arrow_schema)
    scans = source.table_scans(_request(source, wanted), fragments)
    items = [item for scan in scans for item in _items_of_fragments(scan, fragments[scan.name])]
    return _packed(items, ref, wanted, _target(items, split_bytes, parallelism))


def repacked(
    splits: Sequence[tuple[Piece, ...]], split_bytes: int, parallelism: int
) -> list[tuple[Piece, ...]]:
    """Return the same pieces, in the same order, in as few splits as their sizes need."""
    pieces = [piece for split in splits for piece in split]
    target = _target(pieces, split_bytes, parallelism)
    splits_of_size: list[tuple[Piece, ...]] = []
    size = target
    for piece in pieces:
        if size + piece.num_bytes > target:
            splits_of_size.append(())
            size = 0
        splits_of_size[-1] += (piece,)
        size += piece.num_bytes
    return splits_of_size


@dataclass(slots=True)
class _Item:
    """A member, a fragment or some of its rows, which one task reads or which is cut into parts.

    Attributes
    ----------
    num_rows
        The number of rows of a fragment that may be cut; 0 if the item may not be cut.
    """

    num_bytes: int
    num_rows: int = 0
    member: int | None = None
    ref: ResolvedRef | None = None
    fragment_id: int | None = None
    rows: tuple[int, int] | None = None

    def goes_with(self, other: _Item) -> bool:
        """Whether one piece may have both items."""
        if self.rows is not None or other.rows is not None:
            return False
        if self.fragment_id is None or other.fragment_id is None:
            return self.fragment_id is other.fragment_id
        return self.member == other.member

    def cut(self, offsets: Iterable[float]) -> Iterator[_Item]:
        """Yield the parts between ascending byte offsets; each part has the least number of rows or more."""
        starts = [0]
        for offset in offsets:
            row = round(self.num_rows * offset / self.num_bytes / _PART_ALIGNMENT) * _PART_ALIGNMENT
            if min(row - starts[-1], self.num_rows - row) >= _MIN_PART_ROWS:
                starts.append(row)
        if len(starts) == 1:
            yield self
            return
        for start, stop in pairwise((*starts, self.num_rows)):
            num_bytes = self.num_bytes * (stop - start) // self.num_rows
            yield _Item(num_bytes, stop - start, self.member, self.ref, self.fragment_id, (start, stop))


def _request(source: Source, wanted: Filter) -> ScanRequest:
    """Return the request that selects the data that may have matching rows."""
    pruning_predicate, namespace = None, source.namespace
    if wanted.sql is not None and namespace is not None:
        from lance_df.engine.pruning.pushed_condition import pushed_condition

        pruning_predicate = pushed_condition(namespace, wanted.sql)
    return ScanRequest(columns=(), predicate=wanted.predicate, pruning_predicate=pruning_predicate)


def _items(scans: Sequence[TableScan], split_bytes: int) -> Iterator[_Item]:
    """Yield items for the fragments of a table or of large members, and one item for a small member."""
    for scan in scans:
        ref = None if scan.is_pinned else ResolvedRef(scan.table.branch, scan.table.version)
        fragments = scan.table.fragments
        size = int(np.maximum(fragments.file_bytes, fragments.physical_rows).sum())
        is_large = size > split_bytes or (size > MIN_SPLIT_BYTES and len(scans) < _WAVES)
        if scan.position is None or is_large:
            yield from _items_of_fragments(scan, None, ref)
        else:
            yield _Item(size + _OPENING_BYTES, 0, scan.position, ref)


def _items_of_fragments(
    scan: TableScan, fragment_ids: tuple[int, ...] | None, ref: ResolvedRef | None = None
) -> Iterator[_Item]:
    request = ScanRequest(columns=(), predicate=scan.predicate, fragment_ids=fragment_ids)
    selected, fragments = selected_fragments(scan.table, request), scan.table.fragments
    rows, sizes = fragments.physical_rows[selected], fragments.file_bytes[selected]
    for fragment_id, num_rows, size in zip(
        fragments.ids[selected].tolist(), rows.tolist(), np.maximum(sizes, rows).tolist(), strict=True
    ):
        yield _Item(size + _OPENING_BYTES, num_rows, scan.position, ref, fragment_id)


def _target(items: Sequence[_Item] | Sequence[Piece], split_bytes: int, parallelism: int) -> int:
    total = sum(item.num_bytes for item in items)
    least = min(MIN_SPLIT_BYTES, split_bytes)
    waves = _WAVES if total > _WAVE_BYTES * parallelism else 1
    target = max(least, min(split_bytes, -(-total // (waves * parallelism))))
    # so that all workers also read one of the last splits
    waves = -(-total // (target * parallelism))
    return max(least, -(-total // (waves * parallelism))) if waves > 1 else target


def _packed(items: Sequence[_Item], ref: SourceRef, wanted: Filter, target: int) -> list[tuple[Piece, ...]]:
    """Distribute items, in order, to splits of about the same size."""
    total = sum(item.num_bytes for item in items)
    count = max(1, round(total / target))
    share = total / count
    splits: list[list[_Item]] = [[] for _ in range(count)]
    passed = 0
    for item in items:
        ends = np.arange(share - passed % share, item.num_bytes, share) if wanted.sql is None else ()
        reached = passed
        for part in item.cut(ends):
            # a part goes to the split that has its middle
            splits[min(int((reached + part.num_bytes / 2) / share), count - 1)].append(part)
            reached += part.num_bytes
        passed += item.num_bytes
    return [tuple(_pieces(split, ref, wanted)) for split in splits if split]


def _pieces(items: Sequence[_Item], ref: SourceRef, wanted: Filter) -> Iterator[Piece]:
    run: list[_Item] = []
    for item in items:
        if run and not run[-1].goes_with(item):
            yield _piece(run, ref, wanted)
            run = []
        run.append(item)
    if run:
        yield _piece(run, ref, wanted)


def _piece(run: Sequence[_Item], ref: SourceRef, wanted: Filter) -> Piece:
    first = run[0]
    ids = None if first.fragment_id is None else tuple(item.fragment_id or 0 for item in run)
    positions = (
        None if first.member is None else np.unique([item.member for item in run if item.member is not None])
    )
    refs = {item.member: item.ref for item in run if item.member is not None and item.ref is not None}
    return Piece(ref, wanted, sum(item.num_bytes for item in run), positions, refs, ids, first.rows)
