"""The tables of folders as views of a session."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from lance_df.engine.tables.folders import TableFolder, check_folder_name
from lance_df.format.column_path import quoted_name
from lance_df.spark.opened import open_source
from lance_df.spark.options import SourceOptions
from lance_df.spark.pruning.plans import Plans, relations
from lance_df.spark.pruning.relations import Relation
from lance_df.storage import open_location

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from lance_df.namespace.kind import Source

_log = logging.getLogger("lance_df")

METADATA: Final = ("partitions", "files", "history", "specs")
"""The tables about a namespace, whose names have these after a ``$``."""


class Folder:
    """The tables of a folder, each a temporary view of the version that was the newest when it was made."""

    def __init__(self, root: str | os.PathLike[str], storage_options: Mapping[str, Any] | None) -> None:
        self.storage_options = dict(storage_options or {})
        self._location = open_location(root, storage_options)
        self._tables = TableFolder(self._location, storage_options)
        self._shown: dict[str, tuple[str, int]] = {}

    @property
    def uri(self) -> str:
        """Where it is."""
        return self._location.uri

    def names(self) -> list[str]:
        """Return the names of the tables that are there now."""
        return [name for name in self._tables.names() if self._tables.stored(name) is not None]

    def known_names(self) -> list[str]:
        """Return the names of the tables that are there now, or have a view."""
        return list(dict.fromkeys([*self.names(), *self._shown]))

    def path(self, name: str) -> str | None:
        """Return where a table is, None if there is none of the name."""
        stored = self._tables.stored(name)
        return None if stored is None else stored.uri.removeprefix("file://")

    def new_path(self, name: str) -> str:
        """Return where a table of a new name belongs.

        Raises
        ------
        InvalidInputError
            The name cannot be that of a folder.
        """
        check_folder_name(name, "table")
        return (self._location / name).uri.removeprefix("file://")

    def has_other_case(self, name: str) -> bool:
        """Return whether a table has this name in other case, and none has it as it is."""
        names = self.names()
        return name not in names and any(each.lower() == name.lower() for each in names)

    def open(self, name: str) -> Source | None:
        """Return the newest version of a table, None if there is none of the name."""
        path = self.path(name)
        return None if path is None else open_source(SourceOptions(path, storage=self.storage_options))

    def show(self, spark: SparkSession, names: Iterable[str]) -> None:
        """Make views of tables whose version has changed, and drop those of tables that are gone."""
        from lance_df.spark.sessions import read

        for name in names:
            source = self.open(name)
            if source is None:
                if self._shown.pop(name, None) is not None:
                    spark.catalog.dropTempView(quoted_name(name))
                continue
            path = self.path(name) or ""
            version = (path, source.version)
            if spark.catalog.tableExists(quoted_name(name)) and (
                self._shown.get(name) == version or (name in self._shown and not _reads(spark, name, path))
            ):
                continue
            rows = read(spark, path, version=source.version, storage_options=self.storage_options or None)
            rows.createOrReplaceTempView(quoted_name(name))
            self._shown[name] = version


def _reads(spark: SparkSession, name: str, path: str) -> bool:
    """Return whether a view is one of the table at a path, and not one that the user has put in its place."""
    from lance_df.spark.sessions import is_connect

    if is_connect(spark):
        return True
    plans = Plans(spark)
    held: Any = spark.table(quoted_name(name))._jdf
    read = [Relation.of(each, plans) for each in relations(held.queryExecution().analyzed())]
    return len(read) == 1 and read[0] is not None and read[0].options.path == path


_folders: WeakKeyDictionary[SparkSession, list[Folder]] = WeakKeyDictionary()


def folders_of(spark: SparkSession) -> list[Folder]:
    """Return the folders whose tables are views of a session; those that came last come first."""
    return _folders.get(spark, [])


def show_folder(
    spark: SparkSession, root: str | os.PathLike[str], storage_options: Mapping[str, Any] | None
) -> None:
    """Make all tables of a folder views of a session, at their newest versions."""
    folder = Folder(root, storage_options)
    known = [each for each in folders_of(spark) if each.uri != folder.uri]
    names = folder.names()
    folded = [name.lower() for name in names]
    if hidden := [name for name in names if folded.count(name.lower()) > 1]:
        _log.warning(
            "%s: Spark takes %s for one name; read them by their paths", folder.uri, ", ".join(hidden)
        )
    folder.show(spark, names)
    _folders[spark] = [folder, *known]
