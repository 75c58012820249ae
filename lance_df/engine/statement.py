"""The state of one SQL statement: the tables that it reads, each in one version, and their errors.

DataFusion resolves names through callbacks that do not identify the statement. They run on the thread that
plans the statement, so a context variable identifies it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset

from lance_df.engine.provider import LanceTableProvider, ScanLog, SourceScan, stored_schema_of
from lance_df.engine.tables.parts import PartSource
from lance_df.engine.tables.source import TableSource
from lance_df.errors import LanceError
from lance_df.forks import new_lock
from lance_df.records import dataclass, replace
from lance_df.scan.options import ALL, ScanOptions
from lance_df.scan.request import ScanRequest

if TYPE_CHECKING:
    from lance_df.compute.compat import DataFrame, Table
    from lance_df.engine.optimizer.planned import RuleReport
    from lance_df.engine.plans.logical_scans import LogicalScan
    from lance_df.engine.report import JoinReport
    from lance_df.scan.source import Scannable


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table of a statement, and what its scans request.

    Attributes
    ----------
    key
        The key of the table within the statement.
    names
        All names of the table in the statement, as (schema or None, name).
    scan
        What its scans request.
    log
        The log of its scans.
    stored_schema
        The columns of the table, without those that the output of ``scan`` adds.
    """

    key: int
    names: frozenset[tuple[str | None, str]]
    scan: SourceScan
    log: ScanLog
    stored_schema: pa.Schema

    def is_called(self, name: tuple[str | None, str]) -> bool:
        """Whether the (schema or None, name) in a plan may refer to this table."""
        return any(
            known[1] == name[1] and (name[0] is None or known[0] in (None, name[0])) for known in self.names
        )

    def estimated_rows(self) -> int | None:
        """Return the estimated number of rows that the scans read; None if it is not known."""
        return self.scan.source.estimated_rows(self.scan.request.pruning_predicate)

    def provider(self) -> LanceTableProvider:
        """Return the table provider that DataFusion scans."""
        return LanceTableProvider(self.scan, log=self.log, stored_schema=self.stored_schema)


def scans_of_tables(
    tables: Mapping[int, PlannedTable], scans: Collection[LogicalScan]
) -> Iterator[tuple[PlannedTable, list[LogicalScan]]]:
    """Yield each table with its scans. Tables whose names are ambiguous are left out."""
    for table in tables.values():
        of_table = [scan for scan in scans if table.is_called(scan.table)]
        is_shared = any(
            other is not table and other.is_called(scan.table)
            for scan in of_table
            for other in tables.values()
        )
        if not is_shared:
            yield table, of_table


