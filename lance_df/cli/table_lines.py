"""Rows as a table for people: aligned columns, cut to the height of a terminal where there is one."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.cli.printable import printable, width_of
from lance_df.cli.text_buffers import bytes_of, lines_of
from lance_df.cli.value_text import TEXT, value_text
from lance_df.display.numbers import number_text
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROWS_AT_ONCE: Final = 1_000

_ALIGN_RIGHT: Final = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_OTHER_LINES: Final = 5  # names, the line below them, rows left, the time, the next prompt
_MIN_ROWS: Final = 5


@dataclass(frozen=True, slots=True)
class Screen:
    """The size of a terminal, in characters."""

    lines: int
    columns: int

    def num_rows(self, width: int) -> int:
        """Return how many rows of a width fit, at least a few."""
        per_row = max(1, -(-width // max(1, self.columns)))
        return max(_MIN_ROWS, (self.lines - _OTHER_LINES) // per_row)


@dataclass(frozen=True, slots=True)
class _Style:
    between: str
    before: str = ""
    after: str = ""


_PLAIN: Final = _Style(" | ")
_MARKDOWN: Final = _Style(" | ", "| ", " |")


def write_table(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    out: IO[str],
    *,
    max_cell_width: int,
    max_rows: int | Screen | None,
) -> None:
    """Write aligned columns. The first rows set the widths; later, wider ones widen their columns.

    Parameters
    ----------
    max_rows
        How many rows to write, before a line with the number of those that are left; all with None.
    """
    names = [printable(name) for name in schema.names]
    widths = [width_of(name) for name in names]
    right = _right_aligned(schema)
    limit: int | None = max_rows if isinstance(max_rows, int) else None
    written = left = 0
    has_header = False
    for block in _blocks(batches):
        if limit is not None and written == limit:
            left += block.num_rows
            continue
        taken = block
        if limit is not None:
            taken = block.slice(0, limit - written)
        columns = [_cells(column, max_cell_width) for column in taken.columns]
        widths = [max(width, cells.width) for width, cells in zip(widths, columns, strict=True)]
        if isinstance(max_rows, Screen) and limit is None:
            limit = max_rows.num_rows(sum(widths) + 3 * len(widths))
            taken = block.slice(0, limit)
            columns = [_cells(column, max_cell_width) for column in taken.columns]
        if not has_header:
            out.write(_header(names, widths, right))
            has_header = True
        out.write(_lines(columns, widths, right, _PLAIN, taken.num_rows))
        written += taken.num_rows
        left += block.num_rows - taken.num_rows
    if not has_header:
        out.write(_header(names, widths, right))
    if left:
        out.write(f"… {number_text(left, 'more row')} (--max-rows 0 shows all)\n")


def write_markdown(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[str]) -> None:
    """Write a table in Markdown, with whole values."""
    names = [_markdown(printable(name)) for name in schema.names]
    right = _right_aligned(schema)
    marks = ["---:" if each else "---" for each in right]
    widths = [max(width_of(name), len(mark)) for name, mark in zip(names, marks, strict=True)]
    rules = [
        "-" * (width - 1) + ":" if each else "-" * width for width, each in zip(widths, right, strict=True)
    ]
    header = [
        " " * (width - width_of(name)) + name if each else name + " " * (width - width_of(name))
        for name, width, each in zip(names, widths, right, strict=True)
    ]
    out.write(f"| {' | '.join(header)} |\n| {' | '.join(rules)} |\n")
    for block in _blocks(batches):
        columns = [_cells(column, None, escape=True) for column in block.columns]
        widths = [max(width, cells.width) for width, cells in zip(widths, columns, strict=True)]
        out.write(_lines(columns, widths, right, _MARKDOWN, block.num_rows))


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield some rows at a time."""
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            yield batch.slice(start, ROWS_AT_ONCE)


def _right_aligned(schema: pa.Schema) -> list[bool]:
    return [any(test(field.type) for test in _ALIGN_RIGHT) for field in schema]


@dataclass(frozen=True, slots=True)
class _Cells:
    """The texts of a column, the width of the widest, and whether each character takes up one column."""

    text: pa.Array
    width: int
    is_ascii: bool


def _cells(column: pa.Array, max_width: int | None, *, escape: bool = False) -> _Cells:
    text = pc.fill_null(value_text(column), "NULL")
    if not len(text):
        return _Cells(text, 0, True)
    offsets, data = bytes_of(text)
    if len(data) and (data.min() < 0x20 or data.max() >= 0x7F):
        cut = [_cut(each, max_width) for each in text.to_pylist()]
        shown = [printable(each) for each in cut]
        if escape:
            shown = [_markdown(each) for each in shown]
        return _Cells(pa.array(shown, TEXT), max(map(width_of, shown)), False)
    if max_width is not None and (np.diff(offsets) > max_width).any():
        return _cells(pa.array([_cut(each, max_width) for each in text.to_pylist()], TEXT), None)
    if escape:
        text = pc.replace_substring(text, "|", "\\|")
        offsets, _ = bytes_of(text)
    return _Cells(text, int(np.diff(offsets).max()), True)


def _cut(text: str, max_width: int | None) -> str:
    return text if max_width is None or len(text) <= max_width else text[: max_width - 1] + "…"


def _markdown(text: str) -> str:
    return text.replace("|", "\\|")


def _header(names: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = [_Cells(pa.array([name], TEXT), width_of(name), name.isascii()) for name in names]
    return _lines(cells, widths, right, _PLAIN, 1) + "-+-".join("-" * width for width in widths) + "\n"


def _lines(
    columns: Sequence[_Cells], widths: Sequence[int], right: Sequence[bool], style: _Style, num_rows: int
) -> str:
    if not columns:
        return "\n" * num_rows
    padded = [
        _padded(cells, width, is_right) for cells, width, is_right in zip(columns, widths, right, strict=True)
    ]
    lines = pc.binary_join_element_wise(*padded, pa.scalar(style.between, TEXT))
    if style.before:
        ends = [pa.scalar(text, TEXT) for text in (style.before, style.after, "")]
        return lines_of(pc.binary_join_element_wise(ends[0], lines, ends[1], ends[2]))
    return lines_of(pc.utf8_rtrim(lines, " "))


def _padded(cells: _Cells, width: int, is_right: bool) -> pa.Array:
    if cells.is_ascii:
        return (pc.utf8_lpad if is_right else pc.utf8_rpad)(cells.text, width, " ")
    texts = cells.text.to_pylist()
    spaces = [" " * (width - width_of(text)) for text in texts]
    pairs = zip(spaces, texts, strict=True) if is_right else zip(texts, spaces, strict=True)
    return pa.array([first + second for first, second in pairs], TEXT)
