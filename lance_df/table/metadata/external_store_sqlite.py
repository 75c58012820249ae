"""A manifest store in a SQLite file, for tables that are written from one machine."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from lance_df.errors import CommitStateUnknownError, InvalidInputError, StorageError
from lance_df.storage.location import absolute_path
from lance_df.table.metadata.external_store import StoredManifest

if TYPE_CHECKING:
    from collections.abc import Sequence

_SCHEMA = """
CREATE TABLE IF NOT EXISTS manifests (
    table_path TEXT NOT NULL,
    version INTEGER NOT NULL,
    name TEXT NOT NULL,
    size INTEGER,
    PRIMARY KEY (table_path, version)
) WITHOUT ROWID
"""
_MAX_VERSION = 2**63 - 1  # of SQLite's integers; attached versions are smaller
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
    """Records the versions of any number of tables in one SQLite file.

    Safe for any number of threads and processes of one machine (network filesystems break SQLite's locks).
    Keys of local tables below the folder of the file are relative paths, so that this folder can be moved
    and copied as a whole. The first commit creates the file.

    Parameters
    ----------
    path
        The SQLite file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        text = os.fspath(path)
        if not text or text == ":memory:" or "\0" in text:
            raise InvalidInputError(f"a path of a file is needed, got {text!r}")
        self.path = absolute_path(os.path.expanduser(text))

    def __repr__(self) -> str:
        return f"SQLiteManifestStore({self.path!r})"

    def get(self, table: str, version: int) -> StoredManifest | None:
        """Return the entry of one version, or None."""
        if version > _MAX_VERSION:
            return None
        return self._read("version = ?", (self._key(table), version))

    def get_latest(self, table: str) -> StoredManifest | None:
        """Return the entry of the highest version, or None."""
        return self._read("TRUE ORDER BY version DESC LIMIT 1", (self._key(table),))

    def put_if_absent(self, table: str, manifest: StoredManifest) -> bool:
        """Record a version that has no entry; return False if it has one."""
        row = (self._key(table), manifest.version, manifest.name, manifest.size)
        return self._write("INSERT INTO manifests VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", row)

    def put_if_exists(self, table: str, manifest: StoredManifest) -> bool:
        """Replace the entry of a version; return False if it has none."""
        row = (manifest.name, manifest.size, self._key(table), manifest.version)
        return self._write(
            "UPDATE manifests SET name = ?, size = ? WHERE table_path = ? AND version = ?", row
        )

    def delete(self, table: str, version: int | None = None) -> None:
        """Delete the entry of one version, or all entries of a table; missing entries are no error."""
        key = self._key(table)
        if version is None:
            self._write("DELETE FROM manifests WHERE table_path = ?", (key,))
        else:
            self._write("DELETE FROM manifests WHERE table_path = ? AND version = ?", (key, version))

    def _key(self, table: str) -> str:
        folder = os.path.dirname(self.path)
        if os.path.isabs(table) and os.path.commonpath([folder, table]) == folder:
            return os.path.relpath(table, folder)
        return table

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

    def _read(self, condition: str, values: Sequence[Any]) -> StoredManifest | None:
        if not os.path.exists(self.path):
            return None
        sql = f"SELECT version, name, size FROM manifests WHERE table_path = ? AND {condition}"
        try:
            with closing(self._connect(create=False)) as connection:
                row = connection.execute(sql, values).fetchone()
        except sqlite3.Error as err:
            raise StorageError(f"{self.path}: cannot be read: {err}") from err
        return None if row is None else StoredManifest(*row)

    def _write(self, sql: str, values: Sequence[Any]) -> bool:
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with closing(self._connect(create=True)) as connection:
                return connection.execute(sql, values).rowcount > 0
        except OSError as err:
            raise StorageError(f"{self.path}: cannot be written: {err.strerror or err}") from err
        except sqlite3.Error as err:
            if (getattr(err, "sqlite_errorcode", 0) & 0xFF) in _REFUSALS:
                raise StorageError(f"{self.path}: cannot be written: {err}") from err
            raise CommitStateUnknownError(f"{self.path}: failed while it was written: {err}") from err


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
