"""Run statements: rows go to an output, their number and the time go to stderr."""

from __future__ import annotations

import itertools
import sys
import time
from typing import IO, TYPE_CHECKING

from lance_df.cli.output.render import render
from lance_df.cli.progress import Progress
from lance_df.cli.stuck import leaving_when_stuck
from lance_df.display.numbers import number_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from lance_df.cli.files import FileTables
    from lance_df.cli.output.table_lines import Screen
    from lance_df.engine.dataframe import LanceDataFrame
    from lance_df.engine.session import SessionContext


def run_statement(
    ctx: SessionContext,
    statement: str,
    *,
    style: str,
    out: IO[str],
    files: FileTables | None = None,
    max_rows: int | Screen | None = None,
    timing: bool = True,
    is_quiet: Callable[[], bool] = lambda: False,
) -> bool:
    """Run one statement, write its rows to ``out``, and their number and the time to stderr.

    Parameters
    ----------
    files
        The file tables of the session; without them, quoted texts in FROM are names.
    timing
        Whether to print the time.
    is_quiet
        Returns whether another program currently uses the terminal.

    Returns
    -------
    Whether the statement has a result, which may have no rows.
    """
    began = time.perf_counter()
    if files is not None:
        files.register_for(statement)
    frame: list[LanceDataFrame] = []
    progress = Progress(lambda: sum(map(_rows_read, frame)), is_quiet=is_quiet)
    with leaving_when_stuck(is_quiet), progress:
        frame.append(ctx.sql(statement))
        stream = (batch.to_pyarrow() for batch in frame[0].execute_stream())
        schema, batches = _with_schema(frame[0].schema(), progress.counted(stream))
        if schema.names:
            num_rows = render(schema, batches, style=style, out=out, max_rows=max_rows)
        else:
            num_rows = _drain(batches)
        out.flush()
    if schema.names or num_rows:
        seconds = f", {time.perf_counter() - began:.3f} s" if timing else ""
        print(f"({number_text(num_rows, 'row')}{seconds})", file=sys.stderr)
    return bool(schema.names)


def _rows_read(frame: LanceDataFrame) -> int:
    return sum(
        table.log.counters.rows for statement in frame.statements for table in statement.tables.values()
    )


def _with_schema(
    planned: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema of the batches, which may differ from the planned one in nullability."""
    first = next(batches, None)
    if first is None:
        return planned, iter(())
    return first.schema, itertools.chain([first], batches)


def _drain(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)