class TableSlot(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """The object with which DataFusion plans the scans of a table, in one plan of a statement.

    DataFusion decides what a scan reads when it creates a physical plan. The logical plan shows which rows
    and columns the statement needs. The planner of the statement therefore completes the request once,
    between the two steps.
    """

    def __init__(self, table: PlannedTable) -> None:
        self._provider = table.provider()

    # see `LanceTableProvider.schema`
    schema = property(attrgetter("_provider.schema"))

    def complete(self, table: PlannedTable) -> None:
        """Set the request of the scans to that of ``table``.

        Raises
        ------
        ValueError
            The scans would return other columns than those that the plan expects.
        """
        if table.scan is self._provider.scan:
            return
        provider = table.provider()
        if provider.schema != self._provider.schema:
            raise ValueError(f"the plan has the columns {self.schema.names}, not {provider.schema.names}")
        self._provider = provider

    def scanner(self, *arguments: Any, **options: Any) -> Any:
        return self._provider.scanner(*arguments, **options)

    def get_fragments(self, *arguments: Any) -> Any:
        return self._provider.get_fragments(*arguments)


@dataclass(slots=True)
class Statement:
    """The state of one statement, from its text to the end of its last execution.

    Attributes
    ----------
    text
        The text that is planned.
    options
        The options of its scans.
    stand_ins
        Objects that DataFusion gets instead of tables, by the keys of the tables.
    errors
        Errors that callbacks raised.
    joins
        Reports on how joins of namespaces are computed.
    rules
        Reports on the effects of the optimizer rules.
    units
        The providers that each read some members of a namespace, with the key of the table.
    unit_plans
        Functions that plan the units that are not planned in advance.
    temporary, inserted_into
        Tables whose names exist only in this statement: tables that it reads, and tables that it inserts
        into.
    is_change
        Whether its rows are to be changed. Such a statement is planned as it is written.
    written
        The statement that contains this query, for messages; None if the query is the whole statement.
    stops_late
        Whether DataFusion may compute for a long time without checking for signals.
    around
        If the user wrote expressions instead of a statement: the name of the table in the generated
        statement.
    """

    text: str
    options: ScanOptions = ALL
    stand_ins: dict[int, Any] = field(default_factory=dict)
    errors: list[LanceError] = field(default_factory=list)
    joins: list[JoinReport] = field(default_factory=list)
    rules: list[RuleReport] = field(default_factory=list)
    units: list[tuple[int, LanceTableProvider]] = field(default_factory=list)
    unit_plans: list[Callable[[], Any]] = field(default_factory=list)
    temporary: dict[str, TableSource] = field(default_factory=dict)
    inserted_into: dict[str, Table] = field(default_factory=dict)
    is_change: bool = False
    written: str | None = None
    around: str | None = None
    stops_late: bool = False
    _tables: dict[int, PlannedTable] = field(default_factory=dict)
    _slots: dict[int, TableSlot] = field(default_factory=dict)
    _planned: Mapping[int, PlannedTable] = field(default_factory=dict)
    _sources: list[TableSource | PartSource] = field(default_factory=list)
    _scanned: dict[Hashable, TableSource] = field(default_factory=dict)
    _versions: dict[int, Scannable] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=new_lock)

    @property
    def shown(self) -> str:
        """The statement as it is shown in messages."""
        return self.text if self.written is None else self.written

    def source_once(self, key: Hashable, make: Callable[[], TableSource]) -> TableSource:
        """Return the source for a key. It is created once per statement.

        A source that exists only within the statement thus stays the same when the statement is planned
        again.
        """
        with self._lock:
            if key not in self._scanned:
                self._scanned[key] = make()
            return self._scanned[key]

    def planned_over(
        self, tables: Mapping[int, PlannedTable], plan: Callable[[], DataFrame]
    ) -> tuple[DataFrame, dict[int, TableSlot]]:
        """Return a frame whose tables make the requests in ``tables``, and the slots of the tables."""
        with self._lock:
            self._slots, self._planned = {}, tables
        with planning(self):
            frame = plan()
        with self._lock:
            return frame, dict(self._slots)

    def resolve(self, source: TableSource | PartSource, schema: str | None, name: str) -> Any:
        """Return the table object for ``source``: unique within a plan, of one version in all plans.

        The parts of a namespace have the version of the namespace that the statement reads.
        """
        with self._lock:
            key = id(source)
            known = self._tables.get(key)
            if known is None:
                known = self._new_table(key, source)
                self._sources.append(source)  # keeps the key unique
            if (schema, name) not in known.names:
                known = replace(known, names=known.names | {(schema, name)})
            self._tables[key] = known
            if key in self.stand_ins:
                return self.stand_ins[key]
            if key not in self._slots:
                self._slots[key] = TableSlot(self._planned.get(key, known))
            return self._slots[key]

    def see(self, source: TableSource, version: Scannable) -> None:
        """Set the version of a source that the statement reads."""
        with self._lock:
            self._versions[id(source)] = version
            self._sources.append(source)

    def add_table(self, names: frozenset[tuple[str | None, str]], scan: SourceScan) -> PlannedTable:
        """Add a table without resolving a name, and return it."""
        table = PlannedTable(id(scan), names, scan, ScanLog(), stored_schema_of(scan))
        self._tables[table.key] = table
        return table

    @property
    def tables(self) -> dict[int, PlannedTable]:
        """The tables that the statement reads, by key, with the requests of their scans."""
        return dict(self._tables)

    def note(self, tables: Mapping[int, PlannedTable]) -> None:
        """Record the requests of the scans of some tables."""
        with self._lock:
            self._tables.update(tables)

    def forget_units(self) -> None:
        """Discard the plans for units of partitions."""
        with self._lock:
            self.units.clear()
            self.unit_plans.clear()

    def _new_table(self, key: int, source: TableSource | PartSource) -> PlannedTable:
        seen = self._seen(source)
        columns = (*seen.arrow_schema.names, *source.extra_columns) if source.extra_columns else None
        request = ScanRequest(columns=columns, options=source.scan_options or self.options)
        scan = SourceScan(source=seen, request=request)
        return PlannedTable(key, frozenset(), scan, ScanLog(), stored_schema_of(scan))

    def _seen(self, source: TableSource | PartSource) -> Scannable:
        if isinstance(source, PartSource):
            return source.of(self._seen(source.parent))
        if id(source) not in self._versions:
            self._versions[id(source)] = source.current()
            self._sources.append(source)
        return self._versions[id(source)]

    def all_errors(self) -> list[LanceError]:
        """Return the errors of the statement and of its scans so far."""
        return [*self.errors, *(error for log in self._logs() for error in log.errors)]

    def release_frames(self) -> None:
        """Remove the references to the stack from the errors of the statement and its scans.

        DataFusion may hold an error as long as the user's stack holds the failed object. Neither would ever
        be freed, because the garbage collector does not see references outside of Python.
        """
        for error in self.all_errors():
            error.__traceback__ = error.__cause__ = error.__context__ = None

    def abandon(self) -> None:
        """Stop the scans of the statement, because its result is no longer needed."""
        for log in self._logs():
            log.abandon()

    def _logs(self) -> list[ScanLog]:
        tables = [table.log for table in self._tables.values()]
        return [*tables, *(provider.log for _, provider in self.units)]


_current: ContextVar[Statement | None] = ContextVar("lance_df_statement", default=None)


def current_statement() -> Statement | None:
    """Return the statement that is being planned, if a session of lance_df plans it."""
    return _current.get()


@contextmanager
def planning(statement: Statement) -> Iterator[Statement]:
    """Make ``statement`` the current statement."""
    token = _current.set(statement)
    try:
        yield statement
    finally:
        _current.reset(token)
