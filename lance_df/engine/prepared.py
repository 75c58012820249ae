"""Prepared statements that read the newest versions when they are executed.

DataFusion plans a statement when it is prepared. Its tables would therefore stay at the versions of that
time, and some conditions that DataFusion pushes into scans could not be executed, such as casts of columns
beside parameters.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from lance_df.compute.compat import DataFrame, PlainSessionContext
from lance_df.sql.splice import quote_identifier
from lance_df.sql.statements import parse_preparation

if TYPE_CHECKING:
    from lance_df.sql.statements import Preparation


class PreparedStatements:
    """The texts of a session's prepared statements, by name."""

    def __init__(self) -> None:
        self._texts: dict[str, Preparation] = {}

    def note(self, text: str) -> None:
        """Record a PREPARE or DEALLOCATE statement that DataFusion has accepted."""
        preparation = parse_preparation(text)
        if preparation is not None and preparation.verb == "PREPARE":
            self._texts[preparation.name] = preparation
        elif preparation is not None and preparation.verb == "DEALLOCATE":
            self._texts.pop(preparation.name, None)

    def planned_anew(self, ctx: PlainSessionContext, text: str) -> DataFrame | None:
        """Prepare the statement of an ``EXECUTE`` again and return its frame; None for other statements."""
        execution = parse_preparation(text)
        if execution is None or execution.verb != "EXECUTE":
            return None
        preparation = self._texts.get(execution.name)
        if preparation is None:
            return None
        name = quote_identifier(str(uuid.uuid4()))
        PlainSessionContext.sql(ctx, f"{preparation.before}{name}{preparation.after}")
        try:
            return PlainSessionContext.sql(ctx, f"{execution.before}{name}{execution.after}")
        finally:
            PlainSessionContext.sql(ctx, f"DEALLOCATE {name}")
