"""Write rows as a table with aligned columns, cut to the size of the terminal if there is one."""

from __future__ import annotations

import itertools
from typing import IO, TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.cli.output.printable import printable, width_of
from lance_df.cli.output.text_buffers import bytes_of, lines_of
from lance_df.cli.output.value_text import TEXT, value_text
from lance_df.display.numbers import number_text
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROWS_AT_ONCE: Final = 1_000

_ALIGN_RIGHT: Final = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_OTHER_LINES: Final = 5  # names, the line below them, the line of further rows, the time, the next prompt
_MIN_ROWS: Final = 5
_MAX_NAMES_WIDTH: Final = 60
_CELL_WIDTHS: Final = (60, 30, 15)
_PLAN_COLUMNS: Final = ["plan_type", "plan"]
SHOW_ALL: Final = "--max-rows 0 shows all"


@dataclass(frozen=True, slots=True)
class Screen:
    """The size of a terminal in characters, and how to see the rest."""

    lines: int
    columns: int
    advice: str = SHOW_ALL

    def num_columns(self, widths: Sequence[int]) -> int:
        """Return how many columns of a table fit, at least one."""
        ends = itertools.accumulate(width + len(_PLAIN.between) for width in widths)
        return max(1, sum(end - len(_PLAIN.between) <= self.columns for end in ends))

    def num_rows(self, width: int, *, other_lines: int = _OTHER_LINES) -> int:
        """Return how many rows of a given width fit, at least a few."""
        per_row = max(1, -(-width // max(1, self.columns)))
        return max(_MIN_ROWS, (self.lines - other_lines) // per_row)


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
    max_cell_width: int | None,
    max_rows: int | Screen | None,
) -> None:
    """Write aligned columns; plans of EXPLAIN are not changed.

    The first rows determine the widths; wider values in later rows widen their columns.

    Parameters
    ----------
    max_rows
        How many rows to write; None means all. A final line has the number of further rows. On a screen,
        columns that do not fit are also left out and listed in that line.
    """
    if schema.names == _PLAN_COLUMNS:
        _write_plans(batches, out)
        return
    names = [printable(name) for name in schema.names]
    blocks, advice = _blocks(batches), SHOW_ALL
    limit, num_columns = (None, len(names)) if isinstance(max_rows, Screen) else (max_rows, len(names))
    if isinstance(max_rows, Screen):
        first = next(blocks, None)
        blocks = itertools.chain([] if first is None else [first], blocks)
        no_rows = [pa.nulls(0, TEXT)] * len(names)
        columns = no_rows if first is None else first.slice(0, max_rows.lines).columns
        max_cell_width, num_columns, limit = _fitted(columns, names, max_rows)
        advice = max_rows.advice
    shown, hidden = names[:num_columns], names[num_columns:]
    widths, right = [width_of(name) for name in shown], _right_aligned(schema)[:num_columns]
    written = left = 0
    has_header = False
    for block in blocks:
        num_rows = block.num_rows if limit is None else min(block.num_rows, limit - written)
        left += block.num_rows - num_rows
        if not num_rows:
            continue
        cells = [_cells(column.slice(0, num_rows), max_cell_width) for column in block.columns[:num_columns]]
        widths = [max(width, each.width) for width, each in zip(widths, cells, strict=True)]
        if not has_header:
            out.write(_header(shown, widths, right))
            has_header = True
        out.write(_lines(cells, widths, right, _PLAIN, num_rows))
        written += num_rows
    if not has_header:
        out.write(_header(shown, widths, right))
    if hidden:
        listed = _cut(", ".join(hidden), _MAX_NAMES_WIDTH)
        out.write(f"… {number_text(len(hidden), 'more column')}: {listed}{'' if left else f' ({advice})'}\n")
    if left:
        out.write(f"… {number_text(left, 'more row')} ({advice})\n")


def _write_plans(batches: Iterable[pa.RecordBatch], out: IO[str]) -> None:
    """Write the plans of EXPLAIN on separate, uncut lines."""
    for batch in batches:
        for name, plan in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            lines = [printable(line) for line in str(plan).rstrip("\n").split("\n")]
            out.write("\n".join([f"{printable(str(name))}:", *(f"  {line}" for line in lines)]) + "\n")


def _fitted(columns: Sequence[pa.Array], names: Sequence[str], screen: Screen) -> tuple[int, int, int]:
    """Return the width of cells, and the number of columns and rows that fit on a screen.

    Cells are cut before columns are omitted.
    """
    for cell_width in (max(screen.columns, *_CELL_WIDTHS), *_CELL_WIDTHS):
        cells = [_cells(column, cell_width) for column in columns]
        widths = [max(width_of(name), each.width) for name, each in zip(names, cells, strict=True)]
        num_columns = screen.num_columns(widths)
        if num_columns == len(names):
            break
    width = sum(widths[:num_columns]) + len(_PLAIN.between) * (num_columns - 1)
    other_lines = _OTHER_LINES + (num_columns < len(names))
    return cell_width, num_columns, screen.num_rows(width, other_lines=other_lines)


def write_markdown(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[str]) -> None:
    """Write a Markdown table with uncut values."""
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
    """Yield the rows in small batches."""
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            yield batch.slice(start, ROWS_AT_ONCE)


def _right_aligned(schema: pa.Schema) -> list[bool]:
    return [any(test(field.type) for test in _ALIGN_RIGHT) for field in schema]


@dataclass(frozen=True, slots=True)
class _Cells:
    """The texts of a column, the largest width, and whether every character is one column wide."""

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
