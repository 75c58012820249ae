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
    """
    if (table / NAMESPACE_MANIFEST / VERSIONS_DIR).exists():
        raise AlreadyExistsError(
            f"{table.uri}: a namespace exists here, and a table cannot be beside its {NAMESPACE_MANIFEST}. "
            "Write to a partitioned namespace with PartitionedNamespace.open(…).append(…), create a table "
            "of a directory namespace with DirectoryNamespace(…).create_table(…), or use another folder"
        )
