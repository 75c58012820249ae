"""Reports on what a scan reads and why, as `explain_scan` returns them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from lance_df.cache import CacheStatistics
from lance_df.records import dataclass


@dataclass(frozen=True, slots=True)
class Count:
    """How many items of one kind a scan reads after pruning, and how many there are in total."""

    kept: int
    total: int


@dataclass(frozen=True, slots=True)
class Reason:
    """The effect of one conjunct of the predicate, as text such as ``"kept 3 of 40 pages"``."""

    conjunct: str
    effect: str


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """A query to an index: a predicate on its column, as SQL."""

    index: str
    predicate: str


@dataclass(frozen=True, slots=True)
class SpecReport:
    """The pruning of the partitions of one version of a namespace's partition spec.

    Attributes
    ----------
    spec
        The version and its fields, as text.
    predicate
        The predicate on ``__manifest`` for this version, as SQL.
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

    The other fields are:

    - ``partitions``: the partitions of a namespace. The other counts of a namespace cover only the partitions
      that are read.
    - ``specs``: the partitions by spec version.
    - ``manifest_query``: the query that finds the partitions in ``__manifest``.
    - ``index_queries``: the queries that indices answered.
    - ``rows``: stored rows, including deleted rows.
    - ``columns``: the names of the top-level columns from which something is read.
    - ``cache``: the contents of the table's cache when the report is made.
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
    index_queries: tuple[IndexQuery, ...] = ()
    rows: Count = Count(0, 0)
    columns: tuple[str, ...] = ()
    cache: CacheStatistics | None = field(default=None, compare=False)


def total(counts: Iterable[Count]) -> Count:
    """Return the sum of counts."""
    listed = list(counts)
    return Count(sum(count.kept for count in listed), sum(count.total for count in listed))


def merged_reports(table: str, version: int, reports: Sequence[TableReport]) -> TableReport:
    """Return the report on a scan that is cut into parts, without partitions and caches."""
    return TableReport(
        table=table,
        version=version,
        fragments=total(report.fragments for report in reports),
        pages=total(report.pages for report in reports),
        bytes=total(report.bytes for report in reports),
        rows=total(report.rows for report in reports),
        columns=tuple(dict.fromkeys(name for report in reports for name in report.columns)),
        reasons=tuple(dict.fromkeys(reason for report in reports for reason in report.reasons)),
        index_queries=tuple(dict.fromkeys(query for report in reports for query in report.index_queries)),
    )
