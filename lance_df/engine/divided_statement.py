"""Joins of partitioned namespaces that several processes compute, each for some of the partitions.

If the whole plan of a statement is divisible (see
`lance_df.engine.optimizer.rules.partitioned_join.analysis`), its result is the union of its results for each
group of partitions. Each process runs the statement itself, over namespaces that contain only some of the
members. If the statement aggregates the rows of a divisible plan, each process computes partial aggregates,
and one process merges them and runs the remaining steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.compute.compat import DataFrame, PlainSessionContext, SessionConfig
from lance_df.engine.failures import planning_errors, streamed_batches
from lance_df.engine.optimizer.rules.join_side import with_small_sides_built
from lance_df.engine.optimizer.rules.partitioned_join.analysis import divisible_parts, needed_groups
from lance_df.engine.optimizer.rules.partitioned_join.units import first_scans
from lance_df.engine.plans.logical_scans import logical_scans, visible_scans
from lance_df.engine.plans.nodes import EmptyRelation, PlanNode, frame_of, optimized_plan_of, plan_of
from lance_df.engine.plans.partial_aggregates import PartialAggregate
from lance_df.engine.plans.rebuild import NotRebuiltError, rebuilt
from lance_df.engine.plans.walks import Path, chain, holds_in_subquery, node_at
from lance_df.engine.query_planner import ONLY_QUERIES
from lance_df.engine.session import SessionContext
from lance_df.engine.statement import Statement, planning
from lance_df.engine.tables.names import register
from lance_df.engine.tables.source import TableSource
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.engine.optimizer.rules.partitioned_join.analysis import Part
    from lance_df.namespace.snapshot import NamespaceSnapshot

    Positions = Mapping[str, npt.NDArray[np.intp]]

# a process that receives batches from another process needs half the time if the batches are larger
_BATCH_ROWS: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class MemberGroup:
    """Members that share keys with each other but not with members outside the group.

    Attributes
    ----------
    positions
        The positions of the members in ``manifest.members``, by the name of the namespace.
    num_bytes
        The total size of their data files.
    """

    positions: Positions
    num_bytes: int


class DividedStatement:
    """A planned statement over namespaces.

    Attributes
    ----------
    schema
        The schema of the result.
    merged_depth
        The depth in the plan of the aggregate that `run_partly` computes in part and `run_merged` merges;
        None if `run_statement` computes the whole result.

    Parameters
    ----------
    text
        A query.
    tables
        The namespaces, by their names in the query.

    Raises
    ------
    UnsupportedFeatureError
        The query cannot be computed partition by partition; the message says why.
    InvalidInputError
        The query is invalid; the error is a `ColumnNotFoundError` if a column does not exist.
    """

    def __init__(self, text: str, tables: Mapping[str, NamespaceSnapshot]) -> None:
        self._tables = tables
        ctx, statement = _context(tables), Statement(text)
        with planning_errors(statement), planning(statement):
            frame = PlainSessionContext.sql(ctx, text, ONLY_QUERIES)
            plan = optimized_plan_of(frame)
            not_in = holds_in_subquery(plan_of(frame))
        self.schema: pa.Schema = frame.schema()
        if len(set(self.schema.names)) < len(self.schema.names):
            raise InvalidInputError(
                f"the result has columns of the same name: {', '.join(self.schema.names)}; rename them with "
                "AS"
            )
        self.merged_depth: int | None = None
        self._part: Part | None = None
        if isinstance(plan, EmptyRelation) and not plan.has_row:
            return
        analysis = divisible_parts(
            ctx, tuple(statement.tables.values()), plan, visible_scans(plan), not_in=not_in
        )
        [part] = analysis.parts if len(analysis.parts) == 1 else [None]
        if part is not None and part.path and _is_merged(ctx, statement, plan, part.path[:-1], self.schema):
            self.merged_depth = len(part.path) - 1
        elif part is None or part.path:
            reasons = [f"{join}: {why}" for join, why in analysis.refused]
            reasons += [f"{_above(plan, part.path)} needs rows of all partitions" for part in analysis.parts]
            why = "; ".join(reasons) or "it has no join"
            raise UnsupportedFeatureError(f"the statement cannot be computed partition by partition: {why}")
        self._part = part

    def groups(self) -> list[MemberGroup]:
        """Return the groups of members that may contribute rows to the result. This opens their members."""
        part = self._part
        if part is None or part.grouping is None:
            return []
        num_bytes = np.zeros(part.grouping.num_groups, np.int64)
        members: dict[str, npt.NDArray[np.int64]] = {}
        for side, scan in first_scans(part).items():
            codes = part.grouping.codes[side]
            positions = np.flatnonzero(codes >= 0)
            sizes = [int(table.fragments.file_bytes.sum()) for table in scan.snapshot.open_members(positions)]
            np.add.at(num_bytes, codes[positions], sizes)
            # both names may refer to the same namespace
            name = next(name for name in self._tables if scan.table.is_called((None, name)))
            members[name] = codes
        orders = {name: np.argsort(codes, kind="stable") for name, codes in members.items()}
        groups = []
        for group in needed_groups(part):
            positions_by_table = {}
            for name, codes in members.items():
                start, stop = np.searchsorted(codes, [group, group + 1], sorter=orders[name])
                positions_by_table[name] = orders[name][start:stop]
            groups.append(MemberGroup(positions_by_table, int(num_bytes[group])))
        return groups


def run_statement(text: str, tables: Mapping[str, NamespaceSnapshot]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query over namespaces, or over some of their members, in a single thread.

    Raises
    ------
    LanceError
        Stored bytes cannot be read, or the query is invalid.
    """
    frame = _context(tables).sql(text, ONLY_QUERIES)
    yield from streamed_batches(frame.execute_stream, frame.statements)


