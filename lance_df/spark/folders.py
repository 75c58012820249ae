"""Show the tables of folders as temporary views of a session."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from lance_df.engine.tables.folders import TableFolder, check_folder_name
from lance_df.errors import LanceError
from lance_df.format.column_path import format_path, parse_path, quoted_name
from lance_df.records import dataclass
from lance_df.spark.column_names import is_case_sensitive
from lance_df.spark.opened import SourceRef, open_source
from lance_df.spark.options import SourceOptions
from lance_df.storage import open_location

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from lance_df.namespace.kind import Source

_log = logging.getLogger("lance_df")

METADATA: Final = ("partitions", "files", "history", "specs")
"""The suffixes, after a ``$``, of the metadata tables of a namespace."""


class Folder:
    """The tables of a folder, each shown as a temporary view of its newest version at that time."""

    def __init__(self, root: str | os.PathLike[str], storage_options: Mapping[str, Any] | None) -> None:
        self.storage_options = dict(storage_options or {})
        self._location = open_location(root, storage_options)
        self._tables = TableFolder(self._location, storage_options)
        self._known: set[str] = set()

    @property
    def uri(self) -> str:
        """The URI of the folder."""
        return self._location.uri

    def names(self) -> list[str]:
        """Return the names of the tables that exist now."""
        return self._tables.stored_names()

    def known_names(self) -> list[str]:
        """Return the names of the tables that exist now or have a view."""
        return list(dict.fromkeys([*self.names(), *sorted(self._known)]))

    def path(self, name: str) -> str | None:
        """Return the path of a table, or None if it does not exist."""
        stored = self._tables.stored(name)
        return None if stored is None else stored.uri.removeprefix("file://")

    def new_path(self, name: str) -> str:
        """Return the path of an existing or new table.

        Raises
        ------
        InvalidInputError
            The name is not valid for a folder.
        """
        check_folder_name(name, "table")
        return self.path(name) or (self._location / name).uri.removeprefix("file://")

    def has_other_case(self, name: str) -> bool:
        """Return whether a table has this name in another case, and no table has exactly this name."""
        names = self.names()
        return name not in names and any(each.lower() == name.lower() for each in names)

    def open(self, name: str) -> Source | None:
        """Return the newest version of a table, or None if it does not exist."""
        path = self.path(name)
        return None if path is None else open_source(SourceOptions(path, storage=self.storage_options))

    def show(self, spark: SparkSession, name: str, *, replaces: bool = False) -> None:
        """Create or refresh the view of a table, or drop the view if the table no longer exists.

        Parameters
        ----------
        replaces
            Whether the view replaces a view of the user, and may hide a table of the catalog.

        Raises
        ------
        LanceError
            The table cannot be read, or not by Spark. It then has no view.
        """
        from lance_df.spark.sessions import read

        try:
            source, shown = self.open(name), _shown_as(spark, name)
            if source is None:
                self._hide(spark, name)
                return
            options = SourceOptions(self.path(name) or "", storage=self.storage_options)
            ref = SourceRef.of(source, options)
            exists = not replaces and spark.catalog.tableExists(quoted_name(name))
            if exists and (shown is None or shown.ref == ref):
                return
            if not exists and not replaces and _is_in_a_database(spark, name):
                return
            # without the option version, which would fix the version for statements over the view
            rows = read(spark, options.path, storage_options=self.storage_options or None)
        except LanceError as err:
            self._hide(spark, name)
            raise type(err)(f"table {name!r} of {self.uri}: {err}") from err
        rows.createOrReplaceTempView(quoted_name(name))
        self._known.add(name)
        note_view(spark, name, ref)

    def show_all(
        self, spark: SparkSession, names: Iterable[str], *, replaces: bool = False
    ) -> dict[str, LanceError]:
        """Call `show` for several tables.

        Returns
        -------
        The errors of tables that cannot be read, by name.
        """
        failed = {}
        for name in names:
            try:
                self.show(spark, name, replaces=replaces)
            except LanceError as err:
                failed[name] = err
        return failed

    def _hide(self, spark: SparkSession, name: str) -> None:
        if name in self._known and _shown_as(spark, name) is not None:
            spark.catalog.dropTempView(name)  # dropTempView takes a name without quotes
            del _views[spark][_key(spark, name)]
        self._known.discard(name)


def _is_in_a_database(spark: SparkSession, name: str) -> bool:
    """Whether any database has a table of this name, which a temporary view would hide."""
    databases = [parse_path(each.name) for each in spark.catalog.listDatabases()]
    return any(spark.catalog.tableExists(format_path([*each, name])) for each in databases)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A view of a table.

    Attributes
    ----------
    ref
        The version that was the newest.
    view
        The JVM's object for the view; None with Spark Connect.
    """

    ref: SourceRef
    view: Any


# by names in the case that Spark uses
_views: WeakKeyDictionary[SparkSession, dict[str, _Shown]] = WeakKeyDictionary()


def _key(spark: SparkSession, name: str) -> str:
    return name if is_case_sensitive(spark) else name.lower()


def _shown_as(spark: SparkSession, name: str) -> _Shown | None:
    """Return the view of a folder's table with a name; None if there is none, or the user has replaced it.

    With Spark Connect it cannot be known whether the user has replaced a view.
    """
    shown = _views.get(spark, {}).get(_key(spark, name))
    if shown is None or shown.view is None:
        return shown
    view = _view_of(spark, name)
    return shown if view is not None and view.equals(shown.view) else None


def _view_of(spark: SparkSession, name: str) -> Any:
    """Return the JVM's object for a temporary view, or None if there is no such view or no JVM in reach."""
    from lance_df.spark.sessions import is_connect

    if is_connect(spark):
        return None
    session: Any = spark
    view = session._jsparkSession.sessionState().catalog().getRawTempView(name)
    return view.get() if view.isDefined() else None


def note_view(spark: SparkSession, name: str, ref: SourceRef) -> None:
    """Remember that a view was created here, and the version of the table that it shows."""
    _views.setdefault(spark, {})[_key(spark, name)] = _Shown(ref, _view_of(spark, name))


def is_shown(spark: SparkSession, name: str) -> bool:
    """Whether a name is that of a view that was created here and not replaced by the user."""
    return _shown_as(spark, name) is not None


_folders: WeakKeyDictionary[SparkSession, list[Folder]] = WeakKeyDictionary()


def folders_of(spark: SparkSession) -> list[Folder]:
    """Return the folders whose tables are views of a session, the last registered first."""
    return _folders.get(spark, [])


def show_folder(
    spark: SparkSession, root: str | os.PathLike[str], storage_options: Mapping[str, Any] | None
) -> None:
    """Create views of the newest versions of all tables of a folder in a session.

    A warning names each table that cannot be read; it has no view.
    """
    folder = Folder(root, storage_options)
    known = [each for each in folders_of(spark) if each.uri != folder.uri]
    names = folder.names()
    folded = [name.lower() for name in names]
    if hidden := [name for name in names if folded.count(name.lower()) > 1]:
        _log.warning(
            "%s: the names %s are the same for Spark; read these tables by their paths",
            folder.uri,
            ", ".join(hidden),
        )
    _folders[spark] = [folder, *known]
    for error in folder.show_all(spark, names, replaces=True).values():
        _log.warning("cannot create a view: %s", error)
