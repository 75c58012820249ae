"""A DataFusion `DataFrame` that raises the errors of Lance scans as themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lance_df.compute.compat import DataFrame
from lance_df.engine.failures import execution_errors
from lance_df.engine.statement import Statement


class LanceDataFrame(DataFrame):  # type: ignore[misc]
    """What `SessionContext.sql` returns; a `datafusion.DataFrame` in every way.

    Its methods raise `LanceError` where a scan failed, and frames derived from it do the same. What happens
    later than the call, while a stream is consumed, comes as DataFusion puts it: an `Exception` with the
    message.
    """

    def __init__(self, frame: Any, statements: tuple[Statement, ...]) -> None:
        super().__init__(frame)
        self.statements = statements


def _translated(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: LanceDataFrame, *args: Any, **kwargs: Any) -> Any:
        statements = self.statements
        for other in args:
            if isinstance(other, LanceDataFrame):
                statements = (*statements, *other.statements)
        with execution_errors(statements):
            result = method(self, *args, **kwargs)
        return LanceDataFrame(result.df, statements) if type(result) is DataFrame else result

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
