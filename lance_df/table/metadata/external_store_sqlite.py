"""A manifest store in a SQLite file, for tables that are written from one machine."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from lance_df.arguments import invalid
from lance_df.errors import CommitStateUnknownError, CorruptDataError, StorageError
from lance_df.storage.location import absolute_path
from lance_df.table.metadata.external_store import StoredManifest

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCHEMA = """
CREATE TABLE IF NOT EXISTS manifests (
    table_path TEXT NOT NULL,
    version INTEGER NOT NULL,
    name TEXT NOT NULL,
    size INTEGER,
    PRIMARY KEY (table_path, version)
) WITHOUT ROWID
"""
# one search of the index for each, instead of a scan of all versions
_TABLES = """
WITH RECURSIVE tables(path) AS (
    SELECT MIN(table_path) FROM manifests
    UNION ALL
    SELECT (SELECT MIN(table_path) FROM manifests WHERE table_path > path) FROM tables WHERE path IS NOT NULL
)
SELECT path FROM tables WHERE path IS NOT NULL
"""
_MAX_VERSION = 2**63 - 1  # of SQLite's integers; attached versions are below
_BUSY_SECONDS = 30.0
# SQLite raises these before it writes anything
_REFUSALS = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_AUTH,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_ERROR,
    }
)


class SQLiteManifestStore:
    """A store that records the versions of any number of tables in one SQLite file.

    It is safe for any number of threads and processes on one machine. (Network file systems break SQLite's
    locks.) Local tables below the folder of the file are recorded by relative paths, so this folder can be
    moved and copied as a whole. Symbolic links in the path of a table are resolved. The first commit creates
    the file.

    Parameters
    ----------
    path
        The path of the SQLite file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        text: object = os.fspath(path) if isinstance(path, os.PathLike) else path
        if not isinstance(text, str) or not text or text == ":memory:" or "\0" in text:
            raise invalid("path", path, "the path of a file")
        self.path = absolute_path(os.path.expanduser(text))

    def __repr__(self) -> str:
        return f"SQLiteManifestStore({self.path!r})"

    def get(self, table: str, version: int) -> StoredManifest | None:
        """Return the entry of a version, or None."""
        if version > _MAX_VERSION:
            return None
        return self._read(table, "AND version = :version", version=version)

    def get_latest(self, table: str) -> StoredManifest | None:
        """Return the entry of the highest recorded version, or None."""
        return self._read(table, "")

    def put_if_absent(self, table: str, manifest: StoredManifest) -> bool:
        """Record a version that has no entry yet. Return whether it was recorded."""
        sql = (
            "INSERT INTO manifests SELECT :key0, :version, :name, :size WHERE NOT EXISTS "
            "(SELECT 1 FROM manifests WHERE {is_table} AND version = :version) ON CONFLICT DO NOTHING"
        )
        return self._write(table, sql, version=manifest.version, name=manifest.name, size=manifest.size)

    def put_if_exists(self, table: str, manifest: StoredManifest) -> bool:
        """Replace the entry of a version. Return whether there was one."""
        sql = "UPDATE manifests SET name = :name, size = :size WHERE {is_table} AND version = :version"
        return self._write(table, sql, version=manifest.version, name=manifest.name, size=manifest.size)

    def delete(self, table: str, version: int | None = None) -> None:
        """Delete the entry of one version, or all entries of a table. Missing entries are ignored."""
        if version is None:
            self._write(table, "DELETE FROM manifests WHERE {is_table}")
        else:
            sql = "DELETE FROM manifests WHERE {is_table} AND version = :version"
            self._write(table, sql, version=version)

    def _key(self, table: str) -> str:
        """Return what a table is recorded as: without symbolic links, relative to the folder of the file."""
        if not os.path.isabs(table):
            return table
        folder, path = os.path.dirname(os.path.realpath(self.path)), os.path.realpath(table)
        return os.path.relpath(path, folder) if os.path.commonpath([folder, path]) == folder else path

    def _keys(self, connection: sqlite3.Connection, table: str) -> list[str]:
        """Return the key of a table, and others that lead to it.

        Former releases recorded a table under each path that it was named by. Besides, a table may have moved
        and left a symbolic link behind.
        """
        key, here = self._key(table), _folder_at(table)
        if not os.path.isabs(table) or here is None:
            return [key]
        # the file may be a link itself, beside which former releases looked for tables
        folders = dict.fromkeys(os.path.dirname(each) for each in (os.path.realpath(self.path), self.path))

        def leads_here(other: str) -> bool:
            locations = (_folder_at(os.path.join(folder, other)) for folder in folders)
            return "://" not in other and next(filter(None, locations), None) == here

        known = [path for (path,) in connection.execute(_TABLES)]
        return [key, *(other for other in known if other != key and leads_here(other))]

    def _connect(self, *, create: bool) -> sqlite3.Connection:
        # The rollback journal, SQLite's default, leaves one file and works on the most filesystems.
        uri = "file:" + _quoted(self.path) + ("?mode=rwc" if create else "?mode=rw")
        connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = EXTRA")
            if create:
                connection.execute(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def _read(self, table: str, condition: str, **values: int) -> StoredManifest | None:
        if not os.path.exists(self.path):
            return None
        # Under two keys there may be one version twice: it is finished if one says so (its name is shorter,
        # so that it comes first), and who wrote the file last is not known.
        sql = (
            "SELECT version, MIN(name), CASE WHEN MIN(size) = MAX(size) THEN MIN(size) END FROM manifests "
            f"WHERE {{is_table}} {condition} GROUP BY version ORDER BY version DESC LIMIT 1"
        )
        try:
            with closing(self._connect(create=False)) as connection:
                row = self._execute(connection, table, sql, values).fetchone()
        except sqlite3.Error as err:
            raise StorageError(f"{self.path}: cannot read this SQLite file: {err}") from err
        if row is None:
            return None
        version, name, size = row
        # columns of SQLite hold values of any type
        if not (isinstance(version, int) and isinstance(name, str) and isinstance(size, int | None)):
            raise CorruptDataError(
                f"{self.path}: the row of version {version!r} of {table} has the name {name!r:.60} and the "
                f"size {size!r:.60}, expected a text and a number or NULL; correct it"
            )
        return StoredManifest(version, name, size)

    def _write(self, table: str, sql: str, **values: str | int | None) -> bool:
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with closing(self._connect(create=True)) as connection:
                return self._execute(connection, table, sql, values).rowcount > 0
        except OSError as err:
            raise StorageError(f"{self.path}: cannot write this SQLite file: {err.strerror or err}") from err
        except sqlite3.Error as err:
            if (getattr(err, "sqlite_errorcode", 0) & 0xFF) in _REFUSALS:
                raise StorageError(f"{self.path}: cannot write this SQLite file: {err}") from err
            raise CommitStateUnknownError(
                f"{self.path}: the write failed with an unknown outcome: {err}"
            ) from err

    def _execute(
        self, connection: sqlite3.Connection, table: str, sql: str, values: Mapping[str, Any]
    ) -> sqlite3.Cursor:
        """Execute a statement about a table, with its keys for ``{is_table}``."""
        keys = {f"key{number}": key for number, key in enumerate(self._keys(connection, table))}
        is_table = f"table_path IN ({', '.join(f':{name}' for name in keys)})"
        return connection.execute(sql.format(is_table=is_table), {**keys, **values})


def _folder_at(path: str) -> tuple[int, int] | None:
    """Return what identifies a folder, whichever path leads to it; None if there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
