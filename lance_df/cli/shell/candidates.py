"""Completion candidates: keywords, tables, columns, functions, commands and paths."""

from __future__ import annotations

import glob
import os
import re
from typing import TYPE_CHECKING, Final

from lance_df.cli.inspection.table_list import listed_tables
from lance_df.cli.output.formats import TEXT_FORMATS
from lance_df.cli.shell.session import COMMANDS
from lance_df.errors import LanceError
from lance_df.sql.keywords import keywords
from lance_df.sql.splice import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.cli.shell.session import ShellSession

_WORD: Final = re.compile(r"[\w$.]*$")
_OPEN_STRING: Final = re.compile(r"^(?:[^'\"]|'[^']*'|\"[^\"]*\")*'([^']*)$", re.DOTALL)
_WANTS_TABLE: Final = re.compile(r"\b(from|join|into|table|describe|update)\s+[\w$.]*$", re.IGNORECASE)
_TABLES: Final = re.compile(
    r"\b(?:from|join)\s+(\"[^\"]+\"|'[^']+'|[\w.$]+)(?:\s+(?:as\s+)?(\w+))?", re.IGNORECASE
)
_PLAIN_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")
_FUNCTIONS: Final = "SELECT DISTINCT routine_name FROM information_schema.routines ORDER BY 1"


class Candidates:
    """Candidates for the end of a text.

    Names of the session are queried once, until :meth:`forget`.
    """

    def __init__(self, session: ShellSession) -> None:
        self._session = session
        self._tables: list[str] | None = None
        self._functions: list[str] | None = None
        self._columns: dict[str, list[str]] = {}

    def forget(self) -> None:
        """Query the session again, as a statement may have changed its tables."""
        self._tables = None
        self._columns.clear()

    def of(self, before: str, whole: str | None = None) -> tuple[str, list[str]]:
        """Return the prefix to complete, and all candidates that may replace it.

        Parameters
        ----------
        before
            The text before the cursor.
        whole
            The whole text, which names the tables.
        """
        if before.startswith("\\"):
            command, space, rest = before.partition(" ")
            if not space:
                return before, _starting(before, COMMANDS)
            if command in ("\\d", "\\format"):
                names = TEXT_FORMATS if command == "\\format" else self.tables()
                return rest, _starting(rest, names)
        if (string := _OPEN_STRING.match(before)) is not None:
            return string[1], _paths(string[1])
        match = _WORD.search(before)
        word = match[0] if match is not None else ""
        if _WANTS_TABLE.search(before):
            return word, _starting(word, self.tables())
        columns = self._columns_of(before if whole is None else whole)
        qualifier, dot, start = word.rpartition(".")
        if dot:
            return start, _starting(start, columns.get(qualifier.lower(), []))
        if not word:
            return "", sorted({name for names in columns.values() for name in names})
        known = {name for names in columns.values() for name in names}
        words = [each if word.isupper() else each.lower() for each in keywords()]
        return word, list(
            dict.fromkeys(
                [
                    *_starting(word, sorted(known)),
                    *_starting(word, self.tables()),
                    *_starting(word, sorted(words)),
                    *(f"{name}(" for name in _starting(word, self._all_functions())),
                ]
            )
        )

    def tables(self) -> list[str]:
        """Return the names of tables as written in statements."""
        if self._tables is None:
            try:
                listed = listed_tables(self._session.ctx, self._session.files.names).to_pylist()
            except LanceError:
                listed = []
            self._tables = [
                _as_sql(row["table_name"])
                if row["table_schema"] == "public"
                else f"{_as_sql(row['table_schema'])}.{_as_sql(row['table_name'])}"
                for row in listed
            ]
        return self._tables

    def _all_functions(self) -> list[str]:
        if self._functions is None:
            try:
                rows = self._session.ctx.sql(_FUNCTIONS).to_pydict()
            except LanceError:
                rows = {"routine_name": []}
            self._functions = [str(name) for name in rows["routine_name"]]
        return self._functions

    def _columns_of(self, text: str) -> dict[str, list[str]]:
        """Return the columns of the tables that a text reads, by name and alias."""
        columns = {}
        for match in _TABLES.finditer(text):
            name = match[1]
            if name not in self._columns:
                self._columns[name] = self._columns_of_table(name)
            columns[name.strip("\"'").lower()] = self._columns[name]
            if match[2]:
                columns[match[2].lower()] = self._columns[name]
        return columns

    def _columns_of_table(self, name: str) -> list[str]:
        quoted = quote_identifier(name.strip("'")) if name.startswith("'") else name
        try:
            self._session.files.register_for(f"SELECT * FROM {quoted}")
            return [_as_sql(each) for each in self._session.ctx.table(quoted).schema().names]
        except Exception:  # noqa: BLE001 - no such table yet, or it cannot be opened: no candidates
            return []


def _starting(start: str, names: Sequence[str]) -> list[str]:
    lowered = start.lower()
    return [name for name in names if name.lower().lstrip('"').startswith(lowered.lstrip('"'))]


def _as_sql(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else quote_identifier(name)


def _paths(start: str) -> list[str]:
    paths = sorted(glob.glob(glob.escape(os.path.expanduser(start)) + "*"))
    home = os.path.expanduser("~")
    shown = ["~" + path[len(home) :] if start.startswith("~") else path for path in paths]
    is_table = [path.endswith(".lance") for path in paths]
    return [
        name + "/" if os.path.isdir(path) and not whole else name
        for name, path, whole in zip(shown, paths, is_table, strict=True)
    ]
