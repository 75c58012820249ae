"""The parts of DataFusion's Python API that differ between its releases. Tested with 51, 53 and 55."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

import datafusion
from datafusion import (
    DataFrame,
    Expr,
    RuntimeEnvBuilder,
    SessionConfig,
    SQLOptions,
    col,
    functions,
    lit,
    udf,
    udtf,
)
from datafusion import SessionContext as PlainSessionContext
from datafusion.catalog import Catalog, CatalogProvider, Schema, SchemaProvider, Table
from datafusion.plan import LogicalPlan
from datafusion.record_batch import RecordBatch, RecordBatchStream

from lance_df.compute.calls import engine_call
from lance_df.errors import LanceError
from lance_df.interrupts import raised_at_the_end, undisturbed

__all__ = [
    "NO_TABLE",
    "OPTIMIZER_PASSES",
    "Catalog",
    "CatalogProvider",
    "DataFrame",
    "Expr",
    "LogicalPlan",
    "NameList",
    "PlainSessionContext",
    "RecordBatch",
    "RecordBatchStream",
    "RuntimeEnvBuilder",
    "SQLOptions",
    "Schema",
    "SchemaProvider",
    "SessionConfig",
    "Table",
    "as_view",
    "change_settings",
    "col",
    "default_schema_name",
    "functions",
    "joined_subqueries_settings",
    "lit",
    "plain_context",
    "plan_from_bytes",
    "plan_to_bytes",
    "shows_null_aware_joins",
    "udf",
    "udtf",
    "variant",
    "with_settings",
]


class NameList(list[str]):
    """Names that can be read as an attribute, as DataFusion 51 does, or by a call, as later releases do."""

    def __call__(self) -> set[str]:
        return set(self)


def plain_context(config: SessionConfig | None = None) -> PlainSessionContext:
    """Return a new context; its constructor is protected, as it turns KeyboardInterrupt into SystemError."""
    return undisturbed(lambda: PlainSessionContext(config))


OPTIMIZER_PASSES: Final = "datafusion.optimizer.max_passes"
"""The maximum number of optimizer passes for a plan; with 0 it runs unoptimized."""


def with_settings(ctx: PlainSessionContext, changes: Mapping[str, str]) -> PlainSessionContext:
    """Return a context with the tables, memory and functions of another one, but other settings."""
    session = PlainSessionContext.__new__(PlainSessionContext)
    session.ctx = ctx.ctx.enable_url_table()  # the only method that makes a separate context from another one
    change_settings(session, changes)
    return session


def change_settings(ctx: PlainSessionContext, changes: Mapping[str, str]) -> None:
    """Change the settings of a context; existing frames keep the settings with which they were made."""
    for setting, value in changes.items():
        PlainSessionContext.sql(ctx, f"SET {setting} = {value}")


# not the name of any table, so that catalogs need not search for it
NO_TABLE: Final = "__lance_df_no_table_"


def default_schema_name(ctx: PlainSessionContext) -> tuple[str, str]:
    """Return the default catalog and schema. In all releases, only an error message names both."""
    probe = f"{NO_TABLE}{uuid.uuid4().hex}"
    with raised_at_the_end():  # distinguishes what a signal handler raises from these errors
        try:
            with engine_call():
                PlainSessionContext.sql(ctx, f'SELECT * FROM "{probe}"')
        except LanceError:
            raise
        except Exception as err:  # noqa: BLE001 - it raises nothing narrower
            schema_name = str(err).rpartition(f".{probe}")[0].rpartition("table '")[2]
            for catalog in (*ctx.catalog_names(), schema_name.partition(".")[0]):
                if schema_name.startswith(f"{catalog}."):
                    return catalog, schema_name.removeprefix(f"{catalog}.")
        return "datafusion", "public"


def variant(plan: Any) -> Any:
    """Return the node of a logical plan, or None if its kind has no Python class."""
    try:
        return plan.to_variant()
    except (TypeError, ValueError, RuntimeError):
        return None


def as_view(frame: DataFrame) -> Table:
    """Return a table that plans ``frame`` each time it is used."""
    return frame.into_view()


_RELEASE: Final = int(datafusion.__version__.partition(".")[0])


def shows_null_aware_joins() -> bool:
    """Return whether a plan shows which anti joins are those of ``NOT IN``, for which NULL matters."""
    return _RELEASE < 52 or _RELEASE >= 55  # before 52 there are no such joins


def key_array_settings(density: float) -> dict[str, str]:
    """Return settings that let joins index integer keys by an array filled to at least ``density``."""
    return {"datafusion.execution.perfect_hash_join_min_key_density": str(density)} if _RELEASE >= 53 else {}


def joined_subqueries_settings() -> dict[str, str]:
    """Return settings that let plans join the results of scalar subqueries, as earlier releases always do."""
    name = "datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery"
    return {name: "false"} if _RELEASE >= 55 else {}


def plan_to_bytes(plan: Any) -> bytes:
    """Return a plan as DataFusion's protobuf message ``LogicalPlanNode``."""
    return (plan.to_bytes if hasattr(plan, "to_bytes") else plan.to_proto)()


def plan_from_bytes(ctx: PlainSessionContext, data: bytes) -> Any:
    """Return the plan that a ``LogicalPlanNode`` message describes."""
    return (LogicalPlan.from_bytes if hasattr(LogicalPlan, "from_bytes") else LogicalPlan.from_proto)(
        ctx, data
    )
