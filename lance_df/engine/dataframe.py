"""A DataFusion `DataFrame` that raises the errors of Lance scans as themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lance_df.compute.compat import DataFrame, PlainSessionContext
from lance_df.engine.failures import execution_errors
from lance_df.engine.statement import Statement


class LanceDataFrame(DataFrame):  # type: ignore[misc]
    """What `SessionContext.sql` returns; a `datafusion.DataFrame` in every way.

    Its methods raise `LanceError` where a scan failed, and frames derived from it do the same. What happens
    later than the call, while a stream is consumed, comes as DataFusion puts it: an `Exception` with the
    message.

    Its schema is that of its batches. DataFusion's own frames say of a union that it has the types of its
    first input, and give rows of the types that both have in common.
    """

    def __init__(self, frame: Any, statements: tuple[Statement, ...], ctx: PlainSessionContext) -> None:
        super().__init__(frame)
        self.statements = statements
        self.ctx = ctx


def with_types_of_rows(ctx: PlainSessionContext, frame: DataFrame, optimized: Any = None) -> DataFrame:
    """Return a frame whose schema has the types of its rows.

    DataFusion gives expressions and unions their common types when it analyzes a plan, which a frame and a
    view of one have not been through.

    Parameters
    ----------
    optimized
        The optimized plan of the frame, if that is known.
    """
    plan = frame.optimized_logical_plan() if optimized is None else optimized
    analyzed = ctx.create_dataframe_from_logical_plan(plan)
    return frame if frame.schema().types == analyzed.schema().types else analyzed


def _translated(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: LanceDataFrame, *args: Any, **kwargs: Any) -> Any:
        statements = self.statements
        for other in args:
            if isinstance(other, LanceDataFrame):
                statements = (*statements, *other.statements)
        with execution_errors(statements):
            result = method(self, *args, **kwargs)
            if type(result) is DataFrame and method.__name__.startswith("union"):
                result = with_types_of_rows(self.ctx, result)
        return LanceDataFrame(result.df, statements, self.ctx) if type(result) is DataFrame else result

    return call


def _methods() -> list[str]:
    """Return the names of DataFrame's own methods that plan or run something, or return a frame."""
    special = {"__repr__", "_repr_html_", "__arrow_c_stream__", "__getitem__"}
    return [
        name
        for name, member in vars(DataFrame).items()
        if callable(member)
        and not isinstance(member, staticmethod)
        and (name in special or not name.startswith("_"))
    ]


for _name in _methods():
    setattr(LanceDataFrame, _name, _translated(getattr(DataFrame, _name)))
