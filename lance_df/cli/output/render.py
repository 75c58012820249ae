"""Write batches of rows as text or bytes, in one of the output formats."""

from __future__ import annotations

from functools import partial
from typing import IO, TYPE_CHECKING, Final

import pyarrow as pa

from lance_df.cli.output.binary_output import write_arrow, write_parquet
from lance_df.cli.output.csv_lines import write_csv
from lance_df.cli.output.json_lines import write_json, write_ndjson
from lance_df.cli.output.table_lines import Screen, write_markdown, write_table
from lance_df.table.reading.batches import CountedBatches

if TYPE_CHECKING:
    from collections.abc import Iterable

_WRITERS: Final = {
    "csv": write_csv,
    "json": write_json,
    "ndjson": write_ndjson,
    "markdown": write_markdown,
    "arrow": write_arrow,
    "parquet": write_parquet,
}


def render(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    style: str,
    out: IO[str],
    max_cell_width: int | None = None,
    max_rows: int | Screen | None = None,
) -> int:
    """Write rows as they arrive and return their number; memory does not grow with it.

    Parameters
    ----------
    style
        One of `lance_df.cli.output.formats.FORMATS`. ``"json"`` is an array, ``"ndjson"`` has one object
        on each line.
        ``"arrow"`` (an IPC stream) and ``"parquet"`` need an ``out`` with a ``buffer`` of bytes.
    max_cell_width
        The width to which values are cut, in tables only. On a screen, all values that do not fit are cut.
    max_rows
        The number of rows to write, or the screen that they have to fit, in tables only. Further rows are
        only counted.
    """
    counted = CountedBatches(batches)
    if style == "table":
        write = partial(write_table, max_cell_width=max_cell_width, max_rows=max_rows)
    else:
        write = partial(_WRITERS[style])
    write(schema, counted, out)
    return counted.num_rows
