"""Select the fragments that a compaction joins: neighbours that are too small or have many deleted rows.

The rules are pylance's, so that tables have the same form whoever compacts them, with one addition: a file
that ended at its byte limit does not count as too small, or a second compaction would repeat the work of the
first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from lance_df.records import dataclass
from lance_df.table.maintenance.scalar_index import can_build
from lance_df.table.metadata.row_counts import live_rows, physical_rows

if TYPE_CHECKING:
    from uuid import UUID

    import numpy.typing as npt

    from lance_df.table.maintenance.compaction_options import CompactionOptions
    from lance_df.table.table import Table


@dataclass(frozen=True, slots=True)
class _Facts:
    """Properties of the fragments, in table order.

    Attributes
    ----------
    live
        Rows that are not deleted.
    is_candidate
        Whether a fragment may be rewritten; ``is_needy`` says whether it should be, even without neighbours.
    coverage
        A number for each set of indices that covers a fragment.
    """

    live: npt.NDArray[np.int64]
    is_candidate: npt.NDArray[np.bool_]
    is_needy: npt.NDArray[np.bool_]
    coverage: npt.NDArray[np.int64]


def plan_compaction(table: Table, options: CompactionOptions) -> list[tuple[int, ...]]:
    """Return the fragment ids of each task, in table order; no tasks if nothing needs compaction."""
    facts = _facts(table, options)
    tasks = [task for run in _runs(facts) for task in _split(run, facts, options.target_rows_per_fragment)]
    ids = table.fragments.ids
    return [tuple(ids[list(task)].tolist()) for task in _affordable(table, tasks, facts, options)]


def _facts(table: Table, options: CompactionOptions) -> _Facts:
    fragments = table.fragments
    indices = np.arange(len(fragments))
    physical, live = physical_rows(table, indices), live_rows(table, indices)
    deleted = (physical - live) / np.maximum(physical, 1)
    is_needy = np.zeros(len(fragments), np.bool_)
    if options.materialize_deletions and options.materialize_deletions_threshold < 1:
        is_needy = (physical > live) & (deleted > options.materialize_deletions_threshold)
    is_small = physical < options.target_rows_per_fragment
    if options.max_bytes_per_file is not None:
        is_small &= fragments.file_bytes < options.max_bytes_per_file
    excluded = np.isin(fragments.ids, np.array(options.excluded_fragment_ids, dtype=np.int64))
    return _Facts(live, (is_small | is_needy) & ~excluded, is_needy & ~excluded, _coverage(table))


def _coverage(table: Table) -> npt.NDArray[np.int64]:
    """Return numbers that are equal for fragments covered by the same indices.

    They may be in different segments if this package merges these; no rows are added to the others.
    """
    ids = table.fragments.ids
    present = BitMap(ids.tolist())
    inside: dict[str | UUID, npt.NDArray[np.bool_]] = {}
    for index in table.indices:
        if (covered := index.covered_fragments()) is not None:
            is_covered = np.isin(ids, np.asarray((covered & present).to_array(), dtype=np.int64))
            key = index.name if can_build(index) else index.uuid
            inside[key] = inside.get(key, np.zeros(len(ids), np.bool_)) | is_covered
    numbers = np.zeros(len(ids), np.int64)
    for flags in inside.values():
        # renumbered after each index, so that the numbers stay small for any number of indices
        numbers = np.unique(numbers * 2 + flags, return_inverse=True)[1]
    return numbers


def _runs(facts: _Facts) -> Iterator[range]:
    """Yield runs of neighbours that may be joined, if this is worthwhile."""
    breaks = np.flatnonzero(
        (facts.is_candidate[1:] != facts.is_candidate[:-1]) | (facts.coverage[1:] != facts.coverage[:-1])
    )
    bounds = [0, *(breaks + 1).tolist(), len(facts.live)]
    for start, stop in pairwise(bounds):
        if stop > start and facts.is_candidate[start] and (stop - start > 1 or facts.is_needy[start]):
            yield range(start, stop)


def _split(run: range, facts: _Facts, target_rows: int) -> Iterator[range]:
    """Split a run into tasks of at least the target number of rows each."""
    rows = np.cumsum(facts.live[run.start : run.stop])
    start, before = 0, 0
    while True:
        stop = int(np.searchsorted(rows, before + target_rows)) + 1
        if stop >= len(rows) or rows[-1] - rows[stop - 1] < target_rows:
            yield run[start:]
            return
        yield run[start:stop]
        start, before = stop, int(rows[stop - 1])


def _affordable(
    table: Table, tasks: list[range], facts: _Facts, options: CompactionOptions
) -> Iterator[range]:
    """Yield the tasks before the first one that exceeds a limit."""
    fragments = rows = num_bytes = 0
    for task in tasks:
        indices = np.s_[task.start : task.stop]
        fragments += len(task)
        rows += int(facts.live[indices].sum())
        num_bytes += int(table.fragments.file_bytes[indices].sum())
        spent = (fragments, rows, num_bytes)
        limits = (options.max_source_fragments, options.max_source_rows, options.max_source_bytes)
        if any(limit is not None and used > limit for used, limit in zip(spent, limits, strict=True)):
            return
        yield task
