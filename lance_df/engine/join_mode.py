"""Whether hash joins collect the side that they build on, or divide both sides by a hash of the keys.

To divide a side costs about as much for each row as to build on it, so where the other side is the larger one
a join takes less if only what it builds on is gathered. DataFusion does so where statistics say that it is
small, which it gets none of through Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_df.compute.compat import DataFrame, LogicalPlan, PlainSessionContext
from lance_df.engine.join_sizes import Size, may_be_large, scanned_size, size_above
from lance_df.engine.plans.nodes import Join, Scan, node_of
from lance_df.records import dataclass
from lance_df.scan.run import num_cores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.engine.statement import ResolvedTable, Statement

# one array has room for so many strings, and guesses are rough
_MOST_BUILT_ROWS: Final = 2_000_000
_DIVIDES: Final = "datafusion.optimizer.repartition_joins"
_PARTITIONS: Final = "datafusion.execution.target_partitions"


class JoinMode:
    """Plans statements of one session so that their joins collect what they build on, where that pays."""

    def __init__(self) -> None:
        self._settings: dict[str, str] | None = None

    def forget(self, statement: str) -> None:
        """Look up settings anew if a statement, in lower case, may have changed them."""
        if _DIVIDES in statement or _PARTITIONS in statement:
            self._settings = None

    def apply(
        self, ctx: PlainSessionContext, statement: Statement, frame: DataFrame, plan: LogicalPlan
    ) -> DataFrame:
        """Return a frame with the same rows.

        Parameters
        ----------
        frame, plan
            The statement, and its optimized plan.
        """
        tables = tuple(statement.tables.values())
        if not may_be_large(tables):
            return frame
        settings = self._settings_of(ctx)
        num_partitions = int(settings.get(_PARTITIONS, "1"))
        if settings.get(_DIVIDES) != "true" or num_partitions == 1:
            return frame
        if not _Joins(tables, num_partitions).are_better_collected(plan):
            return frame
        for table in tables:
            # The partition whose thread finishes building goes on without a pause, and the one that it wakes
            # last waits for that thread: only with one more are all cores busy.
            table.provider.num_partitions = num_cores() + 1
        # a frame keeps the settings that there are when it is made
        PlainSessionContext.sql(ctx, f"SET {_DIVIDES} = false")
        try:
            return ctx.create_dataframe_from_logical_plan(frame.logical_plan())
        finally:
            PlainSessionContext.sql(ctx, f"SET {_DIVIDES} = true")

    def _settings_of(self, ctx: PlainSessionContext) -> dict[str, str]:
        if self._settings is None:
            query = (
                "SELECT name, value FROM information_schema.df_settings "
                f"WHERE name IN ('{_DIVIDES}', '{_PARTITIONS}')"
            )
            try:
                found = PlainSessionContext.sql(ctx, query).to_pydict()
            except Exception:  # noqa: BLE001 - a session need not have an information schema
                self._settings = {}
            else:
                self._settings = dict(zip(found["name"], found["value"], strict=True))
        return self._settings


@dataclass(frozen=True, slots=True)
class _Joins:
    tables: Sequence[ResolvedTable]
    num_partitions: int

    def are_better_collected(self, plan: LogicalPlan) -> bool:
        """Return whether there are joins by keys in a plan, and all of them build on few enough rows."""
        verdicts: list[bool] = []
        self._look(plan, verdicts)
        return bool(verdicts) and all(verdicts)

    def _look(self, plan: LogicalPlan, verdicts: list[bool]) -> Size | None:
        node = node_of(plan)
        if isinstance(node, Scan):
            return scanned_size(node, self.tables)
        sizes = [self._look(child, verdicts) for child in node.inputs]
        if isinstance(node, Join) and node.on:
            verdicts.append(self._is_better_collected(*sizes))
        known = [size for size in sizes if size is not None]
        return size_above(node, known) if sizes and len(known) == len(sizes) else None

    def _is_better_collected(self, built: Size | None, other: Size | None) -> bool:
        if built is None or other is None or built.rows > _MOST_BUILT_ROWS:
            return False
        # one thread builds what others would build in parts
        return built.rows * (self.num_partitions - 2) <= other.rows
