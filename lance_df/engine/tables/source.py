"""Where a name in SQL leads: to one version of a table, or to whatever is newest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_df.engine.tables.parts import NamespaceParts
from lance_df.engine.tables.version_text import VersionKind, VersionText
from lance_df.errors import DatasetNotFoundError, InvalidInputError
from lance_df.forks import new_lock
from lance_df.namespace.kind import holds_namespace, is_table, namespace_of, opened_in
from lance_df.storage import open_location
from lance_df.table.metadata.refs import VersionRef
from lance_df.table.open import open_table, version_as_of

if TYPE_CHECKING:
    from lance_df.namespace.kind import Source
    from lance_df.namespace.snapshot import NamespaceSnapshot


class TableSource:
    """A table or a partitioned namespace by its location, opened when first needed and kept up to date.

    Parameters
    ----------
    location
        A path, a URL, or what was opened already: that is followed if it is its branch's newest version; an
        older one stays what it is.
    version
        A version number, a tag, or (branch, version) to stay at; ``None`` to follow new versions.
    storage_options
        For the store; they appear in no message.
    is_pinned
        Whether what was opened already stays at its version, also where that is the newest.
    extra_columns
        Names of system columns that statements see as columns.

    Raises
    ------
    NotFoundError
        From :meth:`current`: there is no such table or version.
    """

    def __init__(
        self,
        location: str | os.PathLike[str] | Source,
        *,
        version: VersionRef | None = None,
        storage_options: Mapping[str, Any] | None = None,
        is_pinned: bool = False,
        extra_columns: tuple[str, ...] = (),
    ) -> None:
        self.extra_columns = extra_columns
        self._lock = new_lock()
        self._opened: Source | None = None
        self._is_pinned = is_pinned or version is not None
        self._is_named = isinstance(location, str | os.PathLike)
        self._location = location if isinstance(location, str | os.PathLike) else location.uri
        self._version = version
        self._storage_options = storage_options
        if not isinstance(location, str | os.PathLike):
            self._opened = location if version is None else location.checkout(version)
            self._is_pinned = self._is_pinned or location.latest_version() != location.version

    @property
    def is_namespace(self) -> bool:
        """Whether it is a partitioned namespace; it is opened unless it was."""
        return self.open().is_partitioned

    def namespace(self) -> NamespaceSnapshot | None:
        """Return the current version of a partitioned namespace; None for a table."""
        return namespace_of(self.current())

    def listed_schema(self) -> pa.Schema:
        """Return the columns; for lists."""
        return self.current().arrow_schema

    @cached_property
    def parts(self) -> NamespaceParts:
        """The tables about a partitioned namespace, and its members."""
        return NamespaceParts(self)

    def open(self) -> Source:
        """Return the version that was seen last; opens what nobody has opened.

        Whoever gives a table a name only wants to know that it is there. Each statement asks for what is
        newest by itself: a version that was seen before it began may have been followed by another since.
        """
        return self._opened or self.current()

    def free_cache(self) -> None:
        """Free what is cached of the table; it is read again when it is needed."""
        with self._lock:
            opened = self._opened
        if opened is not None:
            opened.clear_cache()

    @property
    def is_pinned(self) -> bool:
        """Whether it stays at its version."""
        return self._is_pinned

    def at(self, ref: VersionText) -> TableSource:
        """Return the source that stays at another version.

        Raises
        ------
        NotFoundError
            There is no such version, or none is as old as a time.
        InvalidInputError
            A namespace has no tags, or a time is none.
        """
        opened = self.current()
        version: VersionRef = ref.value
        if ref.kind is VersionKind.NUMBER:
            version = int(ref.value)
        elif ref.kind is VersionKind.TIME:
            namespace = namespace_of(opened)
            history = opened.history if is_table(opened) else None
            if namespace is not None:
                history = namespace.manifest.table.history
            if history is None:
                raise InvalidInputError(f"{opened.uri}: has no versions")
            version = version_as_of(history, ref.time())
        return TableSource(opened.checkout(version), is_pinned=True)

    def current(self) -> Source:
        """Return the pinned version, or the newest one."""
        with self._lock:
            if self._opened is None or self._is_replaced(self._opened):
                self._opened = _open(self._location, self._version, self._storage_options)
            elif not self._is_pinned:
                self._opened = self._opened.latest()
            return self._opened

    def _is_replaced(self, opened: Source) -> bool:
        """Whether the name stands for another table than the one that was opened by it."""
        if not self._is_named or self._is_pinned or not is_table(opened):
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


def is_ours(source: object) -> bool:
    """Whether it is an open table or namespace, an object of ours around one, or a source."""
    return isinstance(source, TableSource) or opened_in(source) is not None


def as_source(
    source: object, *, version: VersionRef | None = None, storage_options: Mapping[str, Any] | None = None
) -> TableSource:
    """Return the source for what a user may name: a path, a URL, or an object of ours around an open table.

    Raises
    ------
    InvalidInputError
        It is none of these.
    """
    if isinstance(source, TableSource):
        return source
    location: Any = source if isinstance(source, str | os.PathLike) else opened_in(source)
    if location is None:
        raise InvalidInputError(
            f"a path, a URL, a dataset or a namespace is needed, got {type(source).__name__}"
        )
    return TableSource(location, version=version, storage_options=storage_options)
