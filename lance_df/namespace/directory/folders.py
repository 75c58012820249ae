"""Tables in the root without a row in ``__manifest``: folders ``x.lance``, and the marker files in them.

Spec: directory namespace, V1; table format, chapter 15.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from lance_df.namespace.directory.names import TABLE_SUFFIX, root_folder
from lance_df.table.metadata.versions import VERSIONS_DIR
from lance_df.table.parallel import map_reads

if TYPE_CHECKING:
    from collections.abc import Collection

    from lance_df.storage import Location

_RESERVED: Final = ".lance-reserved"
_DEREGISTERED: Final = ".lance-deregistered"
_MARK: Final = b"reserved"


def listed_tables(root: Location, known: Collection[str] = ()) -> list[str]:
    """Return the names of the tables in the root that need no row, except those that are known."""
    names = [
        entry.name.removesuffix(TABLE_SUFFIX)
        for entry in root.list()
        if entry.is_directory and entry.name.endswith(TABLE_SUFFIX) and entry.name != TABLE_SUFFIX
    ]
    names = [name for name in names if name not in known]
    hidden = map_reads(lambda name: is_deregistered(root / root_folder(name)), names, where=root)
    return [name for name, is_hidden in zip(names, hidden, strict=True) if not is_hidden]


def holds_table(folder: Location) -> bool:
    """Whether a folder has a written table, not only a declared one."""
    return (folder / VERSIONS_DIR).exists()


def is_reserved(folder: Location) -> bool:
    """Whether a table is declared in a folder."""
    return (folder / _RESERVED).exists()


def is_declared_by_pylance(root: Location, location: str) -> bool:
    """Whether pylance has declared a table whose folder does not exist.

    Observed with pylance 14: if a name is not ASCII, the marker file is in a folder with the percent-encoded
    name, but the table will be elsewhere.
    """
    encoded = "".join(char if char.isascii() else quote(char) for char in location)
    return encoded != location and is_reserved(root / encoded)


def reserve(folder: Location) -> None:
    """Declare a table in a folder."""
    (folder / _RESERVED).put(_MARK)


def release(folder: Location) -> None:
    """Undo `reserve`."""
    (folder / _RESERVED).remove()
    folder.remove_empty_folder()


def is_deregistered(folder: Location) -> bool:
    """Whether a folder is no longer listed as a table."""
    return (folder / _DEREGISTERED).exists()


def deregister(folder: Location) -> None:
    """Stop listing a folder as a table."""
    (folder / _DEREGISTERED).put(_MARK)


def register_again(folder: Location) -> None:
    """Undo `deregister`."""
    (folder / _DEREGISTERED).remove()
