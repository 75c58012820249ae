"""Locate the files of a table, below its own root or in another base path of the manifest.

Spec: table format, base paths. A base path is absolute and may be anywhere; file names below it must not
leave it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.forks import new_lock
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from lance_df.format.fragments import DataFile, DeletionFile
    from lance_df.format.manifest import BasePath
    from lance_df.storage import Location

DATA_DIR = "data"
DELETIONS_DIR = "_deletions"
INDICES_DIR = "_indices"

_HAS_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.\-]*://")


def has_scheme(uri: str) -> bool:
    """Return whether this is a URL rather than a path."""
    return _HAS_SCHEME.match(uri) is not None


@dataclass(frozen=True, slots=True)
class DataTarget:
    """Where new data files go: a folder, and the id of its base path."""

    folder: Location
    base_id: int | None = None


class BasePaths:
    """Resolves the file names of one manifest to locations.

    Parameters
    ----------
    root
        The root of the table or branch.
    bases
        The manifest's base paths. Those in a store of the same kind are opened with the table's options.
    source
        The manifest, for messages.
    """

    def __init__(self, root: Location, bases: tuple[BasePath, ...], *, source: str) -> None:
        self._root = root
        self._bases = {base.id: base for base in bases}
        self._source = source
        self._opened: dict[int, Location] = {}
        self._lock = new_lock()

    def data_file(self, file: DataFile) -> Location:
        """Return the location of a data file.

        Raises
        ------
        CorruptDataError
            There is no such base path, or the file's path leaves it.
        """
        return self.data_folder(file.base_id).child(file.path)

    def data_folder(self, base_id: int | None) -> Location:
        """Return the folder of the data files of a base path, or of the table itself."""
        return self._folder(base_id, DATA_DIR)

    def deletion_file(self, file: DeletionFile, fragment_id: int) -> Location:
        """Return the location of a deletion file."""
        return self._folder(file.base_id, DELETIONS_DIR) / file.name(fragment_id)

    def index(self, uuid: UUID, base_id: int | None) -> Location:
        """Return the folder of an index."""
        return self._folder(base_id, INDICES_DIR) / str(uuid)

    def _folder(self, base_id: int | None, name: str) -> Location:
        if base_id is None:
            return self._root / name
        location = self.base(base_id)
        return location / name if self._bases[base_id].is_dataset_root else location

    def base(self, base_id: int) -> Location:
        """Return the location of a base path; raise CorruptDataError if there is none with this id."""
        base = self._bases.get(base_id)
        if base is None:
            known = ", ".join(map(str, sorted(self._bases))) or "none"
            raise CorruptDataError(
                f"{self._source}: a file refers to base path {base_id}, which does not exist; the base "
                f"paths are: {known}"
            )
        return self._open(base)

    def _open(self, base: BasePath) -> Location:
        with self._lock:
            if base.id not in self._opened:
                if not base.path or "\0" in base.path:
                    raise CorruptDataError(
                        f"{self._source}: base path {base.id} has the invalid path {base.path!r}"
                    )
                self._opened[base.id] = self._root.elsewhere(base.path, f"base_{base.id}")
            return self._opened[base.id]


def path_for(path: str, table: Location, reader: Location) -> str:
    """Return a table's base path so that it means the same location when another table refers to it.

    Parameters
    ----------
    path
        As manifests have it: a URL, a path of the local file system, or one in the table's own bucket.
    table, reader
        The table in which the path is valid, and the one for which it is returned.
    """
    if has_scheme(path):
        return path
    location = table.elsewhere(path)
    if location.is_local:
        path = os.path.abspath(location.path)
        return path if reader.is_local else f"file://{path.replace('%', '%25')}"
    return location.uri


def check_distinct(old: Iterable[BasePath], new: Iterable[BasePath]) -> None:
    """Raise `InvalidInputError` if a new base path has the name or path of another base path."""

    def keys(base: BasePath) -> set[tuple[str, str]]:
        return {("path", base.path), *((("name", base.name),) if base.name else ())}

    seen = {key for base in old for key in keys(base)}
    for base in new:
        for what, text in keys(base) & seen:
            raise InvalidInputError(f"two base paths cannot have the same {what} {text!r}")
        seen |= keys(base)
