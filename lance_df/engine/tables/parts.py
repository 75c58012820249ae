"""The tables that a partitioned namespace provides besides its rows: metadata tables, and its members."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import DatasetNotFoundError
from lance_df.forks import new_lock
from lance_df.namespace.names import MEMBER_NAME, SEPARATOR
from lance_df.table.table import Table

if TYPE_CHECKING:
    from lance_df.engine.tables.source import TableSource
    from lance_df.namespace.metadata.tables import MetadataTable
    from lance_df.namespace.snapshot import NamespaceSnapshot
    from lance_df.scan.options import ScanOptions
    from lance_df.scan.source import Scannable

    Part: TypeAlias = Table | MetadataTable


class PartSource:
    """A part of a namespace, in the version of the namespace that a statement reads."""

    extra_columns: tuple[str, ...] = ()

    def __init__(self, parent: TableSource, name: str, make: Callable[[NamespaceSnapshot], Part]) -> None:
        self.parent = parent
        self._name = name
        self._make = make
        self._is_member = name.endswith(SEPARATOR + MEMBER_NAME)

    @property
    def scan_options(self) -> ScanOptions | None:
        """See `TableSource`."""
        return self.parent.scan_options

    def current(self) -> Part:
        """Return the part in the current version of the namespace."""
        return self.of(self.parent.current())

    def of(self, whole: Scannable) -> Part:
        """Return the part in the given version.

        Raises
        ------
        DatasetNotFoundError
            ``whole`` is not a namespace, or has no such part.
        """
        namespace: NamespaceSnapshot | None = whole.namespace
        if namespace is None:
            raise DatasetNotFoundError(f"{whole.uri}: the table is not a namespace and has no {self._name}")
        return self._make(namespace)

    def listed_schema(self) -> pa.Schema:
        """Return the columns, for listings. All members have the same columns, so a member is not opened."""
        return (self.parent if self._is_member else self).current().arrow_schema


class NamespaceParts:
    """The parts of one namespace. The source for a name stays the same object."""

    def __init__(self, parent: TableSource) -> None:
        self._parent = parent
        self._known: dict[str, PartSource] = {}
        self._lock = new_lock()

    def source(self, name: str) -> PartSource | None:
        """Return the member with an id. The last part of the id is optional."""
        whole = self._parent.namespace()
        if whole is None:
            return None
        object_id = name if name.endswith(SEPARATOR + MEMBER_NAME) else name + SEPARATOR + MEMBER_NAME
        if not pc.any(pc.equal(whole.manifest.members["object_id"], object_id)).as_py():
            return None
        return self._part(object_id, lambda snapshot: _member(snapshot, object_id))

    def table(self, kind: str) -> PartSource | None:
        """Return a metadata table of the namespace: ``partitions``, ``specs``, ``files`` or ``history``."""
        table = _tables().get(kind.lower())
        return None if table is None else self._part(SEPARATOR + kind.lower(), table)

    def _part(self, name: str, make: Callable[[NamespaceSnapshot], Part]) -> PartSource:
        with self._lock:
            return self._known.setdefault(name, PartSource(self._parent, name, make))


def metadata_names(name: str) -> list[str]:
    """Return the names of a namespace's metadata tables."""
    return [f"{name}{SEPARATOR}{kind}" for kind in _tables()]


@lru_cache(maxsize=1)
def _tables() -> dict[str, Callable[[NamespaceSnapshot], MetadataTable]]:
    from lance_df.namespace.metadata.history import HistoryTable
    from lance_df.namespace.metadata.partitions import FilesTable, PartitionsTable, SpecsTable

    return {table.kind: table for table in (PartitionsTable, SpecsTable, FilesTable, HistoryTable)}


def _member(snapshot: NamespaceSnapshot, name: str) -> Table:
    positions = pc.indices_nonzero(pc.equal(snapshot.manifest.members["object_id"], name)).to_pylist()
    if not positions:
        raise DatasetNotFoundError(f"{snapshot.uri}: version {snapshot.version} has no member {name!r}")
    return snapshot.open_members(positions)[0]
