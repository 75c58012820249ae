"""Ids of namespaces and tables as callers give them, and the folders that stand for tables of the root."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.namespace.names import MANIFEST_FOLDER, SEPARATOR, object_id

if TYPE_CHECKING:
    from lance_df.storage import Location

Parts: TypeAlias = tuple[str, ...]

TABLE_SUFFIX: Final = ".lance"

_FORBIDDEN: Final = frozenset("/\\\0")


def id_parts(value: object) -> Parts:
    """Return the parts of an id: a list of names, or one text such as ``"sales$orders"``; none for the root.

    Raises
    ------
    InvalidInputError
        It is no id, or a part of it cannot be the name of a namespace or table: it is empty, ``.`` or ``..``,
        or holds ``$``, a slash, or what cannot be written as UTF-8.
    """
    parts = value.split(SEPARATOR) if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
        raise InvalidInputError(f"an id is text, or a list of names, not {value!r}")
    names = tuple(parts)
    if names:
        object_id(names)
    for part in names:
        if part in (".", "..") or _FORBIDDEN.intersection(part) or not _is_text(part):
            raise InvalidInputError(f"{part!r} is no name of a namespace or table")
    return names


def joined(parts: Sequence[str]) -> str:
    """Return the one text of an id."""
    return SEPARATOR.join(parts)


def root_folder(name: str) -> str:
    """Return the folder of a table of the root that is found by listing."""
    return name + TABLE_SUFFIX


def folder_at(root: Location, location: str) -> Location:
    """Return the folder of a table, of which the path below the root stands in a row.

    Raises
    ------
    CorruptDataError
        The path leaves the root, or is the root, or where the namespace keeps its own rows.
    """
    parts = location.removesuffix("/").split("/")
    if "." in parts or parts[0] == MANIFEST_FOLDER:
        raise CorruptDataError(f"{root.uri}: {location!r} is no location of a table")
    return root.child("/".join(parts))


def check_no_link(root: Location, location: str) -> None:
    """Check that no symbolic link leads to the folder of a table: then the folder lies elsewhere.

    A link right at the folder, or at the root, is none that leads there.

    Raises
    ------
    InvalidInputError
        One does.
    """
    folder = root
    for part in location.removesuffix("/").split("/")[:-1]:
        folder = folder / part
        if folder.is_link:
            raise InvalidInputError(
                f"{folder.uri}: is a symbolic link, so that the folder {location!r} of the table lies "
                "elsewhere, and is not removed; deregister the table, and remove the folder by hand"
            )


def check_location(root: Location, location: str) -> str:
    """Return the path below the root at which a caller says that there is a table.

    Raises
    ------
    InvalidInputError
        It is not relative, leaves the root, or is where the namespace keeps its own rows.
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
            f"{location!r}: {what}: the location of a table is a path relative to the root, and within it"
        ) from err
    return location.removesuffix("/")


def overlap(left: str, right: str) -> bool:
    """Whether one of two folders is the other, or holds it."""
    left, right = (path.removesuffix("/") + "/" for path in (left, right))
    return left.startswith(right) or right.startswith(left)


def _is_text(part: str) -> bool:
    try:
        part.encode()
    except UnicodeEncodeError:
        return False
    return True
