"""A DataFusion `DataFrame` that raises the original errors of Lance scans."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from lance_df.compute.compat import DataFrame, PlainSessionContext, RecordBatch, RecordBatchStream
from lance_df.engine.failures import run_apart
from lance_df.engine.plans.nodes import NO_LIMIT, Limit, PlanNode, Sort, frame_of, optimized_plan_of, plan_of
from lance_df.engine.plans.walks import has_subquery, limits_rows, nodes
from lance_df.engine.statement import Statement
from lance_df.errors import LanceError
from lance_df.forks import Origin

# these convert to Python objects with one call of pyarrow
_OBJECT_ROWS: Final = 4096
_NUM_SHOWN: Final = 20
# methods that run or plan the frame as it is; the other methods add a node above it first
_RUN: Final = frozenset(
    {
        "__arrow_c_stream__",
        "collect",
        "collect_partitioned",
        "execute_stream",
        "execute_stream_partitioned",
        "execution_plan",
        "explain",
        "optimized_logical_plan",
        "to_arrow_table",
        "to_pandas",
        "to_polars",
    }
)


class LanceDataFrame(DataFrame):  # type: ignore[misc]
    """A `datafusion.DataFrame`, as `SessionContext.sql` returns it.

    If a scan fails, its methods raise `LanceError`. So do its streams and the frames that are derived from
    it.

    The schema of the frame is that of its batches. For a union, the schema of a plain DataFusion frame has
    the types of the first input, whereas its rows have the common types of both inputs.

    Parameters
    ----------
    frame
        The frame of DataFusion.
    statements
        The statements that the frame reads, and those of the frames it was derived from.
    ctx
        The context in which the frame is planned.
    as_run
        A frame with the same rows that is run in place of this one, without being optimized again.
    """

    def __init__(
        self,
        frame: Any,
        statements: tuple[Statement, ...],
        ctx: PlainSessionContext,
        as_run: DataFrame | None = None,
    ) -> None:
        super().__init__(frame)
        self.statements = statements
        self.ctx = ctx
        self._as_run = as_run

    def _repr_html_(self) -> str:
        return frame_html(self)

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries."""
        # converts a few rows at a time, because pyarrow does not check for signals while it creates objects
        parts = self.to_arrow_table().to_batches(max_chunksize=_OBJECT_ROWS)
        return [row for part in parts for row in part.to_pylist()]

    def to_pydict(self) -> dict[str, list[Any]]:
        """Return the columns as lists."""
        table = self.to_arrow_table()
        parts = [range(start, start + _OBJECT_ROWS) for start in range(0, table.num_rows, _OBJECT_ROWS)]
        return {
            name: [value for part in parts for value in column.slice(part.start, len(part)).to_pylist()]
            for name, column in zip(table.column_names, table.columns, strict=True)
        }


def frame_html(frame: LanceDataFrame) -> str:
    """Return the first rows as HTML, or the error if the statement fails."""
    from lance_df.display.elements import note
    from lance_df.display.rows import rows_html

    batches: list[pa.RecordBatch] = []
    num_rows = 0
    try:
        schema = frame.schema()
        stream = frame.execute_stream()
        while num_rows <= _NUM_SHOWN and (batch := next(stream, None)) is not None:
            batches.append(batch.to_pyarrow())
            num_rows += batches[-1].num_rows
    except LanceError as err:
        return f"<div>{note(f'The rows cannot be read: {err}')}</div>"
    rows = pa.Table.from_batches(batches, batches[0].schema if batches else schema)
    more = note("… more rows") if num_rows > _NUM_SHOWN else ""
    return f"<div>{rows_html(rows, len(schema), _NUM_SHOWN)}{more}</div>"


def with_types_of_rows(
    ctx: PlainSessionContext, frame: DataFrame, optimized: PlanNode | None = None
) -> DataFrame:
    """Return a frame whose schema has the types of its rows.

    DataFusion gives expressions and unions their common types when it analyzes a plan. A frame, and a view of
    one, has not been analyzed yet.

    Parameters
    ----------
    optimized
        The optimized plan of the frame, if it is known.
    """
    analyzed = frame_of(ctx, optimized_plan_of(frame) if optimized is None else optimized)
    return frame if frame.schema().types == analyzed.schema().types else with_outer_limit(analyzed)


def with_outer_limit(frame: DataFrame) -> DataFrame:
    """Return a frame whose limits also hold when its plan becomes part of another plan, such as a view.

    The frame may have an optimized plan, in which a sort holds the limit. DataFusion removes sorts from
    subqueries and views, and the limit with them, unless there is a limit above the sort.
    """
    plan = plan_of(frame)
    if not limits_rows(plan) or isinstance(plan, Limit):
        return frame
    is_bare = any(isinstance(node, Sort) and node.fetch is not None for node in nodes(plan))
    return DataFrame(frame.df.limit(NO_LIMIT, 0)) if is_bare or has_subquery(plan) else frame


class LanceStream(RecordBatchStream):  # type: ignore[misc]
    """A stream of batches that raises `LanceError` if a scan fails."""

    def __init__(self, stream: RecordBatchStream, statements: tuple[Statement, ...]) -> None:
        super().__init__(stream.rbs)
        self._statements = statements
        self._origin = Origin()

    def __next__(self) -> RecordBatch:
        """Return the next batch.

        Raises
        ------
        LanceError
            A scan failed.
        """
        self._origin.check()
        batch = run_apart(self._statements, lambda: next(self.rbs, None))
        if batch is None:
            raise StopIteration
        return RecordBatch(batch)


def _translated(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: LanceDataFrame, *args: Any, **kwargs: Any) -> Any:
        statements = self.statements
        for other in args:
            if isinstance(other, LanceDataFrame):
                statements = (*statements, *other.statements)

        def run() -> Any:
            frame = self._as_run if method.__name__ in _RUN else None
            result = method(self if frame is None else frame, *args, **kwargs)
            if type(result) is DataFrame and method.__name__.startswith("union"):
                return with_types_of_rows(self.ctx, result)
            return result

        result = run_apart(statements, run)
        return _shown(result, statements, self.ctx)

    return call


def _shown(result: Any, statements: tuple[Statement, ...], ctx: PlainSessionContext) -> Any:
    if type(result) is DataFrame:
        return LanceDataFrame(result.df, statements, ctx)
    if type(result) is RecordBatchStream:
        return LanceStream(result, statements)
    if type(result) is list:
        return [_shown(each, statements, ctx) for each in result]
    return result


def _methods() -> list[str]:
    """Return the names of DataFrame's own methods that plan or run something, or return a frame."""
    special = {"__repr__", "_repr_html_", "__arrow_c_stream__", "__getitem__"}
    return [
        name
        for name, member in vars(DataFrame).items()
        if callable(member)
        and not isinstance(member, staticmethod)
        and (name in special or not name.startswith("_"))
        and name not in vars(LanceDataFrame)
    ]


for _name in _methods():
    setattr(LanceDataFrame, _name, _translated(getattr(DataFrame, _name)))