def run_partly(
    text: str, tables: Mapping[str, NamespaceSnapshot], merged_depth: int
) -> Iterator[pa.RecordBatch]:
    """Yield the partial aggregates of some members of the namespaces, for `run_merged`.

    Parameters
    ----------
    merged_depth
        See `DividedStatement`.

    Raises
    ------
    LanceError
        As for `run_statement`.
    """
    ctx, statement = _context(tables), Statement(text)
    with planning_errors(statement):
        aggregate = _aggregate(ctx, _optimized(ctx, statement), merged_depth)
        frame = _partly(ctx, statement, aggregate)
    yield from streamed_batches(frame.execute_stream, [statement])


def run_merged(
    text: str,
    tables: Mapping[str, NamespaceSnapshot],
    merged_depth: int,
    parts: Sequence[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query, merged from the batches that `run_partly` yielded for all members.

    Parameters
    ----------
    tables
        The namespaces. Their rows are not read.
    merged_depth
        See `DividedStatement`.

    Raises
    ------
    LanceError
        As for `run_statement`.
    """
    ctx, statement = _context(tables), Statement(text)
    with planning_errors(statement):
        frame = _merged(ctx, statement, _optimized(ctx, statement), merged_depth, parts)
    yield from streamed_batches(frame.execute_stream, [statement])


def _optimized(ctx: SessionContext, statement: Statement) -> PlanNode:
    with planning(statement):
        return optimized_plan_of(PlainSessionContext.sql(ctx, statement.text, ONLY_QUERIES))


def _is_merged(
    ctx: SessionContext, statement: Statement, plan: PlanNode, path: Path, schema: pa.Schema
) -> bool:
    """Whether a path leads to an aggregate that can be merged from partial aggregates."""
    if any(len(node.inputs) != 1 or node.has_subquery for node in chain(plan, path)):
        return False
    if any(scan.is_blocked for scan in logical_scans(plan)):
        return False
    try:
        return bool(_merged(ctx, statement, plan, len(path), ()).schema() == schema)
    except NotRebuiltError:
        return False


def _aggregate(ctx: SessionContext, plan: PlanNode, depth: int) -> PartialAggregate:
    part = node_at(plan, (0,) * depth)
    aggregate = PartialAggregate.of(ctx, part)
    if aggregate is None:
        raise NotRebuiltError(f"{part.shown} does not aggregate the results of its parts")
    return aggregate


def _partly(ctx: SessionContext, statement: Statement, aggregate: PartialAggregate) -> DataFrame:
    [rows] = aggregate.node.inputs
    below = frame_of(ctx, rows)
    tables = tuple(statement.tables.values())
    below, _ = with_small_sides_built(ctx, tables, below.schema(), rows) or (below, rows)
    return aggregate.over(aggregate.node, below)


def _merged(
    ctx: SessionContext, statement: Statement, plan: PlanNode, depth: int, parts: Sequence[pa.RecordBatch]
) -> DataFrame:
    aggregate = _aggregate(ctx, plan, depth)
    schema = _partly(ctx, statement, aggregate).schema()
    rows = pa.Table.from_batches(parts, schema).to_batches() or [_no_rows(schema)]
    return rebuilt(ctx, plan, (), {(0,) * depth: aggregate.merged(ctx, ctx.create_dataframe([rows]))})


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _above(plan: PlanNode, path: Path) -> str:
    """Return the step directly above a part of the plan, as text for messages."""
    return node_at(plan, path[:-1]).shown


class _Pinned(TableSource):
    """A source that stays at its snapshot, even if the snapshot contains only some of the members."""

    def __init__(self, snapshot: NamespaceSnapshot) -> None:
        super().__init__(snapshot.uri)
        self._opened = snapshot
        self._is_pinned = True


def _context(tables: Mapping[str, NamespaceSnapshot]) -> SessionContext:
    config = SessionConfig().with_target_partitions(1).with_batch_size(_BATCH_ROWS)
    ctx = SessionContext(config, partitioned_joins="never")
    for name, snapshot in tables.items():
        register(ctx, name, _Pinned(snapshot))
    return ctx
