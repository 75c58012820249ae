"""Find the tables and namespaces below a folder, even those that cannot be opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_df.errors import CorruptDataError, LanceError
from lance_df.namespace.kind import holds_namespace
from lance_df.namespace.names import MANIFEST_FOLDER, is_member_folder
from lance_df.records import dataclass
from lance_df.table.metadata.versions import VERSIONS_DIR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_df.storage import Location

_SUFFIX: Final = ".lance"
_MAX_DEPTH: Final = 16


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A table, a namespace, a folder that cannot be listed, or one that has lost its ``__manifest``.

    Attributes
    ----------
    name
        The path below the folder that was searched.
    error
        Why it cannot be opened, if that is known already.
    """

    name: str
    location: Location
    is_namespace: bool = False
    error: LanceError | None = None


def is_folder_of_tables(location: Location) -> bool:
    """Whether a location is a folder that is itself neither a table nor a partitioned namespace."""
    if not location.exists() or location.is_file() or location.name.endswith(_SUFFIX):
        return False
    return not (location / VERSIONS_DIR).exists() and not _is_namespace(location)


def tables_below(location: Location) -> list[FolderEntry]:
    """Return the tables and namespaces below a folder, at any depth, ordered by name."""
    return list(_below(location, "", 0))


def _below(location: Location, prefix: str, depth: int) -> Iterator[FolderEntry]:
    try:
        names = sorted(entry.name for entry in location.list() if entry.is_directory)
    except (LanceError, OSError) as err:
        error = err if isinstance(err, LanceError) else LanceError(f"{location.uri}: {err}")
        yield FolderEntry(prefix.rstrip("/") or ".", location, error=error)
        return
    if MANIFEST_FOLDER not in names and any(map(is_member_folder, names)):
        error = CorruptDataError(
            f"{location.uri}: this is a partitioned namespace whose folder {MANIFEST_FOLDER} is missing, "
            "which lists its tables; restore that folder"
        )
        yield FolderEntry(prefix.rstrip("/") or ".", location, is_namespace=True, error=error)
    for name in names:
        if name == MANIFEST_FOLDER or name.startswith("."):
            continue
        child = location / name
        if name.endswith(_SUFFIX) or (child / VERSIONS_DIR).exists():
            yield FolderEntry(prefix + name, child)
        elif _is_namespace(child):
            yield FolderEntry(prefix + name, child, is_namespace=True)
        elif depth < _MAX_DEPTH:
            yield from _below(child, f"{prefix}{name}/", depth + 1)


def _is_namespace(location: Location) -> bool:
    """Whether a folder is a partitioned namespace, or was one before it was damaged."""
    if not (location / MANIFEST_FOLDER).exists():
        return False
    try:
        return holds_namespace(location)
    except LanceError:
        return True
