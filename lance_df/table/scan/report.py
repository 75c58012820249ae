"""Count what a planned scan will read: fragments, pages and bytes, with the reasons for pruning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lance_df.expr.text import to_text
from lance_df.expr.walk import conjuncts
from lance_df.scan.report import Count, Reason, TableReport
from lance_df.table.reading.fragment_reader import FragmentReader
from lance_df.table.scan.page_statistics import matching_pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lance_df.expr.nodes import Predicate
    from lance_df.format.schema import Field
    from lance_df.table.reading.selection import RowRanges
    from lance_df.table.scan.task import Scan


@dataclass(slots=True)
class _Tally:
    fragments: int = 0
    rows: int = 0
    selected_rows: int = 0
    pages: int = 0
    selected_pages: int = 0
    bytes: int = 0
    selected_bytes: int = 0


def make_report(scan: Scan, positions: npt.NDArray[np.intp], selected: npt.NDArray[np.intp]) -> TableReport:
    """Return the report of a scan.

    Opens the data files of all the fragments, to count their pages.

    Parameters
    ----------
    scan
        The scan.
    positions, selected
        The requested fragments, and those of them that indices select.
    """
    fields = scan.fields
    tally = _Tally()
    is_selected = np.isin(positions, selected)
    for position, alive in zip(positions.tolist(), is_selected.tolist(), strict=True):
        reader = FragmentReader(scan.table, scan.table.fragments[position])
        rows = scan.pruning.rows(reader) if alive else None
        is_read = alive and (rows is None or len(rows) > 0)
        _count(tally, reader, scan.fields_of(reader), rows, is_selected=is_read)
    return TableReport(
        table=scan.table.uri,
        version=scan.table.version,
        fragments=Count(tally.fragments, len(positions)),
        pages=Count(tally.selected_pages, tally.pages),
        bytes=Count(tally.selected_bytes, tally.bytes),
        rows=Count(tally.selected_rows, tally.rows),
        columns=tuple(dict.fromkeys(field.name for field in fields)),
        # a pruning predicate may repeat a part of the predicate
        reasons=tuple(dict.fromkeys((*scan.pruning.reasons, *_page_reasons(scan, selected)))),
        index_queries=scan.pruning.index_queries,
        cache=scan.table.shared.cache.statistics(),
    )


def _count(
    tally: _Tally,
    reader: FragmentReader,
    fields: Sequence[Field],
    rows: RowRanges | None,
    *,
    is_selected: bool,
) -> None:
    tally.fragments += is_selected
    tally.rows += reader.num_rows
    if is_selected:
        tally.selected_rows += reader.num_rows if rows is None else rows.num_rows
    for field in fields:
        pages = np.array(reader.page_bytes(field), dtype=np.int64).reshape(-1, 2)
        tally.pages += len(pages)
        tally.bytes += int(pages[:, 1].sum())
        if is_selected:
            touched = _touched(pages[:, 0], reader.num_rows, rows)
            tally.selected_pages += int(touched.sum())
            tally.selected_bytes += int(pages[touched, 1].sum())


def _touched(starts: npt.NDArray[np.int64], num_rows: int, rows: RowRanges | None) -> npt.NDArray[np.bool_]:
    """Return which pages have a selected row. The pages of several leaves follow each other."""
    if rows is None or not len(starts):
        return np.ones(len(starts), np.bool_)
    following = np.append(starts[1:], 0)
    stops = np.where(following > starts, following, num_rows)
    first = np.searchsorted(rows.bounds[:, 1], starts, side="right")
    last = np.searchsorted(rows.bounds[:, 0], stops, side="left")
    touched: npt.NDArray[np.bool_] = last > first
    return touched


def _page_reasons(scan: Scan, selected: npt.NDArray[np.intp]) -> Iterator[Reason]:
    """Yield the effect of the page statistics of 0.1 files for each conjunct."""
    parts = {to_text(part): part for each in scan.pruning.conditions for part in conjuncts(each)}
    for text, part in parts.items():
        num_selected, total = _rows_by_statistics(scan, selected, part)
        if num_selected < total:
            yield Reason(text, f"page statistics kept {num_selected} of {total} rows")


def _rows_by_statistics(scan: Scan, selected: npt.NDArray[np.intp], part: Predicate) -> tuple[int, int]:
    num_selected = total = 0
    for position in selected.tolist():
        reader = FragmentReader(scan.table, scan.table.fragments[position])
        rows = matching_pages(reader, scan.table.schema, part)
        total += reader.num_rows
        num_selected += reader.num_rows if rows is None else rows.num_rows
    return num_selected, total
