"""Plan the scan of one table version: select fragments and rows, and cut them into tasks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, overload

import numpy as np

from lance_df.encodings.plan import RowRange
from lance_df.errors import InvalidInputError, NotFoundError
from lance_df.expr.nodes import Literal
from lance_df.expr.simplify import simplify
from lance_df.expr.walk import columns, has_unknown
from lance_df.records import replace
from lance_df.scan.plan import ScanPlan
from lance_df.scan.request import PartialAggregate, Promise, ScanRequest
from lance_df.scan.run import num_cores
from lance_df.table.metadata.row_counts import live_rows, physical_rows
from lance_df.table.scan.columns import output_of, resolve_path
from lance_df.table.scan.filter_steps import filter_steps, word_steps
from lance_df.table.scan.limits import SCAN_LIMITS
from lance_df.table.scan.prune import Pruning, plan_pruning
from lance_df.table.scan.report import make_report
from lance_df.table.scan.small_fragments import SmallFragmentsTask
from lance_df.table.scan.task import CountTask, FragmentTask, Scan

if TYPE_CHECKING:
    from typing import Self

    import numpy.typing as npt

    from lance_df.expr.nodes import Predicate
    from lance_df.scan.plan import ScanTask
    from lance_df.table.table import Table

    Positions: TypeAlias = npt.NDArray[np.intp]
    Bounds: TypeAlias = npt.NDArray[np.int64]

_log = logging.getLogger("lance_df")


def plan_scan(table: Table, request: ScanRequest) -> ScanPlan:
    """Plan a scan.

    Reads the index files that may prune, and deletion files if the manifest does not count deleted rows, but
    no data.

    Parameters
    ----------
    table
        The version to scan.
    request
        The request. Besides top-level columns it may name struct fields as ``"a.b"``, and system columns
        (`lance_df.table.reading.system_columns`).

    Raises
    ------
    ColumnNotFoundError
        A column of the projection or of the predicate does not exist.
    NotFoundError
        A fragment does not exist.
    InvalidInputError
        A column is requested twice, the predicate contains `Unknown`, a range of rows is requested for
        several fragments, the partial aggregate is invalid, or the rest of the request excludes what it
        requires.
    UnsupportedFeatureError
        The bytes of 2.2 blobs are requested by the name of a struct or list around them.
    """
    promises = request.promises()
    _check_rows(request)
    predicate = _simplified(request.predicate)
    if predicate is not None and has_unknown(predicate):
        raise InvalidInputError("the filter cannot be evaluated")
    scan = _describe(table, request, predicate)
    positions = _positions(table, request.fragment_ids)
    is_count = predicate is None and not scan.columns
    is_of_live_rows = not request.include_deleted_rows and request.rows is None
    if is_count and is_of_live_rows and request.options.metadata_counts:
        return _plan_count(scan, promises, positions, request.limit)
    if isinstance(predicate, Literal):
        selected = positions[:0]
    else:
        scan = _pruned(scan, request, positions)
        selected = positions[scan.pruning.keeps(table.fragments.ids[positions])]
    if scan.predicate is not None:
        scan = _with_filter(scan, scan.predicate)
    elif _has_extremes(request) and _is_whole(scan) and request.options.observed_statistics:
        from lance_df.table.scan.extremes import extremes_scan

        scan = replace(scan, extremes=extremes_scan(table.shared.observed, scan.columns))
    if request.pruning_predicate is not None and request.options.pattern_words:
        scan = _with_words(scan, request.pruning_predicate)
    tasks = _Tasks.cut(scan, selected, request.num_tables)
    if request.rows is not None:
        tasks = tasks.within(*request.rows)
    if scan.predicate is None and not scan.pruning.conditions and request.limit is not None:
        tasks = tasks.first(request.limit)
    _log.debug(
        "%s version %d: planned a scan of %d of %d fragments in %d tasks: %s",
        table.uri,
        table.version,
        len(selected),
        len(positions),
        len(tasks),
        request,
    )
    return ScanPlan(scan.schema, promises, tasks, lambda: make_report(scan, positions, selected))


def selected_fragments(table: Table, request: ScanRequest) -> Positions:
    """Return the positions of the fragments that a scan reads, for callers that distribute it.

    Takes the arguments of `plan_scan`, and raises the same errors.
    """
    predicate = _simplified(request.predicate)
    scan = _describe(table, request, predicate)
    positions = _positions(table, request.fragment_ids)
    if isinstance(predicate, Literal):
        positions = positions[:0]
    elif predicate is not None:
        positions = positions[_pruned(scan, request, positions).pruning.keeps(table.fragments.ids[positions])]
    return positions


def _is_whole(scan: Scan) -> bool:
    """Return whether a scan without a filter returns every live row."""
    return not (scan.pruning.conditions or scan.include_deleted_rows) and scan.limit is None


def _has_extremes(request: ScanRequest) -> bool:
    return isinstance(request.output, PartialAggregate) and request.output.has_extremes


def _with_filter(scan: Scan, predicate: Predicate) -> Scan:
    table, wanted = scan.table, scan.filter_columns
    return replace(
        scan,
        ruled_out=table.shared.observed.bounds.rule_out(predicate, wanted) if scan.learns_bounds else None,
        filter_steps=filter_steps(
            predicate,
            wanted,
            at_once=not (table.location.is_local and scan.options.filter_steps),
            by_dictionary=scan.options.dictionary_filters,
        ),
    )


def _with_words(scan: Scan, pruning_predicate: Predicate) -> Scan:
    """Add filter steps that drop rows which cannot match a pattern that the engine evaluates."""
    is_partial = scan.limit is not None or scan.include_deleted_rows
    if is_partial or not scan.table.location.is_local or not has_unknown(pruning_predicate):
        return scan
    steps = word_steps(pruning_predicate, scan.table.schema, scan.filter_columns)
    new = (column for step in steps for column in step.columns)
    return replace(
        scan, filter_columns=(*scan.filter_columns, *new), filter_steps=(*scan.filter_steps, *steps)
    )


def _simplified(predicate: Predicate | None) -> Predicate | None:
    """Return None for a predicate that is always true, and FALSE for one that is never true."""
    if predicate is None:
        return None
    simple = simplify(predicate)
    if isinstance(simple, Literal):
        return None if simple.value is True else Literal(False)
    return simple


def _describe(table: Table, request: ScanRequest, predicate: Predicate | None) -> Scan:
    output = output_of(table.schema, request)
    paths = set() if predicate is None else columns(predicate)
    return Scan(
        table=table,
        columns=output.columns,
        schema=output.schema,
        predicate=predicate,
        filter_columns=tuple(
            resolve_path(table.schema, path, blobs_as_bytes=request.blobs_as_bytes) for path in sorted(paths)
        ),
        pruning=Pruning(table.schema),
        limit=request.limit,
        per_fragment=Promise.PER_FRAGMENT in request.requires,
        batch_rows=request.batch_rows,
        window_rows=request.window_rows,
        include_deleted_rows=request.include_deleted_rows,
        learns_bounds=request.options.observed_statistics,
        options=request.options,
        aggregator=output.aggregator,
    )


def _positions(table: Table, fragment_ids: tuple[int, ...] | None) -> Positions:
    """Return the positions of fragments in the table's list, in the requested order."""
    if fragment_ids is None:
        return np.arange(len(table.fragments), dtype=np.intp)
    positions = table.fragments.positions(np.array(fragment_ids, dtype=np.int64))
    if (positions < 0).any():
        missing = fragment_ids[int(np.argmin(positions))]
        raise NotFoundError(f"{table.uri}: version {table.version} has no fragment {missing}")
    return positions


