"""What is used of DataFusion's Python API, which differs between its releases. Tested with 51, 53 and 55."""

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
    """Names that may be read as an attribute, as DataFusion 51 does, or by a call, as later ones do."""

    def __call__(self) -> set[str]:
        return set(self)


def plain_context(config: SessionConfig | None = None) -> PlainSessionContext:
    """Return a new context of DataFusion, whose constructor makes a SystemError of a KeyboardInterrupt."""
    return undisturbed(lambda: PlainSessionContext(config))


OPTIMIZER_PASSES: Final = "datafusion.optimizer.max_passes"
"""How often a plan goes through the optimizer; with 0 it runs as it is."""


def with_settings(ctx: PlainSessionContext, changes: Mapping[str, str]) -> PlainSessionContext:
    """Return a context with the tables, memory and functions of another, and some settings of its own."""
    session = PlainSessionContext.__new__(PlainSessionContext)
    session.ctx = ctx.ctx.enable_url_table()  # the one method that makes a context of its own from another
    change_settings(session, changes)
    return session


def change_settings(ctx: PlainSessionContext, changes: Mapping[str, str]) -> None:
    """Give a context other settings; frames keep those that there were when they were made."""
    for setting, value in changes.items():
        PlainSessionContext.sql(ctx, f"SET {setting} = {value}")


# what no table is called: catalogs need not look for it
NO_TABLE: Final = "__lance_df_no_table_"


def default_schema_name(ctx: PlainSessionContext) -> tuple[str, str]:
    """Return the catalog and schema of bare table names. Only an error names them in every release."""
    probe = f"{NO_TABLE}{uuid.uuid4().hex}"
    with raised_at_the_end():  # what a handler of signals raises is none of these errors
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
    """Return the node of a logical plan, or None for a kind that has no Python class."""
    try:
        return plan.to_variant()
    except (TypeError, ValueError, RuntimeError):
        return None


def as_view(frame: DataFrame) -> Table:
    """Return a table that plans ``frame`` wherever it is used."""
    return frame.into_view()


_RELEASE: Final = int(datafusion.__version__.partition(".")[0])


def shows_null_aware_joins() -> bool:
    """Return whether a plan shows which of its anti joins is that of a ``NOT IN``, where NULL matters."""
    return _RELEASE < 52 or _RELEASE >= 55  # before 52 there are none


def key_array_settings(density: float) -> dict[str, str]:
    """Return what lets joins look up integer keys in an array of which no less than ``density`` is filled."""
    return {"datafusion.execution.perfect_hash_join_min_key_density": str(density)} if _RELEASE >= 53 else {}


def joined_subqueries_settings() -> dict[str, str]:
    """Return what lets plans join the results of scalar subqueries; earlier releases always do."""
    name = "datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery"
    return {name: "false"} if _RELEASE >= 55 else {}


def plan_to_bytes(plan: Any) -> bytes:
    """Return a plan as DataFusion's protobuf message ``LogicalPlanNode``."""
    return (plan.to_bytes if hasattr(plan, "to_bytes") else plan.to_proto)()


def plan_from_bytes(ctx: PlainSessionContext, data: bytes) -> Any:
    """Return the plan that a message describes."""
    return (LogicalPlan.from_bytes if hasattr(LogicalPlan, "from_bytes") else LogicalPlan.from_proto)(
        ctx, data
    )
