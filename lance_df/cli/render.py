"""Batches of rows as text or bytes: a table for people, CSV, JSON lines, or an Arrow stream."""

from __future__ import annotations

import itertools
import json
import math
import unicodedata
from collections.abc import Mapping
from datetime import timedelta
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FORMATS = ("table", "csv", "json", "arrow")

_ROWS_AT_ONCE = 1_000
_ALIGN_RIGHT = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)


def render(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    style: str,
    out: IO[str],
    max_cell_width: int = 60,
) -> int:
    """Write rows as they come and return how many there were; memory does not grow with their number.

    Parameters
    ----------
    style
        One of `FORMATS`. ``"json"`` is one object a line. ``"arrow"`` is an IPC stream, for which ``out``
        needs a ``buffer`` of bytes.
    max_cell_width
        Longer values are cut, in a table only.
    """
    counted = _Counted(batches)
    if style == "table":
        _table(schema, counted, out, max_cell_width)
    else:
        {"csv": _csv, "json": _json, "arrow": _arrow}[style](schema, counted, out)
    return counted.num_rows


class _Counted:
    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.num_rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.num_rows += batch.num_rows
            yield batch


def _table(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[str], max_cell_width: int) -> None:
    """Write aligned columns. The first rows set the widths; later, wider ones widen their columns."""
    names = [_printable(name) for name in schema.names]
    align = [any(test(field.type) for test in _ALIGN_RIGHT) for field in schema]
    widths = [_width(name) for name in names]
    rows = ([_cell(value, max_cell_width) for value in row] for row in _rows(batches))
    header = [names]
    while (block := list(itertools.islice(rows, _ROWS_AT_ONCE))) or header:
        for row in block:
            widths = list(map(max, widths, map(_width, row)))
        for row in header:
            print(_line(row, widths, align), "-+-".join("-" * width for width in widths), sep="\n", file=out)
        for row in block:
            print(_line(row, widths, align), file=out)
        header = []


def _csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[str]) -> None:
    """Write CSV: NULL is an empty field, an empty string is a quoted one."""
    print(",".join(map(_field, schema.names)), file=out)
    for row in _rows(batches):
        print(",".join("" if value is None else _field(_text(value)) for value in row), file=out)


def _json(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[str]) -> None:
    """Write one object a line; what JSON cannot say (NaN, decimals, times, bytes) is a string."""
    names = _unique(schema.names)
    for row in _rows(batches):
        record = {name: _plain(value) for name, value in zip(names, row, strict=True)}
        print(json.dumps(record, ensure_ascii=False, allow_nan=False), file=out)


def _arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[str]) -> None:
    if out.isatty():
        raise InvalidInputError("--format arrow writes bytes: send the output to a file or another program")
    with pa.ipc.new_stream(out.buffer, schema) as writer:  # type: ignore[attr-defined]
        for batch in batches:
            writer.write_batch(batch)


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            part = batch.slice(start, _ROWS_AT_ONCE)
            columns = [_values(column) for column in part.columns]
            yield from zip(*columns, strict=True) if columns else itertools.repeat((), part.num_rows)


def _values(column: pa.Array) -> Sequence[Any]:
    """Return Python values; points in time as text, since Python's are less wide and less precise."""
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type) or pa.types.is_time(column.type):
        text = pc.cast(column, pa.string())
        return pc.replace_substring_regex(text, r"\.0+(Z?)$", r"\1").to_pylist()
    try:
        return column.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError):  # a time that Python cannot hold, somewhere inside
        return [
            _inner_text(column.slice(row, 1)) if column[row].is_valid else None for row in range(len(column))
        ]


def _inner_text(value: pa.Array) -> str:
    """Return the one value of an array as Arrow prints it."""
    return " ".join(value.to_string().split())[2:-2]


def _plain(value: Any) -> Any:
    """Return ``value`` as JSON has it."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _text(value)
        case Mapping():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
        case tuple():  # an entry of a map
            return [_plain(inner) for inner in value]
        case _:
            return _text(value)


def _text(value: Any) -> str:
    """Return ``value`` (not None) as one field of text."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value).replace("nan", "NaN")
        case bytes():
            return value.hex()
        case timedelta():
            return f"{value.total_seconds():g} s"
        case Mapping() | list() | tuple():
            return json.dumps(_plain(value), ensure_ascii=False)
        case _:
            return str(value)


def _cell(value: Any, max_width: int) -> str:
    text = "NULL" if value is None else _text(value)
    return _printable(text if len(text) <= max_width else text[: max_width - 1] + "…")


def _printable(text: str) -> str:
    """Return ``text`` on one line and without characters that command a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _width(text: str) -> int:
    """Return the columns that ``text`` takes up on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _line(cells: Sequence[str], widths: Sequence[int], align: Sequence[bool]) -> str:
    padded = []
    for cell, width, right in zip(cells, widths, align, strict=True):
        space = " " * (width - _width(cell))
        padded.append(space + cell if right else cell + space)
    return " | ".join(padded).rstrip()


def _field(text: str) -> str:
    if text and not any(char in text for char in ',"\n\r') and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'


def _unique(names: Sequence[str]) -> list[str]:
    """Return the names, repeated ones with a number: keys of one object differ."""
    unique: dict[str, None] = {}
    for name in names:
        other = name
        for number in itertools.count(2):
            if other not in unique:
                break
            other = f"{name}_{number}"
        unique[other] = None
    return list(unique)