def _pruned(scan: Scan, request: ScanRequest, positions: Positions) -> Scan:
    # Indices do not have deleted rows, so they cannot prune a scan that returns these.
    if not request.options.statistics or request.include_deleted_rows:
        return scan
    ids = np.sort(scan.table.fragments.ids[positions])
    pruning = plan_pruning(
        scan.table,
        scan.predicate,
        request.pruning_predicate,
        ids.tolist(),
        keeps_answers=request.options.cached_plans,
    )
    predicate = None if pruning.is_exact else scan.predicate
    return replace(
        scan,
        pruning=pruning,
        predicate=predicate,
        filter_columns=() if predicate is None else scan.filter_columns,
    )


def _check_rows(request: ScanRequest) -> None:
    if request.rows is not None and (request.fragment_ids is None or len(request.fragment_ids) != 1):
        raise InvalidInputError("a range of rows requires exactly one fragment in fragment_ids")


def _plan_count(scan: Scan, promises: Promise, positions: Positions, limit: int | None) -> ScanPlan:
    num_rows = int(live_rows(scan.table, positions).sum())
    num_rows = num_rows if limit is None else min(num_rows, limit)
    task = CountTask(num_rows, scan.aggregator)
    return ScanPlan(scan.schema, promises, (task,), lambda: make_report(scan, positions, positions))


