"""What belongs to one SQL statement: the tables it sees, each in one version, and the errors they raise.

DataFusion resolves names through callbacks that do not say for which statement; they run on the thread that
planned it, so a context variable does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lance_df.engine.parts import PartSource
from lance_df.engine.provider import LanceTableProvider
from lance_df.engine.source import TableSource
from lance_df.errors import LanceError
from lance_df.forks import new_lock
from lance_df.table.table import Table

if TYPE_CHECKING:
    from lance_df.engine.plan_walk import LogicalScan
    from lance_df.engine.provider import Scanned
    from lance_df.engine.report import JoinReport


@dataclass(slots=True)
class ResolvedTable:
    """A table of a statement, with all names by which the statement knows it."""

    provider: LanceTableProvider
    names: set[tuple[str | None, str]]

    def is_called(self, name: tuple[str | None, str]) -> bool:
        """Whether a plan's (schema or None, name) may mean this table."""
        return any(own[1] == name[1] and (name[0] is None or own[0] in (None, name[0])) for own in self.names)


@dataclass(slots=True)
class Statement:
    """The state of one statement, from its text to the end of its last execution.

    ``stand_ins`` holds what DataFusion is given in place of providers. ``joins`` tells how joins of
    namespaces are computed, ``units`` has the providers that read some of their members each, and
    ``unit_plans`` plans what is not planned before its turn comes.
    """

    text: str
    tables: dict[int, ResolvedTable] = field(default_factory=dict)
    stand_ins: dict[int, Any] = field(default_factory=dict)
    errors: list[LanceError] = field(default_factory=list)
    joins: list[JoinReport] = field(default_factory=list)
    units: list[tuple[ResolvedTable, LanceTableProvider]] = field(default_factory=list)
    unit_plans: list[Callable[[], Any]] = field(default_factory=list)
    _sources: list[TableSource | PartSource] = field(default_factory=list)
    _scanned: dict[Hashable, TableSource] = field(default_factory=dict)
    _versions: dict[int, Scanned] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=new_lock)

    def source_once(self, key: Hashable, make: Callable[[], TableSource]) -> TableSource:
        """Return the source that the statement has for a key, which is made once.

        What names no source that exists beyond the statement is the same one whenever it is planned again.
        """
        with self._lock:
            if key not in self._scanned:
                self._scanned[key] = make()
            return self._scanned[key]

    def resolve(self, source: TableSource | PartSource, schema: str | None, name: str) -> Any:
        """Return the table object for ``source``: for the whole statement the same one, of one version.

        The parts of a namespace are those of the version that the statement sees of it.
        """
        with self._lock:
            key = id(source)
            if (known := self.tables.get(key)) is None:
                provider = LanceTableProvider(self._seen(source), extra_columns=source.extra_columns)
                self._sources.append(source)  # keeps the key unique
                known = self.tables[key] = ResolvedTable(provider, set())
            known.names.add((schema, name))
            return self.stand_ins.get(key, known.provider)

    def forget_tables(self) -> None:
        """Forget what plans have been made of; the next one reads the same versions."""
        with self._lock:
            for known in (self.tables, self.stand_ins, self.joins, self.units, self.unit_plans):
                known.clear()

    def _seen(self, source: TableSource | PartSource) -> Scanned:
        if isinstance(source, PartSource):
            return source.of(self._seen(source.parent))
        if id(source) not in self._versions:
            self._versions[id(source)] = source.current()
            self._sources.append(source)
        return self._versions[id(source)]

    def scans_of_tables(self, scans: list[LogicalScan]) -> Iterator[tuple[ResolvedTable, list[LogicalScan]]]:
        """Yield tables whose scans are known, and these."""
        tables = list(self.tables.values())
        for table in tables:
            own = [scan for scan in scans if table.is_called(scan.table)]
            is_shared = any(
                other is not table and other.is_called(scan.table) for scan in own for other in tables
            )
            if not is_shared:
                yield table, own

    @property
    def reads_tables_only(self) -> bool:
        """Whether nothing but tables is read: no namespaces, and no tables about these."""
        return all(isinstance(table.provider.table, Table) for table in self.tables.values())

    def lone_scans(self, scans: list[LogicalScan]) -> Iterator[tuple[LogicalScan, LanceTableProvider]]:
        """Yield the scans of tables that are scanned once, with what they read from."""
        for table, own in self.scans_of_tables(scans):
            if len(own) == 1:
                yield own[0], table.provider

    def all_errors(self) -> list[LanceError]:
        """Return the errors of the statement and of its scans so far."""
        providers = [
            *(table.provider for table in self.tables.values()),
            *(provider for _, provider in self.units),
        ]
        return [*self.errors, *(error for provider in providers for error in provider.errors)]


_current: ContextVar[Statement | None] = ContextVar("lance_df_statement", default=None)


def current_statement() -> Statement | None:
    """Return the statement that is being planned, if it came through a session of ours."""
    return _current.get()


@contextmanager
def planning(statement: Statement) -> Iterator[Statement]:
    """Make ``statement`` the current one."""
    token = _current.set(statement)
    try:
        yield statement
    finally:
        _current.reset(token)
