"""Check locations of new tables: the root of a namespace, beside its ``__manifest``, is not allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import AlreadyExistsError
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
    table.check_is_folder()
    if (table / NAMESPACE_MANIFEST / VERSIONS_DIR).exists():
        raise AlreadyExistsError(
            f"{table.uri}: there is a namespace, and no table can be beside its {NAMESPACE_MANIFEST}: write "
            "to a partitioned namespace with PartitionedNamespace.open(…).append(…), and make a table of a "
            "directory with DirectoryNamespace(…).create_table(…), or in a folder of its own"
        )
