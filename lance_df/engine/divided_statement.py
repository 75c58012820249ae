"""Statements that are computed by many processes, each for some partitions: joins of namespaces.

A statement all of whose plan is divisible (see `lance_df.engine.partitioned_join_analysis`) has the rows that
it has for each group of partitions, put together. So each process runs the statement itself, over namespaces
of which only some members exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from lance_df.compute.compat import PlainSessionContext, SessionConfig, SQLOptions, variant
from lance_df.engine.failures import execution_errors, planning_errors
from lance_df.engine.partitioned_join_analysis import divisible_parts, needed_groups
from lance_df.engine.partitioned_join_units import first_scans
from lance_df.engine.plan_walk import visible_scans
from lance_df.engine.session import SessionContext, register
from lance_df.engine.source import TableSource
from lance_df.engine.statement import Statement, planning
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.engine.partitioned_join_analysis import Part
    from lance_df.namespace.snapshot import NamespaceSnapshot

    Places = Mapping[str, npt.NDArray[np.intp]]

_ONLY_QUERIES: Final = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)


# whoever takes the batches of another process needs half the time for larger ones
_BATCH_ROWS: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class MemberGroup:
    """Members that share keys with each other and with no others.

    Attributes
    ----------
    places
        In ``manifest.members``, by the name of the namespace.
    num_bytes
        Of their data files.
    """

    places: Places
    num_bytes: int


class DividedStatement:
    """A statement over namespaces, planned.

    Parameters
    ----------
    text
        A query.
    tables
        The namespaces by the names that the query has for them.

    Raises
    ------
    UnsupportedFeatureError
        It cannot be computed partition by partition; the message says why.
    InvalidInputError
        It is wrong; `ColumnNotFoundError` when a name in it is.
    """

    def __init__(self, text: str, tables: Mapping[str, NamespaceSnapshot]) -> None:
        self._tables = tables
        ctx, statement = _context(tables), Statement(text)
        with planning_errors(statement), planning(statement):
            frame = PlainSessionContext.sql(ctx, text, _ONLY_QUERIES)
            plan = frame.optimized_logical_plan()
            not_in = " IN (<subquery>)" in frame.logical_plan().display_indent()
        self.schema: pa.Schema = frame.schema()
        if len(set(self.schema.names)) < len(self.schema.names):
            raise InvalidInputError(f"the result has a name twice: {', '.join(self.schema.names)}")
        self._part: Part | None = None
        if type(variant(plan)).__name__ == "EmptyRelation" and not variant(plan).produce_one_row():
            return
        analysis = divisible_parts(ctx, statement, plan, visible_scans(plan), not_in=not_in)
        whole = [part for part in analysis.parts if part.path == ()]
        if not whole:
            reasons = [f"{join}: {why}" for join, why in analysis.refused]
            reasons += [f"{_above(plan, part.path)} needs rows of all partitions" for part in analysis.parts]
            why = "; ".join(reasons) or "there is no join"
            raise UnsupportedFeatureError(f"this cannot be joined partition by partition: {why}")
        self._part = whole[0]

    def groups(self) -> list[MemberGroup]:
        """Return the groups of members that may have rows of the result. Opens all of these."""
        part = self._part
        if part is None or part.grouping is None:
            return []
        num_bytes = np.zeros(part.grouping.num_groups, np.int64)
        members: dict[str, npt.NDArray[np.int64]] = {}
        for side, scan in first_scans(part).items():
            codes = part.grouping.codes[side]
            places = np.flatnonzero(codes >= 0)
            sizes = [int(table.fragments.file_bytes.sum()) for table in scan.snapshot.open_members(places)]
            np.add.at(num_bytes, codes[places], sizes)
            # both names may stand for one namespace
            name = next(name for name in self._tables if scan.table.is_called((None, name)))
            members[name] = codes
        orders = {name: np.argsort(codes, kind="stable") for name, codes in members.items()}
        found = []
        for group in needed_groups(part):
            places_of = {}
            for name, codes in members.items():
                start, stop = np.searchsorted(codes, [group, group + 1], sorter=orders[name])
                places_of[name] = orders[name][start:stop]
            found.append(MemberGroup(places_of, int(num_bytes[group])))
        return found


def run_statement(text: str, tables: Mapping[str, NamespaceSnapshot]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query over namespaces, or over some members of these, in one thread's memory.

    Raises
    ------
    LanceError
        Stored bytes cannot be read, or the query is wrong.
    """
    frame = _context(tables).sql(text, _ONLY_QUERIES)
    with execution_errors(frame.statements):
        for batch in frame.execute_stream():
            yield batch.to_pyarrow()


def _above(plan: Any, path: Sequence[int]) -> str:
    """Return the step of a plan that takes the rows of another one."""
    for number in path[:-1]:
        plan = plan.inputs()[number]
    return str(plan.display())


class _Pinned(TableSource):
    """What stays as it is, also where it is only a part."""

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
