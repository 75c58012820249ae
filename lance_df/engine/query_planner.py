"""Plan the queries of a session with DataFusion and the optimizer rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow.dataset

from lance_df.compute.compat import (
    OPTIMIZER_PASSES,
    DataFrame,
    PlainSessionContext,
    SQLOptions,
    Table,
    as_view,
    change_settings,
    with_settings,
)
from lance_df.engine.dataframe import LanceDataFrame, with_outer_limit, with_types_of_rows
from lance_df.engine.optimizer.join_options import JoinOptions, JoinSettings
from lance_df.engine.optimizer.planned import Context, Planned, PlannedFrame, may_be_large
from lance_df.engine.plans.logical_scans import PlanScans, is_among, visible_scans
from lance_df.engine.plans.nodes import NO_LIMIT, Join, PlanNode, Scan, frame_of, optimized_plan_of, plan_of
from lance_df.engine.plans.walks import may_call, may_join_without_keys, nodes, scans_joined_without_keys
from lance_df.engine.provider import holds_dictionaries, holds_json
from lance_df.engine.pruning.requests import requests_of
from lance_df.engine.tables.created import query_of_created_table
from lance_df.records import replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lance_df.engine.prepared import PreparedStatements
    from lance_df.engine.session import LanceSession
    from lance_df.engine.statement import PlannedTable, Statement

ONLY_QUERIES: Final = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
_INSERTED: Final = "__lance_df_inserted"
_SMALL_BATCH: Final = 8192
# a plan with fewer nodes is optimized again faster than a context without optimization is created
_WORTH_NODES: Final = 6
# The dynamic join filters of DataFusion treat -0.0 and 0.0 as different values. Scans of lance_df do not
# receive these filters, but filter nodes above the scans do.
_WITHOUT_JOIN_FILTERS: Final = {"datafusion.optimizer.enable_join_dynamic_filter_pushdown": "false"}


class QueryPlanner:
    """The planner for the queries of one session.

    Attributes
    ----------
    user_functions
        The names of the functions that the user registered.
    """

    def __init__(self) -> None:
        self.user_functions: set[str] = set()
        self._join_settings = JoinSettings()
        self._prepared: PreparedStatements | None = None

    def plan(
        self,
        session: LanceSession,
        query: str,
        statement: Statement,
        options: SQLOptions | None,
        param_values: dict[str, Any] | None,
    ) -> LanceDataFrame:
        """Plan a query or another DataFusion statement. DataFusion runs some statements immediately.

        Raises
        ------
        Exception
            Raised by DataFusion: the statement is invalid.
        LanceError
            A table cannot be opened.
        """

        def plan() -> DataFrame:
            frame = PlainSessionContext.sql(session, query, options, param_values)
            anew = None if self._prepared is None else self._prepared.planned_anew(session, query)
            return frame if anew is None else anew

        # predicates prove nothing if user-defined functions replace built-in ones
        can_prove = not (self.user_functions and _replaces_functions(self.user_functions))
        tables: Mapping[int, PlannedTable] = {}
        if (source := query_of_created_table(query)) is not None:  # DataFusion runs it immediately
            ahead, _ = statement.planned_over(
                {},
                lambda: PlainSessionContext.sql(session, source, ONLY_QUERIES, param_values),
            )
            tables, _ = _requests(session, statement, optimized_plan_of(ahead), can_prove)
        frame, slots = statement.planned_over(tables, plan)
        optimized_plan = optimized_plan_of(frame)
        if not statement.tables:
            statement.stops_late = may_join_without_keys(nodes(optimized_plan))
            return LanceDataFrame(
                with_types_of_rows(session, frame, optimized_plan).df, (statement,), session
            )
        if any(holds_json(table.scan.source) for table in statement.tables.values()):
            from lance_df.engine.json_comparisons import check_json_comparisons

            check_json_comparisons(session, frame, statement.tables.values())
        tables, read = _requests(session, statement, optimized_plan, can_prove)
        statement.note(tables)
        if read is None:
            frame = with_types_of_rows(session, statement.planned_over(tables, plan)[0])
            return LanceDataFrame(frame.df, (statement,), session)
        typed = with_types_of_rows(session, frame, optimized_plan)

        def plan_again(others: Mapping[int, PlannedTable]) -> PlannedFrame:
            again, slots = statement.planned_over(others, plan)
            return PlannedFrame(again if typed is frame else with_types_of_rows(session, again), slots)

        is_large = can_prove and may_be_large(tables)
        settings = _WITHOUT_JOIN_FILTERS if _joins_ours(tables, read) else {}
        planned = Planned(typed, optimized_plan, tables, plan_again, slots, read, is_large, settings=settings)
        if can_prove and not statement.is_change and (is_large or planned.reads_namespaces):
            from lance_df.engine.optimizer.driver import optimized

            planned = optimized(planned, self._context(session, statement))
        planned.complete()
        statement.note(planned.tables)
        return self._runnable(session, statement, planned)

    def plan_values(
        self,
        session: LanceSession,
        values: str,
        types: pa.Schema,
        statement: Statement,
        param_values: dict[str, Any] | None,
    ) -> LanceDataFrame:
        """Plan ``VALUES …`` as rows with columns of the given types; see `LanceSession.plan_query`."""
        statement.inserted_into[_INSERTED] = Table(pyarrow.dataset.dataset(types.empty_table()))

        def plan() -> DataFrame:
            text = f"INSERT INTO {_INSERTED} {values}"
            insertion = PlainSessionContext.sql(session, text, None, param_values)
            # the insertion is planned but not run
            (rows,) = plan_of(insertion).inputs
            return frame_of(session, rows)

        try:
            frame, _ = statement.planned_over({}, plan)
        finally:
            statement.inserted_into.clear()
        return LanceDataFrame(frame.df, (statement,), session)

    def note(self, query: str) -> None:
        """Record a planned statement that may affect later statements."""
        lowered = query.lower()
        self._join_settings.forget(lowered)
        if "prepare" in lowered or "deallocate" in lowered:
            from lance_df.engine.prepared import PreparedStatements

            self._prepared = self._prepared or PreparedStatements()
            self._prepared.note(query)

    def _runnable(self, session: LanceSession, statement: Statement, planned: Planned) -> LanceDataFrame:
        """Return the frame of a planned statement. It runs the optimized plan."""
        is_large = len(planned.read.nodes) >= _WORTH_NODES
        has_context = is_large or bool(planned.settings)
        context = with_settings(session, planned.settings) if has_context else session
        # rules may have created the frame in another context
        frame, as_run = frame_of(context, plan_of(planned.frame)), None
        # in an optimized plan, the results of stable user-defined functions are constants
        if is_large and not (self.user_functions and may_call(plan_of(frame), self.user_functions)):
            change_settings(context, {OPTIMIZER_PASSES: "0"})
            optimized = frame_of(context, planned.optimized)
            as_run = None if _is_coerced_again(optimized, planned) else optimized
        return LanceDataFrame(with_outer_limit(frame).df, (statement,), session, as_run)

    def _context(self, session: LanceSession, statement: Statement) -> Context:
        return Context(
            session,
            statement,
            JoinOptions(session.partitioned_joins, session.join_memory_limit),
            self.user_functions,
            lambda: self._join_settings.of(session),
        )


def _requests(
    session: LanceSession, statement: Statement, plan: PlanNode, can_prove: bool
) -> tuple[dict[int, PlannedTable], PlanScans | None]:
    """Return the requests of a plan's scans, and what the plan reads; None if it must be planned again."""
    read = PlanScans.of(plan)
    statement.stops_late = may_join_without_keys(read.nodes)
    unpushed = [scan.unpushed() for scan in read.scans] if read.blocked else read.scans
    tables = requests_of(statement.tables, plan, unpushed, can_prove=can_prove)
    if paths := scans_joined_without_keys(plan):
        joined = [scan.table for scan in visible_scans(plan) if scan.path in paths]
        tables = {
            key: _in_small_batches(table) if any(map(table.is_called, joined)) else table
            for key, table in tables.items()
        }
    if not read.blocked:
        return tables, read
    _stand_in(session, statement, tables, read.blocked)
    return tables, None


