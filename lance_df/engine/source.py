"""Where a name in SQL leads: to one version of a table, or to whatever is newest."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from lance_df.errors import InvalidInputError
from lance_df.table.open import open_table
from lance_df.table.refs import VersionRef
from lance_df.table.table import Table


class TableSource:
    """A table by its place, opened when first needed and kept up to date.

    Parameters
    ----------
    place
        A path, a URL, or a `Table`. A `Table` that is its branch's newest version is followed from there;
        an older one stays what it is.
    version
        A version number, a tag, or (branch, version) to stay at; ``None`` to follow new versions.
    storage_options
        For the store; they appear in no message.

    Raises
    ------
    NotFoundError
        From :meth:`current`: there is no such table or version.
    """

    def __init__(
        self,
        place: str | os.PathLike[str] | Table,
        *,
        version: VersionRef | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._table: Table | None = None
        self._is_pinned = version is not None
        self._place = place.uri if isinstance(place, Table) else place
        self._version = version
        self._storage_options = storage_options
        if isinstance(place, Table):
            self._table = place if version is None else place.checkout(version)
            self._is_pinned = self._is_pinned or place.latest_version() != place.version

    def current(self) -> Table:
        """Return the pinned version, or the newest one."""
        with self._lock:
            if self._table is None:
                self._table = open_table(
                    self._place, version=self._version, storage_options=self._storage_options
                )
            elif not self._is_pinned:
                self._table = self._table.latest()
            return self._table


def as_source(
    source: object, *, version: VersionRef | None = None, storage_options: Mapping[str, Any] | None = None
) -> TableSource:
    """Return the source for what a user may name: a path, a URL, a `Table`, or a dataset object around one.

    Raises
    ------
    InvalidInputError
        It is none of these.
    """
    if isinstance(source, TableSource):
        return source
    place = source if isinstance(source, str | os.PathLike | Table) else getattr(source, "_table", None)
    if not isinstance(place, str | os.PathLike | Table):
        raise InvalidInputError(f"a path, a URL, a table or a dataset is needed, got {type(source).__name__}")
    return TableSource(place, version=version, storage_options=storage_options)
