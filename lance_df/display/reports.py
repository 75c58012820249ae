"""Reports on scans: bars of what is read, and the effect of each conjunct."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_df.display.elements import bar, escaped, heading, html_table, note
from lance_df.display.numbers import size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lance_df.scan.report import Count, TableReport

_MAX_TABLES: Final = 100
_MAX_REASONS: Final = 40


def reports_html(tables: Sequence[TableReport], lines: Iterable[str]) -> str:
    """Return reports on scans, followed by lines of text."""
    below = list(lines)
    result = "".join(map(_table, tables[:_MAX_TABLES])) or note("no Lance table is read")
    if len(tables) > _MAX_TABLES:
        result += note(f"… {len(tables) - _MAX_TABLES:,} more scans")
    result += "".join(f"<p>{escaped(line)}</p>" for line in below[:_MAX_TABLES])
    return result


def count_text(count: Count) -> str:
    """Return the selected share as text."""
    return f"{count.kept:,} of {count.total:,}"


def bytes_text(count: Count) -> str:
    """Return the selected share of bytes as text."""
    return f"{size_text(count.kept)} of {size_text(count.total)}"


def cache_text(table: TableReport) -> str:
    """Return the cached memory of a table as text, or an empty text if it is not known."""
    if table.cache is None:
        return ""
    total = table.cache.total
    return (
        f"cache: {total.entries:,} entries, {size_text(total.num_bytes)} of "
        f"{size_text(table.cache.max_bytes)}; "
        f"{total.hits:,} hits, {total.misses:,} misses, {total.evictions:,} evictions"
    )


def _table(table: TableReport) -> str:
    counts = [] if table.partitions is None else [("partitions", _bar(table.partitions))]
    counts += [("fragments", _bar(table.fragments)), ("pages", _bar(table.pages))]
    counts += [("bytes", bar(table.bytes, bytes_text(table.bytes)))]
    parts = [
        heading(table.table, [f"version {table.version}"]),
        html_table([name for name, _ in counts], [[cell for _, cell in counts]]),
    ]
    if table.partitions is not None:
        parts.append(note("Fragments, pages and bytes are those of the partitions that are kept."))
    reasons = _reasons(table)
    if reasons:
        shown = [(escaped(condition), escaped(effect)) for condition, effect in reasons[:_MAX_REASONS]]
        parts.append(html_table(("condition", "what it did"), shown))
    if len(reasons) > _MAX_REASONS:
        parts.append(note(f"… {len(reasons) - _MAX_REASONS:,} more conditions"))
    if table.cache is not None:
        parts.append(note(cache_text(table)))
    return "".join(parts)


def _reasons(table: TableReport) -> list[tuple[str, str]]:
    """Return conditions and their effects, those that pruned first."""
    helped = [
        (spec.predicate, f"kept {count_text(spec.partitions)} partitions of {spec.spec}")
        for spec in table.specs
    ]
    helped += [(reason.conjunct, reason.effect) for reason in table.reasons]
    others = [
        (reason.conjunct, f"no help in {spec.spec}: {reason.effect}")
        for spec in table.specs
        for reason in spec.reasons
    ]
    return [*helped, *others]


def _bar(count: Count) -> str:
    return bar(count, count_text(count))
