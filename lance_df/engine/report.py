"""What a statement would read, for people: `ScanReport`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lance_df.records import dataclass
from lance_df.scan.report import Count, TableReport

if TYPE_CHECKING:
    from lance_df.cache import CacheStatistics
    from lance_df.engine.optimizer.planned import RuleReport
    from lance_df.engine.statement import Statement

_TITLES = ("table", "version", "partitions", "fragments", "pages", "bytes", "why")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class JoinReport:
    """How a join of partitioned namespaces is computed: partition by partition, or why not.

    So do aggregations and windows over the rows of one namespace.
    """

    join: str
    effect: str


@dataclass(frozen=True, slots=True)
class ScanReport:
    """What the scans of a statement keep of their tables, and why. One entry in ``tables`` for each scan.

    ``joins`` has those in which partitioned namespaces take part, and what groups the rows of one. ``rules``
    has what rules of the optimizer did that may apply.
    """

    tables: tuple[TableReport, ...]
    joins: tuple[JoinReport, ...] = ()
    rules: tuple[RuleReport, ...] = ()

    @property
    def partitions(self) -> Count:
        return _sum(table.partitions for table in self.tables if table.partitions is not None)

    @property
    def fragments(self) -> Count:
        return _sum(table.fragments for table in self.tables)

    @property
    def pages(self) -> Count:
        return _sum(table.pages for table in self.tables)

    @property
    def bytes(self) -> Count:
        return _sum(table.bytes for table in self.tables)

    def __str__(self) -> str:
        if not self.tables:
            return "no Lance table is read"
        lines = [line for table in self.tables for line in _lines(table)]
        lines += [f"{join.join}: {join.effect}" for join in self.joins]
        return "\n".join([*lines, *(f"rule {rule.rule} {rule.effect}" for rule in self.rules)])

    def _repr_html_(self) -> str:
        titles = "".join(f"<th>{title}</th>" for title in _TITLES)
        joins = "".join(f"<p>{html.escape(f'{join.join}: {join.effect}')}</p>" for join in self.joins)
        return f"<table><tr>{titles}</tr>{''.join(map(_row, self.tables))}</table>{joins}"


def scan_reports(statement: Statement) -> Iterator[TableReport]:
    """Yield what each scan of a statement reads; one that is cut into units is one scan."""
    for table in statement.tables.values():
        yield from (plan.report for plan in table.log.scans)
        units = [provider.log.scans for key, provider in statement.units if key == table.key]
        for plans in zip(*units, strict=False):
            yield merged([plan.report for plan in plans])


def merged(reports: Sequence[TableReport]) -> TableReport:
    """Return the report on a scan that is cut into parts, each of other partitions."""
    first = reports[0]
    selected = sum(report.partitions.kept for report in reports if report.partitions is not None)
    specs = tuple(
        replace(
            spec,
            partitions=Count(
                sum(report.specs[number].partitions.kept for report in reports), spec.partitions.total
            ),
        )
        for number, spec in enumerate(first.specs)
    )
    return replace(
        first,
        partitions=None if first.partitions is None else Count(selected, first.partitions.total),
        specs=specs,
        fragments=_sum(report.fragments for report in reports),
        pages=_sum(report.pages for report in reports),
        bytes=_sum(report.bytes for report in reports),
        reasons=tuple(dict.fromkeys(reason for report in reports for reason in report.reasons)),
    )


def _sum(counts: Iterable[Count]) -> Count:
    listed = list(counts)
    return Count(sum(count.kept for count in listed), sum(count.total for count in listed))


def _lines(table: TableReport) -> Iterable[str]:
    yield f"{table.table} (version {table.version})"
    if table.partitions is not None:
        yield f"  partitions {_of(table.partitions)}"
    for spec in table.specs:
        yield f"    {spec.spec}: {_of(spec.partitions)}"
        yield f"      __manifest: {spec.predicate}"
        for reason in spec.reasons:
            yield f"      no help: {reason.conjunct}: {reason.effect}"
    yield f"  fragments {_of(table.fragments)}, pages {_of(table.pages)}, bytes {_bytes_of(table.bytes)}"
    for reason in table.reasons:
        yield f"  {reason.conjunct}: {reason.effect}"
    if table.cache is not None:
        yield f"  cache: {_cache_text(table.cache)}"


def _cache_text(cache: CacheStatistics) -> str:
    total = cache.total
    return (
        f"{total.entries:,} entries, {_size(total.num_bytes)} of {_size(cache.max_bytes)}; "
        f"{total.hits:,} hits, {total.misses:,} misses, {total.evictions:,} evictions"
    )


def _row(table: TableReport) -> str:
    lines = [f"{reason.conjunct}: {reason.effect}" for reason in table.reasons]
    for spec in table.specs:
        lines += [f"{spec.spec}: {_of(spec.partitions)}: {spec.predicate}"]
        lines += [f"no help in {spec.spec}: {reason.conjunct}: {reason.effect}" for reason in spec.reasons]
    lines += [] if table.cache is None else [f"cache: {_cache_text(table.cache)}"]
    why = "<br>".join(map(html.escape, lines))
    cells = (
        html.escape(table.table),
        str(table.version),
        "" if table.partitions is None else _of(table.partitions),
        _of(table.fragments),
        _of(table.pages),
        _bytes_of(table.bytes),
        why,
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _of(count: Count) -> str:
    return f"{count.kept:,} of {count.total:,}"


def _bytes_of(count: Count) -> str:
    return f"{_size(count.kept)} of {_size(count.total)}"


def _size(num_bytes: int) -> str:
    size = float(num_bytes)
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            return f"{num_bytes} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")
