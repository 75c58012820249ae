"""Storage-partitioned joins: join namespaces, and group the rows of one, partition by partition.

The statement is planned again for each unit of partitions, with providers that only read this unit. The
divisible part is extracted from each of these plans. The union of these parts replaces the part in the plan
of the whole statement. DataFusion therefore plans every step, and nothing is translated. If anything about a
plan is not known, the plan stays unchanged.

Spec: partitioning, "Storage Partitioned Join" and appendix F.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_df.compute.compat import DataFrame, Expr, PlainSessionContext, key_array_settings, with_settings
from lance_df.engine.optimizer.rules.join_side import with_small_sides_built
from lance_df.engine.optimizer.rules.partitioned_join.analysis import Part, divisible_parts
from lance_df.engine.optimizer.rules.partitioned_join.unit_stream import Width, streamed
from lance_df.engine.optimizer.rules.partitioned_join.unit_tables import Turns, UnitTable
from lance_df.engine.optimizer.rules.partitioned_join.units import Units, units_of
from lance_df.engine.plans.logical_scans import visible_scans
from lance_df.engine.plans.nodes import (
    Aggregate,
    Join,
    PlanNode,
    Sort,
    Window,
    frame_of,
    optimized_plan_of,
    plan_of,
)
from lance_df.engine.plans.partial_aggregates import PartialAggregate
from lance_df.engine.plans.qualified_columns import renaming
from lance_df.engine.plans.rebuild import (
    NotRebuiltError,
    columns_of,
    has_joins_above,
    numbered_name,
    rebuilt,
    with_numbered_columns,
)
from lance_df.engine.plans.walks import (
    Path,
    chain,
    groups_rows,
    has_node,
    have_same_shape,
    holds_in_subquery,
    node_at,
)
from lance_df.engine.report import JoinReport
from lance_df.scan.run import num_cores

if TYPE_CHECKING:
    from lance_df.engine.optimizer.join_options import JoinOptions
    from lance_df.engine.optimizer.planned import Context, Planned
    from lance_df.engine.provider import LanceTableProvider
    from lance_df.engine.statement import Statement

_ONE_BY_ONE: Final = (
    "datafusion.optimizer.repartition_joins",
    "datafusion.optimizer.enable_round_robin_repartition",
    # computed from the first table of a join for the second table, whose scan does not use it
    "datafusion.optimizer.enable_join_dynamic_filter_pushdown",
)
_BATCH_SIZE: Final = "datafusion.execution.batch_size"
_PARTITIONS: Final = "datafusion.execution.target_partitions"
_BATCH_ROWS: Final = 32 * 1024
# a group has some batches in memory: those that its join computes, and those that wait for the consumer
_STREAMED_BATCH_ROWS: Final = 16 * 1024
# Buckets leave gaps between keys, so with DataFusion's own bound no keys are looked up in an array. At this
# density an array takes four times as much memory as a hash table, so there is a bound for all arrays
# together.
_MIN_KEY_DENSITY: Final = 0.025
_DEFAULT_KEY_DENSITY: Final = 0.15
_KEY_SLOT_BYTES: Final = 4
_KEY_ARRAY_BYTES: Final = 256 * 1024 * 1024
_MIN_KEY_ARRAY_BYTES: Final = 32 * 1024 * 1024
# DataFusion sorts the inputs of a union, and then no longer knows that some columns are equal
_SORTS_EACH: Final = "datafusion.optimizer.repartition_sorts"
_REPARTITIONED: Final = (
    "datafusion.optimizer.repartition_aggregations",
    "datafusion.optimizer.repartition_windows",
)


def partitioned_join(planned: Planned, context: Context) -> Planned | None:
    """Join and group namespaces partition by partition."""
    statement, options = context.statement, context.joins
    if not any(map(_may_be_divided, planned.read.nodes)):
        return None
    if options.partitioned_joins == "never":
        statement.joins.append(JoinReport("joins and groups", "not by partition: switched off"))
        return None
    chosen: list[tuple[Part, Units]] = []
    try:
        analysis = divisible_parts(
            context.session,
            tuple(planned.tables.values()),
            planned.optimized,
            visible_scans(planned.optimized),
            not_in=holds_in_subquery(plan_of(planned.frame)),
        )
        statement.joins += [JoinReport(join, f"not by partition: {why}") for join, why in analysis.refused]
        chosen += _chosen(statement, planned.optimized, analysis.parts, options)
        if not chosen:
            return None
        divided = _Rewriting(context, planned).divided(
            chosen, planned.frame.schema(), options.join_memory_limit
        )
    except Exception as err:
        statement.forget_units()
        joins = [step for part, _ in chosen for step in part.steps] or ["joins"]
        statement.joins += [JoinReport(join, f"not by partition: {err}") for join in joins]
        raise
    for part, units in chosen:
        statement.joins += [JoinReport(step, _effect(part, units)) for step in part.steps]
    return divided


def _is_sorted_above(plan: PlanNode, path: Path) -> bool:
    """Return whether the rows of a part are sorted above it before they are aggregated."""
    above = reversed(chain(plan, path)[:-1])
    first = next((node for node in above if isinstance(node, Aggregate | Sort | Window)), None)
    return first is not None and not isinstance(first, Aggregate)


def _may_be_divided(node: PlanNode) -> bool:
    """Return whether a node is a join, a window, or an aggregation by some columns."""
    return isinstance(node, Join | Window) or (isinstance(node, Aggregate) and bool(node.groups))


def _chosen(
    statement: Statement, plan: PlanNode, parts: Sequence[Part], options: JoinOptions
) -> Iterator[tuple[Part, Units]]:
    for part in parts:
        units = _groups_are_joined(plan, part, options) or units_of(part, options)
        if isinstance(units, str):
            statement.joins += [JoinReport(step, f"not by partition: {units}") for step in part.steps]
        else:
            yield part, units


def _groups_are_joined(plan: PlanNode, part: Part, options: JoinOptions) -> str | None:
    """Return the reason if a grouping part is left to the rules for joins above it; otherwise None."""
    if part.joins or options.partitioned_joins == "always" or options.join_memory_limit is not None:
        return None
    is_joined = any(isinstance(node, Join) for node in chain(plan, part.path)[:-1])
    return "its groups are joined, and how they are joined depends on their sizes" if is_joined else None


def _effect(part: Part, units: Units) -> str:
    functions = "" if part.grouping is None else ", ".join(part.grouping.functions)
    at_once = "" if units.at_once is None else f", {units.at_once} at a time"
    return f"by partition: {units.num_groups:,} groups by {functions}, in {len(units.units):,} units{at_once}"


class _Rewriting:
    def __init__(self, context: Context, planned: Planned) -> None:
        self._ctx = context.session
        self._statement = context.statement
        self._planned = planned
        self._plan = planned.optimized
        self._tables = tuple(planned.tables.values())

    def divided(self, chosen: Sequence[tuple[Part, Units]], schema: pa.Schema, limit: int | None) -> Planned:
        paths = [part.path for part, _ in chosen]
        settings = () if has_joins_above(self._plan, paths) else _ONE_BY_ONE
        has_groups = any(groups_rows(part.node) for part, _ in chosen)
        if has_groups:
            settings = (*settings, *_REPARTITIONED)
        if any(_is_sorted_above(self._plan, path) for path in paths):
            settings = (*settings, _SORTS_EACH)
        if all(units.at_once is None for _, units in chosen):
            limit = None
        memory_rows = sum(units.memory_rows for part, units in chosen if part.joins)
        changes = dict.fromkeys(settings, "false") | _execution(memory_rows, limit, has_groups)
        if any(has_node(part.node, Window) for part, _ in chosen):
            # sorted rows are merged from batches, and sorting larger batches takes longer
            changes.pop(_BATCH_SIZE, None)
        session = with_settings(self._ctx, changes)
        replacements = dict(self._stand_in(session, part, units) for part, units in chosen)
        frame = rebuilt(session, self._plan, (), replacements)
        if frame.schema() != schema:
            raise NotRebuiltError(f"the result would have the columns {frame.schema().names}")
        return self._planned.replanned(frame, is_final=True).with_settings(changes)

    def _stand_in(self, ctx: PlainSessionContext, part: Part, units: Units) -> tuple[Path, DataFrame]:
        """Return the path of the part, or of the aggregate above it, and the frame that replaces it."""
        aggregate = None
        if units.at_once is not None and part.path:
            aggregate = PartialAggregate.of(ctx, node_at(self._plan, part.path[:-1]))
        path = part.path if aggregate is None else part.path[:-1]
        whole = frame_of(ctx, part.node)
        builds_other_sides = self._with_small_sides(ctx, whole, part.node) is not None

        def frame(stand_ins: Mapping[int, Any]) -> DataFrame:
            node = self._planned_over(stand_ins, path)
            rows = node if aggregate is None else node.inputs[0]
            joined = frame_of(ctx, rows)
            if builds_other_sides:
                joined, rows = self._with_small_sides(ctx, joined, rows) or (joined, rows)
            return _numbered(joined, rows) if aggregate is None else aggregate.over(node, joined)

        if units.at_once is None:
            result = reduce(DataFrame.union, (frame(each) for each in self._providers(part, units)))
        else:
            result = self._in_turn(ctx, part, units, frame, units.at_once)
        if aggregate is not None:
            return path, aggregate.merged(ctx, result)
        columns = columns_of(whole, part.node)
        if not columns:
            return path, result
        return path, result.select(*renaming(ctx, list(zip(result.schema().names, columns, strict=True))))

    def _with_small_sides(
        self, ctx: PlainSessionContext, frame: DataFrame, plan: PlanNode
    ) -> tuple[DataFrame, PlanNode] | None:
        return with_small_sides_built(ctx, self._tables, frame.schema(), plan)

    def _in_turn(
        self,
        ctx: PlainSessionContext,
        part: Part,
        units: Units,
        frame: Callable[[Mapping[int, Any]], DataFrame],
        at_once: int,
    ) -> DataFrame:
        """Return the rows of all units, of which only some are computed at a time.

        Parameters
        ----------
        frame
            A function that returns the rows of a unit, given the tables of the unit by their keys.
        """
        turns = Turns()
        providers = list(self._providers(part, units))
        count = len(providers)
        shared = frame({key: UnitTable([unit[key] for unit in providers], turns) for key in providers[0]})

        def release(number: int) -> None:
            units.units[number].release_pages(part)

        def plan(number: int) -> Any:
            with turns.alone(number):
                return ctx.create_dataframe_from_logical_plan(shared.logical_plan()).execution_plan()

        self._statement.unit_plans += [partial(plan, number) for number in range(count)]
        return streamed(ctx, [shared] * count, at_once, release, _width(ctx, at_once), turns)

    def _providers(self, part: Part, units: Units) -> Iterator[dict[int, LanceTableProvider]]:
        """Yield the providers of each unit, by the keys of the tables."""
        num_partitions = 1 if units.at_once is not None else num_cores()
        num_threads = 1 if units.at_once is None else _threads_each(units.at_once)
        for unit in units.units:
            providers = dict(unit.providers(part, units.num_rows, num_partitions, num_threads=num_threads))
            self._statement.units += providers.items()
            yield providers

    def _planned_over(self, stand_ins: Mapping[int, Any], path: Path) -> PlanNode:
        """Return the node at ``path`` of the statement's plan over other tables."""
        self._statement.stand_ins.update(stand_ins)
        try:
            whole = optimized_plan_of(self._planned.plan(self._planned.tables).frame)
        finally:
            self._statement.stand_ins.clear()
        node = node_at(whole, path)
        if not have_same_shape(node, node_at(self._plan, path)):
            raise NotRebuiltError("the statement is planned differently for some partitions")
        return node