def _stand_in(
    session: LanceSession,
    statement: Statement,
    tables: Mapping[int, PlannedTable],
    blocked: Sequence[str],
) -> None:
    """Keep DataFusion from pushing filters into tables where this fails; see `LogicalScan.is_blocked`.

    A filter cannot pass a LIMIT, so DataFusion applies it above the scan.
    """
    for key, table in tables.items():
        if any(is_among(blocked, name) for _, name in table.names):
            frame = PlainSessionContext.read_table(session, Table(table.provider())).limit(NO_LIMIT)
            statement.stand_ins[key] = as_view(frame)


def _in_small_batches(table: PlannedTable) -> PlannedTable:
    """Use small batches, so that a join without keys can be interrupted between them."""
    return replace(table, scan=table.scan.requesting(batch_rows=_SMALL_BATCH))


def _is_coerced_again(frame: DataFrame, planned: Planned) -> bool:
    """Whether DataFusion's analyzer changes the optimized plan, which ``frame`` runs without the optimizer.

    The optimizer replaces ``d LIKE 'a'`` by ``d = 'a'``, where the operands have different types if ``d`` has
    a dictionary. The analyzer casts the literal. Only the optimizer removes the cast, and scans do not accept
    casts.
    """
    tables = planned.tables.values()
    may_be = any(holds_dictionaries(table.scan.source) for table in tables) or any(
        isinstance(node, Scan) and node.filters and not any(table.is_called(node.table) for table in tables)
        for node in planned.read.nodes
    )
    return may_be and optimized_plan_of(frame).shown_whole != planned.optimized.shown_whole


def _joins_ours(tables: Mapping[int, PlannedTable], read: PlanScans) -> bool:
    """Return whether a plan has joins and all of its visible scans read tables of lance_df."""
    scans = [node for node in read.nodes if isinstance(node, Scan)]
    return any(isinstance(node, Join) for node in read.nodes) and all(
        any(table.is_called(scan.table) for table in tables.values()) for scan in scans
    )


def _replaces_functions(names: set[str]) -> bool:
    from lance_df.compute.calculator import evaluator
    from lance_df.engine.plans.partial_aggregates import MERGED_FUNCTIONS

    return not names.isdisjoint(MERGED_FUNCTIONS) or evaluator().replaces(names)
