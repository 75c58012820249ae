"""Parse and check the ids of namespaces and tables, and the locations of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.namespace.names import MANIFEST_FOLDER, SEPARATOR, object_id

if TYPE_CHECKING:
    from lance_df.storage import Location

Parts: TypeAlias = tuple[str, ...]

TABLE_SUFFIX: Final = ".lance"

_FORBIDDEN: Final = frozenset("/\\\0")


def id_parts(value: object) -> Parts:
    """Return the parts of an id, given as names or a string ``"sales$orders"``; the root has no parts.

    Raises
    ------
    InvalidInputError
        The value is not an id, or a part of it is not a valid name: a name is not empty, ``.`` or ``..``, and
        contains no ``$``, no slash, and nothing that cannot be encoded as UTF-8.
    """
    parts = value.split(SEPARATOR) if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
        raise InvalidInputError(f"an id must be a string or a list of names, got {value!r}")
    names = tuple(parts)
    if names:
        object_id(names)
    for part in names:
        if part in (".", "..") or _FORBIDDEN.intersection(part) or not _is_text(part):
            raise InvalidInputError(f"invalid name of a namespace or table: {part!r}")
    return names


def joined(parts: Sequence[str]) -> str:
    """Return an id as one string."""
    return SEPARATOR.join(parts)


def root_folder(name: str) -> str:
    """Return the folder of a table in the root that is found by listing."""
    return name + TABLE_SUFFIX


def folder_at(root: Location, location: str) -> Location:
    """Return the folder of a table from the location in its row.

    Raises
    ------
    CorruptDataError
        The location is the root, is outside the root, or is the folder of ``__manifest``.
    """
    path = location.removesuffix("/")
    parts = path.split("/")
    if "." in parts or parts[0] == MANIFEST_FOLDER:
        raise CorruptDataError(
            f"{root.uri}: the table location {location!r} is not the folder of a table; repair the namespace"
        )
    return root.child(path)


def location_of(root: Location, folder: Location) -> str:
    """Return the location of a table in a folder below the root: the opposite of `folder_at`."""
    return folder.path.removeprefix(root.path.rstrip("/")).lstrip("/")


def without_last_slash(locations: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return locations as `location_of` does: in rows, they may have a slash at the end."""
    return pc.utf8_rtrim(locations, characters="/")


def check_no_link(root: Location, location: str) -> None:
    """Check that the path to the folder of a table has no symbolic link, which would lead elsewhere.

    The folder itself and the root may be links.

    Raises
    ------
    InvalidInputError
        The path has a symbolic link.
    """
    folder = root
    for part in location.removesuffix("/").split("/")[:-1]:
        folder = folder / part
        if folder.is_link:
            raise InvalidInputError(
                f"{folder.uri}: the folder {location!r} of the table cannot be removed because this is a "
                "symbolic link; deregister the table, and remove the folder by hand"
            )


def check_location(root: Location, location: str) -> str:
    """Check and return the location of a table that a caller gives, relative to the root.

    Raises
    ------
    InvalidInputError
        The location is not relative, is outside the root, or is the folder of ``__manifest``.
    """
    try:
        folder_at(root, location)
    except CorruptDataError as err:
        what = "Path traversal is not allowed"
        if "://" in location:
            what = "Absolute URIs are not allowed"
        elif location.startswith("/"):
            what = "Absolute paths are not allowed"
        raise InvalidInputError(
            f"{location!r}: {what}: the location of a table must be a relative path within the root"
        ) from err
    return location.removesuffix("/")


def overlap(left: str, right: str) -> bool:
    """Whether two folders are equal or one contains the other."""
    left, right = (path.removesuffix("/") + "/" for path in (left, right))
    return left.startswith(right) or right.startswith(left)


def _is_text(part: str) -> bool:
    try:
        part.encode()
    except UnicodeEncodeError:
        return False
    return True
