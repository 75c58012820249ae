"""`ScanReport`: a readable report on what a statement would read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lance_df.display.reports import bytes_text, cache_text, count_text, reports_html
from lance_df.records import dataclass
from lance_df.scan.report import Count, Reason, TableReport, merged_reports, total

if TYPE_CHECKING:
    from lance_df.engine.optimizer.planned import RuleReport
    from lance_df.engine.statement import Statement


@dataclass(frozen=True, slots=True)
class JoinReport:
    """How a join of partitioned namespaces is computed: partition by partition, or the reason why not.

    The same reports cover aggregations and windows over the rows of one namespace.
    """

    join: str
    effect: str


@dataclass(frozen=True, slots=True)
class ScanReport:
    """What the scans of a statement read after pruning, and why. ``tables`` has one entry for each scan.

    ``joins`` has the joins of partitioned namespaces, and the groupings of the rows of one namespace.
    ``rules`` has the effects of the optimizer rules that may apply.
    """

    tables: tuple[TableReport, ...]
    joins: tuple[JoinReport, ...] = ()
    rules: tuple[RuleReport, ...] = ()

    @property
    def partitions(self) -> Count:
        return total(table.partitions for table in self.tables if table.partitions is not None)

    @property
    def fragments(self) -> Count:
        return total(table.fragments for table in self.tables)

    @property
    def pages(self) -> Count:
        return total(table.pages for table in self.tables)

    @property
    def bytes(self) -> Count:
        return total(table.bytes for table in self.tables)

    def __str__(self) -> str:
        if not self.tables:
            return "no Lance table is read"
        lines = [line for table in self.tables for line in _lines(table)]
        lines += [f"{join.join}: {join.effect}" for join in self.joins]
        return "\n".join([*lines, *(f"rule {rule.rule} {rule.effect}" for rule in self.rules)])

    def _repr_html_(self) -> str:
        lines = [f"{join.join}: {join.effect}" for join in self.joins]
        lines += [f"rule {rule.rule} {rule.effect}" for rule in self.rules]
        return f"<div>{reports_html(self.tables, lines)}</div>"


def scan_reports(statement: Statement) -> Iterator[TableReport]:
    """Yield a report for each scan of a statement. A scan that is cut into units counts as one scan."""
    for table in statement.tables.values():
        keys = tuple(
            Reason(f"{each.column} IN ({each.source})", "read when the statement runs")
            for each in table.scan.join_filters
        )
        for plan in table.log.scans:
            report = plan.report
            yield replace(report, reasons=(*report.reasons, *keys))
        units = [provider.log.scans for key, provider in statement.units if key == table.key]
        for plans in zip(*units, strict=False):
            yield _merged([plan.report for plan in plans])


def _merged(reports: Sequence[TableReport]) -> TableReport:
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
        merged_reports(first.table, first.version, reports),
        partitions=None if first.partitions is None else Count(selected, first.partitions.total),
        specs=specs,
        manifest_query=first.manifest_query,
        cache=first.cache,
    )


def _lines(table: TableReport) -> Iterable[str]:
    yield f"{table.table} (version {table.version})"
    if table.partitions is not None:
        yield f"  partitions {count_text(table.partitions)}"
    for spec in table.specs:
        yield f"    {spec.spec}: {count_text(spec.partitions)}"
        yield f"      __manifest: {spec.predicate}"
        for reason in spec.reasons:
            yield f"      no help: {reason.conjunct}: {reason.effect}"
    fragments, pages = count_text(table.fragments), count_text(table.pages)
    yield f"  fragments {fragments}, pages {pages}, bytes {bytes_text(table.bytes)}"
    for reason in table.reasons:
        yield f"  {reason.conjunct}: {reason.effect}"
    if table.cache is not None:
        yield f"  {cache_text(table)}"
