"""The seam where engines attach: a planned scan, its tasks, and the report of what it keeps and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Protocol

import pyarrow as pa

from lance_df.expr.nodes import Predicate
from lance_df.records import dataclass


@dataclass(frozen=True, slots=True)
class Count:
    """How much of something a scan keeps."""

    kept: int
    total: int


@dataclass(frozen=True, slots=True)
class Reason:
    """What one conjunct of the predicate did: ``effect`` is text such as ``"kept 3 of 40 pages"``."""

    conjunct: str
    effect: str


@dataclass(frozen=True, slots=True)
class SpecReport:
    """What a scan of a namespace makes of the partitions of one version of its spec.

    Attributes
    ----------
    spec
        The version and its fields, as text.
    predicate
        What is asked of ``__manifest`` for this version, as SQL.
    reasons
        The conjuncts that did not help, and why.
    """

    spec: str
    partitions: Count
    predicate: str
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class TableReport:
    """What a scan of one table version reads. ``pages`` and ``bytes`` count the projected columns.

    ``partitions`` are those of a namespace, ``specs`` the same by spec version, ``manifest_query`` the query
    that finds them in ``__manifest``; its other counts are those of the partitions that are kept.
    """

    table: str
    version: int
    fragments: Count
    pages: Count
    bytes: Count
    reasons: tuple[Reason, ...] = ()
    partitions: Count | None = None
    specs: tuple[SpecReport, ...] = ()
    manifest_query: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """What an engine wants from one table version.

    Attributes
    ----------
    columns
        Top-level columns in output order; ``None`` for all. An empty tuple asks for row counts only. A field
        of a struct is named ``"a.b"``; the system columns (``_rowid``, ``_rowaddr``, ``_rowoffset``,
        ``_row_created_at_version``, ``_row_last_updated_at_version``) may be named too.
    predicate
        Applied exactly, row by row. Must hold no `Unknown`.
    hint
        A condition that rows outside of need not be returned, and that need not be applied: it prunes, and
        tells words that strings must hold. May hold `Unknown`.
    with_row_id, with_row_address
        Append ``_rowid`` or ``_rowaddr`` (uint64).
    limit
        Rows after which the scan may stop; ``None`` for all.
    batch_rows
        Upper bound for the rows of a batch; ``None`` for the default.
    window_rows
        Rows to read at once, as far as they take little memory; ``None`` for as many as whoever computes on
        all of them likes best. Scans that look for few rows in few columns are faster with more.
    fragment_ids
        Restrict to these fragments; ``None`` for all.
    use_statistics
        Whether page statistics and indices may prune.
    include_deleted_rows
        Return deleted rows too, with a null ``_rowid``.
    blobs_as_bytes
        Return blobs as their bytes, not as descriptions of where these are.
    views
        Columns of type string, of those that are returned, to return as string_view.
    extremes_only
        Any rows will do that have the same smallest and largest value in each column, of which not all need
        be the values of one row.
    distinct
        Rows that are equal in all columns may be returned as one.
    count_as
        As ``distinct``, and with a last column of this name (int64): how many rows each row stands for. Needs
        other columns.
    """

    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    hint: Predicate | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    limit: int | None = None
    batch_rows: int | None = None
    window_rows: int | None = None
    fragment_ids: tuple[int, ...] | None = None
    use_statistics: bool = True
    include_deleted_rows: bool = False
    blobs_as_bytes: bool = False
    views: frozenset[str] = frozenset()
    extremes_only: bool = False
    distinct: bool = False
    count_as: str | None = None


class ScanTask(Protocol):
    """One stretch of rows of one fragment; tasks in plan order give rows in table order.

    Attributes
    ----------
    num_rows
        An upper bound for the rows it returns; exact when neither columns nor a predicate were asked for.
    num_bytes
        Stored bytes it may read, as far as threads can share the work that this is.
    """

    @property
    def num_rows(self) -> int: ...

    @property
    def num_bytes(self) -> int: ...

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of exactly the plan's schema. May be called from any thread, any number of times."""
        ...


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A scan that has been pruned but not run.

    ``schema`` has Arrow storage types.
    """

    schema: pa.Schema
    tasks: Sequence[ScanTask] = field(repr=False)
    make_report: Callable[[], TableReport] = field(repr=False)

    @property
    def report(self) -> TableReport:
        """What will be read, without reading it; counting the pages opens the data files."""
        return self.make_report()