def _threads_each(at_once: int) -> int:
    """Return how many threads compute a unit."""
    return max(1, num_cores() // at_once)


def _width(ctx: PlainSessionContext, at_once: int) -> Width | None:
    """Return the settings for computing a unit with several threads; None if there are no spare cores."""
    num_threads = _threads_each(at_once)
    if num_threads < 2:
        return None
    # one more partition than threads, as in `join_mode`
    partitions = num_threads + 1
    return Width(with_settings(ctx, {_PARTITIONS: str(partitions)}), partitions)


def _numbered(frame: DataFrame, plan: PlanNode) -> DataFrame:
    """Return the rows of a plan with numbered column names. A plan without columns gets a dummy column."""
    if not plan.columns:
        return frame.select(Expr.literal(True).alias(numbered_name(0)))
    return with_numbered_columns(frame, plan)


def _execution(memory_rows: int, limit: int | None, has_groups: bool) -> dict[str, str]:
    """Return settings for joins that keep ``memory_rows`` rows in memory, and may group their results."""
    if limit is None:
        changes = {_BATCH_SIZE: str(_BATCH_ROWS)}
        arrays = _KEY_ARRAY_BYTES
    else:
        changes = {
            _BATCH_SIZE: str(_STREAMED_BATCH_ROWS),
            # in one thread, that of the consumer: it may wait for units, but DataFusion's threads may not
            _PARTITIONS: "1",
        }
        arrays = min(_KEY_ARRAY_BYTES, max(_MIN_KEY_ARRAY_BYTES, limit // 2))
        if has_groups:  # groups are in memory, too
            arrays //= 2
    density = max(_MIN_KEY_DENSITY, memory_rows * _KEY_SLOT_BYTES / arrays)
    if density < _DEFAULT_KEY_DENSITY:
        changes |= key_array_settings(density)
    return changes
