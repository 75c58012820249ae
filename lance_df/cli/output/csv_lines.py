"""Write rows as CSV: NULL is an empty field, an empty string is a quoted field."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from lance_df.cli.output.text_buffers import bytes_of, joined, lines_of, replaced, rows_with
from lance_df.cli.output.value_text import TEXT, plain, value_text

if TYPE_CHECKING:
    from collections.abc import Iterable

_SPACES: Final = np.zeros(256, np.bool_)
_SPACES[[9, 10, 11, 12, 13, 32]] = True
_NO_QUOTES: Final = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none", batch_size=8192)
_SPECIAL: Final = np.zeros(256, np.bool_)
_SPECIAL[[ord(char) for char in ',"\n\r']] = True


def write_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[str]) -> None:
    """Write a header line and a line for each row."""
    out.write(",".join(map(_field, schema.names)) + "\n")
    for batch in batches:
        out.write(_lines(batch))


def _lines(batch: pa.RecordBatch) -> str:
    if not batch.num_columns:
        return "\n" * batch.num_rows
    columns = [plain(column) for column in batch.columns]
    texts = [column if _is_as_it_is(column.type) else value_text(column) for column in columns]
    in_quotes = [_in_quotes(text) if pa.types.is_large_string(text.type) else None for text in texts]
    if not any(rows is not None and rows.any() for rows in in_quotes):
        return _without_quotes(texts)
    fields = [
        value_text(text) if rows is None else _quoted(text, rows)
        for text, rows in zip(texts, in_quotes, strict=True)
    ]
    lines = pc.binary_join_element_wise(
        *fields, pa.scalar(",", TEXT), null_handling="replace", null_replacement=""
    )
    return lines_of(lines)


def _is_as_it_is(data_type: pa.DataType) -> bool:
    """Whether pyarrow and lance_df format values of a type in the same way."""
    return bool(pa.types.is_integer(data_type) or pa.types.is_boolean(data_type))


def _without_quotes(columns: list[pa.Array]) -> str:
    """Return lines formatted by pyarrow, without quotes, as it can only quote all strings or none."""
    out = pa.BufferOutputStream()
    rows = pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(len(columns))])
    pyarrow.csv.write_csv(rows, out, _NO_QUOTES)
    return out.getvalue().to_pybytes().decode()


def _field(text: str) -> str:
    if text and not any(char in text for char in ',"\n\r') and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'


def _quoted(text: pa.Array, rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pa.Array:
    """Return fields, with the marked ones in quotes."""
    if not rows.any():
        return text
    fields = pc.replace_substring(text.filter(pa.array(rows)), '"', '""')
    return replaced(text, rows, joined('"', fields, '"'))


def _in_quotes(text: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which rows need quotes: empty, with outer white space, or containing CSV delimiters."""
    offsets, data = bytes_of(text)
    first, end = offsets[:-1], offsets[1:]
    rows = first == end
    full = ~rows
    rows |= rows_with(offsets, data, _SPECIAL)
    rows[full] |= _SPACES[data[first[full]]] | _SPACES[data[end[full] - 1]]
    return rows & text.is_valid().to_numpy(zero_copy_only=False)
