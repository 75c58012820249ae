"""Check locations of new tables: the root of a namespace, beside its ``__manifest``, is not allowed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lance_df.errors import AlreadyExistsError, InvalidInputError
from lance_df.table.metadata.versions import NAMESPACE_MANIFEST, VERSIONS_DIR

if TYPE_CHECKING:
    from lance_df.storage import Location


def check_location_is_free(table: Location) -> None:
    """Check that the folder of a new table is not the root of a namespace.

    Raises
    ------
    AlreadyExistsError
        It is one, so the table and the namespace would hide each other.
    InvalidInputError
        It is a file.
    """
    check_is_no_file(table)
    if (table / NAMESPACE_MANIFEST / VERSIONS_DIR).exists():
        raise AlreadyExistsError(
            f"{table.uri}: there is a namespace, and no table can be beside its {NAMESPACE_MANIFEST}: write "
            "to a partitioned namespace with PartitionedNamespace.open(…).append(…), and make a table of a "
            "directory with DirectoryNamespace(…).create_table(…), or in a folder of its own"
        )


def check_is_no_file(folder: Location) -> None:
    """Check that the path of a table or namespace, or of a folder of tables, is not that of a local file.

    Raises
    ------
    InvalidInputError
        It is a file, or a device.
    """
    if folder.is_local and os.path.exists(folder.path) and not os.path.isdir(folder.path):
        raise InvalidInputError(f"{folder.uri}: must be a folder, it is a file")
