"""The table that a name in SQL refers to: one version of it, or always the newest version."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_df.engine.tables.parts import NamespaceParts
from lance_df.engine.tables.version_text import VersionKind, VersionText
from lance_df.errors import DatasetNotFoundError, InvalidInputError, UnsupportedFeatureError
from lance_df.forks import new_lock
from lance_df.namespace.kind import holds_namespace, opened_in
from lance_df.storage import open_location
from lance_df.table.metadata.refs import VersionRef
from lance_df.table.open import open_table, version_as_of

if TYPE_CHECKING:
    from lance_df.namespace.kind import Source
    from lance_df.namespace.snapshot import NamespaceSnapshot
    from lance_df.scan.options import ScanOptions


class TableSource:
    """A table or a partitioned namespace by its location. It is opened at its first use and kept up to date.

    Parameters
    ----------
    location
        A path, a URL, or an opened object. An opened object follows new versions if it is the newest version
        of its branch; otherwise it stays at its version.
    version
        A version number, a tag, or (branch, version) to stay at; ``None`` to follow new versions.
    storage_options
        Options for the store. Messages do not contain them.
    is_pinned
        Whether an opened object stays at its version even if it is the newest version.
    extra_columns
        Names of system columns that statements see as columns.
    scan_options
        The optimizations that scans may use; None for those of the session, or all in a plain context.

    Raises
    ------
    NotFoundError
        From :meth:`current`: the table or version does not exist.
    """

    def __init__(
        self,
        location: str | os.PathLike[str] | Source,
        *,
        version: VersionRef | None = None,
        storage_options: Mapping[str, Any] | None = None,
        is_pinned: bool = False,
        extra_columns: tuple[str, ...] = (),
        scan_options: ScanOptions | None = None,
    ) -> None:
        self.extra_columns = extra_columns
        self.scan_options = scan_options
        self._lock = new_lock()
        self._opened: Source | None = None
        self._is_pinned = is_pinned or version is not None
        self._is_named = isinstance(location, str | os.PathLike)
        self._location = location if isinstance(location, str | os.PathLike) else location.uri
        self._version = version
        self._storage_options = storage_options
        if not isinstance(location, str | os.PathLike):
            self._opened = location if version is None else location.checkout(version)
            self._is_pinned = self._is_pinned or not _is_latest(location)

    @property
    def is_namespace(self) -> bool:
        """Whether the source is a partitioned namespace. This opens it if necessary."""
        return self.open().is_partitioned

    def namespace(self) -> NamespaceSnapshot | None:
        """Return the current version of a partitioned namespace; None for a table."""
        return self.current().namespace

    def listed_schema(self) -> pa.Schema:
        """Return the columns, for listings."""
        return self.current().arrow_schema

    @cached_property
    def parts(self) -> NamespaceParts:
        """The metadata tables and members of a partitioned namespace."""
        return NamespaceParts(self)

    def open(self) -> Source:
        """Return the version that was read last. If there is none, open the source.

        Code that registers a table only needs to know that it exists. Each statement requests the newest
        version itself, because a newer version may exist by then.
        """
        return self._opened or self.current()

    def free_cache(self) -> None:
        """Free the table's cache. The table is read again when it is needed."""
        with self._lock:
            opened = self._opened
        if opened is not None:
            opened.clear_cache()

    @property
    def is_pinned(self) -> bool:
        """Whether the source stays at its version."""
        return self._is_pinned

    def at(self, ref: VersionText) -> TableSource:
        """Return a source that stays at another version.

        Raises
        ------
        NotFoundError
            The version does not exist, or no version is as old as the given time.
        InvalidInputError
            The reference is a tag but the source is a namespace, or the time is invalid.
        """
        opened = self.current()
        version: VersionRef = ref.value
        if ref.kind is VersionKind.NUMBER:
            version = int(ref.value)
        elif ref.kind is VersionKind.TIME:
            version = version_as_of(opened.committed_table.history, ref.time())
        return TableSource(opened.checkout(version), is_pinned=True, scan_options=self.scan_options)

    def current(self) -> Source:
        """Return the pinned version, or the newest one."""
        with self._lock:
            if self._opened is None or self._is_replaced(self._opened):
                self._opened = _open(self._location, self._version, self._storage_options)
            elif not self._is_pinned:
                self._opened = self._opened.latest()
            return self._opened

    def _is_replaced(self, opened: Source) -> bool:
        """Whether the location now contains a different table than the one that was opened."""
        if not self._is_named or self._is_pinned or opened.namespace is not None:
            return False
        return opened.location.is_replaced


def _open(
    location: str | os.PathLike[str], version: VersionRef | None, storage_options: Mapping[str, Any] | None
) -> Source:
    try:
        return open_table(location, version=version, storage_options=storage_options)
    except DatasetNotFoundError:
        root = open_location(location, storage_options)
        if not holds_namespace(root):
            raise
        from lance_df.namespace.snapshot import NamespaceSnapshot

        snapshot = NamespaceSnapshot.open(root)
        return snapshot if version is None else snapshot.checkout(version)


def _is_latest(source: Source) -> bool:
    try:
        return source.latest_version() == source.version
    except UnsupportedFeatureError:  # a web server cannot list versions
        return False


def is_ours(source: object) -> bool:
    """Whether ``source`` is an open table or namespace, a lance_df object around one, or a `TableSource`."""
    return isinstance(source, TableSource) or opened_in(source) is not None


def as_source(
    source: object,
    *,
    version: VersionRef | None = None,
    storage_options: Mapping[str, Any] | None = None,
    scan_options: ScanOptions | None = None,
) -> TableSource:
    """Return the source for a path, a URL, or a lance_df object around an open table.

    Raises
    ------
    InvalidInputError
        ``source`` is none of these.
    """
    if isinstance(source, TableSource):
        return source
    location: Any = source if isinstance(source, str | os.PathLike) else opened_in(source)
    if location is None:
        raise InvalidInputError(
            f"expected a path, a URL, a dataset or a namespace, got {type(source).__name__}"
        )
    return TableSource(location, version=version, storage_options=storage_options, scan_options=scan_options)
