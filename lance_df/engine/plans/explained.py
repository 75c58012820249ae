"""The output of EXPLAIN for a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.dataset

from lance_df.compute.compat import PlainSessionContext, Table
from lance_df.engine.plans.nodes import optimized_plan_of

if TYPE_CHECKING:
    from lance_df.compute.compat import DataFrame

_SCHEMA: Final = pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("plan_type", "plan")])
_SETTINGS: Final = {
    "datafusion.explain.format": "indent",
    **{
        f"datafusion.explain.{name}": "false"
        for name in ("logical_plan_only", "physical_plan_only", "show_schema", "show_statistics")
    },
}


def is_usual(ctx: PlainSessionContext) -> bool:
    """Return whether a session has the default settings of EXPLAIN."""
    names = ", ".join(f"'{name}'" for name in _SETTINGS)
    try:
        rows = PlainSessionContext.sql(
            ctx, f"SELECT name, value FROM information_schema.df_settings WHERE name IN ({names})"
        ).to_pydict()
    except Exception:  # noqa: BLE001 - a session need not have an information schema
        return True
    return dict(zip(rows["name"], rows["value"], strict=True)) == _SETTINGS


def explained(ctx: PlainSessionContext, frame: DataFrame) -> DataFrame:
    """Return the plans of a frame, as EXPLAIN does with the default settings."""
    plans = {
        "logical_plan": optimized_plan_of(frame).shown_whole,
        "physical_plan": frame.execution_plan().display_indent(),
    }
    rows = pa.table([list(plans), list(plans.values())], schema=_SCHEMA)
    return PlainSessionContext.read_table(ctx, Table(pyarrow.dataset.dataset(rows)))