class _Tasks(Sequence["ScanTask"]):
    """The tasks of a scan, created on access, as a table may have a hundred thousand fragments.

    A task is one range of a fragment, or several ranges that are small fragments. ``firsts`` has the number
    of the first range of each task, followed by the number of all ranges.
    """

    def __init__(
        self, scan: Scan, positions: Positions, starts: Bounds, stops: Bounds, firsts: Bounds
    ) -> None:
        self._scan = scan
        self._positions = positions
        self._starts = starts
        self._stops = stops
        self._firsts = firsts

    @classmethod
    def cut(cls, scan: Scan, positions: Positions, num_tables: int) -> Self:
        """Cut fragments of one of ``num_tables`` tables into ranges of about the same number of rows."""
        rows = physical_rows(scan.table, positions)
        limits = SCAN_LIMITS.current
        least = limits.min_task_rows if scan.table.location.is_local else limits.max_task_rows
        smallest = min(scan.window_rows or least, limits.max_task_rows)
        if len(positions) == 1 and 0 < rows[0] <= smallest:  # for example a member of a namespace
            start = np.zeros(1, np.int64)
            left = _promising(scan, positions, start, rows)
            return cls(scan, positions[left], start[left], rows[left], np.arange(len(left) + 1))
        num_tasks = max(1, limits.tasks_per_core * num_cores() // num_tables)
        size = int(np.clip(-(-int(rows.sum()) // num_tasks), smallest, limits.max_task_rows))
        counts = np.maximum(1, (rows + size // 2) // size) * (rows > 0)
        number = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        positions, rows, counts = (np.repeat(each, counts) for each in (positions, rows, counts))
        stops = np.where(number + 1 == counts, rows, _aligned(rows * (number + 1) // counts))
        starts = _aligned(rows * number // counts)
        if len(positions) <= limits.max_pruned_tasks:
            left = _promising(scan, positions, starts, stops)
            positions, rows, counts, starts, stops = (
                each[left] for each in (positions, rows, counts, starts, stops)
            )
        return cls(scan, positions, starts, stops, _first_ranges(scan, positions, rows, counts == 1))

    def first(self, num_rows: int) -> _Tasks:
        """Return the tasks that yield the first ``num_rows`` rows of a scan that returns every live row."""
        least = self._stops - self._starts
        if not self._scan.include_deleted_rows:
            least[self._scan.table.fragments.has_deletions[self._positions]] = 0
        needed = np.cumsum(least) - least < num_rows
        firsts = np.arange(int(needed.sum()) + 1)
        return _Tasks(self._scan, self._positions[needed], self._starts[needed], self._stops[needed], firsts)

    def within(self, start: int, stop: int) -> _Tasks:
        """Return the tasks that yield the physical rows from ``start`` to ``stop`` of a single fragment."""
        starts, stops = np.maximum(self._starts, start), np.minimum(self._stops, stop)
        left = np.flatnonzero(starts < stops)
        return _Tasks(self._scan, self._positions[left], starts[left], stops[left], np.arange(len(left) + 1))

    def __len__(self) -> int:
        return len(self._firsts) - 1

    @overload
    def __getitem__(self, index: int) -> ScanTask: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ScanTask]: ...
    def __getitem__(self, index: int | slice) -> ScanTask | Sequence[ScanTask]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        first, stop = self._firsts[number : number + 2].tolist()
        if stop - first > 1:
            return SmallFragmentsTask(self._scan, tuple(self._positions[first:stop].tolist()))
        position, begin, end = (int(each[first]) for each in (self._positions, self._starts, self._stops))
        return FragmentTask(self._scan, position, begin, end)


def _promising(scan: Scan, positions: Positions, starts: Bounds, stops: Bounds) -> list[int]:
    """Return the numbers of the ranges that may have matching rows, as far as is known without reading."""
    table = scan.table
    ruled_out = scan.ruled_out if table.location.is_local else None
    ids = table.fragments.ids
    chosen = {
        position: scan.pruning.rows_by_index(int(ids[position])) for position in set(positions.tolist())
    }

    def may_match(position: int, start: int, stop: int) -> bool:
        rows = chosen[position]
        if rows is not None and not len(rows.clip(start, stop)):
            return False
        return ruled_out is None or not ruled_out.covers(
            table.fragment_reader(position), RowRange(start, stop)
        )

    ranges = zip(positions.tolist(), starts.tolist(), stops.tolist(), strict=True)
    return [number for number, range_ in enumerate(ranges) if may_match(*range_)]


def _first_ranges(scan: Scan, positions: Positions, rows: Bounds, are_whole: npt.NDArray[np.bool_]) -> Bounds:
    """Return the first range of each task, followed by the number of ranges; small fragments share a task.

    Parameters
    ----------
    rows
        The row count of each range's fragment.
    are_whole
        Which ranges are whole fragments. Other ranges are never joined.
    """
    fields = scan.fields
    sizes = scan.table.fragments.file_bytes[positions]
    limits = SCAN_LIMITS.current
    small = are_whole & (rows < limits.max_joined_rows // 2) & (sizes > 0)
    small &= sizes <= limits.max_small_file_bytes
    is_apart = scan.per_fragment or not scan.options.joined_fragments or scan.limit is not None or not fields
    if is_apart or any(node.is_blob for each in fields for node in each.walk()):
        small[:] = False
    begins = np.ones(len(positions), np.bool_)
    follows = small[1:] & small[:-1]
    for amount, most in (
        (rows, limits.max_joined_rows),
        (sizes, limits.max_joined_bytes),
        (small, limits.max_joined_fragments),
    ):
        filled = np.cumsum(amount) // most
        follows &= filled[1:] == filled[:-1]
    begins[1:] = ~follows
    return np.append(np.flatnonzero(begins), len(positions))


def _aligned(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return rows - rows % SCAN_LIMITS.current.task_alignment
